//! The lifecycle of the daemon, with the real binary: one per home, found by its file, stopped in order.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::os::unix::fs::PermissionsExt as _;

use portolan_testkit::daemon::{Home, wait_for};
use rustix::process::Signal;
use serde_json::json;

fn home() -> Home {
    Home::new(env!("CARGO_BIN_EXE_portolan"))
}

/// Waits until a turn of the session runs.
fn working(home: &Home, session: &str) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    wait_for("the turn", || {
        let state = home.json(["show", session])["state"].clone();
        assert!(std::time::Instant::now() < deadline, "{state}\n{:?}", home.run(["logs"]));
        state["turn"].is_object().then_some(())
    });
}

fn mode(home: &Home, name: &str) -> u32 {
    std::fs::metadata(home.path().join(name)).unwrap().permissions().mode() & 0o777
}

// covers: 003-154, 004-081
#[test]
fn a_running_daemon_is_found_by_its_file() {
    let home = home();
    let pid = home.up();
    let record = home.record().unwrap();
    assert_eq!(record["pid"], pid);
    assert_eq!(record["version"], env!("CARGO_PKG_VERSION"));
    let url = record["url"].as_str().unwrap();
    assert!(url.starts_with("http://127.0.0.1:") && !url.ends_with(":0"), "{url}");
    for field in ["started_at", "heartbeat_at"] {
        let text = record[field].as_str().unwrap();
        assert!(text.ends_with('Z') && text.contains('T'), "{field} is {text}");
    }
    let status = home.json(["status"]);
    assert_eq!(
        (&status["running"], &status["answering"], &status["pid"]),
        (&json!(true), &json!(true), &json!(pid))
    );
    assert_eq!(mode(&home, "token"), 0o600);
    assert_eq!(mode(&home, "portolan.db"), 0o600);
    assert_eq!(mode(&home, "daemon.sock") & 0o077, 0);
    assert_eq!(mode(&home, "."), 0o700);
}

// covers: 003-151
#[test]
fn a_second_daemon_is_refused_and_the_error_names_the_first() {
    let home = home();
    let pid = home.up();
    let second = home.run(["up", "--no-open"]);
    assert_eq!(second.code, 1, "{second:?}");
    assert!(second.stderr.contains(&format!("(pid {pid}, at http://127.0.0.1:")), "{second:?}");
    assert!(second.stderr.contains("`portolan down` stops it"), "{second:?}");
    let detached = home.run(["up", "--detach", "--no-open"]);
    assert!(detached.code == 1 && detached.stderr.contains("a daemon already runs"), "{detached:?}");
    assert_eq!(home.record().unwrap()["pid"], pid, "the first is not disturbed");
}

// covers: 003-155
#[test]
fn either_signal_ends_the_daemon_in_order_and_removes_its_files() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let home = home();
        home.up();
        home.signal(signal);
        assert_eq!(home.ended(), 0, "{signal:?}");
        assert_eq!(home.record(), None);
        assert!(!home.path().join("daemon.sock").exists());
        home.up();
    }
}

#[test]
fn a_second_signal_ends_everything_at_once() {
    let home = home();
    home.configure("[limits]\nshutdown_grace_seconds = 3600");
    home.up();
    let session = home.run(["new", "demo", "slow"]).ok().trim().to_owned();
    working(&home, &session);
    home.signal(Signal::TERM);
    // The socket is removed first: from then on the daemon is stopping.
    wait_for("the stop", || (!home.path().join("daemon.sock").exists()).then_some(()));
    home.signal(Signal::TERM);
    assert_eq!(home.ended(), 0);
    assert_eq!(home.agents(&session), [0; 0]);
}

#[test]
fn a_daemon_that_ends_before_the_second_signal_counts_as_stopped() {
    let home = home();
    // The daemon stops quickly: sometimes before the second signal, sometimes after it.
    for _ in 0..5 {
        home.up();
        std::thread::scope(|scope| {
            // As init does: a process that nobody waited for can still receive the second signal.
            scope.spawn(|| home.ended());
            home.run(["down", "--now"]).ok();
        });
        assert_eq!(home.record(), None);
    }
}

#[test]
fn a_client_that_connects_while_the_daemon_stops_gets_the_next_daemon() {
    let home = home();
    home.configure("[limits]\nshutdown_grace_seconds = 1");
    let first = home.up();
    let session = home.run(["new", "demo", "slow"]).ok().trim().to_owned();
    working(&home, &session);
    home.signal(Signal::TERM);
    wait_for("the stop", || (!home.path().join("daemon.sock").exists()).then_some(()));
    let list = home.json(["ls"]);
    assert_eq!(list[0]["session"], session.as_str());
    assert_eq!(home.ended(), 0, "the first ended in order");
    assert_ne!(home.record().unwrap()["pid"], first);
}

#[test]
fn down_stops_the_daemon_and_reports_if_there_is_none() {
    let home = home();
    let pid = home.up();
    assert_eq!(home.json(["down"]), json!({"stopped": true, "pid": pid, "agents_left": 0}));
    assert_eq!(home.ended(), 0);
    let nothing = json!({"stopped": false, "running": false, "agents_ended": 0, "agents_left": 0});
    assert_eq!(home.json(["down"]), nothing);
    let status = home.run(["status"]);
    assert_eq!(status.code, 3, "{status:?}");
    assert!(status.stdout.contains("`portolan up` starts it"), "{status:?}");
}

#[test]
fn down_shows_what_it_waits_for() {
    let home = home();
    home.configure("[limits]\nshutdown_grace_seconds = 1");
    home.up();
    let session = home.run(["new", "demo", "slow"]).ok().trim().to_owned();
    working(&home, &session);
    let ran = home.run(["down"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let told = "running turns get up to 1 s to end; `portolan down --now` ends them at once\nstopped\n";
    assert_eq!(ran.stderr, told);
}

#[test]
fn the_file_of_a_killed_daemon_misleads_nobody() {
    let home = home();
    home.up();
    home.kill();
    assert!(home.record().is_some() && home.path().join("daemon.sock").exists(), "a kill leaves both behind");
    let status = home.run(["status"]);
    assert!(status.code == 3 && status.stdout.contains("crashed or was killed"), "{status:?}");
    let pid = home.up();
    assert_eq!(home.record().unwrap()["pid"], pid);
}

// covers: 003-150
#[test]
fn a_client_starts_the_daemon_and_the_daemon_outlives_the_client() {
    let home = home();
    assert_eq!(home.json(["ls"]), json!([]));
    let status = home.json(["status"]);
    assert_eq!(status["running"], true);
    let session = home.run(["new", "demo", "say hello"]).ok().trim().to_owned();
    home.until_status(&session, "idle");
    assert_eq!(home.json(["status"])["pid"], status["pid"], "every client used the same daemon");
    assert_eq!(home.run(["down"]).code, 0);
}

#[test]
fn clients_that_connect_at_the_same_time_start_one_daemon() {
    let home = home();
    let pids: Vec<String> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let ran = home.run(["agents"]);
                    assert_eq!(ran.code, 0, "{ran:?}");
                    home.record().unwrap()["pid"].to_string()
                })
            })
            .collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    assert!(pids.iter().all(|pid| *pid == pids[0]), "{pids:?}");
}

#[test]
fn a_taken_port_is_an_error_with_a_way_out() {
    let home = home();
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap().to_string();
    let ran = home.run(["up", "--no-open", "--listen", &address]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains(&address) && ran.stderr.contains("`portolan up --listen"), "{ran:?}");
    // Other verbs do not have this option, so the error names the whole command.
    std::fs::write(home.path().join("portolan.toml"), format!("[listen]\naddress = {address:?}\n")).unwrap();
    let ran = home.run(["ls"]);
    assert!(ran.code != 0 && ran.stderr.contains("`portolan up --listen"), "{ran:?}");
    assert_eq!(home.record(), None, "nothing is left behind");
    assert!(!home.path().join("daemon.sock").exists());
}

#[test]
fn an_address_that_others_can_reach_needs_tls() {
    let home = home();
    let ran = home.run(["up", "--no-open", "--listen", "0.0.0.0:0"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("so it needs TLS"), "{ran:?}");
}

#[test]
fn a_home_that_cannot_be_written_is_an_error_with_a_way_out() {
    let home = home();
    let file = home.path().join("file");
    std::fs::write(&file, "").unwrap();
    for verb in ["up", "ls"] {
        let output = home.command([verb]).env("PORTOLAN_HOME", file.join("home")).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("cannot be written") && said.contains("PORTOLAN_HOME"), "{verb}: {said}");
        assert_eq!(output.status.code(), Some(1), "{verb}");
    }
}

// covers: 002-035
#[test]
fn mistakes_in_the_configuration_prevent_the_start_and_are_listed_with_their_lines() {
    let home = home();
    home.configure("[log]\nlevl = \"info\"\nformat = \"loud\"\n[limits]\nline_bytes = \"big\"");
    for verb in [vec!["up", "--no-open"], vec!["config", "check"], vec!["config"]] {
        let ran = home.run(&verb);
        assert_eq!(
            (ran.code, ran.stderr.as_str()),
            (
                2,
                "portolan: portolan.toml:5: unknown key `log.levl`; did you mean `level`?\n\
                 portolan.toml:6: `log.format`: unknown variant `loud`, expected `text` or `json`\n\
                 portolan.toml:8: `limits.line_bytes`: invalid type: string \"big\", expected u32\n"
            )
        );
    }
    let ran = home.run(["ls"]);
    assert!(ran.code == 3 && ran.stderr.contains("portolan.toml:5"), "a client shows why: {ran:?}");
}

#[test]
fn config_shows_values_with_their_origin() {
    let home = home();
    let output = home.command(["config"]).env("PORTOLAN_LOG_LEVEL", "debug").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let row = |key: &str| {
        let line = text.lines().find(|line| line.starts_with(key)).unwrap();
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(row("listen.address"), "listen.address 127.0.0.1:0 portolan.toml:2");
    assert_eq!(row("log.level"), "log.level debug environment PORTOLAN_LOG_LEVEL");
    assert_eq!(row("store.durability"), "store.durability normal default");
    assert_eq!(
        home.json(["config", "path"])["path"],
        home.path().join("portolan.toml").display().to_string()
    );
}

#[test]
fn an_agent_may_not_use_the_program() {
    let home = home();
    home.up();
    let marked = |arguments: &[&str]| {
        let output = home.command(arguments).env("PORTOLAN_CHILD", "x").output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for verb in [vec!["ls"], vec!["up"], vec!["down"], vec!["token", "list"]] {
        let (code, said) = marked(&verb);
        assert!(code == Some(1) && said.contains("agents may not use Portolan"), "{verb:?}: {said}");
    }
    assert_eq!(marked(&["--version"]).0, Some(0));
    assert_eq!(marked(&["completions", "bash"]).0, Some(0));
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    let home = home();
    let mut command = home.command(["completions", "bash"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = command.stdout(writer).output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
}

#[test]
fn the_log_of_the_daemon_can_be_read() {
    let home = home();
    home.up();
    let log = home.run(["logs"]).ok();
    assert!(log.contains("ready") && log.contains("http://127.0.0.1:"), "{log}");
    assert!(!log.contains("ticket"), "a log contains no secret");
    let token = std::fs::read_to_string(home.path().join("token")).unwrap();
    assert!(!log.contains(token.trim()));
}

// covers: 003-152
#[test]
fn the_next_daemon_ends_the_processes_of_a_killed_daemon() {
    let home = home();
    home.up();
    let session = home.run(["new", "demo", "orphans"]).ok().trim().to_owned();
    wait_for("the orphans", || (home.agents(&session).len() > 1).then_some(()));
    home.kill();
    home.up();
    wait_for("their end", || home.agents(&session).is_empty().then_some(()));
}

#[test]
fn a_copy_of_a_home_does_not_end_the_agents_of_the_original() {
    let original = home();
    original.up();
    let session = original.run(["new", "demo", "slow"]).ok().trim().to_owned();
    working(&original, &session);
    let agents = original.agents(&session);
    assert!(!agents.is_empty());
    let copy = home();
    for name in ["identity.json", "portolan.db", "portolan.db-wal", "token"] {
        std::fs::copy(original.path().join(name), copy.path().join(name)).unwrap();
    }
    copy.up();
    wait_for("the session to be settled in the copy", || {
        copy.json(["show", &session])["state"]["turn"].is_null().then_some(())
    });
    assert_eq!(original.agents(&session), agents, "the original's agent keeps running");
    let key = |home: &Home| -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(home.path().join("identity.json")).unwrap()).unwrap()
    };
    let (first, second) = (key(&original), key(&copy));
    assert_ne!((&first["key"], &first["incarnation"]), (&second["key"], &second["incarnation"]));
}

#[test]
fn old_sessions_are_deleted_if_the_configuration_says_so() {
    let home = home();
    home.up();
    let session = home.run(["new", "demo", "say one"]).ok().trim().to_owned();
    home.until_status(&session, "idle");
    assert_eq!(home.run(["stop", &session]).code, 0);
    home.until_status(&session, "terminated");
    assert_eq!(home.run(["down"]).code, 0);
    home.ended();
    home.up();
    assert_eq!(home.json(["ls"]).as_array().unwrap().len(), 1, "sessions are kept for ever by default");
    assert_eq!(home.run(["down"]).code, 0);
    home.ended();
    home.up_with(&["--set", "retention.age_days=0"]);
    wait_for("the pruning", || home.json(["ls"]).as_array().unwrap().is_empty().then_some(()));
}

#[test]
fn a_self_signed_certificate_is_trusted_only_if_it_is_named() {
    let home = home();
    home.up_with(&["--set", "listen.self_signed=true"]);
    let url = home.record().unwrap()["url"].as_str().unwrap().to_owned();
    assert!(url.starts_with("https://127.0.0.1:"), "{url}");
    let token = home.path().join("token");
    let by_url = |more: &[&str]| {
        home.run(["ls", "--url", &url, "--token-file", token.to_str().unwrap()].iter().chain(more))
    };
    let refused = by_url(&[]);
    assert!(refused.code == 3 && refused.stderr.contains("--ca-file"), "{refused:?}");
    let certificate = home.path().join("tls-cert.pem");
    assert_eq!(by_url(&["--ca-file", certificate.to_str().unwrap()]).code, 0);
}

#[test]
fn a_daemon_in_the_background_prints_its_address() {
    let home = home();
    let up = home.json(["up", "--detach", "--no-open", "--set", "log.level=debug"]);
    assert_eq!(up["url"], home.record().unwrap()["url"]);
    assert!(up["agents"].as_array().unwrap().iter().any(|agent| agent["kind"] == "demo"), "{up}");
    let link = home.json(["open"])["link"].as_str().unwrap().to_owned();
    assert!(link.starts_with(&format!("{}/#ticket=", up["url"].as_str().unwrap())), "{link}");
    let opened = home.run(["open"]);
    assert!(
        opened.stdout.contains("/#ticket=") && opened.stderr.contains("no browser was opened"),
        "{opened:?}"
    );
    assert!(!home.run(["open", "--print"]).stderr.contains("no browser"), "the user asked for no browser");
    assert_eq!(home.run(["down"]).code, 0);
}

#[test]
fn the_owners_token_is_rotated_whether_or_not_the_daemon_runs() {
    let home = home();
    home.up();
    let token = || std::fs::read_to_string(home.path().join("token")).unwrap();
    let url = home.record().unwrap()["url"].as_str().unwrap().to_owned();
    let with = |secret: &str| {
        home.command(["ls", "--url", &url])
            .env("PORTOLAN_TOKEN", secret.trim())
            .output()
            .unwrap()
            .status
            .code()
    };
    let first = token();
    assert_eq!(home.json(["token", "rotate"]), json!({"rotated": true, "daemon_ran": true}));
    let second = token();
    assert_ne!(second, first);
    // The file exists a moment before the daemon uses its secret.
    wait_for("the new secret", || (with(&second) == Some(0)).then_some(()));
    assert_eq!(with(&first), Some(3), "the old secret gives no access");
    assert_eq!(home.run(["ls"]).code, 0, "the socket needs no token");

    assert_eq!(home.run(["down"]).code, 0);
    home.ended();
    assert_eq!(home.json(["token", "rotate"]), json!({"rotated": true, "daemon_ran": false}));
    home.up_with(&["--listen", url.trim_start_matches("http://")]);
    assert!(token() != second && with(&second) == Some(3) && with(&token()) == Some(0));
}

#[test]
fn the_systemd_unit_is_shown_and_written() {
    let home = home();
    let unit = home.run(["service", "install", "--print"]).ok();
    assert!(
        unit.contains("up --no-open") && unit.contains(&format!("PORTOLAN_HOME={}", home.path().display())),
        "{unit}"
    );
    let told: serde_json::Value =
        serde_json::from_str(&home.run(["service", "install", "--print", "--json"]).ok()).unwrap();
    assert_eq!(told["unit"].as_str().map(str::trim), Some(unit.trim()));
    let script: serde_json::Value =
        serde_json::from_str(&home.run(["completions", "bash", "--json"]).ok()).unwrap();
    assert!(script["script"].as_str().is_some_and(|script| script.contains("portolan")), "{script}");
    let written = home
        .command(["service", "install", "--no-start"])
        .env("XDG_CONFIG_HOME", home.path().join("config"))
        .output()
        .unwrap();
    assert!(written.status.success(), "{written:?}");
    let path = home.path().join("config/systemd/user/portolan.service");
    assert_eq!(std::fs::read_to_string(path).unwrap(), unit);
}

#[test]
fn the_link_for_another_device_has_an_address_that_the_device_can_reach() {
    let home = home();
    home.up();
    let alone = home.run(["pair"]);
    assert_ne!(alone.code, 0);
    assert!(alone.stderr.contains("no other device can reach the daemon"), "{alone:?}");
    assert!(home.json(["token", "list"]).as_array().unwrap().iter().all(|token| token["name"] != "phone"));

    let paired = home.json(["pair", "--at", "http://192.0.2.7:7420/", "--role", "viewer"]);
    assert!(paired["link"].as_str().unwrap().starts_with("http://192.0.2.7:7420/#ticket=ptt_"), "{paired}");
    assert_eq!(
        (&paired["name"], &paired["role"], &paired["secure"]),
        (&json!("phone"), &json!("viewer"), &json!(false))
    );
    assert!(paired["note"].as_str().unwrap().contains("plain HTTP"), "{paired}");
    let told = home.run(["pair", "tablet", "--at", "https://desk.example"]);
    assert!(told.stdout.starts_with("https://desk.example/#ticket="), "{told:?}");
    assert!(told.stderr.contains("the device gets the token `tablet`, role operator"), "{told:?}");
    assert!(!told.stdout.contains('\u{1b}'), "no QR code without a terminal");
    let log = std::fs::read_to_string(home.path().join("daemon.log")).unwrap_or_default();
    assert!(!log.contains("ptt_"), "a log contains no secret");
}

#[test]
fn ls_shows_how_many_agents_run_and_how_many_may_run() {
    let home = home();
    home.configure("[limits]\nagents_at_once = 2");
    home.up();
    for running in 1..=2 {
        let session = home.run(["new", "demo", "slow"]).ok().trim().to_owned();
        working(&home, &session);
        let said = home.run(["ls"]).stderr;
        assert_eq!(said, format!("agents running: {running} of at most 2 (`limits.agents_at_once`)\n"));
    }
    assert!(home.run(["new", "demo", "slow"]).stderr.contains("`limits.agents_at_once`"));
}
