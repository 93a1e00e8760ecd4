//! Policy: what may happen without asking a person, and why not.
//!
//! It is pure, so that the same call, facts, rules and mode always get the same judgement. What policy must know of the disk
//! are [`facts`] that [`resolve`] gathers beforehand; nothing else in here looks at the disk, and nothing reads a clock.
//!
//! [`reading`] takes a call apart. [`decide`](mod@decide) combines what [`rule`]s cover ([`cover`], [`commands`], [`glob`]),
//! the [`mode`], the protected [`places`] the kind of the [`tool`], and [`secret`]s. Frontends may lend rules and a mode to a session
//! ([`lent`]). [`risk`] is for people. [`budget`] adds up what sessions use. docs/policy.md defines all of it for users.

mod address;
pub mod budget;
pub mod check;
pub mod commands;
pub mod cover;
pub mod decide;
pub mod facts;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
pub mod glob;
mod habits;
pub mod lent;
mod mentions;
pub mod mode;
pub mod places;
mod possible_files;
pub mod reading;
pub mod resolve;
pub mod risk;
pub mod rule;
pub mod secret;
mod subcommands;
pub mod suggest;
pub mod tool;
mod words;

pub use self::{
    budget::{Budget, BudgetDraft, BudgetId, BudgetScope, BudgetTerms, Limits, Spending, Standing},
    decide::{Decision, Judgement, RuleRef, RuleSet, Situation, decide},
    facts::Facts,
    lent::Lent,
    mode::Mode,
    reading::Reading,
    risk::Risk,
    rule::{Effect, Rule, RuleDraft, RuleId, RuleScope},
    tool::{Call, Kind},
};
