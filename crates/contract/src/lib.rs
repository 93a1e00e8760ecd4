//! The contract: one suite of scenarios that every agent runs, the same for all of them.
//!
//! A scenario starts the real agent against the scripted model, offline and free, and reads only Portolan's own events:
//! what a frontend would see. It gives one [`Verdict`]: works, not offered, or fails with the reason and the
//! transcript. `portolan doctor --deep` runs its core scenarios on the user's own installation; the tests run all of it
//! on pinned versions and write `docs/compatibility.md`.
//!
//! - [`subject`]: the agent under test, and the place of one run.
//! - [`profile`]: an agent's names for its tools, modes and commands. Data; the scenarios know no agent by name.
//! - [`scenarios`]: what is tried.
//! - [`run()`]: runs them, a few at once, each with its own time limit, and leaves nothing behind.
//! - [`table`]: the results, as a page.

mod bench;
mod fault;
mod grammar;
pub mod profile;
pub mod run;
pub mod scenarios;
mod session;
pub mod subject;
pub mod table;
mod transcript;
pub mod verdict;

pub use bench::Bench;
pub use fault::Fault;
pub use profile::Profile;
pub use run::run;
pub use scenarios::{Model, Scenario};
pub use session::Session;
pub use subject::{Place, Subject};
pub use verdict::{Finding, Verdict};
