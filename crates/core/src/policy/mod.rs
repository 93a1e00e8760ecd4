//! Policy: what may happen without asking a person, and why not.
//!
//! It is pure, so that the same call, facts, rules and mode always get the same judgement. What policy must know of the disk
//! are [`facts`] that [`resolve`] gathers beforehand; nothing else in here looks at the disk, and nothing reads a clock.
//!
//! [`decide`](mod@decide) combines what [`rule`]s cover ([`cover`], [`commands`], [`glob`]), the [`mode`], the protected
//! [`places`] and the kind of the [`tool`]. [`risk`] is for people. docs/policy.md defines all of it for users.

pub mod check;
pub mod commands;
pub mod cover;
pub mod decide;
pub mod facts;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
pub mod glob;
pub mod mode;
pub mod places;
pub mod resolve;
pub mod risk;
pub mod rule;
pub mod suggest;
pub mod tool;

pub use self::{
    decide::{Decision, Judgement, Reading, RuleRef, RuleSet, Situation, decide},
    facts::Facts,
    mode::Mode,
    risk::Risk,
    rule::{Effect, Rule, RuleDraft, RuleId, RuleScope},
    tool::{Call, Kind},
};
