//! Files that the shell itself opens.

use super::places::Place;
use super::{Context, Input, Walk};
use crate::reader::{Redirection, RedirectionKind};
use crate::{Hidden, Part, Target, Unreadable, WrapperKind};

/// Files that are no files: what is written there goes nowhere, or where it went before.
const NO_FILES: &[&str] = &["/dev/null", "/dev/stdout", "/dev/stderr"];

/// What standard input is behind these.
pub(super) fn input(redirections: &[Redirection], before: Input) -> Input {
    let mut input = before;
    for redirection in redirections.iter().filter(|redirection| redirection.is_input) {
        let pipe = match redirection.kind {
            RedirectionKind::Text => true,
            // A copy of a stream that may be anything; `-` closes it.
            RedirectionKind::Duplicate => !redirection.word.word.is("-"),
            _ => redirection.word.is_process,
        };
        input = Input { pipe, fed_by: None };
    }
    input
}

impl Walk {
    /// The files of redirections and what is nested in them. Gives the last command that feeds standard input.
    pub(super) fn redirections(
        &mut self,
        redirections: &[Redirection],
        context: Context<'_>,
        place: &Place,
    ) -> Result<Option<usize>, Unreadable> {
        let mut feeds = None;
        for redirection in redirections {
            self.file(redirection, context, place)?;
            let last = self.inner(&redirection.word.inside, context, place)?;
            if redirection.is_input {
                feeds = last.filter(|_| redirection.word.is_process);
            }
            if let Some(number) = redirection.here_document
                && let Some(inside) = context.tree.here_documents.get(number)
            {
                self.inner(inside, context, place)?;
            }
        }
        Ok(feeds)
    }

    fn file(
        &mut self,
        redirection: &Redirection,
        context: Context<'_>,
        place: &Place,
    ) -> Result<(), Unreadable> {
        let (reads, writes) = match redirection.kind {
            RedirectionKind::Read => (true, false),
            RedirectionKind::Write => (false, true),
            RedirectionKind::ReadWrite => (true, true),
            RedirectionKind::Text | RedirectionKind::Duplicate => return Ok(()),
        };
        let path = &redirection.word.word;
        if redirection.word.is_process || NO_FILES.iter().any(|file| path.is(file)) {
            return Ok(());
        }
        if path.literal().is_some_and(|path| path.starts_with("/dev/tcp/") || path.starts_with("/dev/udp/")) {
            self.mark(Hidden::Connection, context, place)?;
        }
        let mut elsewhere = false;
        for wrapper in &context.carried.wrappers {
            elsewhere |= wrapper.kind == WrapperKind::Elsewhere;
        }
        if context.carried.wrappers.iter().any(|wrapper| wrapper.kind != WrapperKind::Transparent) {
            self.mark(Hidden::RedirectionElsewhere, context, place)?;
        }
        if elsewhere {
            // The file is not one of this machine.
            return Ok(());
        }
        let target = Target { path: path.clone(), folder: place.folder() };
        if reads {
            self.push(Part::Read(target.clone()))?;
        }
        if writes {
            self.push(Part::Write(target))?;
        }
        Ok(())
    }
}
