//! Simple commands: what stands behind the wrappers, and what is known of it.

use super::places::Place;
use super::{Carried, Context, Outcome, Walk, builtins, folder_behind, redirections, texts};
use crate::limits::{MAX_DEPTH, MAX_TEXTS};
use crate::reader::Simple;
use crate::wrappers::{self, Step};
use crate::{
    Assignment, Command, Hidden, Part, Unknown, Unreadable, Word, Wrapper, characters, programs, variables,
};

/// A command while its wrappers are taken off.
pub(super) struct Peeled {
    pub(super) whole: Vec<Word>,
    /// Where in `whole` the program stands that is looked at.
    pub(super) at: usize,
    pub(super) wrappers: Vec<Wrapper>,
    pub(super) assignments: Vec<Assignment>,
    pub(super) hidden: Vec<Hidden>,
}

impl Peeled {
    fn new(words: Vec<Word>, assignments: Vec<Assignment>, carried: &Carried) -> Self {
        let mut whole = carried.whole.clone();
        let at = whole.len();
        whole.extend(words);
        let mut all = carried.assignments.clone();
        all.extend(assignments);
        let (wrappers, hidden) = (carried.wrappers.clone(), carried.hidden.clone());
        Self { whole, at, wrappers, assignments: all, hidden }
    }

    pub(super) fn words(&self) -> &[Word] {
        &self.whole[self.at..]
    }

    /// What a text or a command that this one runs has around it.
    pub(super) fn carried(&self) -> Carried {
        Carried {
            whole: self.whole[..self.at].to_vec(),
            wrappers: self.wrappers.clone(),
            assignments: self.assignments.clone(),
            hidden: self.hidden.clone(),
        }
    }

    /// Does the shell run it itself, if it is a builtin?
    fn in_shell(&self, carried: &Carried) -> bool {
        self.wrappers[carried.wrappers.len()..]
            .iter()
            .all(|wrapper| matches!(wrapper.name.as_str(), "command" | "builtin" | "time"))
    }
}

impl Walk {
    pub(super) fn simple(
        &mut self,
        simple: &Simple,
        context: Context<'_>,
        place: Place,
    ) -> Result<Outcome, Unreadable> {
        let assignments: Vec<Assignment> = simple
            .assignments
            .iter()
            .map(|written| assignment(&written.name, written.value.word.clone()))
            .collect();
        let before = self.parts.len();
        let outcome = if simple.words.is_empty() {
            for assignment in assignments.iter().filter(|assignment| assignment.changes_what_runs) {
                self.mark(Hidden::ChangesWhatRuns(assignment.name.clone()), context, &place)?;
            }
            Outcome::stays(place.clone(), None)
        } else {
            let words = simple.words.iter().map(|written| written.word.clone()).collect();
            let input = redirections::input(&simple.redirections, context.input);
            self.run(words, assignments, Context { input, ..context }, place.clone())?
        };
        for written in &simple.assignments {
            self.inner(&written.value.inside, context, &place)?;
        }
        for written in &simple.words {
            self.inner(&written.inside, context, &place)?;
        }
        let feeds = self.redirections(&simple.redirections, context, &place)?;
        if feeds.is_some()
            && let Some(Part::Run(command)) = self.parts.get_mut(before)
        {
            command.fed_by = feeds;
        }
        Ok(outcome)
    }

    /// A command and what it runs.
    pub(super) fn run(
        &mut self,
        words: Vec<Word>,
        assignments: Vec<Assignment>,
        context: Context<'_>,
        place: Place,
    ) -> Result<Outcome, Unreadable> {
        if context.depth > MAX_DEPTH {
            return Err(Unreadable::TooDeep);
        }
        let mut peeled = Peeled::new(words, assignments, context.carried);
        let program = loop {
            let Some(word) = peeled.whole.get(peeled.at) else { break None };
            let Some(written) = word.literal() else {
                peeled.hidden.push(Hidden::ProgramNotKnown);
                break None;
            };
            let written = written.into_owned();
            if written.is_empty() {
                peeled.hidden.push(Hidden::ProgramEmpty);
                break None;
            }
            characters::check_program(&written)?;
            let name = base_name(&written).to_owned();
            let step = wrappers::step(&name, peeled.words());
            if !matches!(step, Step::None) && !is_usual_place(&written) {
                peeled.hidden.push(Hidden::UnusualPlace(written));
            }
            match step {
                Step::None | Step::Alone => break Some(name),
                Step::Hidden(hidden, kind) => {
                    peeled.hidden.push(hidden);
                    peeled.wrappers.push(Wrapper { name, kind, user: None });
                    break None;
                }
                Step::Behind { kind, words, assignments, user } => {
                    for (name, value) in assignments {
                        self.facts.set(&name, &value);
                        peeled.assignments.push(assignment(&name, value));
                    }
                    peeled.wrappers.push(Wrapper { name, kind, user });
                    peeled.at += words;
                }
                Step::Replacing { kind, words, mark } => {
                    peeled.wrappers.push(Wrapper { name, kind, user: None });
                    peeled.at += words;
                    feed(&mut peeled, mark.as_deref());
                }
                Step::Text { kind, words, text, text_at, user } => {
                    peeled.wrappers.push(Wrapper { name: name.clone(), kind, user });
                    let start = peeled.at;
                    peeled.at += words;
                    let Some(text) = text else {
                        peeled.hidden.push(Hidden::ShellText(name));
                        break None;
                    };
                    if let Some(text_at) = text_at {
                        peeled.whole.remove(start + text_at);
                        peeled.at -= 1;
                    }
                    return self.text(&text, &peeled, context, place, texts::Shell::Own);
                }
            }
        };
        if let Some(name) = program {
            return self.program(&name, peeled, context, place);
        }
        // It may be a builtin that changes the folder.
        let last = self.command(peeled, context, &place)?;
        Ok(Outcome::stays(Place::Unknown, Some(last)))
    }

    /// A command behind its wrappers, whose program is known.
    fn program(
        &mut self,
        name: &str,
        mut peeled: Peeled,
        context: Context<'_>,
        place: Place,
    ) -> Result<Outcome, Unreadable> {
        match texts::of(name, peeled.words()) {
            texts::Text::None => {}
            texts::Text::Literal(text, shell) => {
                let usual =
                    peeled.words().first().and_then(Word::literal).is_some_and(|word| is_usual_place(&word));
                if usual {
                    return self.text(&text, &peeled, context, place, shell);
                }
                peeled.hidden.push(Hidden::UnusualPlace(name.to_owned()));
            }
            texts::Text::Hidden(hidden) => peeled.hidden.push(hidden),
        }
        let arguments = peeled.words().get(1..).unwrap_or_default().to_vec();
        let in_shell = peeled.in_shell(context.carried);
        let mut found = builtins::check(name, &arguments, &mut self.facts);
        let checked = programs::check(name, &arguments);
        found.extend(checked.hidden);
        peeled.hidden.extend(found);
        let moved = peeled.assignments.iter().any(|assignment| assignment.changes_what_runs);
        let (carried, runs) = (peeled.carried(), checked.runs);
        let last = self.command(peeled, context, &place)?;
        for run in runs {
            let place = if run.in_its_folder { Place::Unknown } else { place.clone() };
            if context.texts >= MAX_TEXTS {
                return Err(Unreadable::TooManyTexts);
            }
            let (depth, texts) = (context.depth + 1, context.texts + 1);
            let context = Context { carried: &carried, depth, texts, ..context };
            self.run(run.words, Vec::new(), context, place)?;
        }
        let mut outcome = Outcome::stays(place.clone(), Some(last));
        match name {
            _ if !in_shell => {}
            "cd" if moved => outcome.success = Place::Unknown,
            "cd" => outcome.success = place.after_cd(&arguments),
            "pushd" | "popd" => outcome.success = Place::Unknown,
            "eval" | "source" | "." => outcome = Outcome::stays(Place::Unknown, Some(last)),
            "exit" => outcome = Outcome::stays(Place::Ended, Some(last)),
            _ => {}
        }
        Ok(outcome)
    }

    fn command(&mut self, peeled: Peeled, context: Context<'_>, place: &Place) -> Result<usize, Unreadable> {
        let folder = folder_behind(&peeled.wrappers, place);
        let words = peeled.words().to_vec();
        self.push(Part::Run(Command {
            words,
            inner_at: peeled.at,
            whole: peeled.whole,
            wrappers: peeled.wrappers,
            assignments: peeled.assignments,
            hidden: peeled.hidden,
            folder,
            reads_pipe: context.input.pipe,
            fed_by: context.input.fed_by,
        }))
    }
}

/// What `xargs` does to the words of the command behind it: it replaces a mark, or puts words behind them.
fn feed(peeled: &mut Peeled, mark: Option<&str>) {
    let mut fed = Word::from_unknown(Unknown::Variable);
    if let Some(mark) = mark {
        for word in &mut peeled.whole[peeled.at..] {
            *word = word.replace(mark, &fed);
        }
        return;
    }
    if peeled.at >= peeled.whole.len() {
        // Without a command it runs this one.
        peeled.whole.push(Word::from_text("echo"));
    }
    fed.splits = true;
    peeled.whole.push(fed);
}

/// A variable that is set for a command.
pub(super) fn assignment(name: &str, value: Word) -> Assignment {
    Assignment { name: name.to_owned(), value, changes_what_runs: variables::changes_what_runs(name) }
}

/// The name without the folder.
fn base_name(program: &str) -> &str {
    program.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(program)
}

/// Is the program found by its name, or in a folder where systems install programs?
pub fn is_usual_place(program: &str) -> bool {
    const PLACES: &[&str] = &[
        "/bin/",
        "/usr/bin/",
        "/usr/local/bin/",
        "/sbin/",
        "/usr/sbin/",
        "/usr/local/sbin/",
        "/opt/homebrew/bin/",
    ];
    !program.contains('/')
        || PLACES.iter().any(|place| program.strip_prefix(place).is_some_and(|name| !name.contains('/')))
}
