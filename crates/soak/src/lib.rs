//! Soak: breaks the real daemon on purpose, and checks that what Portolan promises still holds.
//!
//! - [`faults`]: one room per fault. Each starts the real program in a home of its own, does the damage, and says how
//!   often and with what result.
//! - [`hand`]: a client that works at random and writes down everything it saw.
//! - [`record`]: what is written down.
//! - [`check`]: pure judges of such records. They know nothing of sockets, so that tests can feed them histories with
//!   every fault they are to find.
//! - [`link`], [`place`], [`cell`], [`chance`]: a bare client of the native protocol; the home under test, and one on a
//!   small disk of its own; seeded dice.
//!
//! Not part of the product: nothing depends on it. `cargo xtask soak` runs the full counts, the tests of this crate a
//! bounded share of each.

pub mod cell;
pub mod chance;
pub mod check;
pub mod faults;
pub mod hand;
pub mod link;
pub mod place;
pub mod record;
