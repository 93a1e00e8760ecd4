//! Agents that outlive the daemon, with the real binary: killed daemons, restarts, and what `down` leaves.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "outlive/guarded.rs"]
mod guarded;
#[path = "outlive/left_behind.rs"]
mod left_behind;
#[path = "outlive/places.rs"]
mod places;
#[path = "outlive/terminals.rs"]
mod terminals;

use std::{
    fs,
    io::Write as _,
    os::unix::{fs::MetadataExt as _, process::CommandExt as _},
    path::Path,
    process::Command,
    thread::sleep,
    time::Duration,
};

use portolan_testkit::daemon::{Home, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

fn home() -> Home {
    let home = Home::new(env!("CARGO_BIN_EXE_portolan"));
    home.configure("[limits]\nshutdown_grace_seconds = 1\n[agents]\noutlive = true");
    home
}

fn new(home: &Home, prompt: &str) -> String {
    home.run(["new", "demo", prompt]).ok().trim().to_owned()
}

fn state(home: &Home, session: &str) -> Value {
    home.json(["show", session])["state"].clone()
}

/// The number of the open request, when there is one.
fn asked(home: &Home, session: &str) -> u64 {
    wait_for("the request", || state(home, session)["requests"][0]["request"].as_u64())
}

fn pids(home: &Home) -> Vec<(u64, u64)> {
    let running = home.json(["ps"]);
    let pids = running.as_array().unwrap().iter();
    pids.map(|one| (one["agent_pid"].as_u64().unwrap(), one["holder_pid"].as_u64().unwrap())).collect()
}

fn signal(pid: u64, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal).unwrap();
}

/// The events of a session, in the order of the log.
fn events(home: &Home, session: &str) -> Vec<Value> {
    let log = home.run(["export", session]).ok();
    log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["event"].clone()).collect()
}

/// The warnings of a session.
fn warnings(home: &Home, session: &str) -> Vec<String> {
    let notices = events(home, session).into_iter().filter(|event| event["type"] == "notice");
    notices.filter(|event| event["level"] == "warning").map(|event| event["text"].to_string()).collect()
}

/// The texts of the finished messages and the results of the turns, in the order of the log.
fn told(home: &Home, session: &str) -> Vec<String> {
    let words = events(home, session).into_iter().filter_map(|event| match event["type"].as_str()? {
        "message" => Some(format!("message {}", event["content"])),
        "turn_ended" => Some(format!("turn {}", event["result"]["outcome"])),
        "request_opened" => Some(format!("asked {}", event["request"]["request"])),
        "request_closed" => Some(format!("answered {}", event["request"])),
        "agent_exited" => Some("exit".into()),
        _ => None,
    });
    words.collect()
}

// covers: 003-158
#[test]
fn a_killed_daemon_costs_no_turn_and_no_request() {
    let home = home();
    home.up();
    let session = new(&home, "tool");
    let request = asked(&home, &session);
    let before = pids(&home);
    home.kill();
    // The agent goes on without a daemon, and waits for its answer.
    let alone = home.json(["ps"]);
    assert_eq!((&alone[0]["link"], &alone[0]["state"]), (&json!("alone"), &json!("running")), "{alone}");
    home.up();
    assert_eq!(pids(&home), before, "the same processes");
    assert_eq!(asked(&home, &session), request, "the same request under the same number");
    home.run(["approve", &session, &request.to_string()]).ok();
    home.until_status(&session, "idle");
    let told = told(&home, &session);
    assert_eq!(told.iter().filter(|one| one.starts_with("asked")).count(), 1, "{told:?}");
    assert_eq!(told.iter().filter(|one| one.starts_with("answered")).count(), 1, "{told:?}");
    assert!(told.contains(&"turn \"completed\"".to_owned()), "{told:?}");
    assert!(!told.contains(&"exit".to_owned()), "{told:?}");
    let second = home.run(["approve", &session, &request.to_string()]);
    assert_ne!(second.code, 0, "answered once: {second:?}");
}

// covers: 003-158
#[test]
fn a_daemon_that_is_killed_again_and_again_loses_and_doubles_no_text() {
    let home = home();
    home.up();
    let session = new(&home, "say one two three");
    home.until_status(&session, "idle");
    let expected = told(&home, &session);
    let long = new(&home, "slow");
    for _ in 0..8 {
        sleep(Duration::from_millis(120));
        home.kill();
        home.up();
    }
    assert_eq!(told(&home, &session), expected, "an idle session is not touched");
    home.run(["send", &long, "say the end"]).ok();
    home.run(["interrupt", &long]).ok();
    wait_for("the end of both turns", || {
        (told(&home, &long).iter().filter(|one| one.starts_with("turn")).count() == 2).then_some(())
    });
    let told = told(&home, &long);
    let slow = told.iter().find(|one| one.starts_with("message")).unwrap();
    // The scene counts: every number stands there once, in order.
    let numbers: Vec<u32> =
        slow.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect();
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{slow}");
    assert!(!told.contains(&"exit".to_owned()), "{told:?}");
}

#[test]
fn a_restart_takes_over_running_turns_and_waiting_prompts() {
    let home = home();
    home.up();
    let session = new(&home, "tool");
    let request = asked(&home, &session);
    home.run(["send", &session, "say next"]).ok();
    let (before, port) = (pids(&home), home.record().unwrap()["listen"].clone());
    let restarted = home.json(["restart"]);
    assert!(restarted["url"].is_string(), "{restarted}");
    assert_eq!(home.ended(), 0);
    assert_eq!(home.record().unwrap()["listen"], port, "clients find it where it was");
    assert_eq!((pids(&home), asked(&home, &session)), (before, request));
    home.run(["approve", &session, &request.to_string()]).ok();
    wait_for("the waiting prompt", || {
        told(&home, &session).iter().any(|one| one.contains("next")).then_some(())
    });
    home.run(["down", "--end"]).ok();
}

#[test]
fn down_keeps_agents_only_if_it_is_asked_to() {
    let home = home();
    home.up();
    let session = new(&home, "tool");
    let request = asked(&home, &session);
    let kept = home.json(["down", "--keep"]);
    assert_eq!(kept["agents_left"], 1, "{kept}");
    assert_eq!(home.ended(), 0);
    assert_eq!(home.holders().len(), 1);
    // The next client starts the next daemon, which finds everything as it was.
    assert_eq!(asked(&home, &session), request);
    let ended = home.json(["down"]);
    assert_eq!((&ended["stopped"], &ended["agents_left"]), (&json!(true), &json!(0)), "{ended}");
    assert_eq!(home.agents(&session), [0; 0]);
    assert_eq!(fs::read_dir(home.path().join("run")).unwrap().count(), 0, "no file is left");
}

#[test]
fn a_hang_up_and_a_termination_keep_agents_and_an_interrupt_ends_them() {
    let home = home();
    home.up();
    let session = new(&home, "tool");
    let request = asked(&home, &session);
    for (sent, kept) in [(Signal::HUP, 1), (Signal::TERM, 1), (Signal::INT, 0)] {
        home.signal(sent);
        assert_eq!((home.ended(), home.holders().len()), (0, kept), "{sent:?}");
        home.up();
        let open = state(&home, &session)["requests"][0]["request"].as_u64();
        assert_eq!(open, (kept > 0).then_some(request), "{sent:?}");
    }
    home.run(["down"]).ok();
}

#[test]
fn down_ends_the_agents_of_a_daemon_that_was_killed() {
    let home = home();
    for arguments in [&["down"][..], &["down", "--end"], &["down", "--now"]] {
        home.up();
        let session = new(&home, "tool");
        asked(&home, &session);
        home.kill();
        let kept = home.json(["down", "--keep"]);
        assert_eq!((&kept["agents_ended"], &kept["agents_left"]), (&json!(0), &json!(1)), "{kept}");
        // Without a terminal, nobody can be asked.
        let ended = home.json(arguments);
        assert_eq!((&ended["agents_ended"], &ended["agents_left"]), (&json!(1), &json!(0)), "{arguments:?}");
        assert_eq!((home.holders(), home.agents(&session)), (vec![], vec![]), "{arguments:?}");
    }
}

#[test]
fn down_fails_if_an_agent_does_not_end_and_names_its_holder() {
    let home = home();
    home.up();
    let session = new(&home, "say hello");
    home.until_status(&session, "idle");
    home.run(["down"]).ok();
    // Something that has the lock, like a holder, and does not answer.
    let lock = home.path().join("run").join(format!("{session}.lock"));
    let mut held = fs::File::create(&lock).unwrap();
    held.lock().unwrap();
    write!(held, "4194305").unwrap();
    let ran = home.run(["down", "--now"]);
    drop(held);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stderr.contains(&session) && ran.stderr.contains("`kill -9 4194305`"), "{ran:?}");
}

#[test]
fn a_killed_holder_ends_its_agent_and_the_session_says_so() {
    let home = home();
    home.up();
    let session = new(&home, "tool");
    let request = asked(&home, &session);
    let (_, holder) = pids(&home)[0];
    signal(holder, Signal::KILL);
    let state = home.until_status(&session, "error");
    assert_eq!(state["requests"], json!([]));
    assert!(told(&home, &session).contains(&format!("answered {request}")));
    wait_for("the end of the agent", || home.agents(&session).is_empty().then_some(()));
    // The session goes on with a new agent.
    home.run(["send", &session, "say again"]).ok();
    wait_for("the next turn", || told(&home, &session).iter().any(|one| one.contains("again")).then_some(()));
    home.run(["down"]).ok();
}

#[test]
fn a_holder_that_is_killed_without_a_daemon_is_found_at_the_next_start() {
    let home = home();
    home.up();
    let session = new(&home, "tool");
    asked(&home, &session);
    let (_, holder) = pids(&home)[0];
    home.kill();
    signal(holder, Signal::KILL);
    home.up();
    let state = home.until_status(&session, "terminated");
    assert_eq!(state["requests"], json!([]));
    assert_eq!(home.agents(&session), [0; 0]);
    assert!(
        !home
            .path()
            .join("run")
            .read_dir()
            .unwrap()
            .flatten()
            .any(|file| file.path().extension().is_some_and(|end| end == "spool"))
    );
}

#[test]
fn an_agent_that_may_not_outlive_the_daemon_ends_with_it() {
    let home = Home::new(env!("CARGO_BIN_EXE_portolan"));
    home.configure("[agents]\noutlive = true\n[agents.demo]\noutlive = false");
    home.up();
    let session = new(&home, "tool");
    asked(&home, &session);
    let running = home.json(["ps"]);
    assert_eq!(
        (&running[0]["holder_pid"], &running[0]["agent"]),
        (&Value::Null, &json!("demo")),
        "{running}"
    );
    home.kill();
    wait_for("the end of the agent", || home.agents(&session).is_empty().then_some(()));
}

// covers: 003-156
#[test]
fn a_started_agent_is_listed_with_its_processes_until_it_is_stopped() {
    let home = home();
    home.up();
    let session = new(&home, "say hello");
    home.until_status(&session, "idle");
    let running = home.json(["ps"]);
    let one = &running[0];
    assert_eq!((&one["session"], &one["state"]), (&json!(session), &json!("running")), "{running}");
    for pid in [&one["agent_pid"], &one["holder_pid"]] {
        assert!(Path::new(&format!("/proc/{pid}/stat")).exists(), "{running}");
    }
    let table = home.run(["ps"]).ok();
    let line: Vec<&str> = table.lines().nth(1).unwrap().split_whitespace().collect();
    let (agent, holder) = (one["agent_pid"].to_string(), one["holder_pid"].to_string());
    assert_eq!(line[1..5], ["demo", "running", &*agent, &*holder], "{table}");
    assert!(line[6] == "MiB" && line.contains(&"connected"), "{table}");
    home.run(["stop", &session]).ok();
    wait_for("the end of the agent", || home.agents(&session).is_empty().then_some(()));
    wait_for("the end of the holder", || home.holders().is_empty().then_some(()));
    assert_eq!(home.json(["ps"]), json!([]));
}

// covers: 003-157
#[test]
fn ps_shows_an_agent_from_its_start_to_its_end_even_if_nobody_answers() {
    let home = home();
    home.configure("[agents]\noutlive = true\n[agents.mute]\ncommand = [\"sh\", \"-c\", \"sleep 600\"]\n");
    home.up();
    let work = home.path().canonicalize().unwrap();
    let began = fs::metadata(home.path().join("daemon.json")).unwrap().modified().unwrap();
    let mute = home.run(["new", "mute", "hello"]).ok().trim().to_owned();
    let talking = new(&home, "say hello");
    home.until_status(&talking, "idle");
    let listed = |session: &str| {
        let all = home.json(["ps"]);
        all.as_array().unwrap().iter().find(|one| one["session"] == *session).cloned()
    };
    let starting = wait_for("an agent", || listed(&mute).filter(|one| one["agent_pid"].is_u64()));
    assert_eq!((&starting["state"], &starting["agent"]), (&json!("starting"), &json!("mute")), "{starting}");
    assert_eq!(starting["cwd"], json!(work), "{starting}");
    let running = listed(&talking).unwrap();
    assert!(running["agent_memory"].as_u64().unwrap() > 0, "{running}");
    assert!(running["holder_memory"].as_u64().unwrap() > 0, "{running}");
    let since = |one: &Value| one["since"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    let age = since(&running).duration_since(jiff::Timestamp::try_from(began).unwrap()).as_secs();
    assert!((0..60).contains(&age), "{running}");

    // Holders that hang are asked at the same time as the others.
    let holder = running["holder_pid"].as_u64().unwrap();
    for one in [&starting, &running] {
        signal(one["holder_pid"].as_u64().unwrap(), Signal::STOP);
    }
    let asked = std::time::Instant::now();
    let silent = listed(&talking).unwrap();
    assert!(asked.elapsed() < Duration::from_secs(18), "one after the other");
    assert_eq!((&silent["link"], &silent["holder_pid"]), (&json!("silent"), &json!(holder)), "{silent}");
    assert!((since(&silent).as_second() - since(&running).as_second()).abs() <= 1, "{silent}");
    assert!(silent["holder_memory"].as_u64().unwrap() > 0, "{silent}");
    for one in [&starting, &running] {
        signal(one["holder_pid"].as_u64().unwrap(), Signal::CONT);
    }

    // An agent that has ended is listed until its daemon has recorded that.
    home.signal(Signal::STOP);
    signal(running["agent_pid"].as_u64().unwrap(), Signal::KILL);
    let exited = wait_for("the end", || listed(&talking).filter(|one| one["state"] != "running"));
    assert_eq!(exited["state"], "exited", "{exited}");
    home.signal(Signal::CONT);
    home.until_status(&talking, "error");
    home.run(["down"]).ok();
}

/// The program in a folder that everyone may enter. Its file can be replaced.
fn installed() -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let program = folder.path().join("portolan");
    fs::copy(env!("CARGO_BIN_EXE_portolan"), &program).unwrap();
    (folder, program)
}

#[test]
fn a_home_may_have_a_longer_path_than_a_socket() {
    let home = Home::below(env!("CARGO_BIN_EXE_portolan"), &"harbour/".repeat(16));
    assert!(home.path().as_os_str().len() > 108);
    home.configure("[limits]\nshutdown_grace_seconds = 1\n[agents]\noutlive = true");
    home.up();
    let session = new(&home, "tool");
    let request = asked(&home, &session);
    let before = pids(&home);
    home.kill();
    home.up();
    assert_eq!((pids(&home), asked(&home, &session)), (before, request));
    home.run(["down"]).ok();
    assert_eq!((home.holders(), home.agents(&session)), (vec![], vec![]));
}

#[test]
fn a_deleted_session_leaves_no_process_and_no_file_of_its_holder() {
    let home = home();
    home.up();
    let session = new(&home, "tool");
    asked(&home, &session);
    assert!(fs::read_dir(home.path().join("run")).unwrap().count() > 0);
    home.run(["delete", "--yes", &session]).ok();
    wait_for("the end of the agent", || home.agents(&session).is_empty().then_some(()));
    wait_for("the end of the holder", || home.holders().is_empty().then_some(()));
    let left = || fs::read_dir(home.path().join("run")).unwrap().flatten().map(|file| file.path());
    wait_for("an empty folder", || (left().count() == 0).then_some(()));
}

#[test]
fn a_prompt_whose_fate_nobody_knows_is_uncertain_after_the_death_of_daemon_and_holder() {
    let home = home();
    home.up();
    let session = new(&home, "say hello");
    home.until_status(&session, "idle");
    let (agent, holder) = pids(&home)[0];
    signal(agent, Signal::STOP);
    home.run(["send", &session, "say goodbye"]).ok();
    let stage = || state(&home, &session)["commands"][0]["stage"]["stage"].clone();
    wait_for("the prompt in the agent's pipe", || (stage() == "delivered").then_some(()));
    home.kill();
    signal(holder, Signal::KILL);
    home.up();
    wait_for("the end of the agent", || home.agents(&session).is_empty().then_some(()));
    assert_eq!(stage(), "uncertain");
    assert!(!told(&home, &session).iter().any(|one| one.contains("goodbye")));
    home.run(["down"]).ok();
}

#[test]
fn a_copy_of_a_home_leaves_the_agents_of_the_original_alone() {
    let home = home();
    home.up();
    let session = new(&home, "tool");
    let request = asked(&home, &session);
    let before = pids(&home);
    let copy = Home::new(env!("CARGO_BIN_EXE_portolan"));
    let mut copying = Command::new("cp");
    copying.arg("-a").arg(home.path().join(".")).arg(copy.path());
    assert!(copying.status().unwrap().success());
    copy.up();
    // The copy has no agent: its session ends, and its request is closed.
    let settled = copy.until_status(&session, "terminated");
    assert_eq!(settled["requests"], json!([]));
    assert_eq!(copy.json(["ps"]), json!([]));
    copy.run(["down", "--end"]).ok();
    assert_eq!((pids(&home), asked(&home, &session)), (before, request));
    home.run(["approve", &session, &request.to_string()]).ok();
    home.until_status(&session, "idle");
    home.run(["down"]).ok();
}

#[test]
fn agents_start_and_go_on_while_the_installed_program_is_replaced() {
    let (_folder, program) = installed();
    let home = Home::new(&program);
    home.configure("[limits]\nshutdown_grace_seconds = 1\n[agents]\noutlive = true");
    home.up();
    let old = new(&home, "tool");
    let request = asked(&home, &old);
    // An installer puts a new file in the place of the old one.
    let next = program.with_extension("next");
    fs::copy(env!("CARGO_BIN_EXE_portolan"), &next).unwrap();
    fs::rename(&next, &program).unwrap();
    let between = new(&home, "tool");
    let second = asked(&home, &between);
    let before = pids(&home);
    assert_eq!(before.len(), 2);
    home.json(["restart"]);
    assert_eq!(home.ended(), 0);
    assert_eq!((pids(&home), asked(&home, &old)), (before, request));
    for (session, request) in [(&old, request), (&between, second)] {
        home.run(["approve", session, &request.to_string()]).ok();
        home.until_status(session, "idle");
    }
    home.run(["down", "--end"]).ok();
}

#[test]
fn a_holder_that_the_system_ends_ends_its_agent_and_the_session_says_so() {
    let home = home();
    home.up();
    for daemon in [true, false] {
        let session = new(&home, "tool");
        asked(&home, &session);
        let (_, holder) = pids(&home)[0];
        if !daemon {
            home.kill();
        }
        signal(holder, Signal::TERM);
        wait_for("the end of the agent", || home.agents(&session).is_empty().then_some(()));
        wait_for("the end of the holder", || home.holders().is_empty().then_some(()));
        if !daemon {
            home.up();
        }
        wait_for("the end in the log", || told(&home, &session).contains(&"exit".to_owned()).then_some(()));
        assert_eq!(state(&home, &session)["requests"], json!([]));
    }
    home.run(["down"]).ok();
}

#[test]
fn the_time_without_a_daemon_does_not_count_toward_a_deadline() {
    let home = home();
    home.up();
    let session = home.run(["new", "demo", "tool", "--deadline", "4s"]).ok().trim().to_owned();
    let request = asked(&home, &session);
    home.kill();
    sleep(Duration::from_secs(6));
    home.up();
    assert_eq!(asked(&home, &session), request, "still open, under its number");
    wait_for("the deadline", || told(&home, &session).contains(&format!("answered {request}")).then_some(()));
    home.run(["down"]).ok();
}

/// An agent over ACP that asks Portolan to write a file as soon as the file `go` exists, and answers slowly at first if
/// it is told to.
const WRITER: &str = r#"
say() { printf '%s\n' "$1"; }
answer() { say '{"jsonrpc":"2.0","id":'"$1"',"result":'"$2"'}'; }
while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/^{"id":\([0-9]*\),.*/\1/p')
  case "$line" in
    *'"method":"initialize"'*)
      while [ -e wait ]; do sleep 0.1; done
      answer "$id" '{"protocolVersion":1,"agentCapabilities":{}}' ;;
    *'"method":"session/new"'*) answer "$id" '{"sessionId":"S"}' ;;
    *'"method":"session/prompt"'*)
      prompt=$id
      while [ ! -e go ]; do sleep 0.1; done
      say '{"jsonrpc":"2.0","id":0,"method":"fs/write_text_file","params":{"sessionId":"S","path":"'"$PWD"'/made.txt","content":"made\n"}}'
      : >asked ;;
    '{"id":0,'*) answer "$prompt" '{"stopReason":"end_turn"}' ;;
  esac
done
"#;

fn with_writer() -> (Home, tempfile::TempDir) {
    let (home, work) = (home(), tempfile::tempdir().unwrap());
    let script = home.path().join("agent.sh");
    fs::write(&script, WRITER).unwrap();
    home.configure(&format!(
        "[limits]\nshutdown_grace_seconds = 1\n[agents]\noutlive = true\n[agents.writer]\ncommand = [\"sh\", \"{}\"]",
        script.display()
    ));
    home.up();
    (home, work)
}

#[test]
fn what_an_agent_wants_written_while_no_daemon_runs_waits_for_the_next_daemons_policy() {
    let (home, work) = with_writer();
    let cwd = work.path().canonicalize().unwrap();
    let session = home.run(["new", "writer", "write", "--cwd", cwd.to_str().unwrap()]).ok().trim().to_owned();
    wait_for("the turn", || state(&home, &session)["turn"].is_object().then_some(()));
    home.kill();
    fs::write(cwd.join("go"), "").unwrap();
    wait_for("the agent's wish", || cwd.join("asked").exists().then_some(()));
    wait_for("the wish in the spool", || (home.json(["ps"])[0]["unrecorded"] != 0).then_some(()));
    assert!(!cwd.join("made.txt").exists(), "nobody has decided");
    home.up();
    let request = asked(&home, &session);
    assert!(!cwd.join("made.txt").exists(), "a person decides");
    home.run(["approve", &session, &request.to_string()]).ok();
    home.until_status(&session, "idle");
    assert_eq!(fs::read_to_string(cwd.join("made.txt")).unwrap(), "made\n");
    home.run(["down"]).ok();
}

#[test]
fn a_restart_while_an_agent_is_starting_does_not_lose_its_first_prompt() {
    let (home, work) = with_writer();
    let cwd = work.path().canonicalize().unwrap();
    for file in ["wait", "go"] {
        fs::write(cwd.join(file), "").unwrap();
    }
    let session = home.run(["new", "writer", "write", "--cwd", cwd.to_str().unwrap()]).ok().trim().to_owned();
    wait_for("the agent", || (home.json(["ps"])[0]["state"] == "starting").then_some(()));
    home.json(["restart"]);
    assert_eq!(home.ended(), 0);
    fs::remove_file(cwd.join("wait")).unwrap();
    let request = asked(&home, &session);
    home.run(["approve", &session, &request.to_string()]).ok();
    home.until_status(&session, "idle");
    let told = told(&home, &session);
    assert_eq!(told.iter().filter(|one| one.starts_with("turn")).collect::<Vec<_>>(), ["turn \"completed\""]);
    home.run(["down", "--end"]).ok();
}
