//! From the tree of a text to its parts: who feeds whom, in which folder, behind which wrappers.
//!
//! The walk follows the text as the shell would, without knowing how anything ends. So that the folder of a
//! command is never wrong, it keeps two places for every step: where the shell is if the step succeeds, and where
//! it is if the step fails. They differ only after `cd`, and where both lead on, the folder is unknown.

mod builtins;
mod commands;
mod places;
mod redirections;
mod texts;

pub use commands::is_usual_place;

pub(crate) use texts::joined;

use crate::limits::{MAX_DEPTH, MAX_PARTS};
use crate::reader::{self, Body, Chain, Compound, Facts, Inner, Joint, List, Node, Pipeline, Tree};
use crate::{Assignment, Command, Folder, Hidden, Part, Script, Unreadable, Word, Wrapper};
use places::Place;

/// The parts of a whole text.
pub(crate) fn script(text: &str) -> Result<Script, Unreadable> {
    let mut walk = Walk { parts: Vec::new(), facts: Facts::default() };
    let tree = reader::tree(text, 0, &mut walk.facts)?;
    let context =
        Context { tree: &tree, carried: &Carried::default(), input: Input::default(), depth: 0, texts: 0 };
    walk.list(&tree.list, context, Place::start())?;
    if let Some(name) = walk.facts.dangerous() {
        let hidden = Hidden::Counting(format!("the value of `{name}`"));
        walk.mark(hidden, context, &Place::start())?;
    }
    Ok(Script { parts: walk.parts })
}

struct Walk {
    parts: Vec<Part>,
    facts: Facts,
}

/// What holds for everything in a text.
#[derive(Clone, Copy)]
struct Context<'c> {
    tree: &'c Tree,
    carried: &'c Carried,
    input: Input,
    /// How many lists stand around this one, those of outer texts too.
    depth: usize,
    /// How many texts stand around this one.
    texts: usize,
}

/// What stands around a text that is run by a command: `sudo sh -c TEXT`.
#[derive(Clone, Debug, Default)]
struct Carried {
    whole: Vec<Word>,
    wrappers: Vec<Wrapper>,
    assignments: Vec<Assignment>,
    hidden: Vec<Hidden>,
}

/// What standard input is.
#[derive(Clone, Copy, Debug, Default)]
struct Input {
    pipe: bool,
    fed_by: Option<usize>,
}

/// How a step leaves the shell.
#[derive(Clone, Debug)]
struct Outcome {
    success: Place,
    failure: Place,
    /// The last command of it that runs: it feeds the next one in a pipe.
    last: Option<usize>,
}

impl Outcome {
    /// The shell stays where it is.
    fn stays(place: Place, last: Option<usize>) -> Self {
        Self { success: place.clone(), failure: place, last }
    }

    /// Where the shell is, however the step ended.
    fn place(&self) -> Place {
        self.success.clone().or(&self.failure)
    }
}

impl Walk {
    fn push(&mut self, part: Part) -> Result<usize, Unreadable> {
        if self.parts.len() >= MAX_PARTS {
            return Err(Unreadable::TooManyParts);
        }
        self.parts.push(part);
        Ok(self.parts.len() - 1)
    }

    /// A part that stands for something that cannot be seen.
    fn mark(&mut self, hidden: Hidden, context: Context<'_>, place: &Place) -> Result<usize, Unreadable> {
        let carried = context.carried;
        let mut all = carried.hidden.clone();
        all.push(hidden);
        self.push(Part::Run(Command {
            words: Vec::new(),
            whole: carried.whole.clone(),
            inner_at: carried.whole.len(),
            wrappers: carried.wrappers.clone(),
            assignments: carried.assignments.clone(),
            hidden: all,
            folder: place.folder(),
            reads_pipe: context.input.pipe,
            fed_by: context.input.fed_by,
        }))
    }

    fn list(&mut self, list: &List, context: Context<'_>, place: Place) -> Result<Outcome, Unreadable> {
        let context = Context { depth: context.depth + 1, ..context };
        if context.depth > MAX_DEPTH + 1 {
            return Err(Unreadable::TooDeep);
        }
        let mut outcome = Outcome::stays(place, None);
        for chain in &list.items {
            let next = self.chain(chain, context, outcome.place())?;
            let last = next.last.or(outcome.last);
            outcome = Outcome { last, ..next };
        }
        Ok(outcome)
    }

    fn chain(&mut self, chain: &Chain, context: Context<'_>, place: Place) -> Result<Outcome, Unreadable> {
        let mut outcome = self.pipeline(&chain.first, context, place.clone())?;
        for (joint, pipeline) in &chain.rest {
            outcome = match joint {
                Joint::And => {
                    let next = self.pipeline(pipeline, context, outcome.success)?;
                    let failure = outcome.failure.or(&next.failure);
                    Outcome { success: next.success, failure, last: next.last.or(outcome.last) }
                }
                Joint::Or => {
                    let next = self.pipeline(pipeline, context, outcome.failure)?;
                    let success = outcome.success.or(&next.success);
                    Outcome { success, failure: next.failure, last: next.last.or(outcome.last) }
                }
            };
        }
        if chain.background {
            outcome = Outcome::stays(place, outcome.last);
        }
        Ok(outcome)
    }

    fn pipeline(
        &mut self,
        pipeline: &Pipeline,
        context: Context<'_>,
        place: Place,
    ) -> Result<Outcome, Unreadable> {
        let mut outcome = match pipeline.stages.as_slice() {
            [only] => self.node(only, context, place)?,
            stages => {
                // Every stage runs in a shell of its own.
                let mut input = context.input;
                let mut last = None;
                for stage in stages {
                    last = self.node(stage, Context { input, ..context }, place.clone())?.last;
                    input = Input { pipe: true, fed_by: last };
                }
                Outcome::stays(place, last)
            }
        };
        if pipeline.negated {
            std::mem::swap(&mut outcome.success, &mut outcome.failure);
        }
        Ok(outcome)
    }

    fn node(&mut self, node: &Node, context: Context<'_>, place: Place) -> Result<Outcome, Unreadable> {
        match node {
            Node::Simple(simple) => self.simple(simple, context, place),
            Node::Compound(compound) => self.compound(compound, context, place),
        }
    }

    fn compound(
        &mut self,
        compound: &Compound,
        outer: Context<'_>,
        place: Place,
    ) -> Result<Outcome, Unreadable> {
        let input = redirections::input(&compound.redirections, outer.input);
        let context = Context { input, ..outer };
        let outcome = match &compound.body {
            Body::Subshell(list) => {
                let inner = self.list(list, context, place.clone())?;
                Outcome::stays(place.clone(), inner.last)
            }
            Body::Group(list) => self.list(list, context, place.clone())?,
            Body::If { arms, otherwise } => self.arms(arms, otherwise.as_ref(), context, place.clone())?,
            Body::Loop { before, condition, body, moves } => {
                self.inner(before, context, &place)?;
                // Another round begins where the last one ended.
                let start = if *moves { Place::Unknown } else { place.clone() };
                let mut last = None;
                if let Some(condition) = condition {
                    last = self.list(condition, context, start.clone())?.last;
                }
                let inner = self.list(body, context, start.clone())?;
                Outcome::stays(start, inner.last.or(last))
            }
            Body::Case { before, arms } => {
                self.inner(before, context, &place)?;
                // None of them may fit.
                let mut outcome = Outcome::stays(place.clone(), None);
                for (patterns, list) in arms {
                    self.inner(patterns, context, &place)?;
                    // One may also be reached from the one before it, by `;&`.
                    let start = place.clone().or(&outcome.place());
                    let arm = self.list(list, context, start)?;
                    outcome = Outcome {
                        success: outcome.success.or(&arm.success),
                        failure: outcome.failure.or(&arm.failure),
                        last: arm.last.or(outcome.last),
                    };
                }
                outcome
            }
            Body::Test(inside) => {
                self.inner(inside, context, &place)?;
                Outcome::stays(place.clone(), None)
            }
            Body::Function { name, body } => {
                self.mark(Hidden::Function(name.clone()), context, &place)?;
                // Where it will be called is not known.
                let inner = self.node(body, context, Place::Unknown)?;
                Outcome::stays(place.clone(), inner.last)
            }
            Body::Coprocess(node) => {
                self.mark(Hidden::Coprocess, context, &place)?;
                let inner = self.node(node, context, place.clone())?;
                Outcome::stays(place.clone(), inner.last)
            }
        };
        self.redirections(&compound.redirections, outer, &place)?;
        Ok(outcome)
    }

    fn arms(
        &mut self,
        arms: &[(List, List)],
        otherwise: Option<&List>,
        context: Context<'_>,
        place: Place,
    ) -> Result<Outcome, Unreadable> {
        let mut at = place;
        let mut ends: Option<Outcome> = None;
        let mut join = |next: Outcome| {
            ends = Some(match ends.take() {
                None => next,
                Some(before) => Outcome {
                    success: before.success.or(&next.success),
                    failure: before.failure.or(&next.failure),
                    last: next.last.or(before.last),
                },
            });
        };
        for (condition, body) in arms {
            let decided = self.list(condition, context, at)?;
            join(self.list(body, context, decided.success)?);
            at = decided.failure;
        }
        join(match otherwise {
            Some(body) => self.list(body, context, at)?,
            None => Outcome::stays(at, None),
        });
        Ok(ends.unwrap_or_else(|| Outcome::stays(Place::Unknown, None)))
    }

    /// What is nested in words: each runs in a shell of its own. Gives the last command of it.
    fn inner(
        &mut self,
        inside: &[Inner],
        context: Context<'_>,
        place: &Place,
    ) -> Result<Option<usize>, Unreadable> {
        let mut last = None;
        for inner in inside {
            match inner {
                Inner::List(list) => last = self.list(list, context, place.clone())?.last.or(last),
                Inner::Marker(hidden) => {
                    self.mark(hidden.clone(), context, place)?;
                }
            }
        }
        Ok(last)
    }
}

/// Is the folder of what runs behind these wrappers another one?
fn is_elsewhere(wrappers: &[Wrapper]) -> bool {
    wrappers.iter().any(|wrapper| wrapper.kind == crate::WrapperKind::Elsewhere)
}

/// The folder in which something behind these wrappers runs.
fn folder_behind(wrappers: &[Wrapper], place: &Place) -> Folder {
    if is_elsewhere(wrappers) { Folder::Unknown } else { place.folder() }
}
