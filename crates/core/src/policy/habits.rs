//! Habits: what well-known programs do with the files that their words name.
//!
//! For rules about files. It is not exact, and need not be: what is not sure is asked.

use super::cover::Cover;

/// What a program does with a file that a word names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Habit {
    /// Does it read what is in the file?
    pub(super) reads: Cover,
    /// Does it change the file?
    pub(super) changes: Cover,
    /// The same for its last word, such as the target of a copy.
    pub(super) changes_last: Cover,
    /// It reads everything below a folder, or changes it.
    pub(super) goes_below: bool,
    /// What it does below a folder changes nothing there, as far as its words tell.
    pub(super) only_reads_below: bool,
    /// It takes the folder in which it runs if no word names one.
    pub(super) starts_here: bool,
    /// It leaves out what is hidden.
    pub(super) skips_hidden: bool,
    /// Its first word is no file but a pattern, or a program in a language of its own.
    pub(super) pattern_first: bool,
    /// Its words are files, so that a word that is not known may be any file.
    pub(super) is_known: bool,
}

/// It does nothing with files.
const NOTHING: Habit = Habit {
    reads: Cover::No,
    changes: Cover::No,
    changes_last: Cover::No,
    goes_below: false,
    only_reads_below: false,
    starts_here: false,
    skips_hidden: false,
    pattern_first: false,
    is_known: true,
};

const READS: Habit = Habit { reads: Cover::Yes, ..NOTHING };
const CHANGES: Habit = Habit { changes: Cover::Yes, changes_last: Cover::Yes, ..NOTHING };
const BOTH: Habit = Habit { reads: Cover::Yes, ..CHANGES };

/// Of other programs only this is known: a word that is a file may be read, and may be changed.
const OTHER: Habit = Habit {
    reads: Cover::Yes,
    changes: Cover::Maybe,
    changes_last: Cover::Maybe,
    is_known: false,
    ..NOTHING
};

/// Programs that show the names of files, or use no files.
const NAMERS: &str = "echo printf pwd which type basename dirname realpath readlink whoami id uname true false test [ \
     seq cd ls stat du df tree sleep kill date export";

/// Programs that read files and change none.
const READERS: &str = "cat head tail tac rev wc cut tr nl comm diff cmp file md5sum sha1sum sha224sum sha256sum sha384sum \
     sha512sum b2sum cksum sum od hexdump strings base64 base32 column fold fmt paste join less more zcat bat";

/// Programs that search files for a pattern.
const SEARCHERS: &str = "grep egrep fgrep zgrep rg ag ack";

/// Programs whose first word is a program in a language of their own.
const LANGUAGES: &str = "sed gsed awk gawk mawk nawk jq";

/// Programs that change files and do not show them.
const CHANGERS: &str = "rm rmdir unlink shred truncate touch mkdir chmod chown chgrp tee";

/// Programs that copy the first files to the last.
const COPIERS: &str = "cp install ln rsync scp";

/// Programs that pack files, or unpack them.
const PACKERS: &str = "tar zip 7z cpio gzip bzip2 xz zstd";

/// Subcommands of Git that record files and change none on the disk.
const GIT_RECORDS: &str = "add commit push stash";

/// Subcommands of Git that change files.
const GIT_CHANGES: &str = "rm mv restore checkout reset clean apply am switch merge rebase";

/// The habit of the program of this name, with these words behind it.
pub(super) fn of(program: &str, words: &[&str], only_reads: bool) -> Habit {
    let is = |list: &str| list.split_ascii_whitespace().any(|known| known == program);
    let flags = || words.iter().take_while(|word| **word != "--").filter(|word| word.starts_with('-'));
    // Letters count in any group of them, and the beginning of a long option as the option.
    let has = |letters: &str, long: &str| {
        flags().any(|flag| match flag.strip_prefix("--") {
            Some(name) => {
                let name = name.split('=').next().unwrap_or(name);
                !name.is_empty() && long.split_ascii_whitespace().any(|known| known.starts_with(name))
            }
            None => flag.contains(|letter| letters.contains(letter)),
        })
    };
    if is(NAMERS) {
        return NOTHING;
    }
    if is(READERS) {
        return Habit { goes_below: program == "diff" && has("r", "recursive"), ..READS };
    }
    if is(SEARCHERS) {
        let ignores = !program.ends_with("grep");
        let recursive = ignores || has("rRd", "recursive dereference-recursive directories");
        return Habit {
            goes_below: recursive,
            starts_here: recursive,
            skips_hidden: ignores && !has("u.", "hidden unrestricted no-ignore"),
            pattern_first: !has("ef", "regexp file files"),
            ..READS
        };
    }
    if is(LANGUAGES) {
        let changes = if !program.ends_with("sed") {
            Cover::No
        } else if flags().any(|flag| flag.starts_with("-i") || flag.starts_with("--in-place")) {
            Cover::Yes
        } else if has("i", "in-place") {
            Cover::Maybe
        } else {
            Cover::No
        };
        let pattern_first = !has("ef", "expression file from-file");
        return Habit { changes, changes_last: changes, pattern_first, ..READS };
    }
    if is(CHANGERS) {
        return Habit { goes_below: has("rR", "recursive"), ..CHANGES };
    }
    if is(COPIERS) {
        let goes_below = program == "rsync" || has("raR", "recursive archive");
        if has("t", "target-directory") {
            return Habit { changes: Cover::Maybe, changes_last: Cover::Maybe, goes_below: true, ..READS };
        }
        return Habit { changes_last: Cover::Yes, goes_below, ..READS };
    }
    if is(PACKERS) {
        let changes = Cover::Maybe;
        return Habit { changes, changes_last: changes, goes_below: true, only_reads_below: true, ..READS };
    }
    match program {
        "mv" => Habit { goes_below: true, ..BOTH },
        "sort" if !has("o", "output") => READS,
        "sort" | "uniq" | "xxd" | "split" => {
            Habit { changes: Cover::Maybe, changes_last: Cover::Maybe, ..READS }
        }
        "find" | "fd" => {
            let changes = if words.contains(&"-delete") { Cover::Maybe } else { Cover::No };
            Habit { changes, changes_last: changes, goes_below: true, starts_here: true, ..NOTHING }
        }
        "git" => {
            let sub = git_subcommand(words).map(|at| words[at]);
            let is_called = |list: &str| sub.is_some_and(|sub| list.split(' ').any(|known| known == sub));
            if is_called("grep") {
                Habit { goes_below: true, starts_here: true, pattern_first: true, ..READS }
            } else if is_called(GIT_RECORDS) {
                Habit { reads: Cover::Maybe, ..NOTHING }
            } else if is_called(GIT_CHANGES) {
                Habit { changes: Cover::Maybe, changes_last: Cover::Maybe, goes_below: true, ..NOTHING }
            } else if only_reads {
                READS
            } else {
                OTHER
            }
        }
        _ if only_reads => READS,
        _ => OTHER,
    }
}

/// Where the subcommand of Git stands.
pub(super) fn git_subcommand(words: &[&str]) -> Option<usize> {
    let is_value = |at: usize| at > 0 && matches!(words[at - 1], "-C" | "-c");
    (0..words.len()).find(|at| !words[*at].starts_with('-') && !is_value(*at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn habit(command: &str) -> Habit {
        let words: Vec<&str> = command.split(' ').collect();
        of(words[0], &words[1..], false)
    }

    #[test]
    fn programs_read_or_change_what_they_are_known_for() {
        use Cover::{Maybe, No, Yes};
        for (command, reads, changes, last) in [
            ("echo x", No, No, No),
            ("cat x", Yes, No, No),
            ("sed s/a/b/ x", Yes, No, No),
            ("sed -i s/a/b/ x", Yes, Yes, Yes),
            ("sed -ni s/a/b/ x", Yes, Maybe, Maybe),
            ("rm x", No, Yes, Yes),
            ("cp a b", Yes, No, Yes),
            ("cp -t b a", Yes, Maybe, Maybe),
            ("mv a b", Yes, Yes, Yes),
            ("sort x", Yes, No, No),
            ("sort -o x x", Yes, Maybe, Maybe),
            ("git add x", Maybe, No, No),
            ("git checkout x", No, Maybe, Maybe),
            ("prettier x", Yes, Maybe, Maybe),
        ] {
            let habit = habit(command);
            assert_eq!((habit.reads, habit.changes, habit.changes_last), (reads, changes, last), "{command}");
        }
    }

    #[test]
    fn searches_go_below_folders() {
        for (command, goes_below, starts_here, skips_hidden) in [
            ("grep x", false, false, false),
            ("grep -rn x", true, true, false),
            ("grep --rec x", true, true, false),
            ("rg x", true, true, true),
            ("rg --hidden x", true, true, false),
            ("rg -uu x", true, true, false),
            ("cp -r a b", true, false, false),
            ("tar c a", true, false, false),
            ("cat a", false, false, false),
        ] {
            let habit = habit(command);
            let found = (habit.goes_below, habit.starts_here, habit.skips_hidden);
            assert_eq!(found, (goes_below, starts_here, skips_hidden), "{command}");
        }
    }
}
