//! Globs: `*` in names, and `*`, `?` and `**` in paths. Matching never takes longer than the product of both lengths.

use std::path::{Component, Path};

use super::words::WILDCARD;

/// Does `text` match `pattern`, in which `*` stands for any characters?
pub fn matches(pattern: &str, text: &str) -> bool {
    // The one place to go back to is the last `*`: an earlier one need never take more.
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t, mut star) = (0, 0, None);
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            star = Some((p, t));
            p += 1;
        } else if pattern.get(p) == Some(&text[t]) {
            (p, t) = (p + 1, t + 1);
        } else if let Some((at, taken)) = star {
            star = Some((at, taken + 1));
            (p, t) = (at + 1, taken + 1);
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

/// Is there a text that both patterns match? `*` stands for any characters in both.
pub fn overlap(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    reach_the_end(one.len(), other.len(), &|at_one, at_other| {
        let (a, b) = (one.get(at_one).copied(), other.get(at_other).copied());
        let star = |byte: Option<u8>| byte == Some(b'*');
        Steps {
            one: star(a) || (star(b) && a.is_some()),
            other: star(b) || (star(a) && b.is_some()),
            both: a.is_some() && a == b,
        }
    })
}

/// How two patterns may go on from a place in each.
struct Steps {
    one: bool,
    other: bool,
    both: bool,
}

/// Do steps lead from the beginning of both to the end of both? Every pair of places is looked at once.
fn reach_the_end(one: usize, other: usize, steps: &dyn Fn(usize, usize) -> Steps) -> bool {
    let mut row = vec![false; other + 1];
    row[0] = true;
    for at_one in 0..=one {
        let mut next = vec![false; other + 1];
        for at_other in 0..=other {
            if !row[at_other] {
                continue;
            }
            let steps = steps(at_one, at_other);
            if steps.other && at_other < other {
                row[at_other + 1] = true;
            }
            next[at_other] |= steps.one;
            if steps.both && at_other < other {
                next[at_other + 1] = true;
            }
        }
        if at_one == one {
            return row[other];
        }
        row = next;
    }
    false
}

/// A pattern for paths, in parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathGlob {
    from: From,
    parts: Vec<String>,
}

/// Where a pattern for paths begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    Root,
    Home,
    Folder,
}

impl PathGlob {
    /// Reads a pattern. One that could mean two things is refused.
    pub fn read(pattern: &str) -> Result<Self, &'static str> {
        let (from, rest) = match pattern {
            "~" => (From::Home, ""),
            _ => match (pattern.strip_prefix("~/"), pattern.strip_prefix('/')) {
                (Some(rest), _) => (From::Home, rest),
                (_, Some(rest)) => (From::Root, rest),
                _ => (From::Folder, pattern.strip_prefix("./").unwrap_or(pattern)),
            },
        };
        if rest.starts_with('~') {
            return Err("only `~/` stands for the home folder");
        }
        let mut parts: Vec<String> =
            rest.split('/').filter(|part| !part.is_empty() && *part != ".").map(str::to_owned).collect();
        if parts.iter().any(|part| part == "..") {
            return Err(
                "a pattern for paths must not contain `..`, because Portolan compares real paths, without `..`",
            );
        }
        if rest.ends_with('/') || rest.is_empty() {
            parts.push("**".into());
        }
        Ok(Self { from, parts })
    }

    /// Does this real path match? `folder` and `home` are real paths, too.
    pub fn matches(&self, path: &Path, folder: &Path, home: Option<&Path>) -> bool {
        let base = match self.from {
            From::Root => Some(Path::new("/")),
            From::Home => home,
            From::Folder => Some(folder),
        };
        let Some(rest) = base.and_then(|base| path.strip_prefix(base).ok()) else { return false };
        let names: Option<Vec<&str>> = rest
            .components()
            .map(|part| match part {
                Component::Normal(name) => name.to_str(),
                _ => None,
            })
            .collect();
        // A name that is no text is matched by nothing.
        names.is_some_and(|names| parts_match(&self.parts, &names))
    }

    /// The pattern from the root on; `None` if nobody knows where it begins.
    pub(super) fn absolute<'a>(&'a self, folder: &'a Path, home: Option<&'a Path>) -> Option<Parts<'a>> {
        let base = match self.from {
            From::Root => Path::new("/"),
            From::Home => home?,
            From::Folder => folder,
        };
        let mut parts = Vec::new();
        for part in base.components() {
            if let Component::Normal(name) = part {
                // A name is compared as it is, so one with a star in it is no pattern.
                parts.push(name.to_str().filter(|name| !name.contains(['*', '?']))?);
            }
        }
        parts.extend(self.parts.iter().map(String::as_str));
        Some(Parts(parts))
    }

    /// May a path below `searched` match whose name is like `name`?
    pub(super) fn reaches(&self, searched: &Path, name: &str, folder: &Path, home: Option<&Path>) -> bool {
        let names = searched.components().filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_string_lossy().into_owned()),
            _ => None,
        });
        let below = ["**".to_owned(), name.to_owned()];
        let names: Vec<String> = names.chain(below).collect();
        self.absolute(folder, home).is_some_and(|parts| parts.overlap(&names))
    }

    /// Does the pattern match one path only?
    pub fn is_one_path(&self) -> bool {
        !self.parts.iter().any(|part| part.contains(['*', '?']))
    }

    /// Does the pattern spell this name, without `*` or `?`, as one of its parts? A name of several parts may have others
    /// between them.
    pub fn spells(&self, name: &str) -> bool {
        spell(self.parts.iter().map(String::as_str), name)
    }
}

/// Do these parts of a pattern have every part of a name among them, in its order and without case?
pub(super) fn spell<'a>(mut parts: impl Iterator<Item = &'a str>, name: &str) -> bool {
    name.split('/').all(|wanted| parts.any(|part| part.eq_ignore_ascii_case(wanted)))
}

/// The parts of a pattern for paths, from the root on.
pub(super) struct Parts<'a>(Vec<&'a str>);

impl Parts<'_> {
    /// May a path match that is like `names`? A name of these may have `*` in it, `**` stands for any number of names,
    /// and U+0001 for any characters that do not make a name hidden.
    pub(super) fn overlap<N: AsRef<str>>(&self, names: &[N]) -> bool {
        reach_the_end(self.0.len(), names.len(), &|at_part, at_name| {
            let (part, name) = (self.0.get(at_part).copied(), names.get(at_name).map(AsRef::as_ref));
            let any = |text: Option<&str>| text == Some("**");
            Steps {
                one: any(part) || (any(name) && part.is_some()),
                other: any(name) || (any(part) && name.is_some()),
                both: part.zip(name).is_some_and(|(part, name)| names_overlap(part, name)),
            }
        })
    }

    /// May a path match that lies below this folder, and is not hidden there?
    pub(super) fn shows_below(&self, folder: &[String]) -> bool {
        let shown = WILDCARD.to_string();
        // More names than the pattern has parts are matched by its `**` alone, and fewer are as well.
        (1..=self.0.len() + 1)
            .any(|count| self.overlap(&[folder, vec![shown.clone(); count].as_slice()].concat()))
    }

    /// Does the pattern begin with the names of this folder, and go on?
    pub(super) fn begins_with(&self, folder: &[String]) -> bool {
        self.0.len() > folder.len() && self.0.iter().zip(folder).all(|(part, name)| part == name)
    }
}

/// Is there a name that both match? The second may have [`WILDCARD`] in it.
fn names_overlap(part: &str, name: &str) -> bool {
    if name.starts_with(WILDCARD) && part.starts_with('.') {
        return false;
    }
    overlap(&part.replace('?', "*"), &name.replace(WILDCARD, "*"))
}

fn parts_match(pattern: &[String], names: &[&str]) -> bool {
    // The same way back as for `*` in a name, with `**` for it.
    let (mut p, mut n, mut star) = (0, 0, None);
    while n < names.len() {
        match pattern.get(p).map(String::as_str) {
            Some("**") => {
                star = Some((p, n));
                p += 1;
            }
            Some(part) if name_matches(part, names[n]) => (p, n) = (p + 1, n + 1),
            _ => match star {
                Some((at, taken)) => {
                    star = Some((at, taken + 1));
                    (p, n) = (at + 1, taken + 1);
                }
                None => return false,
            },
        }
    }
    // `src/**` covers what is below `src`, not `src` itself.
    pattern[p..].is_empty()
        || (pattern[p..].iter().all(|part| part == "**") && star.is_some_and(|(at, _)| at + 1 == p))
}

fn name_matches(pattern: &str, name: &str) -> bool {
    if !pattern.contains('?') {
        return matches(pattern, name);
    }
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n, mut star) = (0, 0, None);
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(c) if *c == '?' || *c == name[n] => (p, n) = (p + 1, n + 1),
            _ => match star {
                Some((at, taken)) => {
                    star = Some((at, taken + 1));
                    (p, n) = (at + 1, taken + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: 002-062
    #[test]
    fn a_star_stands_for_any_characters_and_nothing_else_is_special() {
        for (pattern, text) in
            [("*", ""), ("*", "Bash"), ("B*h", "Bash"), ("mcp__*__read", "mcp__a__b__read"), ("a**", "a")]
        {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in
            [("Bash", "bash"), ("Bas", "Bash"), ("B?sh", "Bash"), ("*x", "xa"), ("", "a"), ("[a]", "a")]
        {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn paths_are_matched_from_their_folder_and_part_by_part() {
        let covers = |pattern: &str, path: &str| {
            PathGlob::read(pattern).unwrap().matches(
                Path::new(path),
                Path::new("/home/ada/shop"),
                Some(Path::new("/home/ada")),
            )
        };
        for (pattern, path) in [
            ("src/**", "/home/ada/shop/src/a/b.rs"),
            ("src/", "/home/ada/shop/src/a"),
            ("./src/*.rs", "/home/ada/shop/src/a.rs"),
            ("**", "/home/ada/shop/a"),
            ("**/*.md", "/home/ada/shop/a/b.md"),
            ("**/*.md", "/home/ada/shop/b.md"),
            ("a?c", "/home/ada/shop/aéc"),
            ("/etc/hosts", "/etc/hosts"),
            ("~/notes/*", "/home/ada/notes/a"),
            ("src/**/test/*", "/home/ada/shop/src/a/b/test/c"),
        ] {
            assert!(covers(pattern, path), "{pattern} {path}");
        }
        for (pattern, path) in [
            ("src/**", "/home/ada/shop/src"),
            ("src/**", "/home/ada/shop/srcs/a"),
            ("src/*", "/home/ada/shop/src/a/b"),
            ("**", "/home/ada/other/a"),
            ("*", "/home/ada/shop/a/b"),
            ("etc/hosts", "/etc/hosts"),
            ("/etc", "/etc/hosts"),
        ] {
            assert!(!covers(pattern, path), "{pattern} {path}");
        }
        assert!(PathGlob::read("../x").is_err());
        assert!(PathGlob::read("~root/x").is_err());
    }

    #[test]
    fn a_name_is_spelt_only_without_stars() {
        let spells = |pattern: &str| PathGlob::read(pattern).unwrap().spells(".git");
        assert!(spells(".git/config") && spells("**/.git/**") && spells(".GIT/x"));
        assert!(!spells("**") && !spells(".g*/config") && !spells(".gitignore"));
    }

    #[test]
    fn many_stars_take_no_longer() {
        let (pattern, text) = ("a*".repeat(400), "a".repeat(4000));
        assert!(!matches(&format!("{pattern}b"), &text));
    }
}
