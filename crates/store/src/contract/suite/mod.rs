//! The clauses of the contract. Each gets an empty store.

pub(super) mod copies;
pub(super) mod heads;
pub(super) mod lists;
pub(super) mod pages;
pub(super) mod positions;
pub(super) mod removal;
pub(super) mod writes;

use std::sync::Arc;

use portolan_core::{Seq, ports::Store};

type Engine = Arc<dyn Store>;

/// No end.
const END: Seq = Seq(u64::MAX);
