//! Words of commands as text, and which protected names a word holds.

use std::borrow::Cow;

use portolan_shell::{Piece, Unknown, Word};

use super::places::{self, Kind};

/// Stands for what is not known of a word. No word contains it: a command line with a NUL cannot be read.
pub(super) const UNKNOWN: char = '\0';

/// Stands for a wildcard: any characters but `/`, and at the beginning of a name no dot. No word contains it either.
pub(super) const WILDCARD: char = '\u{1}';

/// A word as text, with [`UNKNOWN`] for what is not known.
pub(super) fn text(word: &Word) -> String {
    marked(word, UNKNOWN).into_owned()
}

/// A word as text, with `wildcard` for each wildcard and [`UNKNOWN`] for everything else that is not known.
pub(super) fn marked(word: &Word, wildcard: char) -> Cow<'_, str> {
    match word.pieces.as_slice() {
        [] => Cow::Borrowed(""),
        [Piece::Literal(literal)] => Cow::Borrowed(literal),
        pieces => Cow::Owned(pieces.iter().fold(String::new(), |mut text, piece| {
            match piece {
                Piece::Literal(literal) => text.push_str(literal),
                Piece::Unknown(Unknown::Glob) => text.push(wildcard),
                Piece::Unknown(_) => text.push(UNKNOWN),
            }
            text
        })),
    }
}

/// The name of a program without its folder.
pub(super) fn base(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// What stands between the names in a word: `--file=.env`, `-d@.env`, `HEAD:.env`, `a/.env`.
const BETWEEN: [char; 5] = ['/', '=', ':', ',', '@'];

/// The first protected name in a word that `counts`: one that the word spells, or may become by a wildcard. A relative path
/// begins in `folder`.
pub(super) fn protected(word: &Word, folder: &str, counts: impl Fn(Kind) -> bool) -> Option<(Kind, String)> {
    let text = marked(word, WILDCARD);
    let find = |name: &str| {
        let found = places::of_name(name).map(|kind| (kind, name.to_owned()));
        found.filter(|(kind, _)| counts(*kind)).or_else(|| places::that_may_be(name, &counts))
    };
    let mut names = text.split(BETWEEN).filter(|name| !name.is_empty());
    let all = names.clone();
    let first = names.next()?;
    // The value of a short option may be attached to its letter, or to several.
    let letters = first.starts_with('-') && !first.starts_with("--");
    let ends = first.char_indices().skip(2).filter(|_| letters).map(|(at, _)| &first[at..]);
    let one = std::iter::once(first).chain(ends).chain(names).find_map(find);
    one.or_else(|| {
        let is_relative =
            !text.starts_with('/') && word.pieces.first() != Some(&Piece::Unknown(Unknown::Tilde));
        let folder = folder.split('/').filter(|name| is_relative && !name.is_empty());
        let of_word = folder.clone().count();
        let names: Vec<&str> = folder.chain(all).collect();
        let found = (names.len() > 1).then(|| places::that_may_be_below(&names, of_word)).flatten();
        found.filter(|(kind, _)| counts(*kind))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(command: &str) -> Word {
        let script = portolan_shell::read(&format!("x {command}")).unwrap();
        let portolan_shell::Part::Run(command) = &script.parts[0] else { panic!("no command") };
        command.words[1].clone()
    }

    fn found(text: &str) -> Option<String> {
        protected(&word(text), "", |_| true).map(|(_, name)| name)
    }

    fn secret(folder: &str, text: &str) -> Option<String> {
        protected(&word(text), folder, Kind::is_secret).map(|(_, name)| name)
    }

    #[test]
    fn a_protected_name_is_found_wherever_a_word_holds_it() {
        for (text, name) in [
            (".env", ".env"),
            ("a/.ENV/b", ".ENV"),
            ("--file=.env", ".env"),
            ("--file=@.env", ".env"),
            ("-d@.env", ".env"),
            ("-T.env", ".env"),
            ("-xf.env.local", ".env.local"),
            ("-iid_rsa", "id_rsa"),
            ("HEAD:.env", ".env"),
            ("./.env:/app/x", ".env"),
            ("host:.ssh/x", ".ssh"),
            ("a.pem", "a.pem"),
            ("~/.ssh/id_rsa", ".ssh"),
            ("$X/.env", ".env"),
        ] {
            assert_eq!(found(text).as_deref(), Some(name), "{text}");
        }
    }

    #[test]
    fn a_secret_is_found_by_its_name_and_the_folders_before_it() {
        for (folder, text, name) in [
            ("", ".codex/auth.json", ".codex/auth.json"),
            ("", "~/.codex/auth.json", ".codex/auth.json"),
            ("", "--file=~/.codex/auth.json", ".codex/auth.json"),
            ("", ".codex/*th.json", ".codex/auth.json"),
            ("", ".codex/*", ".codex/auth.json"),
            ("", ".codex/$X", ".codex/auth.json"),
            ("", ".co*x/auth.json", ".codex/auth.json"),
            ("", ".git/modules/till/config", ".git/config"),
            ("", ".claude/.credentials.json", ".credentials.json"),
            (".codex", "auth.json", ".codex/auth.json"),
            ("/home/ada/.config", "gh/hosts.yml", ".config/gh"),
            ("", ".config/*/hosts.yml", ".config/gh"),
        ] {
            assert_eq!(secret(folder, text).as_deref(), Some(name), "{folder} {text}");
        }
        for (folder, text) in [
            ("", "auth.json"),
            ("", "src/auth.json"),
            ("", ".codex/config.toml"),
            ("", "$X/auth.json"),
            ("", "*/config"),
            (".codex", "/src/auth.json"),
            (".codex", "config.toml"),
            (".git/config", "x"),
        ] {
            assert_eq!(secret(folder, text), None, "{folder} {text}");
        }
    }

    #[test]
    fn a_word_with_a_wildcard_holds_the_names_that_it_may_become() {
        for text in [
            ".e*",
            ".e?v",
            "a/.e[n]v",
            "-d@.e*",
            "--file=.e*",
            ".*",
            "id_*",
            "*rsa",
            ".g*/config",
            "*.pe?",
            ".e$X",
        ] {
            assert!(found(text).is_some(), "{text}");
        }
        for text in [
            "*", "*.json", "src/*", "*.rs", "README.*", "package*", "$X", "$X/a", "{a,b}", "?env", "a.*",
            "*/", "-n",
        ] {
            assert_eq!(found(text), None, "{text}");
        }
    }
}
