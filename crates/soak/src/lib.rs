//! Soak: breaks the real daemon on purpose, and checks that what Portolan promises still holds.
//!
//! - [`faults`]: one file per fault. Each starts the real program in its own home, does the damage, and reports how
//!   often and with what result.
//! - [`hand`]: a client that acts at random and records everything it sees.
//! - [`reader`]: a client that only reads, from one daemon to the next.
//! - [`record`]: the recordings.
//! - [`check`]: pure checks of such recordings. They use no sockets, so that tests can feed them histories with every
//!   fault that they must find.
//! - [`link`], [`place`], [`cell`], [`chance`]: a bare client of the native protocol; the home under test, and a home
//!   on its own small disk; seeded random numbers.
//!
//! Not part of the product: no other crate depends on it. `cargo xtask soak` runs the full counts, the tests of this
//! crate run a bounded share of each.

pub mod cell;
pub mod chance;
pub mod check;
pub mod faults;
pub mod hand;
pub mod link;
pub mod place;
pub mod reader;
pub mod record;
