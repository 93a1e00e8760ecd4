//! Which calls a rule covers.
//!
//! A call has parts: each command of a command line, each file, each address. A deny or an ask is read widely and may be
//! unsure ([`Cover::Maybe`]); an allow is read narrowly and is sure or is nothing.

use std::{
    cell::OnceCell,
    ops::Deref,
    path::{Path, PathBuf},
};

use portolan_shell::{Command, PatternWord};
use serde_json::Value;

use super::{
    address::{Address, host_pattern},
    commands,
    facts::Facts,
    glob::{self, PathGlob},
    mentions::{self, Mention},
    places,
    rule::{self, BadRule, Rule},
    tool::{KINDS, Kind},
};

/// Whether a deny or an ask covers a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cover {
    /// It does not.
    No,
    /// It may: what the part does cannot be seen.
    Maybe,
    /// It does.
    Yes,
}

/// One part of a call.
#[derive(Clone, Debug)]
pub enum Part<'a> {
    /// A command of a command line.
    Command(Run<'a>),
    /// A command line that cannot be read.
    Unreadable,
    /// A call that does not say what it does in a form that is known.
    Unseen,
    /// A file that is read or changed.
    File {
        /// Read or edit.
        kind: Kind,
        /// Where it really lies; `None` if that is not known.
        lies: Option<Vec<PathBuf>>,
        /// It is named by a command line, not by the call itself.
        redirected: bool,
        /// The call searches in it; if it may be a folder, in all files with such names, at any depth.
        searched: Option<Vec<String>>,
    },
    /// An address on the network.
    Address(&'a str),
    /// The arguments of an unknown tool.
    Arguments {
        /// All of them.
        input: &'a Value,
        /// Those that seem to name protected places.
        guarded: Vec<Guarded<'a>>,
    },
}

/// An argument of an unknown tool that seems to name a protected place.
#[derive(Clone, Debug)]
pub struct Guarded<'a> {
    /// The key under which it stands.
    pub key: &'a str,
    /// The protected names.
    pub places: Vec<(places::Kind, String)>,
}

/// A command, and the files that it names once a rule asks for them.
#[derive(Clone, Debug)]
pub struct Run<'a> {
    command: &'a Command,
    mentions: OnceCell<Vec<Mention>>,
}

impl<'a> Run<'a> {
    pub(super) fn of(command: &'a Command) -> Self {
        Self { command, mentions: OnceCell::new() }
    }

    fn mentions(&self, facts: &Facts) -> &[Mention] {
        self.mentions.get_or_init(|| mentions::of(self.command, facts))
    }
}

impl Deref for Run<'_> {
    type Target = Command;
    fn deref(&self) -> &Command {
        self.command
    }
}

/// A rule that is ready to be compared.
#[derive(Clone, Debug)]
pub struct Ready {
    /// The rule.
    pub rule: Rule,
    tool: ToolPattern,
    pattern: Option<Pattern>,
    /// The rule also speaks of files that a command line writes, or reads.
    edits: bool,
    reads: bool,
}

#[derive(Clone, Debug)]
enum ToolPattern {
    Name(String),
    Kind(Kind),
}

/// A pattern in every reading that it has; which one counts depends on the tool that is called.
#[derive(Clone, Debug)]
struct Pattern {
    text: String,
    words: Option<Vec<PatternWord>>,
    path: Option<PathGlob>,
    argument: Option<(String, String)>,
}

/// A pattern for a tool that edits also covers files that a command line writes.
const EDITING: [&str; 2] = ["Edit", "Write"];

/// A pattern for a tool that reads also covers files that a command line reads.
const READING: [&str; 2] = ["Read", "Read"];

/// Whether a rule names the tool that is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Named(bool);

impl Ready {
    /// Reads a rule; the reason if its text means nothing.
    pub fn new(rule: Rule) -> Result<Self, BadRule> {
        let (tool, pattern) = rule::split(&rule.text)?;
        let tool = match tool.strip_prefix('@') {
            None => ToolPattern::Name(tool.to_owned()),
            Some(word) => {
                let kind = KINDS.iter().find(|kind| kind.word() == word);
                ToolPattern::Kind(*kind.ok_or_else(|| {
                    let kinds: Vec<_> = KINDS.iter().map(|kind| format!("@{kind}")).collect();
                    BadRule(format!("unknown kind of tool `@{word}`; use {}", kinds.join(", ")))
                })?)
            }
        };
        let kind = match &tool {
            ToolPattern::Kind(kind) => Some(*kind),
            ToolPattern::Name(name) if !name.contains('*') => Some(Kind::of(name)),
            ToolPattern::Name(_) => None,
        };
        let pattern = pattern.map(|text| Pattern::read(text, kind)).transpose()?;
        if rule.overridable && rule.effect != rule::Effect::Deny {
            return Err(BadRule("only a deny can be overridable".into()));
        }
        let mut ready = Self { rule, tool, pattern, edits: false, reads: false };
        let names = |kind: Kind, tools: [&str; 2]| tools.iter().any(|tool| ready.names(tool, kind));
        let (edits, reads) = (names(Kind::Edit, EDITING), names(Kind::Read, READING));
        (ready.edits, ready.reads) = (edits, reads);
        Ok(ready)
    }

    /// The program that the rule is about, if it can only be about commands that run this program.
    pub(super) fn program(&self) -> Option<String> {
        let of_commands = match &self.tool {
            ToolPattern::Kind(kind) => *kind == Kind::Run,
            ToolPattern::Name(name) => !name.contains('*') && Kind::of(name) == Kind::Run,
        };
        let words = self.pattern.as_ref().filter(|_| of_commands)?.words.as_ref()?;
        commands::pattern_program(words)
    }

    /// Can the rule be about a call of this tool at all, and does it name the tool?
    pub(super) fn concerns(&self, tool: &str, kind: Kind) -> Option<Named> {
        let named = self.names(tool, kind);
        let searched = kind == Kind::Read && self.forbids_files() && self.reads;
        (named || searched || kind == Kind::Run && (self.edits || self.reads)).then_some(Named(named))
    }

    /// Is it a deny or an ask with a pattern for files?
    pub(super) fn forbids_files(&self) -> bool {
        let has_path = self.pattern.as_ref().is_some_and(|pattern| pattern.path.is_some());
        self.rule.effect != rule::Effect::Allow && has_path && (self.edits || self.reads)
    }

    /// Has the rule no pattern, so that it covers every call of its tool?
    pub fn is_whole(&self) -> bool {
        self.pattern.is_none()
    }

    /// Has the rule a pattern that spells all of this part?
    pub fn is_exact(&self, part: &Part<'_>) -> bool {
        self.pattern.as_ref().is_some_and(|pattern| match part {
            Part::File { .. } => pattern.path.as_ref().is_some_and(PathGlob::is_one_path),
            _ => !pattern.text.contains('*'),
        })
    }

    fn names(&self, tool: &str, kind: Kind) -> bool {
        match &self.tool {
            ToolPattern::Name(name) => glob::matches(name, tool),
            ToolPattern::Kind(named) => *named == kind,
        }
    }

    /// Does the rule speak of this part? A file that a command line names belongs to the tools that read or edit.
    fn speaks_of(&self, Named(named): Named, part: &Part<'_>) -> bool {
        match part {
            Part::File { kind: Kind::Edit, redirected: true, .. } => self.edits || (self.is_whole() && named),
            Part::File { kind: Kind::Read, redirected: true, .. } => self.reads || (self.is_whole() && named),
            Part::File { redirected: true, .. } => self.is_whole() && named,
            _ => named,
        }
    }

    /// Is this rule, a deny or an ask, for this part of a call of this tool?
    pub fn touches(&self, tool: &str, part: &Part<'_>, facts: &Facts) -> Cover {
        self.touches_part(Named(self.names(tool, Kind::of(tool))), part, facts)
    }

    /// The same, for a tool that was compared before.
    pub(super) fn touches_part(&self, named: Named, part: &Part<'_>, facts: &Facts) -> Cover {
        let found = self.touches_itself(named, part, facts);
        match part {
            Part::Command(run) if found != Cover::Yes => found.max(self.touches_files_of(run, facts)),
            _ => found,
        }
    }

    /// Is this rule for a file that the words of a command name?
    fn touches_files_of(&self, run: &Run<'_>, facts: &Facts) -> Cover {
        let path = self.pattern.as_ref().and_then(|pattern| pattern.path.as_ref());
        let Some(path) = path.filter(|_| self.edits || self.reads) else { return Cover::No };
        let touched = |mention: &Mention| {
            let reads = if self.reads { mention.reads } else { Cover::No };
            let changes = if self.edits { mention.changes } else { Cover::No };
            match reads.max(changes) {
                Cover::No => Cover::No,
                used => used.min(mention.is_covered(path, self.folder(facts), facts)),
            }
        };
        run.mentions(facts).iter().map(touched).max().unwrap_or(Cover::No)
    }

    fn touches_itself(&self, named: Named, part: &Part<'_>, facts: &Facts) -> Cover {
        // A rule about reading a file is also about a search that may read the file, whatever the tool is called.
        let is_search = matches!(part, Part::File { searched: Some(_), .. });
        let is_about_search = is_search && self.reads && !self.is_whole();
        if !is_about_search && !self.speaks_of(named, part) {
            // A command that cannot be seen may change any file.
            let unseen = matches!(part, Part::Command(command) if commands::is_unseen(command));
            return if self.edits && unseen { Cover::Maybe } else { Cover::No };
        }
        let Some(pattern) = &self.pattern else { return Cover::Yes };
        let sure = |yes: bool| if yes { Cover::Yes } else { Cover::No };
        match part {
            Part::Command(command) => match &pattern.words {
                Some(words) => commands::touches(words, command),
                None => Cover::No,
            },
            Part::Unreadable => Cover::Maybe,
            Part::Unseen => Cover::Maybe,
            Part::File { lies: None, .. } => Cover::Maybe,
            Part::File { lies: Some(lies), searched, .. } => {
                if lies.iter().any(|path| self.path_matches(pattern, path, facts)) {
                    return Cover::Yes;
                }
                let reaches = |path: &PathGlob| {
                    let names = searched.iter().flatten();
                    lies.iter().any(|folder| {
                        names
                            .clone()
                            .any(|name| path.reaches(folder, name, self.folder(facts), facts.home.as_deref()))
                    })
                };
                if pattern.path.as_ref().is_some_and(reaches) { Cover::Maybe } else { Cover::No }
            }
            Part::Address(address) => pattern.touches_address(address),
            Part::Arguments { input, .. } => sure(match &pattern.argument {
                Some((key, value)) => {
                    input.get(key).is_some_and(|found| glob::matches(value, &as_text(found)))
                }
                None => any_text(input, &|text| glob::matches(&pattern.text, text)),
            }),
        }
    }

    /// Does this rule, an allow, cover this part of a call of this tool?
    pub fn allows(&self, tool: &str, part: &Part<'_>, facts: &Facts) -> bool {
        self.allows_part(Named(self.names(tool, Kind::of(tool))), part, facts)
    }

    /// The same, for a tool that was compared before.
    pub(super) fn allows_part(&self, named: Named, part: &Part<'_>, facts: &Facts) -> bool {
        if !self.speaks_of(named, part) {
            return false;
        }
        match (part, &self.pattern) {
            (Part::Unreadable, _) => false,
            (Part::Command(command), None) => commands::protected(command).is_none(),
            (Part::Command(command), Some(pattern)) => {
                commands::protected_folder(command).is_none()
                    && pattern.words.as_ref().is_some_and(|words| commands::allows(words, command))
            }
            (Part::Unseen, pattern) => pattern.is_none(),
            (Part::File { lies: None, .. }, _) => false,
            (Part::File { kind, lies: Some(lies), .. }, pattern) => lies.iter().all(|path| {
                let spelt = |name: &str| {
                    pattern.as_ref().and_then(|p| p.path.as_ref()).is_some_and(|glob| glob.spells(name))
                };
                places::are_spelt(&places::guarded(path, *kind, facts), &spelt)
                    && pattern.as_ref().is_none_or(|pattern| self.path_matches(pattern, path, facts))
            }),
            (Part::Address(_), None) => true,
            (Part::Arguments { guarded, .. }, None) => guarded.is_empty(),
            (Part::Address(address), Some(pattern)) => pattern.allows_address(address),
            (Part::Arguments { input, guarded }, Some(pattern)) => match &pattern.argument {
                Some((key, value)) => {
                    let spells = |name: &str| glob::spell(value.split('/'), name);
                    let is_spelt =
                        |found: &Guarded<'_>| found.key == key && places::are_spelt(&found.places, &spells);
                    input.get(key).is_some_and(|found| glob::matches(value, &as_text(found)))
                        && guarded.iter().all(is_spelt)
                }
                None => false,
            },
        }
    }

    fn path_matches(&self, pattern: &Pattern, path: &Path, facts: &Facts) -> bool {
        let matches = |glob: &PathGlob| glob.matches(path, self.folder(facts), facts.home.as_deref());
        pattern.path.as_ref().is_some_and(matches)
    }

    /// Where a pattern for paths begins.
    fn folder<'f>(&'f self, facts: &'f Facts) -> &'f Path {
        match &self.rule.scope {
            rule::RuleScope::Project { folder, .. } => folder,
            rule::RuleScope::User | rule::RuleScope::Session { .. } => &facts.folder,
        }
    }
}

impl Pattern {
    fn read(text: &str, kind: Option<Kind>) -> Result<Self, BadRule> {
        let bad = |why: String| BadRule(format!("the pattern `{}` {why}", text.escape_debug()));
        let words = portolan_shell::words(text).map_err(|why| bad(format!("is no command: {why}")));
        let path = PathGlob::read(text).map_err(|why| bad(format!("is no path: {why}")));
        let argument = text.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
        let pattern =
            Self { text: text.to_owned(), words: words.clone().ok(), path: path.clone().ok(), argument };
        match kind {
            Some(Kind::Run) => words.map(|_| pattern),
            Some(Kind::Read | Kind::Edit) => path.map(|_| pattern),
            Some(Kind::Network | Kind::Unknown) | None => Ok(pattern),
        }
    }

    /// Is this pattern of a deny or an ask for this address? A host that cannot be read may be any.
    fn touches_address(&self, address: &str) -> Cover {
        if self.text.contains('/') && glob::matches(&self.text, address) {
            return Cover::Yes;
        }
        let Some(read) = Address::read(address) else { return Cover::Maybe };
        if self.covers_address(&read) { Cover::Yes } else { Cover::No }
    }

    fn allows_address(&self, address: &str) -> bool {
        let is_spelt = !self.text.contains('/') || glob::matches(&self.text, address);
        let read = Address::read(address).filter(|read| !read.has_user);
        is_spelt && read.is_some_and(|read| self.covers_address(&read))
    }

    fn covers_address(&self, address: &Address) -> bool {
        if self.text.contains('/') {
            let common = Address::read(&self.text).map_or_else(|| self.text.clone(), |pattern| pattern.whole);
            return glob::matches(&common, &address.whole);
        }
        let pattern = host_pattern(&self.text);
        address.hosts.iter().any(|host| glob::matches(&pattern, host))
    }
}

fn as_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn any_text(value: &Value, matches: &dyn Fn(&str) -> bool) -> bool {
    match value {
        Value::String(text) => matches(text),
        Value::Array(all) => all.iter().any(|one| any_text(one, matches)),
        Value::Object(fields) => fields.values().any(|one| any_text(one, matches)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}
