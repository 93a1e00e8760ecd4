//! Commands that Portolan runs for an agent: each is a supervised process with its output, and ends with the agent at
//! the latest.

use std::{
    collections::HashMap,
    ffi::OsString,
    os::fd::{AsRawFd as _, OwnedFd},
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use portolan_core::ports::Boxed;
use portolan_wire::jsonrpc::Error;
use serde_json::{Value, json};
use tokio::{
    io::AsyncReadExt as _,
    process::ChildStdout,
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    task::JoinHandle,
    time::timeout,
};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{House, NOT_FOUND, invalid};
use crate::{
    child::{Child, Program, environment},
    driver::Done,
};

/// The open terminals of one agent. An agent that keeps more does not release them.
const MAX_TERMINALS: usize = 32;

/// How much of a terminal's output is kept at most: its end. The agent may ask for less.
const KEPT: usize = 1024 * 1024;

/// When a command has ended, its output is in the pipe; only a process that it left behind keeps the pipe open longer.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// A command to run.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) command: String,
    pub(super) args: Vec<String>,
    pub(super) env: Vec<(String, String)>,
    pub(super) folder: Option<PathBuf>,
    /// How many bytes of its output to keep.
    pub(super) kept: Option<u64>,
}

/// The terminals of one agent.
#[derive(Debug)]
pub(super) struct Terminals {
    house: House,
    count: u64,
    open: Arc<Mutex<HashMap<String, Terminal>>>,
    /// A permit for each terminal that may be open. It is taken before the command starts: several commands may start
    /// at once.
    places: Arc<Semaphore>,
}

#[derive(Debug)]
struct Terminal {
    output: Arc<Mutex<Output>>,
    exit: watch::Receiver<Option<Exit>>,
    kill: CancellationToken,
    /// Ends the command when the terminal is dropped in any way.
    _ends: DropGuard,
    life: JoinHandle<()>,
    _place: OwnedSemaphorePermit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Exit {
    code: Option<i32>,
    signal: Option<i32>,
}

impl Exit {
    fn told(self) -> Value {
        json!({ "exitCode": self.code, "signal": self.signal.map(|signal| signal.to_string()) })
    }
}

/// The end of the output.
#[derive(Debug)]
struct Output {
    bytes: Vec<u8>,
    cut: bool,
    most: usize,
}

impl Output {
    fn add(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        let over = self.bytes.len().saturating_sub(self.most);
        if over > 0 {
            self.cut = true;
            self.bytes.drain(..over);
        }
    }

    fn text(&self) -> String {
        // A character whose first bytes were cut off is dropped whole.
        let broken = |byte: &&u8| self.cut && **byte & 0xC0 == 0x80;
        let start = self.bytes.iter().take(4).take_while(broken).count();
        String::from_utf8_lossy(self.bytes.get(start..).unwrap_or_default()).into_owned()
    }

    fn told(&self, exit: Option<Exit>) -> Value {
        let mut told = json!({ "output": self.text(), "truncated": self.cut });
        if let Some(exit) = exit {
            told["exitStatus"] = exit.told();
        }
        told
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn ready(done: Done) -> Boxed<'static, Done> {
    Box::pin(std::future::ready(done))
}

fn unknown(terminal: &str) -> Error {
    let message = format!("Resource not found: there is no terminal `{terminal}`");
    Error { code: NOT_FOUND, message, data: None }
}

impl Terminals {
    pub(super) fn new(house: House) -> Self {
        Self { house, count: 0, open: Arc::default(), places: Arc::new(Semaphore::new(MAX_TERMINALS)) }
    }

    pub(super) fn create(&mut self, wanted: Wanted) -> Boxed<'static, Done> {
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            return ready(Err(invalid(format!("{MAX_TERMINALS} terminals are open; release one first"))));
        };
        let (program, folder) = match self.program(&wanted) {
            Ok(program) => program,
            Err(error) => return ready(Err(error)),
        };
        self.count += 1;
        let (name, house, open) =
            (format!("terminal-{}", self.count), self.house.clone(), Arc::clone(&self.open));
        let most = wanted.kept.map_or(KEPT, |kept| usize::try_from(kept).unwrap_or(KEPT).min(KEPT));
        Box::pin(async move {
            let started = Child::start(program, &house.home_key, house.session).await;
            drop(folder);
            let (child, pipes) = started.map_err(|error| Error {
                code: Error::INTERNAL,
                message: error.to_string(),
                data: None,
            })?;
            // The command has no input.
            drop(pipes.input);
            let output = Arc::new(Mutex::new(Output { bytes: vec![], cut: false, most }));
            let (exited, exit) = watch::channel(None);
            let kill = CancellationToken::new();
            let life = live(child, pipes.output, Arc::clone(&output), exited, kill.clone());
            let guard = kill.clone().drop_guard();
            let life = tokio::spawn(life);
            let terminal = Terminal { output, exit, kill, _ends: guard, life, _place: place };
            lock(&open).insert(name.clone(), terminal);
            Ok(json!({ "terminalId": name }))
        })
    }

    /// What to start: the command by its arguments, or a shell if the command is a shell line. Both streams are one.
    /// The folder is opened, and named by its descriptor: its path may lead elsewhere by the time the command begins.
    /// The caller holds the folder until then.
    fn program(&self, wanted: &Wanted) -> Result<(Program, OwnedFd), Error> {
        if wanted.command.trim().is_empty() {
            return Err(invalid("`command` is missing".into()));
        }
        let rooms = &self.house.rooms;
        let opened = rooms.open_folder(wanted.folder.as_ref().unwrap_or(&rooms.folder))?;
        // The child also has the folder open, until its own program begins.
        let folder = PathBuf::from(format!("/proc/self/fd/{}", opened.as_raw_fd()));
        let mut environment = self.house.environment.clone();
        for (name, value) in &wanted.env {
            environment::admit(name, value).map_err(|refused| invalid(refused.to_string()))?;
            environment.variables.retain(|(known, _)| known != name.as_str());
            environment.variables.push((name.into(), value.into()));
        }
        let is_line = wanted.args.is_empty() && wanted.command.contains(char::is_whitespace);
        let script = if is_line { "exec 2>&1; eval \"$0\"" } else { "exec \"$0\" \"$@\" 2>&1" };
        let mut command: Vec<OsString> =
            vec!["sh".into(), "-c".into(), script.into(), (&wanted.command).into()];
        command.extend(wanted.args.iter().map(OsString::from));
        Ok((Program { agent: self.house.agent.clone(), command, folder, environment }, opened))
    }

    pub(super) fn output(&self, terminal: &str) -> Boxed<'static, Done> {
        let open = lock(&self.open);
        let told = open.get(terminal).map(|terminal| {
            let exit = *terminal.exit.borrow();
            lock(&terminal.output).told(exit)
        });
        ready(told.ok_or_else(|| unknown(terminal)))
    }

    pub(super) fn wait(&self, terminal: &str) -> Boxed<'static, Done> {
        let Some(mut exit) = lock(&self.open).get(terminal).map(|terminal| terminal.exit.clone()) else {
            return ready(Err(unknown(terminal)));
        };
        Box::pin(async move {
            let exit = exit.wait_for(Option::is_some).await.ok().and_then(|exit| *exit);
            Ok(exit.unwrap_or(Exit { code: None, signal: None }).told())
        })
    }

    pub(super) fn kill(&self, terminal: &str) -> Boxed<'static, Done> {
        let open = lock(&self.open);
        let killed = open.get(terminal).map(|terminal| terminal.kill.cancel());
        ready(killed.map(|()| json!({})).ok_or_else(|| unknown(terminal)))
    }

    /// Ends the command, and returns its output.
    pub(super) fn release(&self, terminal: &str) -> Boxed<'static, Done> {
        let Some(released) = lock(&self.open).remove(terminal) else { return ready(Err(unknown(terminal))) };
        Box::pin(async move {
            released.kill.cancel();
            // The task ends itself, within the bounds of a killed process.
            let _ = released.life.await;
            let exit = *released.exit.borrow();
            Ok(lock(&released.output).told(exit))
        })
    }

    pub(super) fn close(self) -> Boxed<'static, ()> {
        Box::pin(async move {
            let left: Vec<_> = lock(&self.open).drain().map(|(_, terminal)| terminal).collect();
            for terminal in &left {
                terminal.kill.cancel();
            }
            for terminal in left {
                let _ = terminal.life.await;
            }
        })
    }
}

/// A command's life: its output is kept until it ends, by itself or not.
async fn live(
    child: Child,
    mut pipe: ChildStdout,
    output: Arc<Mutex<Output>>,
    exited: watch::Sender<Option<Exit>>,
    kill: CancellationToken,
) {
    let mut bytes = vec![0; 16 * 1024];
    let mut is_open = true;
    loop {
        // Every arm is cancel-safe.
        tokio::select! {
            biased;
            () = kill.cancelled() => break,
            // A process that it left behind may print for ever.
            () = child.ended() => break,
            read = pipe.read(&mut bytes), if is_open => match read {
                Ok(count @ 1..) => lock(&output).add(bytes.get(..count).unwrap_or_default()),
                _ => is_open = false,
            },
        }
    }
    let (status, _) = child.end(vec![]).await;
    let rest = async {
        while let Ok(count @ 1..) = pipe.read(&mut bytes).await {
            lock(&output).add(bytes.get(..count).unwrap_or_default());
        }
    };
    // Output that cannot be read by then is dropped.
    let _ = timeout(LAST_WORDS, rest).await;
    let status = status.ok();
    let signal = status.and_then(|status| std::os::unix::process::ExitStatusExt::signal(&status));
    let _ = exited.send(Some(Exit { code: status.and_then(|status| status.code()), signal }));
}

#[cfg(test)]
mod tests {
    use portolan_core::SessionId;

    use super::*;
    use crate::{
        Environment,
        acp::{Serves, desk::Rooms},
    };

    fn terminals(folder: &std::path::Path) -> Terminals {
        let path = std::env::var_os("PATH").unwrap();
        Terminals::new(House {
            agent: "harbour".into(),
            session: SessionId::new(),
            home_key: "test".into(),
            environment: Environment { variables: vec![("PATH".into(), path)], withheld: vec![] },
            rooms: Rooms::new(folder, &[]),
            serves: Serves { files: true, terminals: true },
        })
    }

    fn wanted(command: &str, args: &[&str]) -> Wanted {
        Wanted {
            command: command.into(),
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            env: vec![("HARBOUR".into(), "open".into())],
            folder: None,
            kept: None,
        }
    }

    async fn create(terminals: &mut Terminals, wanted: Wanted) -> String {
        terminals.create(wanted).await.unwrap()["terminalId"].as_str().unwrap().to_owned()
    }

    // covers: 003-063
    #[tokio::test]
    async fn a_command_is_run_in_its_folder_and_both_its_streams_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let mut terminals = terminals(folder.path());
        let vector =
            create(&mut terminals, wanted("sh", &["-c", "echo $HARBOUR; echo loud >&2; pwd; exit 3"])).await;
        assert_eq!(terminals.wait(&vector).await.unwrap(), json!({ "exitCode": 3, "signal": null }));
        let told = terminals.output(&vector).await.unwrap();
        let pwd = folder.path().canonicalize().unwrap();
        assert_eq!(told["output"], format!("open\nloud\n{}\n", pwd.display()));
        assert_eq!((&told["truncated"], &told["exitStatus"]["exitCode"]), (&json!(false), &json!(3)));
        // Some agents send a line for a shell.
        let line = create(&mut terminals, wanted("echo one && echo two", &[])).await;
        terminals.wait(&line).await.unwrap();
        assert_eq!(terminals.release(&line).await.unwrap()["output"], "one\ntwo\n");
        assert_eq!(terminals.output(&line).await.unwrap_err().code, NOT_FOUND);
        terminals.close().await;
    }

    // The command began wherever the path led by then.
    #[tokio::test]
    async fn a_command_begins_in_the_folder_that_was_checked_even_if_it_is_replaced() {
        let place = tempfile::tempdir().unwrap();
        let top = place.path().canonicalize().unwrap();
        let (inside, outside, folder) = (top.join("inside"), top.join("outside"), top.join("inside/folder"));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::create_dir(&outside).unwrap();
        let mut terminals = terminals(&inside);
        let pwd = Wanted { folder: Some(folder.clone()), ..wanted("pwd", &[]) };
        // Begun, but not started until it is awaited.
        let begun = terminals.create(pwd);
        std::fs::rename(&folder, inside.join("moved")).unwrap();
        std::os::unix::fs::symlink(&outside, &folder).unwrap();
        let name = begun.await.unwrap()["terminalId"].as_str().unwrap().to_owned();
        terminals.wait(&name).await.unwrap();
        let told = terminals.output(&name).await.unwrap();
        assert_eq!(told["output"], format!("{}\n", inside.join("moved").display()));
        terminals.close().await;
    }

    #[tokio::test]
    async fn a_command_that_is_killed_or_left_behind_ends() {
        let folder = tempfile::tempdir().unwrap();
        let mut terminals = terminals(folder.path());
        let sleeper = create(&mut terminals, wanted("sleep", &["600"])).await;
        terminals.kill(&sleeper).await.unwrap();
        assert_eq!(terminals.wait(&sleeper).await.unwrap(), json!({ "exitCode": null, "signal": "9" }));
        let left = create(&mut terminals, wanted("sleep", &["600"])).await;
        let exit = terminals.wait(&left);
        terminals.close().await;
        assert_eq!(exit.await.unwrap()["signal"], "9");
    }

    #[tokio::test]
    async fn only_the_end_of_long_output_is_kept_and_the_cut_is_marked() {
        let folder = tempfile::tempdir().unwrap();
        let mut terminals = terminals(folder.path());
        // The limit falls into the middle of a character.
        let much = Wanted { kept: Some(3), ..wanted("printf", &["aaé12"]) };
        let much = create(&mut terminals, much).await;
        terminals.wait(&much).await.unwrap();
        let told = terminals.output(&much).await.unwrap();
        assert_eq!((&told["output"], &told["truncated"]), (&json!("12"), &json!(true)));
        terminals.close().await;
    }

    #[tokio::test]
    async fn a_command_that_is_outside_or_refused_or_too_much_does_not_run() {
        let folder = tempfile::tempdir().unwrap();
        let mut terminals = terminals(folder.path());
        let refused = [
            Wanted { folder: Some("/".into()), ..wanted("true", &[]) },
            Wanted { env: vec![("LD_PRELOAD".into(), "x".into())], ..wanted("true", &[]) },
            wanted(" ", &[]),
        ];
        for wanted in refused {
            let error = terminals.create(wanted.clone()).await.unwrap_err();
            assert_eq!(error.code, Error::INVALID_PARAMS, "{wanted:?}");
        }
        for _ in 0..MAX_TERMINALS {
            create(&mut terminals, wanted("true", &[])).await;
        }
        let error = terminals.create(wanted("true", &[])).await.unwrap_err();
        assert!(error.message.contains("release"), "{}", error.message);
        terminals.release("terminal-1").await.unwrap();
        create(&mut terminals, wanted("true", &[])).await;
        terminals.close().await;
    }

    // Terminals used to be counted once they ran, so any number could start at once.
    #[tokio::test]
    async fn commands_that_are_started_at_once_are_counted_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let mut terminals = terminals(folder.path());
        let begun: Vec<_> = (0..=MAX_TERMINALS).map(|_| terminals.create(wanted("true", &[]))).collect();
        let mut refused = 0;
        for started in begun {
            refused += usize::from(started.await.is_err());
        }
        assert_eq!((refused, lock(&terminals.open).len()), (1, MAX_TERMINALS));
        terminals.close().await;
    }
}
