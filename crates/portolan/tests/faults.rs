//! Faults around a daemon, with the real binary: a full disk, a home that disappears, a path that is too long, a
//! database that another program locks or changes. Each fault must give a clear error and lose nothing.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use portolan_testkit::daemon::{Home, wait_for};
use rustix::process::Signal;
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_portolan");

fn home() -> Home {
    Home::new(PROGRAM)
}

/// A command with this home and without the surrounding configuration.
fn in_home(mut command: Command, home: &Path) -> Command {
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PORTOLAN_")) {
        command.env_remove(name);
    }
    command.env("PORTOLAN_HOME", home).stdin(Stdio::null());
    command
}

/// The program with a home at any path.
fn portolan(home: &Path, arguments: &[&str]) -> Command {
    let mut command = in_home(Command::new(PROGRAM), home);
    command.args(arguments);
    command
}

/// Its exit code and its output.
fn run(home: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let output = portolan(home, arguments).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout) + &text(&output.stderr))
}

/// A daemon of this test, which ends with the test.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Daemon {
    #[expect(clippy::disallowed_methods, reason = "tests start the daemon itself, not an agent")]
    fn start(command: &mut Command) -> Self {
        Self(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap())
    }

    fn code(&mut self) -> Option<i32> {
        wait_for("the end of the daemon", || self.0.try_wait().unwrap()).code()
    }

    fn said(&mut self) -> String {
        std::io::read_to_string(self.0.stderr.take().unwrap()).unwrap()
    }
}

const FREE_PORT: &str = "[listen]\naddress = \"127.0.0.1:0\"\n";

// ------------------------------------------------------------------------------------- full disk

/// Root can mount, so this is a failure for root; other users may not be allowed to mount.
#[expect(clippy::print_stderr, reason = "the person who runs the tests must see what was skipped")]
fn nothing_can_be_mounted(more: &str) {
    assert!(!rustix::process::geteuid().is_root(), "root cannot mount a disk of its own: {more}");
    eprintln!("SKIPPED: this machine does not allow a mount; {more}");
}

/// A home on its own small disk. Only the daemon sees the disk; other programs see it through the daemon.
struct SmallDisk {
    daemon: Daemon,
    home: PathBuf,
    _folder: tempfile::TempDir,
}

impl SmallDisk {
    /// `None` if this machine does not allow a mount, not even in a new namespace.
    fn new(options: &str) -> Option<Self> {
        const MOUNT: &str = r#"mount -t tmpfs -o "$1" tmpfs "$0" && printf '%s' "$2" > "$0/portolan.toml" \
            && exec "$3" up --no-open"#;
        let folder = tempfile::tempdir().unwrap();
        for how in ["--mount", "--map-root-user --mount"] {
            let mut command = in_home(Command::new("unshare"), folder.path());
            command.args(how.split(' ')).args(["sh", "-c", MOUNT]).arg(folder.path());
            let mut daemon = Daemon::start(command.args([options, FREE_PORT, PROGRAM]));
            let home = PathBuf::from(format!("/proc/{}/root", daemon.0.id()))
                .join(folder.path().strip_prefix("/").unwrap());
            let up = wait_for("the daemon, or its end", || {
                if daemon.0.try_wait().unwrap().is_some() {
                    return Some(false);
                }
                (run(&home, &["status"]).0 == Some(0)).then_some(true)
            });
            if up {
                return Some(Self { daemon, home, _folder: folder });
            }
        }
        None
    }

    fn run(&self, arguments: &[&str]) -> (Option<i32>, String) {
        run(&self.home, arguments)
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let (code, text) = self.run(&[arguments, &["--json"]].concat());
        assert_eq!(code, Some(0), "{text}");
        serde_json::from_str(&text).unwrap()
    }

    /// Fills the disk.
    fn fill(&self) {
        let mut file = std::fs::File::create(self.home.join("filler")).unwrap();
        let bytes = [0_u8; 4096];
        while std::io::Write::write_all(&mut file, &bytes).is_ok() {}
    }
}

fn agents(session: &str) -> Vec<String> {
    let wanted = format!(".{session}.");
    let all = std::fs::read_dir("/proc").unwrap().filter_map(|entry| Some(entry.ok()?.path()));
    let marked = all.filter(|path| {
        let environment = std::fs::read(path.join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|one| {
            let one = String::from_utf8_lossy(one);
            one.starts_with("PORTOLAN_CHILD=") && one.contains(&wanted)
        })
    });
    marked.map(|path| path.display().to_string()).collect()
}

#[test]
fn on_a_full_disk_commands_that_must_be_recorded_are_refused_and_agents_can_be_stopped() {
    let Some(disk) = SmallDisk::new("size=8m,mode=0700") else {
        return nothing_can_be_mounted("core's tests show the same with a store that refuses");
    };
    let session = disk.json(&["new", "demo", "slow"])["session"].as_str().unwrap().to_owned();
    wait_for("the turn", || disk.json(&["show", &session])["state"]["turn"].is_object().then_some(()));
    disk.fill();
    // The database first uses up the space that it has reserved.
    let refused = wait_for("the full disk", || {
        let (code, said) = disk.run(&["rename", &session, "x".repeat(180).as_str()]);
        (code == Some(1)).then_some(said)
    });
    assert!(refused.contains("free some space"), "{refused}");
    let (code, said) = disk.run(&["interrupt", &session]);
    assert!(code == Some(1) && said.contains("the agent was asked to interrupt its turn"), "{said}");
    let (code, said) = disk.run(&["delete", "--yes", &session]);
    assert!(code == Some(1) && said.contains("agent was asked to stop"), "{said}");
    wait_for("the end of the agent", || agents(&session).is_empty().then_some(()));
    let (code, said) = disk.run(&["new", "demo", "hello"]);
    assert!(code == Some(1) && said.contains("nothing can be recorded"), "{said}");

    std::fs::remove_file(disk.home.join("filler")).unwrap();
    wait_for("the room", || (disk.run(&["rename", &session, "after"]).0 == Some(0)).then_some(()));
    let state = wait_for("what happened meanwhile", || {
        let state = disk.json(&["show", &session])["state"].clone();
        (state["summary"]["status"] == "terminated").then_some(state)
    });
    assert_eq!((&state["turn"], &state["summary"]["name"]), (&Value::Null, &json!("after")));
    // SQLite resolves links in paths and cannot find the disk of another namespace, so it reads a copy.
    let copy = tempfile::tempdir().unwrap();
    for file in ["portolan.db", "portolan.db-wal"] {
        std::fs::copy(disk.home.join(file), copy.path().join(file)).unwrap();
    }
    let (code, said) = run(copy.path(), &["audit", "verify", "--json"]);
    assert_eq!(
        (code, serde_json::from_str::<Value>(&said).unwrap()["whole"].clone()),
        (Some(0), json!(true))
    );
    drop(disk.daemon);
}

#[test]
fn a_read_only_home_is_an_error_with_a_way_out() {
    // The shell cannot write the configuration there either and would end first, so the program is called directly.
    const MOUNT: &str = r#"mount -t tmpfs -o size=1m,ro tmpfs "$0" && exec "$1" up --no-open"#;
    let folder = tempfile::tempdir().unwrap();
    let mut command = in_home(Command::new("unshare"), folder.path());
    command.args(["--mount", "sh", "-c", MOUNT]).arg(folder.path()).arg(PROGRAM);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if said.contains("unshare") || said.contains("mount:") {
        return nothing_can_be_mounted(&said);
    }
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("cannot be written") && said.contains("set PORTOLAN_HOME to another folder"),
        "{said}"
    );
}

// ------------------------------------------------------------------------------ the home folder

#[test]
fn a_daemon_whose_home_was_replaced_ends_and_touches_nothing_there() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("home");
    std::fs::create_dir(&place).unwrap();
    std::fs::write(place.join("portolan.toml"), FREE_PORT).unwrap();
    let mut old = Daemon::start(&mut portolan(&place, &["up", "--no-open"]));
    wait_for("the daemon", || (run(&place, &["status"]).0 == Some(0)).then_some(()));
    std::fs::rename(&place, folder.path().join("away")).unwrap();
    std::fs::create_dir(&place).unwrap();
    std::fs::write(place.join("portolan.toml"), FREE_PORT).unwrap();
    let newer = Daemon::start(&mut portolan(&place, &["up", "--no-open"]));
    let record = || std::fs::read_to_string(place.join("daemon.json")).unwrap_or_default();
    let pid = format!("\"pid\": {}", newer.0.id());
    wait_for("the newer daemon", || {
        (record().contains(&pid) && run(&place, &["status"]).0 == Some(0)).then_some(())
    });
    assert_eq!(old.code(), Some(1));
    let said = old.said();
    assert!(said.contains("was removed or replaced while the daemon ran"), "{said}");
    assert!(record().contains(&pid), "{}", record());
    assert!(place.join("daemon.sock").exists());
    assert_eq!(run(&place, &["ls"]).0, Some(0));
}

#[test]
fn a_home_with_a_very_long_path_works() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("d".repeat(100)).join("e".repeat(100));
    std::fs::create_dir_all(&place).unwrap();
    std::fs::write(place.join("portolan.toml"), FREE_PORT).unwrap();
    let daemon = Daemon::start(&mut portolan(&place, &["up", "--no-open"]));
    wait_for("the daemon", || (run(&place, &["status"]).0 == Some(0)).then_some(()));
    assert!(place.join("daemon.sock").exists());
    let (code, said) = run(&place, &["send", "--help"]);
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = run(&place, &["new", "demo", "say one"]);
    assert_eq!(code, Some(0), "{said}");
    let session = said.lines().next().unwrap().to_owned();
    let (code, said) = run(&place, &["ls", "--json"]);
    assert!(code == Some(0) && said.contains(&session), "{said}");
    drop(daemon);
    // A client can also start a daemon there.
    let (code, said) = run(&place, &["ls", "--json"]);
    assert!(code == Some(0) && said.contains(&session), "{said}");
    assert_eq!(run(&place, &["down"]).0, Some(0));
}

// --------------------------------------------------------------------------------- the database

#[test]
fn a_database_that_another_program_locks_is_reported_and_waited_for() {
    let home = home();
    home.up();
    assert_eq!(home.run(["down"]).code, 0);
    home.ended();
    let other = rusqlite::Connection::open(home.path().join("portolan.db")).unwrap();
    other.pragma_update(None, "locking_mode", "EXCLUSIVE").unwrap();
    other.execute_batch("BEGIN EXCLUSIVE; PRAGMA user_version;").unwrap();
    let refused = home.run(["up", "--no-open"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.stderr.contains("is locked by another program"), "{refused:?}");
    drop(other);
    home.up();

    // While the daemon runs: the command is refused, and it works when the lock is gone.
    let session = home.run(["new", "demo", "say one"]).ok().trim().to_owned();
    let other = rusqlite::Connection::open(home.path().join("portolan.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let waiting = home.watch(["rename", &session, "first"]);
    let refused = wait_for("the refusal", || {
        let refused = home.run(["archive", &session]);
        (refused.code == 1).then_some(refused)
    });
    assert!(refused.stderr.contains("is locked by another program"), "{refused:?}");
    other.execute_batch("COMMIT").unwrap();
    wait_for("what waited", || {
        (home.json(["show", &session])["state"]["summary"]["name"] == "first").then_some(())
    });
    drop(waiting);
}

#[test]
fn a_taken_port_gives_the_same_exit_code_in_the_foreground_and_in_the_background() {
    let home = home();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for how in [&["up", "--no-open"][..], &["up", "--no-open", "--detach"]] {
        let refused = home.run(how.iter().chain(&["--listen", &address]));
        assert!(refused.code == 1 && refused.stderr.contains("is taken"), "{how:?}: {refused:?}");
    }
    let wrong = home.run(["up", "--no-open", "--detach", "--set", "log.levl=info"]);
    assert_eq!(wrong.code, 2, "{wrong:?}");
    assert_eq!(home.record(), None);
}

// ------------------------------------------------------------------------------------ the audit

#[test]
fn a_later_change_of_the_daemons_log_is_found() {
    let home = home();
    home.up();
    let token = home.json(["token", "create", "ada", "--role", "viewer"])["token"]["token"].clone();
    assert_eq!(home.run(["token", "revoke", "ada"]).code, 0);
    let whole = home.json(["audit", "verify"]);
    assert_eq!((&whole["whole"], &whole["broken"]), (&json!(true), &Value::Null));
    let head = whole["head"].as_str().unwrap().to_owned();
    let plain = home.run(["audit", "verify"]).ok();
    assert!(plain.contains("entries of the daemon's log match their seals") && plain.contains("\nhead "));
    home.signal(Signal::TERM);
    home.ended();
    let later = home.run(["audit", "verify", "--head", &head]).ok();
    assert!(later.contains("no entry before the head was changed"), "{later}");

    let database = rusqlite::Connection::open(home.path().join("portolan.db")).unwrap();
    let frames: Vec<String> = {
        let mut select = database
            .prepare("SELECT frame FROM entries JOIN logs ON logs.key = entries.id >> 40 WHERE name = 'daemon' ORDER BY id")
            .unwrap();
        select.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    let kinds: Vec<String> = frames
        .iter()
        .map(|frame| {
            serde_json::from_str::<Value>(frame).unwrap()["event"]["type"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(kinds, ["started", "door_opened", "token_created", "token_revoked", "stopping"]);
    let changed = database
        .execute(
            "UPDATE entries SET frame = replace(frame, 'token_revoked', 'token_created') WHERE frame LIKE '%token_revoked%'",
            [],
        )
        .unwrap();
    assert_eq!(changed, 1);
    drop(database);
    let broken = home.run(["audit", "verify", "--json"]);
    assert_eq!(broken.code, 9, "{broken:?}");
    let told: Value = serde_json::from_str(&broken.stdout).unwrap();
    assert_eq!((&told["whole"], &told["broken"]), (&json!(false), &json!({"how": "changed", "seq": 4})));
    assert!(broken.stderr.contains("entry 4 does not match its seal"), "{broken:?}");
    assert!(token.is_string());

    let nonsense = home.run(["audit", "verify", "--head", "7"]);
    assert!(nonsense.code == 2 && nonsense.stderr.contains("64 hexadecimal digits"), "{nonsense:?}");
}

#[test]
fn the_daemons_log_can_be_read_and_names_every_listener() {
    let home = home();
    home.configure(
        "[handheld]\nlisten = \"127.0.0.1:0\"\n\
         [insights]\nlisten = \"127.0.0.1:0\"\nallow_anonymous_loopback = true\n",
    );
    home.up();
    home.run(["token", "create", "ada"]).ok();
    let list = |more: &[&str]| -> Vec<Value> {
        let text = home.run(["audit", "list", "--json"].iter().chain(more)).ok();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let all = list(&[]);
    let doors: Vec<(&Value, &Value)> = all
        .iter()
        .filter(|entry| entry["event"]["type"] == "door_opened")
        .map(|entry| (&entry["event"]["frontend"], &entry["event"]["tokenless"]))
        .collect();
    let expected = [
        (&Value::Null, &Value::Null),
        (&json!("insights"), &json!(true)),
        (&json!("handheld"), &json!(true)),
    ];
    assert_eq!(doors, expected);
    let handheld = all.iter().find(|entry| entry["event"]["frontend"] == "handheld").unwrap();
    let address = handheld["event"]["addresses"][0].as_str().unwrap();
    assert!(address.starts_with("127.0.0.1:") && !address.ends_with(":0"), "{address}");
    assert_eq!(all.last().unwrap()["event"]["name"], "ada", "the newest last");
    assert_eq!(list(&["--limit", "2"]), all[all.len() - 2..]);
    home.signal(Signal::TERM);
    home.ended();
    let plain = home.run(["audit", "list"]).ok();
    let made = plain.lines().find(|line| line.contains("token_created")).unwrap();
    assert!(made.contains("owner (cli)") && made.contains("\"name\":\"ada\""), "{plain}");
    assert!(plain.lines().last().unwrap().contains("stopping"), "it needs no daemon: {plain}");
}

#[test]
fn the_audit_is_listed_shown_and_exported_with_and_without_a_daemon() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = home();
    home.up();
    let rule = home.json(["rules", "add", "deny", "Bash(rm -r)"])["rule"].as_str().unwrap().to_owned();
    home.run(["token", "create", "ada"]).ok();
    let list = |more: &[&str]| -> Vec<Value> {
        let text = home.run(["audit", "list", "--json"].iter().chain(more)).ok();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let url = home.record().unwrap()["url"].as_str().unwrap().to_owned();
    let token = home.path().join("token");
    let by_url = ["--url", &url, "--token-file", token.to_str().unwrap()];
    let all = list(&["--who", "owner"]);
    let whats: Vec<&str> = all.iter().map(|record| record["what"].as_str().unwrap()).collect();
    assert_eq!(whats, ["rule_saved", "token_created"]);
    assert_eq!(list(&[&["--who", "owner"], &by_url[..]].concat()), all, "a daemon gives the same records");
    let viewer = home.path().join("viewer");
    home.run(["token", "create", "bob", "--role", "viewer", "-o", viewer.to_str().unwrap()]).ok();
    let refused = home.run(["audit", "list", "--url", &url, "--token-file", viewer.to_str().unwrap()]);
    assert!(refused.code == 1 && refused.stderr.contains("needs the role owner"), "{refused:?}");
    home.signal(Signal::TERM);
    home.ended();

    assert_eq!(list(&["--rule", &rule, "--since", "1h"]), all[..1]);
    assert_eq!(list(&["--who", "owner", "--oldest", "--limit", "1"]), all[..1]);
    assert_eq!(list(&["--who", "owner", "--newest-first"])[1..], [all[1].clone(), all[0].clone()]);
    assert_eq!(list(&["--who", "nobody"]), Vec::<Value>::new());
    let position = all[0]["position"].to_string();
    let shown = home.json(["audit", "show", &position]);
    assert_eq!((&shown["record"], &shown["link"]["matches"]), (&all[0], &json!(true)));
    assert!(home.run(["audit", "show", &position]).ok().contains("the entry matches its seal"));
    let missing = home.run(["audit", "show", "999999"]);
    assert!(missing.code == 4 && missing.stderr.contains("no record `999999`"), "{missing:?}");

    let file = home.path().join("audit.jsonl");
    let export = ["audit", "export", "--who", "owner", "-o", file.to_str().unwrap()];
    home.run(export).ok();
    let lines = std::fs::read_to_string(&file).unwrap();
    let written: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(written[..2], all);
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(home.run(export).code, 2, "a file that exists is kept");
    let table = home.run(["audit", "export", "--format", "csv", "--rule", &rule]).ok();
    let rows: Vec<&str> = table.lines().collect();
    assert!(rows.len() == 2 && rows[0].starts_with("record,time,what,who"), "{table}");
    assert!(rows[1].contains("\"rule_saved\",\"owner (cli)\""), "{table}");

    let database = rusqlite::Connection::open(home.path().join("portolan.db")).unwrap();
    let changed =
        "UPDATE entries SET frame = replace(frame, 'rm -r', 'rm -i') WHERE frame LIKE '%rule_saved%'";
    assert_eq!(database.execute(changed, []).unwrap(), 1);
    drop(database);
    assert!(home.run(["audit", "show", &position]).ok().contains("the entry does not match its seal"));
}

#[test]
fn an_agent_that_is_not_installed_is_refused_at_once() {
    let home = home();
    home.configure("[agents.claude]\ncommand = [\"/nowhere/claude\"]");
    home.up();
    let refused = home.run(["new", "claude", "hello"]);
    assert!(refused.code == 4 && refused.stderr.contains("/nowhere/claude"), "{refused:?}");
    assert_eq!(home.json(["ls"]), json!([]), "no session was created");
}
