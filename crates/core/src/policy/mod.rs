//! Policy: what may be decided without a person, and why not.
//!
//! It is pure, so that the same request, facts and settings always get the same judgement. What it must know of the disk
//! are facts that [`resolve`] gathers beforehand, and nothing else in here looks at the disk.
//!
//! So far it judges edits ([`edits`]) by the places that they would change ([`places`]).

pub mod edits;
pub mod places;
pub mod resolve;
