//! The real Bash as the judge: what it accepts, and which programs it runs.
//!
//! Commands run in an empty folder with a `PATH` of recorders: every program there writes down its words and does
//! nothing else. Wrappers and shells are the real ones, so that what is behind them is recorded.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use portolan_shell::{Command as Read, Part, Piece, Script, Word};

/// Programs that only write down how they were called.
const RECORDERS: &[&str] =
    &["a", "b", "c", "d", "git", "rm", "ls", "grep", "make", "sudo", "ssh", "python", "tee", "curl", "cat"];

/// Programs that run others.
const REAL: &[&str] = &[
    "sh", "bash", "dash", "env", "timeout", "nice", "nohup", "stdbuf", "setsid", "xargs", "find", "flock",
    "ionice", "chrt", "taskset",
];

const RECORDER: &str =
    "#!/bin/sh\nprintf '%s\\0' \"${0##*/}\" \"$@\" > \"$RECORDER_LOG/$$\"\nprintf 'out put\\n'\n";

/// Is there a Bash to compare with, of an age that knows everything that is read here?
pub(crate) fn is_there() -> bool {
    let version = Command::new("/bin/bash").args(["-c", "printf %s \"${BASH_VERSINFO[0]}\""]).output();
    version.is_ok_and(|output| output.stdout.first().is_some_and(|digit| (b'5'..=b'9').contains(digit)))
}

/// Does Bash take the text for a command line?
pub(crate) fn accepts(text: &str) -> bool {
    let output = Command::new("/bin/bash")
        .args(["--norc", "--noprofile", "-n", "-c", "--", text])
        .env_clear()
        .stdin(Stdio::null())
        .output()
        .expect("bash starts");
    // Of an error in `[[ ]]` Bash only tells, and ends well.
    output.status.success() && output.stderr.is_empty()
}

/// A folder in which commands are run and recorded.
pub(crate) struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let programs = folder.path().join("bin");
        fs::create_dir(&programs).expect("a folder for programs");
        for name in RECORDERS {
            let path = programs.join(name);
            fs::write(&path, RECORDER).expect("a recorder");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a program");
        }
        for name in REAL {
            let real = ["/bin", "/usr/bin"]
                .iter()
                .map(|place| Path::new(place).join(name))
                .find(|path| path.exists());
            if let Some(real) = real {
                symlink(real, programs.join(name)).expect("a link");
            }
        }
        Self { folder }
    }

    /// The words of every recorder that Bash ran.
    pub(crate) fn run(&self, text: &str) -> Vec<Vec<String>> {
        let log = tempfile::tempdir_in(self.folder.path()).expect("a log");
        let work = tempfile::tempdir_in(self.folder.path()).expect("an empty folder");
        Command::new("/usr/bin/timeout")
            .args(["5", "/bin/bash", "--norc", "--noprofile", "-c", "--", text])
            .env_clear()
            .env("PATH", self.folder.path().join("bin"))
            .env("HOME", work.path())
            .env("RECORDER_LOG", log.path())
            .current_dir(work.path())
            .stdin(Stdio::null())
            .output()
            .expect("bash runs");
        // Bash does not wait for what runs in the background; its pipes are closed by then, so it has ended.
        let mut runs = Vec::new();
        for entry in fs::read_dir(log.path()).expect("a log").flatten() {
            let bytes = fs::read(entry.path()).expect("a record");
            let text = String::from_utf8_lossy(&bytes).into_owned();
            runs.push(text.split_terminator('\0').map(str::to_owned).collect());
        }
        runs
    }
}

/// The commands of a script.
pub(crate) fn commands(script: &Script) -> impl Iterator<Item = &Read> {
    script.parts.iter().filter_map(|part| if let Part::Run(command) = part { Some(command) } else { None })
}

/// What Bash ran and the reading does not name. Empty if something is hidden: then nothing is promised.
pub(crate) fn missing(script: &Script, runs: &[Vec<String>]) -> Vec<Vec<String>> {
    if commands(script).any(|command| !command.hidden.is_empty()) {
        return Vec::new();
    }
    let found = |run: &Vec<String>| commands(script).any(|command| is_run(&command.words, run));
    runs.iter().filter(|run| !found(run)).cloned().collect()
}

/// May these words become those that were run?
fn is_run(words: &[Word], run: &[String]) -> bool {
    let [first, rest @ ..] = words else { return run.is_empty() };
    if first.may_be_many() {
        return (0..=run.len()).any(|taken| is_run(rest, &run[taken..]));
    }
    match run {
        [word, others @ ..] => is_text(&first.pieces, word) && is_run(rest, others),
        [] => false,
    }
}

fn is_text(pieces: &[Piece], text: &str) -> bool {
    match pieces {
        [] => text.is_empty(),
        [Piece::Literal(literal), rest @ ..] => {
            text.strip_prefix(literal.as_str()).is_some_and(|text| is_text(rest, text))
        }
        [Piece::Unknown(_), rest @ ..] => {
            text.char_indices().map(|(at, _)| at).chain([text.len()]).any(|at| is_text(rest, &text[at..]))
        }
    }
}
