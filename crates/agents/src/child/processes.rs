//! The processes of this machine, as far as `/proc` shows them: whose they are, and how to end those that an agent left
//! behind.
//!
//! A process is named by its number *and* its start time, because numbers are used again. A signal goes through a
//! handle of exactly the process that was checked, if the kernel has such handles (Linux 5.3 and newer).

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    fs,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use portolan_core::SessionId;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};

use super::environment::MARKER;

/// A process may start another between the check and its end, so a sweep looks again until it finds nothing, up to this
/// many times.
const PASSES: usize = 10;

/// Between two passes: time for the kernel to remove the killed processes from the list.
const BETWEEN_PASSES: Duration = Duration::from_millis(20);

/// How many ancestors of a process are checked.
const MAX_ANCESTORS: usize = 256;

/// A process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// When it started, in ticks since the machine started; number and start time together name one process for ever.
    pub started: u64,
}

/// A process that a sweep ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Swept {
    /// The process.
    pub process: Process,
    /// The marker that it carried.
    pub marker: String,
    /// Its program's name.
    pub name: String,
}

/// The needed fields of `/proc/<pid>/stat`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stat {
    name: String,
    state: char,
    parent: u32,
    /// The process has begun to end, and no longer runs its program.
    ending: bool,
    started: u64,
}

/// The kernel's flag for a process that has begun to end.
const PF_EXITING: u64 = 0x4;

/// Reads the line of `/proc/<pid>/stat`. The name stands in brackets and may itself contain brackets and spaces.
fn parse_stat(line: &str) -> Option<Stat> {
    let (open, close) = (line.find('(')?, line.rfind(')')?);
    let fields: Vec<&str> = line.get(close + 1..)?.split_whitespace().collect();
    Some(Stat {
        name: line.get(open + 1..close)?.to_owned(),
        state: fields.first()?.chars().next()?,
        parent: fields.get(1)?.parse().ok()?,
        ending: fields.get(6)?.parse::<u64>().ok()? & PF_EXITING != 0,
        // The 22nd field of the line; the first two are before these.
        started: fields.get(19)?.parse().ok()?,
    })
}

fn stat(pid: u32) -> Option<Stat> {
    // The name of a program need not be UTF-8.
    parse_stat(&String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/stat")).ok()?))
}

/// The marker in a block of `NAME=value` pieces, each ended by NUL.
fn marker_in(environ: &[u8]) -> Option<String> {
    let mut variables = environ.split(|byte| *byte == 0);
    let value =
        variables.find_map(|variable| variable.strip_prefix(MARKER.as_bytes())?.strip_prefix(b"="))?;
    Some(String::from_utf8_lossy(value).into_owned())
}

/// The marker of a process; none if it has none, or if Portolan may not read it.
fn marker(pid: u32) -> Option<String> {
    marker_in(&fs::read(format!("/proc/{pid}/environ")).ok()?)
}

fn every_pid() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

impl Process {
    /// The process with this number, as it is now.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        Some(Self { pid, started: stat(pid)?.started })
    }

    /// Whether it still runs. A process that has ended and waits to be reaped does not.
    pub fn runs(self) -> bool {
        self.stat().is_some_and(|stat| !matches!(stat.state, 'Z' | 'X'))
    }

    /// Whether it can still read and write. A process that has begun to end cannot, but the kernel needs a while to
    /// free its memory: until then it is listed as running, has its files open, and shows no environment that would
    /// identify it.
    pub(crate) fn works(self) -> bool {
        self.runs() && self.stat().is_some_and(|stat| !stat.ending)
    }

    fn stat(self) -> Option<Stat> {
        stat(self.pid).filter(|stat| stat.started == self.started)
    }

    /// Ends the process at once, if it is still the same.
    pub fn kill(self) {
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else { return };
        match pidfd_open(pid, PidfdFlags::empty()) {
            // The handle was opened first: the process checked now is the one behind the handle, or it is gone.
            Ok(handle) if self.runs() => drop(pidfd_send_signal(handle, Signal::KILL)),
            Err(rustix::io::Errno::NOSYS) if self.runs() => drop(kill_process(pid, Signal::KILL)),
            _ => {}
        }
    }
}

/// The children of a process. None if the kernel does not list them, or the process is gone.
fn children(pid: u32) -> Option<Vec<u32>> {
    let mut children = vec![];
    for thread in fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
        let list = fs::read_to_string(thread.path().join("children")).ok()?;
        children.extend(list.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
    }
    Some(children)
}

/// Every process that has `pid` among its ancestors.
pub(crate) fn descendants(pid: u32) -> Vec<Process> {
    let mut found: Vec<Process> = vec![];
    let mut next = vec![pid];
    while let Some(parent) = next.pop() {
        for child in children(parent).unwrap_or_default() {
            let known = found.iter().any(|process| process.pid == child);
            if let Some(process) = Process::of(child).filter(|_| !known) {
                next.push(child);
                found.push(process);
            }
        }
    }
    found
}

/// The process and its ancestors, nearest first.
fn ancestry(pid: u32) -> Vec<u32> {
    let mut line = vec![];
    let mut at = pid;
    while at > 1 && line.len() < MAX_ANCESTORS && !line.contains(&at) {
        line.push(at);
        let Some(stat) = stat(at) else { break };
        at = stat.parent;
    }
    line
}

/// Whether this process is an agent of the home with this key, or was started by one.
///
/// It finds processes that do not hide: a program can drop the marker and its parent. The security model describes the
/// rest.
pub fn descends_from_agent(pid: u32, home_key: &str) -> bool {
    let beginning = format!("{home_key}.");
    ancestry(pid).into_iter().any(|pid| marker(pid).is_some_and(|marker| marker.starts_with(&beginning)))
}

/// Whether this process itself carries the marker of an agent, of whatever home: the end of that agent ends it too.
pub fn is_marked(pid: u32) -> bool {
    marker(pid).is_some()
}

/// Whether this process works for somebody other than the home with this key.
///
/// The check whether it works comes last: the owner of a process is unknown from the moment it begins to end.
pub(crate) fn works_for_another(pid: u32, home_key: &str) -> bool {
    !descends_from_agent(pid, home_key) && Process::of(pid).is_some_and(Process::works)
}

/// The processes that have wanted files open, by file, as far as Portolan may see their files. Without agents of the
/// home with this key: its sessions know of each other. Blocks.
pub(crate) fn holders(home_key: &str, wanted: impl Fn(&Path) -> bool) -> HashMap<PathBuf, u32> {
    let mut found = HashMap::new();
    for pid in every_pid().into_iter().filter(|pid| *pid != std::process::id()) {
        let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let open = files.filter_map(|file| fs::read_link(file.path()).ok()).filter(|path| wanted(path));
        let mut open = open.peekable();
        if open.peek().is_some() && works_for_another(pid, home_key) {
            found.extend(open.map(|path| (path, pid)));
        }
    }
    found
}

/// Ends every process with a marker of the home with this key: those that an earlier daemon left behind. Blocks for as
/// long as that takes, a second at most.
pub fn sweep(home_key: &str) -> Vec<Swept> {
    sweep_sparing(home_key, &BTreeSet::new())
}

/// Like [`sweep`], but spares the processes of these sessions.
pub fn sweep_sparing(home_key: &str, spared: &BTreeSet<SessionId>) -> Vec<Swept> {
    let beginning = format!("{home_key}.");
    let spared: Vec<String> = spared.iter().map(|session| format!("{session}.")).collect();
    sweep_where(|marker| {
        let session = marker.strip_prefix(&beginning);
        session.is_some_and(|session| !spared.iter().any(|spared| session.starts_with(spared)))
    })
}

/// Ends every process that works for this session of the home with this key. Blocks like [`sweep`].
pub fn sweep_session(home_key: &str, session: SessionId) -> Vec<Swept> {
    let beginning = format!("{home_key}.{session}.");
    sweep_where(|marker| marker.starts_with(&beginning))
}

/// Ends every process whose marker `belongs`. Never this process or one of its ancestors.
pub(crate) fn sweep_where(belongs: impl Fn(&str) -> bool) -> Vec<Swept> {
    let spared: HashSet<u32> = ancestry(std::process::id()).into_iter().collect();
    let mut swept: Vec<Swept> = vec![];
    for pass in 0..PASSES {
        if pass > 0 {
            thread::sleep(BETWEEN_PASSES);
        }
        let mut found = false;
        for pid in every_pid().into_iter().filter(|pid| !spared.contains(pid)) {
            let Some(stat) = stat(pid).filter(|stat| stat.state != 'Z') else { continue };
            let Some(marker) = marker(pid).filter(|marker| belongs(marker)) else { continue };
            let process = Process { pid, started: stat.started };
            process.kill();
            found = true;
            if !swept.iter().any(|known| known.process == process) {
                swept.push(Swept { process, marker, name: stat.name });
            }
        }
        if !found {
            break;
        }
    }
    swept
}

/// A marker for one child: home, session, and a random part.
pub(crate) fn new_marker(home_key: &str, session: SessionId) -> String {
    format!("{home_key}.{session}.{}", uuid::Uuid::new_v4().simple())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_does_not_confuse_the_line() {
        let line = "42 (a) b (c)) S 7 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 98765 1 2";
        let expected = Stat { name: "a) b (c)".into(), state: 'S', parent: 7, ending: false, started: 98765 };
        assert_eq!(parse_stat(line), Some(expected));
        assert!(parse_stat(&line.replace("4194560", "4194564")).unwrap().ending);
        assert_eq!(parse_stat("42 ("), None);
        assert_eq!(parse_stat(""), None);
    }

    #[test]
    fn a_marker_is_a_whole_variable() {
        assert_eq!(marker_in(b"A=1\0PORTOLAN_CHILD=k.s.r\0B=2\0").as_deref(), Some("k.s.r"));
        assert_eq!(marker_in(b"XPORTOLAN_CHILD=k\0PORTOLAN_CHILDREN=k\0A=PORTOLAN_CHILD=k\0"), None);
        assert_eq!(marker_in(b""), None);
    }

    #[test]
    fn this_process_runs_and_one_with_another_start_time_does_not() {
        let this = Process::of(std::process::id()).unwrap();
        assert!(this.runs());
        assert!(!Process { started: this.started + 1, ..this }.runs());
        // If it counted as the same process, this test would not survive.
        Process { started: this.started + 1, ..this }.kill();
    }

    #[test]
    fn a_file_that_another_process_has_open_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().join("talk.jsonl");
        let file = fs::File::create(&path).unwrap();
        let mut command = std::process::Command::new("sleep");
        #[expect(clippy::disallowed_methods, reason = "no agent: something that holds a file")]
        let mut other = command.arg("600").stdin(file).spawn().unwrap();
        let held = holders("no-such-home", |open| open == path);
        other.kill().unwrap();
        other.wait().unwrap();
        assert_eq!(held, HashMap::from([(path.clone(), other.id())]));
        assert_eq!(holders("no-such-home", |open| open == path), HashMap::new(), "nobody has it now");
    }

    #[test]
    fn an_ending_agent_of_portolan_never_counts_as_another_program() {
        let memory = 256 << 20;
        let mut command = std::process::Command::new("dd");
        command.args(["if=/dev/zero", "of=/dev/null", &format!("bs={memory}")]);
        command.env(MARKER, "a-home.session.secret").stderr(std::process::Stdio::null());
        #[expect(clippy::disallowed_methods, reason = "no agent: something that takes long to end")]
        let mut agent = command.spawn().unwrap();
        let resident = || {
            let pages = fs::read_to_string(format!("/proc/{}/statm", agent.id())).unwrap();
            pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
        };
        while resident() < memory {
            thread::sleep(Duration::from_millis(5));
        }
        let process = Process::of(agent.id()).unwrap();
        assert!(!works_for_another(process.pid, "a-home"));
        assert!(works_for_another(process.pid, "another-home"));
        process.kill();
        let mut looks = 0;
        while process.runs() {
            looks += 1;
            assert!(!works_for_another(process.pid, "a-home"), "after {looks} looks");
        }
        agent.wait().unwrap();
        assert!(looks > 0, "it had ended before the first look, and nothing was shown");
    }

    #[test]
    fn this_process_descends_from_no_agent_of_an_unknown_home() {
        assert!(!descends_from_agent(std::process::id(), "no-such-home"));
        assert_eq!(sweep("no-such-home"), []);
    }
}
