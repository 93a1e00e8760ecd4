//! Agents that outlive the daemon, with the real binary: killed daemons, restarts, and what `down` leaves.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::process::Command;

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

/// The texts of the finished messages and the results of the turns, in the order of the log.
fn told(home: &Home, session: &str) -> Vec<String> {
    let log = home.run(["export", session]).ok();
    let entries = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let words = entries.filter_map(|entry| {
        let event = &entry["event"];
        match event["type"].as_str()? {
            "message" => Some(format!("message {}", event["content"])),
            "turn_ended" => Some(format!("turn {}", event["result"]["outcome"])),
            "request_opened" => Some(format!("asked {}", event["request"]["request"])),
            "request_closed" => Some(format!("answered {}", event["request"])),
            "agent_exited" => Some("exit".into()),
            _ => None,
        }
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
        std::thread::sleep(std::time::Duration::from_millis(120));
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
    assert_eq!(std::fs::read_dir(home.path().join("run")).unwrap().count(), 0, "no file is left");
}

#[test]
fn down_ends_the_agents_of_a_daemon_that_was_killed() {
    let home = home();
    home.up();
    let session = new(&home, "tool");
    asked(&home, &session);
    home.kill();
    let left = home.run(["down"]);
    assert!(left.stderr.contains("`portolan down --end` ends"), "{left:?}");
    assert_eq!(home.holders().len(), 1);
    let ended = home.json(["down", "--end"]);
    assert_eq!((&ended["agents_ended"], &ended["agents_left"]), (&json!(1), &json!(0)), "{ended}");
    assert_eq!(home.agents(&session), [0; 0]);
}

#[test]
fn a_killed_holder_ends_its_agent_and_the_session_says_so() {
    let home = home();
    home.up();
    let session = new(&home, "tool");
    let request = asked(&home, &session);
    let (_, holder) = pids(&home)[0];
    kill_process(Pid::from_raw(holder as i32).unwrap(), Signal::KILL).unwrap();
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
    kill_process(Pid::from_raw(holder as i32).unwrap(), Signal::KILL).unwrap();
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

#[test]
fn an_agent_cannot_hold_or_reach_a_holder() {
    let home = home();
    home.up();
    let session = new(&home, "tool");
    asked(&home, &session);
    // A process with the marker of an agent of this home, as every process has that an agent starts.
    let identity: Value =
        serde_json::from_slice(&std::fs::read(home.path().join("identity.json")).unwrap()).unwrap();
    let marker = format!("{}.{session}.x", identity["key"].as_str().unwrap());
    for arguments in [vec!["hold", &session], vec!["ps"], vec!["down", "--end"]] {
        let mut command = home.command(&arguments);
        let ran = command.env("PORTOLAN_CHILD", &marker).output().unwrap();
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert!(
            !ran.status.success() && said.contains("agents may not use Portolan"),
            "{arguments:?}: {said}"
        );
    }
    // Nor by the socket itself.
    let socket = home.path().join("run").join(&session[session.len() - 12..]);
    let script = "import socket,sys,time\ns=socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\n\
                  b=b'{\"hello\":{\"protocol\":1,\"version\":\"x\"}}'\n\
                  s.sendall(len(b).to_bytes(4,'little')+b)\nprint(len(s.recv(100)))";
    let ask = |marker: &str| {
        let mut command = Command::new("python3");
        command.args(["-c", script]).arg(&socket).env("PORTOLAN_CHILD", marker);
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let answered = |marker: &str| ask(marker).trim().parse::<usize>().is_ok_and(|bytes| bytes > 0);
    assert!(!answered(&marker), "an agent gets no answer");
    assert!(answered("of.another.home"));
    home.run(["down"]).ok();
}

// covers: 003-157, 003-158
#[test]
fn with_tmux_a_person_sees_the_agents_window_and_can_end_it_there() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(env!("CARGO_BIN_EXE_portolan"));
    home.configure("[agents]\noutlive = true\nplace = \"tmux\"");
    let tmux = |arguments: &[&str]| {
        let mut command = Command::new("tmux");
        let output = command.args(arguments).env("TMUX_TMPDIR", folder.path()).env_remove("TMUX").output();
        let output = output.expect("tmux is installed: `cargo xtask test` installs it");
        String::from_utf8(output.stdout).unwrap()
    };
    // The daemon inherits the folder of this test's own tmux server.
    let mut up = home.command(["up", "--detach", "--no-open"]);
    assert!(up.env("TMUX_TMPDIR", folder.path()).output().unwrap().status.success());
    let session = new(&home, "tool");
    asked(&home, &session);
    let running = home.json(["ps"]);
    let window = running[0]["tmux"].as_str().unwrap().to_owned();
    assert!(
        tmux(&["list-windows", "-t", "portolan", "-F", "portolan:#{window_name}"]).contains(&window),
        "{running}"
    );
    let screen = wait_for("the words in the window", || {
        let screen = tmux(&["capture-pane", "-p", "-J", "-t", &window]);
        screen.contains(&session).then_some(screen)
    });
    assert!(screen.contains("closing this window ends the agent"), "{screen}");
    tmux(&["kill-window", "-t", &window]);
    wait_for("the end of the session's agent", || {
        let status = state(&home, &session)["summary"]["status"].clone();
        (status == "terminated" || status == "error").then_some(())
    });
    wait_for("the end of the agent", || home.agents(&session).is_empty().then_some(()));
    home.run(["down"]).ok();
    tmux(&["kill-server"]);
}
