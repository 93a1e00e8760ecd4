//! Globs: `*` in names, and `*`, `?` and `**` in paths. Matching never takes longer than the product of both lengths.

use std::path::{Component, Path};

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

    /// Does the pattern spell this name, without `*` or `?`, as one of its parts?
    pub fn spells(&self, name: &str) -> bool {
        self.parts.iter().any(|part| part.eq_ignore_ascii_case(name))
    }
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
