//! Real agents that outlive the daemon: each agent, in its pinned version, has one conversation while the daemon is
//! killed and restarted beside it. Offline: the model is scripted, the agents' homes are empty, the keys are fake.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::large_types_passed_by_value,
    reason = "a test that cannot go on has failed; profiles are passed once"
)]

use std::{
    ffi::OsString,
    fmt::Write as _,
    path::{Path, PathBuf},
    time::Duration,
};

use portolan_agents::acp::catalogue;
use portolan_contract::{Profile, profile};
use portolan_scripted::{Script, Server, contains, text, tools};
use portolan_testkit::{
    daemon::{Home, wait_for},
    npm::{self, Pinned},
};
use serde_json::{Value, json};

/// What the model says after the command ran: about six seconds, so that a daemon ends and begins in the middle.
fn story() -> String {
    (1..=60).fold(String::new(), |mut story, number| {
        // Writing into memory cannot fail.
        let _ = write!(story, "word{number:02} ");
        story
    })
}

/// An agent with its home, and the folder it works in.
struct Place {
    home: Home,
    work: tempfile::TempDir,
    _agent_home: tempfile::TempDir,
}

impl Place {
    fn new(profile: &Profile, command: &[OsString], base_url: &str) -> Self {
        let (work, agent_home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let path = std::env::var_os("PATH").unwrap_or_default();
        let own = agent_home.path().canonicalize().unwrap();
        let command: Vec<&str> = command.iter().map(|word| word.to_str().unwrap()).collect();
        let mut configuration = format!(
            "[limits]\nshutdown_grace_seconds = 1\n[agents]\noutlive = true\n[agents.{0}]\ncommand = {1}\n[agents.{0}.env]\n",
            profile.agent,
            json!(command)
        );
        // The daemon chooses the programs.
        let environment = (profile.environment)(&own, base_url, path);
        for (name, value) in environment.into_iter().filter(|(name, _)| name != "PATH") {
            let (name, value) = (name.to_str().unwrap(), json!(value.to_str().unwrap()));
            // Writing into memory cannot fail.
            let _ = writeln!(configuration, "{name} = {value}");
        }
        let home = Home::new(env!("CARGO_BIN_EXE_portolan"));
        home.configure(&configuration);
        Self { home, work, _agent_home: agent_home }
    }

    fn work(&self) -> PathBuf {
        self.work.path().canonicalize().unwrap()
    }

    fn state(&self, session: &str) -> Value {
        self.home.json(["show", session])["state"].clone()
    }

    fn events(&self, session: &str) -> Vec<Value> {
        let log = self.home.run(["export", session]).ok();
        log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["event"].clone()).collect()
    }

    /// The number of the open request.
    fn asked(&self, session: &str) -> u64 {
        wait_for("the request", || self.state(session)["requests"][0]["request"].as_u64())
    }

    /// Waits until this word of the story has come, in a finished message or in an unfinished one.
    fn told(&self, session: &str, word: &str) {
        wait_for(word, || {
            let state = self.state(session);
            let unfinished = state["items"].as_array().into_iter().flatten();
            let comes = unfinished.filter_map(|item| item["text"].as_str()).any(|text| text.contains(word));
            (comes || said(&self.events(session)).contains(word)).then_some(())
        });
    }

    fn processes(&self) -> Vec<[Value; 3]> {
        let running = self.home.json(["ps"]);
        let each = running.as_array().unwrap().iter();
        each.map(|one| ["session", "agent_pid", "holder_pid"].map(|key| one[key].clone())).collect()
    }
}

/// All that the agent has said, without the text of subagents.
fn said(events: &[Value]) -> String {
    let messages = events.iter().filter(|event| event["type"] == "message");
    let pieces = messages.flat_map(|message| message["content"].as_array().into_iter().flatten().cloned());
    pieces.filter_map(|piece| Some(piece["text"].as_str()?.to_owned())).collect()
}

fn count(events: &[Value], kind: &str) -> usize {
    events.iter().filter(|event| event["type"] == kind).count()
}

fn ran(work: &Path) -> String {
    std::fs::read_to_string(work.join("ran.txt")).unwrap_or_default()
}

/// How an agent is connected to its holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Connection {
    Pipes,
    WebSocket,
}

/// The port that an agent was told to connect to, if it was.
fn dialled(agent: &Value) -> Option<String> {
    let line = std::fs::read(format!("/proc/{agent}/cmdline")).unwrap();
    let words: Vec<_> = line.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
    let option = words.iter().position(|word| word == "--sdk-url")?;
    let address = words[option + 1].strip_prefix("ws://127.0.0.1:").unwrap();
    Some(address.split('/').next().unwrap().to_owned())
}

/// One conversation: a request is open while the daemon is killed, and text streams while the daemon is killed and
/// restarted. Nothing is lost, nothing is done twice, and the agent notices nothing.
fn converse(profile: &Profile, command: &[OsString], base_url: &str, connection: Connection) {
    let place = Place::new(profile, command, base_url);
    let home = &place.home;
    home.up();
    let work = place.work();
    let made = home.run(["new", profile.agent, "use the shell", "--cwd", work.to_str().unwrap()]);
    let session = made.ok().trim().to_owned();
    let request = place.asked(&session);
    let before = place.processes();
    let port = dialled(&before[0][1]);
    assert_eq!(port.is_some(), connection == Connection::WebSocket, "{port:?}");
    let record = home.record().unwrap();
    let daemons = record["listen"].as_str().unwrap().rsplit(':').next();
    assert_ne!(port.as_deref(), daemons, "it connects to its holder");

    home.kill();
    let alone = home.json(["ps"]);
    assert_eq!((&alone[0]["link"], &alone[0]["state"]), (&json!("alone"), &json!("running")), "{alone}");
    home.up();
    assert_eq!(place.processes(), before, "the same processes");
    assert_eq!(place.asked(&session), request, "the same request under the same number");
    assert_eq!(ran(&work), "", "nobody has allowed the command");
    home.run(["send", &session, "second words"]).ok();
    home.run(["approve", &session, &request.to_string()]).ok();

    place.told(&session, "word05");
    home.kill();
    home.up();
    place.told(&session, "word30");
    home.json(["restart"]);
    assert_eq!(home.ended(), 0);

    // Claude Code takes a prompt into the turn that runs; the others begin a turn for it.
    let (turns, last) = if profile.agent == "claude" { (1, "") } else { (2, "Second.") };
    wait_for("the end of all turns", || {
        (count(&place.events(&session), "turn_ended") == turns).then_some(())
    });
    let state = home.until_status(&session, "idle");
    assert_eq!(state["commands"], json!([]), "nothing waits");
    let events = place.events(&session);
    assert_eq!(place.processes(), before, "the same processes");
    assert_eq!(said(&events).replace(char::is_whitespace, ""), format!("{}{last}", story()).replace(' ', ""));
    let completed = events.iter().filter(|event| event["result"]["outcome"] == "completed").count();
    let counts =
        ["prompt", "request_opened", "request_closed", "agent_exited"].map(|kind| count(&events, kind));
    assert_eq!((completed, counts), (turns, [2, 1, 1, 0]));
    assert_eq!(ran(&work), "done\n", "the command ran once");
    let again = home.run(["approve", &session, &request.to_string()]);
    assert_ne!(again.code, 0, "a request is answered once: {again:?}");
    home.run(["down", "--end"]).ok();
    assert_eq!((home.holders(), home.agents(&session)), (vec![], vec![]));
}

async fn outlives(profile: Profile, pinned: Pinned, connection: Connection) {
    let shell = (profile.shell)("echo done >> ran.txt");
    let script = Script::new()
        .on(contains("second words"))
        .reply(text("Second."))
        .on(contains("use the shell"))
        .reply(tools([shell]))
        .then(text(story()).chunks_of(7).each_after(Duration::from_millis(100)))
        .asides(text("scripted"));
    let model = Server::start(script).await.unwrap();
    let base_url = model.base_url();
    let conversed = tokio::task::spawn_blocking(move || {
        let mut command = pinned.command().unwrap_or_else(|error| panic!("{error}"));
        command.extend(catalogue::known(profile.agent).command.iter().skip(1).map(OsString::from));
        converse(&profile, &command, &base_url, connection);
    });
    conversed.await.unwrap();
    model.shutdown().await;
}

macro_rules! outlive {
    ($($name:ident: $profile:expr, $pinned:expr, $connection:ident;)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            outlives($profile, $pinned, Connection::$connection).await;
        }
    )*};
}

outlive! {
    claude_code_outlives_the_daemon: profile::CLAUDE, npm::claude("2.1.325"), Pipes;
    claude_code_over_websocket_outlives_the_daemon: profile::CLAUDE, npm::claude("2.1.120"), WebSocket;
    codex_outlives_the_daemon: profile::CODEX, npm::codex("0.166.0"), Pipes;
    gemini_outlives_the_daemon: profile::GEMINI, npm::GEMINI, Pipes;
    qwen_outlives_the_daemon: profile::QWEN, npm::QWEN, Pipes;
    opencode_outlives_the_daemon: profile::OPENCODE, npm::OPENCODE, Pipes;
    goose_outlives_the_daemon: profile::GOOSE, npm::GOOSE, Pipes;
    the_acp_adapter_of_claude_code_outlives_the_daemon: profile::CLAUDE_AGENT_ACP, npm::CLAUDE_AGENT_ACP, Pipes;
    the_acp_adapter_of_codex_outlives_the_daemon: profile::CODEX_ACP, npm::CODEX_ACP, Pipes;
}
