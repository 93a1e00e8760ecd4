//! Commands: which commands of a command line a pattern covers, which only read, and which may touch a protected place.

use std::path::Path;

use portolan_shell::{Command, Folder, Hidden, PatternPiece, PatternWord, Word, WrapperKind};

use super::{
    cover::Cover,
    places::{self, Kind},
    subcommands::Positional,
    words::{self, UNKNOWN, base, text},
};

fn has_star(word: &PatternWord) -> bool {
    word.text().is_none()
}

/// The word of a pattern as text, `*` included.
fn pattern_text(word: &PatternWord) -> String {
    word.pieces.iter().fold(String::new(), |mut text, piece| {
        match piece {
            PatternPiece::Text(literal) => text.push_str(literal),
            PatternPiece::Star => text.push('*'),
        }
        text
    })
}

/// Does this word match? Only a `*` matches what is not known.
fn word_matches(pattern: &PatternWord, word: &str) -> bool {
    let pieces = &pattern.pieces;
    if let [PatternPiece::Text(text)] = pieces.as_slice() {
        return text == word;
    }
    let literal = |piece: &PatternPiece| match piece {
        PatternPiece::Text(text) => Some(text.clone()),
        PatternPiece::Star => None,
    };
    let texts: Vec<Option<String>> = pieces.iter().map(literal).collect();
    let Some(first_star) = texts.iter().position(Option::is_none) else {
        return texts.into_iter().flatten().collect::<String>() == word;
    };
    let last_star = texts.iter().rposition(Option::is_none).unwrap_or(first_star);
    let join = |some: &[Option<String>]| some.iter().flatten().cloned().collect::<String>();
    let (begin, end) = (join(&texts[..first_star]), join(&texts[last_star + 1..]));
    if word.len() < begin.len() + end.len() || !word.starts_with(&begin) || !word.ends_with(&end) {
        return false;
    }
    let mut rest = &word[begin.len()..word.len() - end.len()];
    for middle in
        texts[first_star..=last_star].split(Option::is_none).map(join).filter(|text| !text.is_empty())
    {
        match rest.find(&middle) {
            Some(at) => rest = &rest[at + middle.len()..],
            None => return false,
        }
    }
    true
}

/// The program that a pattern names, if it is spelt without `*`.
pub(super) fn pattern_program(pattern: &[PatternWord]) -> Option<String> {
    let first = pattern.first()?;
    (!has_star(first)).then(|| pattern_text(first))
}

/// Every name by which a pattern could name the program of this command or one of its wrappers; `None` if a pattern that
/// names another program may be about this command too.
pub(super) fn names(command: &Command) -> Option<Vec<String>> {
    let starts = command.words.first().or(command.whole.first());
    if is_unseen(command) || starts.is_none_or(|first| text(first).contains(UNKNOWN)) {
        return None;
    }
    let mut names: Vec<String> = command.wrappers.iter().map(|wrapper| wrapper.name.clone()).collect();
    for word in &command.whole {
        let name = text(word);
        if name.contains('/') {
            names.push(base(&name).to_owned());
        }
        names.push(name);
    }
    Some(names)
}

// ------------------------------------------------------------------------------------------------- allow

/// Does an allow with this pattern cover the command?
pub fn allows(pattern: &[PatternWord], command: &Command) -> bool {
    if command.assignments.iter().any(|assignment| assignment.changes_what_runs) {
        return false;
    }
    // `/tmp/env ls` need not run `ls` at all: such a program is not looked through.
    let is_known = |hidden: &Hidden| !matches!(hidden, Hidden::UnusualPlace(_));
    let only_transparent = command.wrappers.iter().all(|wrapper| wrapper.kind == WrapperKind::Transparent)
        && command.hidden.iter().all(is_known);
    // A pattern may name everything, or leave out the transparent wrappers in front.
    let outer = command.wrappers.iter().find(|wrapper| wrapper.kind != WrapperKind::Transparent);
    let from = outer.and_then(|outer| command.whole.iter().position(|word| base(&text(word)) == outer.name));
    (only_transparent && covers(pattern, &command.words, 0, command))
        || covers(pattern, &command.whole, command.inner_at, command)
        || from.is_some_and(|from| {
            covers(pattern, &command.whole[from..], command.inner_at.saturating_sub(from), command)
        })
}

/// Do the words match one by one? The words up to number `named` must be named without `*`.
fn covers(pattern: &[PatternWord], words: &[Word], named: usize, command: &Command) -> bool {
    let (fixed, open_end) = match pattern.split_last() {
        Some((last, before)) if last.is_star() && !before.is_empty() => (before, true),
        _ => (pattern, false),
    };
    let fits = if open_end { words.len() >= fixed.len() } else { words.len() == fixed.len() };
    if !fits || fixed.is_empty() || fixed.len() <= named {
        return false;
    }
    // A word that may become several is covered only where any number of words is.
    if words[..fixed.len()].iter().any(Word::may_be_many) {
        return false;
    }
    if !fixed.iter().zip(words).all(|(pattern, word)| word_matches(pattern, &text(word))) {
        return false;
    }
    // The program, and a wrapper with all that is before the program, are never left to a `*`.
    if fixed[..=named].iter().any(has_star) {
        return false;
    }
    let exact = !open_end && !fixed.iter().any(has_star);
    if !command.hidden.is_empty() && !exact {
        return false;
    }
    let by_star = |index: usize| fixed.get(index).is_none_or(has_star);
    !words.iter().enumerate().any(|(index, word)| by_star(index) && protected_word(command, word).is_some())
}

// ------------------------------------------------------------------------------------------------- deny, ask

/// Flags of a program that mean another flag.
const SAME: [(&str, &str, &str); 12] = [
    ("git", "-f", "--force"),
    ("git", "-d", "--delete"),
    ("rm", "-R", "-r"),
    ("rm", "--recursive", "-r"),
    ("rm", "--force", "-f"),
    ("cp", "-R", "-r"),
    ("cp", "--recursive", "-r"),
    ("chmod", "--recursive", "-R"),
    ("chown", "--recursive", "-R"),
    ("grep", "--recursive", "-r"),
    ("find", "--delete", "-delete"),
    ("git", "-n", "--dry-run"),
];

/// Does a deny or an ask with this pattern cover the command?
pub fn touches(pattern: &[PatternWord], command: &Command) -> Cover {
    let direct = touches_words(pattern, &command.words);
    let by_wrapper = command
        .wrappers
        .iter()
        .map(|wrapper| wrapper_touched(pattern, &wrapper.name, command))
        .max()
        .unwrap_or(Cover::No);
    let found = direct.max(by_wrapper);
    if found == Cover::No && is_unseen(command) { Cover::Maybe } else { found }
}

/// Can it not be seen what the command runs? An argument that may be an option of the program itself does not make it
/// another program.
pub fn is_unseen(command: &Command) -> bool {
    command.hidden.iter().any(|hidden| !matches!(hidden, Hidden::MayBeOption(_)))
        || command.assignments.iter().any(|assignment| assignment.changes_what_runs)
}

fn wrapper_touched(pattern: &[PatternWord], name: &str, command: &Command) -> Cover {
    match pattern.split_first() {
        Some((program, rest)) if word_matches(program, base(name)) => {
            // A word before the wrapper may look like it: `sudo -u docker docker exec`.
            let is_named = |at: &usize| base(&text(&command.whole[*at])) == base(name);
            let places = (0..command.inner_at.min(command.whole.len())).filter(is_named);
            let behind = places.map(|at| rest_touches(base(name), rest, &command.whole[at + 1..]));
            behind.max().unwrap_or_else(|| rest_touches(base(name), rest, &command.whole))
        }
        _ => Cover::No,
    }
}

fn touches_words(pattern: &[PatternWord], words: &[Word]) -> Cover {
    let (Some((program, rest)), Some((first, arguments))) = (pattern.split_first(), words.split_first())
    else {
        return Cover::No;
    };
    let name = text(first);
    if name.contains(UNKNOWN) {
        return Cover::Maybe;
    }
    let has_folder = pattern_text(program).contains('/');
    let compared = if has_folder { name.as_str() } else { base(&name) };
    if !word_matches(program, compared) {
        return Cover::No;
    }
    rest_touches(base(&name), rest, arguments)
}

/// Is this the name of a shell that reads its text as Bash does, found by its name or in a folder of the system?
pub fn is_shell(program: &str) -> bool {
    portolan_shell::is_usual_place(program) && matches!(base(program), "sh" | "bash" | "zsh" | "dash")
}

/// Does the command contain the words of the pattern behind the program?
fn rest_touches(program: &str, pattern: &[PatternWord], arguments: &[Word]) -> Cover {
    let texts: Vec<String> = arguments.iter().map(text).collect();
    let unknown = texts.iter().any(|word| word.contains(UNKNOWN));
    let is_flag = |word: &&PatternWord| {
        let wants = pattern_text(word);
        wants.starts_with('-') && wants != "-" && wants != "--"
    };
    let (wanted_flags, wanted): (Vec<&PatternWord>, Vec<&PatternWord>) =
        pattern.iter().filter(|word| !word.is_star()).partition(is_flag);
    let words = Positional::of(program, &texts);
    let flags = Flags::of(program, &texts);
    let has_flags = wanted_flags.iter().all(|wants| flags.contain(program, &pattern_text(wants)));
    let contain = |words: &[&str], wanted: &[&PatternWord]| match (in_order(wanted, words), unknown) {
        (true, _) if has_flags => Cover::Yes,
        (_, true) => Cover::Maybe,
        (_, false) => Cover::No,
    };
    let (Some(possible), Some((subcommand, rest))) = (words.subcommands, wanted.split_first()) else {
        return contain(&words.all, &wanted);
    };
    let called = |at: usize| {
        let name = words.all[at];
        let found = if word_matches(subcommand, name) {
            contain(&words.all[at + 1..], rest)
        } else if name.contains(UNKNOWN) {
            // A name that is not known may be any subcommand.
            Cover::Maybe
        } else {
            Cover::No
        };
        if at == 0 { found } else { found.min(Cover::Maybe) }
    };
    (0..possible).map(called).max().unwrap_or(Cover::No)
}

fn in_order(wanted: &[&PatternWord], words: &[&str]) -> bool {
    let mut left = words.iter();
    wanted.iter().all(|pattern| left.any(|word| word_matches(pattern, word)))
}

/// The flags of a command, in every spelling.
struct Flags {
    long: Vec<String>,
    short: String,
    whole: Vec<String>,
}

impl Flags {
    fn of(program: &str, texts: &[String]) -> Self {
        let mut flags = Self { long: Vec::new(), short: String::new(), whole: Vec::new() };
        for word in texts.iter().take_while(|word| *word != "--") {
            if word.starts_with("--") {
                flags.add(&canonical(program, word));
            } else if let Some(cluster) = word.strip_prefix('-') {
                // `find -delete` is one flag, `rm -rf` are two.
                flags.whole.push(word.clone());
                let letters = cluster.split('=').next().unwrap_or(cluster);
                for letter in letters.chars().filter(|letter| *letter != UNKNOWN) {
                    flags.add(&canonical(program, &format!("-{letter}")));
                }
            } else if program == "git" && word.starts_with('+') {
                flags.add("--force");
            }
        }
        flags
    }

    fn add(&mut self, flag: &str) {
        match flag.strip_prefix("--") {
            Some(_) => self.long.push(flag.to_owned()),
            None => self.short.extend(flag.chars().skip(1)),
        }
    }

    fn contain(&self, program: &str, wanted: &str) -> bool {
        if self.whole.iter().any(|flag| super::glob::matches(wanted, flag)) {
            return true;
        }
        let wanted = canonical(program, wanted);
        if let Some(wanted) = wanted.strip_prefix("--") {
            let (name, value) =
                wanted.split_once('=').map_or((wanted, None), |(name, value)| (name, Some(value)));
            return self.long.iter().any(|flag| {
                let flag = &flag[2..];
                let (found, given) =
                    flag.split_once('=').map_or((flag, None), |(found, given)| (found, Some(given)));
                // Most programs take the beginning of a long flag for the whole.
                let is_named =
                    super::glob::matches(name, found) || (!found.is_empty() && name.starts_with(found));
                is_named
                    && value.is_none_or(|value| given.is_some_and(|given| super::glob::matches(value, given)))
            });
        }
        let letters = wanted[1..].chars();
        letters.clone().count() > 0
            && letters.map(|letter| canonical(program, &format!("-{letter}"))).all(|flag| {
                match flag.strip_prefix("--") {
                    Some(_) => self.long.iter().any(|long| long == &flag),
                    None => flag.chars().nth(1).is_some_and(|letter| self.short.contains(letter)),
                }
            })
    }
}

fn canonical(program: &str, flag: &str) -> String {
    // Most programs take the beginning of a long flag for the whole.
    let is_beginning = |from: &str| flag.len() > 2 && flag.starts_with("--") && from.starts_with(flag);
    let same =
        SAME.iter().find(|(known, from, _)| *known == program && (*from == flag || is_beginning(from)));
    same.map_or_else(|| flag.to_owned(), |(_, _, to)| (*to).to_owned())
}

// ------------------------------------------------------------------------------------------------- what a command is

/// Programs that only read, whatever their arguments are, except the flags named behind them.
const READERS: [(&str, &str); 42] = [
    ("ls", ""),
    ("cat", ""),
    ("head", ""),
    ("tail", ""),
    ("wc", ""),
    ("grep", ""),
    ("egrep", ""),
    ("fgrep", ""),
    ("rg", "--pre"),
    ("pwd", ""),
    ("echo", ""),
    ("printf", ""),
    ("which", ""),
    ("type", ""),
    ("file", "-C --compile"),
    ("stat", ""),
    ("du", ""),
    ("df", ""),
    ("basename", ""),
    ("dirname", ""),
    ("realpath", ""),
    ("readlink", ""),
    ("cut", ""),
    ("tr", ""),
    ("nl", ""),
    ("comm", ""),
    ("diff", ""),
    ("cmp", ""),
    ("md5sum", ""),
    ("sha1sum", ""),
    ("sha256sum", ""),
    ("whoami", ""),
    ("id", ""),
    ("uname", ""),
    ("true", ""),
    ("false", ""),
    ("test", ""),
    ("[", ""),
    ("seq", ""),
    ("cd", ""),
    ("tree", "-o"),
    ("find", "-delete -fprint -fprint0 -fprintf -fls"),
];

/// Subcommands of Git that only read, except with the flags named behind them.
const GIT_READERS: &str =
    "status log diff show blame ls-files ls-tree rev-parse describe shortlog cat-file grep";

/// Does this command only read, as far as its program decides that?
pub fn only_reads(command: &Command) -> bool {
    if !command.hidden.is_empty()
        || command.assignments.iter().any(|assignment| assignment.changes_what_runs)
        || command.wrappers.iter().any(|wrapper| wrapper.kind != WrapperKind::Transparent)
    {
        return false;
    }
    let texts: Vec<String> = command.words.iter().map(text).collect();
    let Some((program, arguments)) = texts.split_first() else { return true };
    if program == "git" {
        let writes =
            arguments.iter().any(|word| word.starts_with("--output") || word == "-o" || word == "--ext-diff");
        return !writes
            && arguments.first().is_some_and(|sub| GIT_READERS.split(' ').any(|reader| reader == sub));
    }
    READERS.iter().any(|(reader, except)| {
        let excepted =
            |word: &String| except.split(' ').any(|flag| !flag.is_empty() && word.starts_with(flag));
        reader == program && !arguments.iter().any(excepted)
    })
}

/// The protected place that a command may touch: the first that a word of the command names, or else the one in which
/// the command runs.
pub fn protected(command: &Command) -> Option<(Kind, String)> {
    let named = command.words.iter().skip(1).find_map(|word| protected_word(command, word));
    named.or_else(|| protected_folder(command))
}

/// The protected place in which a command runs after a `cd`, unless the command only reads: such a command may change
/// what is there without naming it.
pub fn protected_folder(command: &Command) -> Option<(Kind, String)> {
    let Folder::Known(folder) = &command.folder else { return None };
    if is_harmless(command) {
        return None;
    }
    places::protected(Path::new(folder)).into_iter().next()
}

/// Git's subcommands that name files without changing them on the disk.
const GIT_NAMERS: &str = "add commit rm mv stash";

/// Does this command leave the files as they are that its words name?
fn is_harmless(command: &Command) -> bool {
    let program = command.words.first().map(text).unwrap_or_default();
    let sub = command.words.get(1).map(text).unwrap_or_default();
    only_reads(command) || (program == "git" && GIT_NAMERS.split(' ').any(|namer| namer == sub))
}

fn protected_word(command: &Command, word: &Word) -> Option<(Kind, String)> {
    let folder = match &command.folder {
        Folder::Known(folder) => folder.as_str(),
        Folder::Unknown => "",
    };
    words::protected(word, folder, |kind| kind.is_secret() || !is_harmless(command))
}

/// The words of a command behind its program, as far as they are known.
pub fn known_arguments(command: &Command) -> Vec<String> {
    command.words.iter().skip(1).map(text).filter(|word| !word.contains(UNKNOWN)).collect()
}

/// The name of the program without its folder; `None` if it is not known.
pub fn program(command: &Command) -> Option<String> {
    let name = text(command.words.first()?);
    (!name.contains(UNKNOWN)).then(|| base(&name).to_owned())
}
