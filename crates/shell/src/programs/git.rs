//! `git`: subcommands that are known, and the options with which they run something.

use std::collections::HashSet;
use std::sync::LazyLock;

use super::options;
use crate::{Hidden, Word};

/// Options before the subcommand without a value.
const GLOBAL_FLAGS: &str = "
    -p -P --paginate --no-pager --no-replace-objects --no-lazy-fetch --no-optional-locks --no-advice --bare
    --literal-pathspecs --glob-pathspecs --noglob-pathspecs --icase-pathspecs --html-path --man-path --info-path
    --version --help -v -h
";

/// Subcommands without any option that runs something.
const HARMLESS: &str = "
    add annotate apply blame branch cat-file check-attr check-ignore check-mailmap check-ref-format cherry
    cherry-pick clean commit commit-graph commit-tree count-objects describe diff-files diff-index diff-tree
    for-each-ref fsck gc get-tar-commit-id hash-object help init log ls-files ls-tree mailinfo mailsplit
    merge merge-base merge-file merge-tree mktag mktree mv name-rev notes pack-objects pack-refs patch-id prune
    prune-packed range-diff read-tree reflog remote repack replace rerere reset restore rev-list rev-parse revert rm
    shortlog show show-branch show-index show-ref sparse-checkout stage stash status stripspace switch checkout
    symbolic-ref tag unpack-objects update-index update-ref var verify-commit verify-pack verify-tag version
    whatchanged worktree write-tree diff format-patch bundle am maintenance column
";

/// Subcommands with options that run something: letters, then long options.
const WITH_OPTIONS: &[(&str, &str, &str)] = &[
    (
        "log diff show whatchanged diff-files diff-index diff-tree format-patch",
        "",
        "ext-diff textconv output",
    ),
    ("grep", "O", "open-files-in-pager textconv ext-grep"),
    ("fetch pull ls-remote fetch-pack", "", "upload-pack exec"),
    ("clone", "uc", "upload-pack config template"),
    ("init", "", "template"),
    ("push send-pack", "", "receive-pack exec"),
    ("archive", "o", "exec remote output"),
    ("rebase", "xi", "exec interactive"),
    ("cat-file", "", "textconv filters"),
];

/// Why it cannot be seen what `git` runs with these arguments.
pub(super) fn check(arguments: &[Word]) -> Option<Hidden> {
    let mut words = arguments;
    loop {
        let [word, rest @ ..] = words else { return None };
        words = rest;
        let Some(text) = word.literal() else { return Some(Hidden::MayBeOption("git".to_owned())) };
        if text == "-C" {
            let [folder, rest @ ..] = words else { return None };
            if folder.may_be_many() {
                return Some(Hidden::MayBeOption("git".to_owned()));
            }
            words = rest;
        } else if text.starts_with('-') {
            if !GLOBAL_FLAGS.split_ascii_whitespace().any(|known| known == text) {
                return Some(Hidden::runs("git", &text));
            }
        } else {
            return subcommand(&text, words);
        }
    }
}

fn subcommand(name: &str, arguments: &[Word]) -> Option<Hidden> {
    // A remote of this kind runs a command.
    if let Some(remote) = arguments.iter().find(|word| word.known_start().contains("ext::")) {
        return Some(Hidden::runs("git", remote.known_start()));
    }
    let is = |list: &str| list.split_ascii_whitespace().any(|known| known == name);
    let first = arguments.first().and_then(Word::literal);
    let first = first.as_deref();
    match name {
        "bisect" if matches!(first, Some("run" | "visualize" | "view")) || first.is_none() => {
            return Some(Hidden::runs("git", "bisect run"));
        }
        "submodule" if !matches!(first, None | Some("status" | "summary")) || unknown(arguments) => {
            return Some(Hidden::runs("git", "submodule"));
        }
        // Setting a value can make any other subcommand run something.
        "config" if !reads_config(arguments) => return Some(Hidden::runs("git", "config")),
        "remote" if matches!(first, Some("add" | "set-url" | "rename")) || unknown(arguments) => {
            return Some(Hidden::runs("git", "remote"));
        }
        "bisect" | "submodule" | "config" => return None,
        _ => {}
    }
    static NAMES: LazyLock<HashSet<&str>> = LazyLock::new(|| HARMLESS.split_ascii_whitespace().collect());
    let mut found = NAMES.contains(name);
    for (_, short, long) in WITH_OPTIONS.iter().filter(|(names, _, _)| is(names)) {
        found = true;
        if let Some(hidden) = options("git", arguments, short, long) {
            return Some(hidden);
        }
    }
    (!found).then(|| Hidden::Subcommand { program: "git".to_owned(), subcommand: name.to_owned() })
}

fn unknown(arguments: &[Word]) -> bool {
    arguments.iter().any(|word| word.literal().is_none())
}

/// Does `git config` only read?
fn reads_config(arguments: &[Word]) -> bool {
    const READS: &str = "--get --get-all --get-regexp --list -l get list --show-origin --show-scope --global --local --system";
    let asks = arguments
        .first()
        .and_then(Word::literal)
        .is_some_and(|first| READS.split(' ').any(|known| known == first));
    let names: Vec<_> = arguments.iter().filter(|word| !word.known_start().starts_with('-')).collect();
    let edits = arguments.iter().any(|word| {
        let start = word.known_start();
        start.starts_with("--") && !READS.split(' ').any(|known| known == start)
            || start == "-e"
            || start == "-f"
    });
    let gets = arguments.iter().any(|word| {
        ["--get", "--get-all", "--get-regexp", "--list", "-l", "get", "list"].iter().any(|get| word.is(get))
    });
    !unknown(arguments) && !edits && ((asks && gets) || (names.len() == 1 && arguments.len() == 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Unknown;

    fn check(text: &str) -> Option<Hidden> {
        let words: Vec<Word> = text
            .split(' ')
            .map(
                |text| {
                    if text == "$X" { Word::from_unknown(Unknown::Variable) } else { Word::from_text(text) }
                },
            )
            .collect();
        super::check(&words)
    }

    #[test]
    fn everyday_subcommands_are_seen() {
        for text in [
            "status",
            "-C x status",
            "--no-pager log -5",
            "commit -m $X",
            "push origin main --force",
            "config --get user.name",
            "config user.name",
            "submodule status",
            "rebase main",
            "stash pop",
            "remote -v",
        ] {
            assert_eq!(check(text), None, "{text}");
        }
    }

    #[test]
    fn options_that_run_something_are_hidden() {
        for text in [
            "-c core.pager=x log",
            "--exec-path=x status",
            "--config-env=a=B log",
            "--git-dir=x status",
            "diff --ext-diff",
            "diff --ext",
            "log --output=f",
            "grep -Oless x",
            "fetch --upload-pack=x",
            "rebase -x id main",
            "bisect run make",
            "submodule foreach id",
            "filter-branch --all",
            "config core.pager x",
            "config --global alias.x !id",
            "clone ext::sh x",
            "push --receive-pack=x",
            "difftool -x id",
            "foo",
            "$X",
            "fetch $X",
        ] {
            assert!(check(text).is_some(), "{text}");
        }
    }
}
