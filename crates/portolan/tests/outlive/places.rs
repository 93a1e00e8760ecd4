//! Where holders run: in windows of tmux, in the background, and too late.

use super::*;

/// A tmux server of a test's own, in a home whose daemon uses it.
struct Tmux {
    folder: tempfile::TempDir,
}

impl Tmux {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("tmux");
        command.args(arguments).env("TMUX_TMPDIR", self.folder.path()).env_remove("TMUX");
        command.env_remove("PORTOLAN_CHILD");
        command
    }

    fn run(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output();
        assert!(output.is_ok(), "`cargo xtask test` installs tmux: {output:?}");
        String::from_utf8(output.unwrap().stdout).unwrap()
    }

    /// Starts the daemon, which reaches this server as the user's.
    fn up(&self, home: &Home) {
        let mut up = home.command(["up", "--detach", "--no-open"]);
        assert!(up.env("TMUX_TMPDIR", self.folder.path()).output().unwrap().status.success());
    }

    fn pid(&self) -> u64 {
        self.run(&["display-message", "-p", "#{pid}"]).trim().parse().unwrap()
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.run(&["kill-server"]);
        self.run(&["-L", "portolan", "kill-server"]);
    }
}

// covers: 003-157, 003-158
#[test]
fn with_tmux_a_person_sees_the_agents_window_and_can_end_it_there() {
    let (tmux, home) = (Tmux::new(), home());
    home.configure("[agents]\noutlive = true\nplace = \"tmux\"");
    tmux.up(&home);
    let session = home.run(["new", "demo", "tool", "--name", "mend the mast"]).ok().trim().to_owned();
    asked(&home, &session);
    let running = home.json(["ps"]);
    let window = running[0]["tmux"].as_str().unwrap().to_owned();
    assert_eq!(window, format!("portolan:mend-the-mast-{}", &session[session.len() - 6..]));
    assert!(
        tmux.run(&["list-windows", "-t", "portolan", "-F", "portolan:#{window_name}"]).contains(&window),
        "{running}"
    );
    let screen = wait_for("the words in the window", || {
        let screen = tmux.run(&["capture-pane", "-p", "-J", "-t", &window]);
        screen.contains(&session).then_some(screen)
    });
    assert!(screen.contains("closing this window ends the agent"), "{screen}");
    tmux.run(&["kill-window", "-t", &window]);
    wait_for("the end of the session's agent", || {
        let status = state(&home, &session)["summary"]["status"].clone();
        (status == "terminated" || status == "error").then_some(())
    });
    wait_for("the end of the agent", || home.agents(&session).is_empty().then_some(()));
    home.run(["down"]).ok();
}

// covers: 003-157, 003-158
#[test]
fn auto_takes_tmux_if_a_server_of_the_user_runs_and_else_the_background() {
    let (tmux, home) = (Tmux::new(), home());
    home.configure("[limits]\nshutdown_grace_seconds = 1\n[agents]\noutlive = true\nplace = \"auto\"");
    tmux.up(&home);
    let windows = || {
        let running = home.json(["ps"]);
        let mut all: Vec<_> = running.as_array().unwrap().iter().map(|one| one["tmux"].is_string()).collect();
        all.sort_unstable();
        all
    };
    let session = new(&home, "tool");
    asked(&home, &session);
    assert_eq!((windows(), warnings(&home, &session)), (vec![false], vec![]), "no server runs");

    tmux.run(&["new-session", "-d", "-s", "mine", "sleep 600"]);
    let session = new(&home, "tool");
    asked(&home, &session);
    assert_eq!((windows(), warnings(&home, &session)), (vec![false, true], vec![]));
    assert!(tmux.run(&["list-sessions"]).contains("portolan"));

    let server = tmux.pid();
    signal(server, Signal::STOP);
    let session = new(&home, "tool");
    asked(&home, &session);
    signal(server, Signal::CONT);
    assert_eq!(windows(), [false, false, true], "its server hangs");
    let said = warnings(&home, &session);
    assert!(said.len() == 1 && said[0].contains("tmux does not answer"), "{said:?}");
    home.run(["down"]).ok();
}

#[test]
fn holders_keep_away_from_the_tmux_server_of_an_agent_and_from_a_servers_environment() {
    let (tmux, home) = (Tmux::new(), home());
    home.configure("[limits]\nshutdown_grace_seconds = 1\n[agents]\noutlive = true\nplace = \"tmux\"");
    tmux.up(&home);
    // An agent of some other session started the server.
    let identity: Value =
        serde_json::from_slice(&fs::read(home.path().join("identity.json")).unwrap()).unwrap();
    let marker =
        format!("{}.{}.x", identity["key"].as_str().unwrap(), "0190b1e2-0000-7000-8000-0123456789ab");
    let mut agents = tmux.command(&["new-session", "-d", "-s", "agents", "sleep 600"]);
    assert!(agents.env("PORTOLAN_CHILD", marker).output().unwrap().status.success());
    let session = new(&home, "tool");
    asked(&home, &session);
    let said = warnings(&home, &session);
    assert!(said.len() == 1 && said[0].contains("`tmux -L portolan attach`"), "{said:?}");
    assert!(tmux.run(&["-L", "portolan", "list-sessions"]).contains("portolan"));
    assert!(!tmux.run(&["list-sessions"]).contains("portolan"));

    // A server of the user's, with a secret in its environment.
    tmux.run(&["kill-server"]);
    wait_for("the user's server", || {
        // The old server may still be ending.
        let mut own = tmux.command(&["new-session", "-d", "-s", "mine", "sleep 600"]);
        own.env("HARBOUR_TOKEN", "tide-secret").output().unwrap().status.success().then_some(())
    });
    let second = new(&home, "tool");
    asked(&home, &second);
    assert_eq!(warnings(&home, &second), [""; 0]);
    assert!(tmux.run(&["list-sessions"]).contains("portolan"));
    let environment = |pid: u64| fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let has = |bytes: &[u8]| String::from_utf8_lossy(bytes).contains("tide-secret");
    assert!(has(&environment(tmux.pid())), "the server has it");
    for (_, holder) in pids(&home) {
        assert!(!has(&environment(holder)), "what a holder has, others may see");
        assert!(!has(&fs::read(format!("/proc/{holder}/cmdline")).unwrap()));
    }
    home.run(["down"]).ok();
}

/// A tmux that opens no windows: it starts the program in the background. A program that is started while the file
/// `stop` exists stops before it becomes the holder, and writes its number to `stopped`.
const LATE: &str = r#"#!/bin/sh
[ "$1" = new-window ] || exit 1
here=$(dirname "$0")
while [ "$1" != -- ]; do [ "$1" = -c ] && folder=$2; shift; done
cd "$folder" || exit 1
for session; do :; done
if [ -e "$here/stop" ]; then
  setsid sh -c 'echo $$ >"$1/stopping"; mv "$1/stopping" "$1/stopped"; kill -STOP $$; exec PROGRAM hold "$0" 2>"$1/said"' \
    "$session" "$here" </dev/null >/dev/null 2>&1 &
else
  setsid PROGRAM hold "$session" </dev/null >/dev/null 2>&1 &
fi
"#;

#[test]
fn a_daemon_that_is_killed_before_its_holder_holds_anything_never_costs_a_second_agent() {
    let home = home();
    home.configure("[limits]\nshutdown_grace_seconds = 1\n[agents]\noutlive = true\nplace = \"tmux\"");
    let folder = tempfile::tempdir().unwrap();
    let tmux = folder.path().join("tmux");
    fs::write(&tmux, LATE.replace("PROGRAM", env!("CARGO_BIN_EXE_portolan"))).unwrap();
    fs::set_permissions(&tmux, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    fs::write(folder.path().join("stop"), "").unwrap();
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let up = || {
        let mut up = home.command(["up", "--detach", "--no-open"]);
        assert!(up.env("PATH", &path).output().unwrap().status.success());
    };
    up();
    let session = new(&home, "say first");
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).ok();
    let late: u64 = wait_for("the late holder", || read("stopped")?.trim().parse().ok());
    let daemon = home.record().unwrap()["pid"].as_u64().unwrap();
    signal(daemon, Signal::KILL);
    wait_for("the end of the daemon", || (home.run(["status"]).code != 0).then_some(()));
    fs::remove_file(folder.path().join("stop")).unwrap();

    up();
    home.run(["send", &session, "say second"]).ok();
    wait_for("the second turn", || {
        told(&home, &session).iter().any(|one| one.contains("second")).then_some(())
    });
    let before = pids(&home);
    signal(late, Signal::CONT);
    let said = wait_for("the end of the late holder", || {
        (!Path::new(&format!("/proc/{late}")).exists()).then(|| read("said").unwrap())
    });
    assert!(said.contains("another holder has the session"), "{said}");
    assert_eq!(pids(&home), before);
    let spoken = told(&home, &session);
    for words in ["first", "second"] {
        let times = spoken.iter().filter(|one| one.starts_with("message") && one.contains(words)).count();
        assert!(times <= 1, "{words}: {spoken:?}");
    }
    home.run(["down"]).ok();
    assert_eq!(home.agents(&session), [0; 0]);
}
