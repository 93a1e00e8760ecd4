//! The handheld behind the real daemon: a client with the limits of the app presses every button, with the demo agent
//! and with the real Claude Code. Offline: the model is scripted, the home is empty, the key is invalid.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use portolan_contract::{Profile, profile};
use portolan_scripted::{Script, Server, contains, text, tool, tools};
use portolan_testkit::{
    daemon::{Home, wait_for},
    handheld::App,
    npm::{self, Pinned, claude, codex},
};
use serde_json::{Value, json};

/// The newest version, which uses stdio; and the last version that dials in.
const VERSIONS: [&str; 2] = ["2.1.325", "2.1.120"];

/// A home whose handheld accepts approved devices.
fn home(agent: &str, more: &str) -> (Home, tempfile::TempDir) {
    let home = Home::new(env!("CARGO_BIN_EXE_portolan"));
    let folder = tempfile::tempdir().unwrap();
    let work = folder.path().join("shop");
    std::fs::create_dir(&work).unwrap();
    home.configure(&format!(
        "[handheld]\nlisten = \"127.0.0.1:0\"\nagent = \"{agent}\"\nfolder = {}\n{more}",
        json!(work)
    ));
    (home, folder)
}

fn address(home: &Home) -> SocketAddr {
    home.json(["handheld", "status"])["listen"].as_str().unwrap().parse().unwrap()
}

/// The app, after the owner has approved it.
fn app(home: &Home) -> App {
    assert_eq!(home.run(["devices", "approve", "127.0.0.1"]).code, 0);
    let mut app = App::connect(address(home)).unwrap();
    app.until("four slots", |app| app.slots.iter().all(|slot| !slot.is_null()));
    app
}

/// Switches auto-edit on.
fn edits_alone(app: &mut App, slot: usize) {
    app.auto_edit("true");
    app.until("auto-edit", |app| app.slots[slot]["autoEdit"] == true);
}

/// The session behind a slot.
fn session(home: &Home, slot: usize) -> String {
    let standing = home.json(["handheld", "status"]);
    let sessions = standing["sessions"].as_array().unwrap();
    let found = sessions.iter().find(|session| session["slot"] == json!(slot));
    found.unwrap()["session"].as_str().unwrap().to_owned()
}

fn state(home: &Home, session: &str) -> Value {
    home.json(["show", session])["state"].clone()
}

// covers: 000-001, 000-006, 000-082
#[test]
fn a_device_waits_until_the_owner_approves_it_and_the_approval_outlives_the_daemon() {
    let (home, _folder) = home("demo", "");
    home.up();
    let refused = App::connect(address(&home)).unwrap_err();
    assert!(refused.contains("403"), "{refused}");
    let devices = home.json(["devices", "list"]);
    assert_eq!((&devices[0]["address"], &devices[0]["state"]), (&json!("127.0.0.1"), &json!("held")));
    assert!(home.run(["devices", "list"]).stdout.contains("waits for approval"));
    let mut first = app(&home);
    let names: Vec<_> = first.slots.iter().map(|slot| slot["agent"].clone()).collect();
    assert_eq!(names, ["slot-0", "slot-1", "slot-2", "slot-3"]);
    assert_eq!(home.run(["devices", "revoke", "127.0.0.1"]).code, 0);
    wait_for("the end of the connection", || first.poll().err());
    assert!(App::connect(address(&home)).is_err());
    assert_eq!(home.run(["devices", "approve", "127.0.0.1"]).code, 0);
    home.kill();
    home.up();
    let mut second = App::connect(address(&home)).unwrap();
    second.until("four slots", |app| app.slots.iter().all(|slot| !slot.is_null()));
    // Only owners manage devices: an operator's token cannot list them.
    let token = home.path().join("operator");
    let made = home.run(["token", "create", "op", "--role", "operator", "-o", token.to_str().unwrap()]);
    assert_eq!(made.code, 0, "{made:?}");
    let url = home.record().unwrap()["url"].as_str().unwrap().to_owned();
    let asked = home.run(["--url", &url, "--token-file", token.to_str().unwrap(), "devices", "list"]);
    assert!(asked.code == 1 && asked.stderr.contains("needs the role owner"), "{asked:?}");
    assert_eq!(home.run(["down"]).code, 0);
}

// covers: 000-001, 000-061, 000-062, 000-063, 000-064, 000-085, 000-086, 000-087, 000-090, 000-096
#[test]
fn every_button_works_with_the_demo_agent() {
    let (home, _folder) = home("demo", "");
    home.up();
    let mut app = app(&home);
    let (one, two) = (app.spawn(), app.spawn());
    assert_eq!((one, two), (0, 1));
    assert_eq!(app.slots[two]["agent"], "demo-1 shop");
    let first = session(&home, one);

    // A native client sees each answer, and who gave it.
    let beside = home.watch(["--json", "attach", &first]);
    app.command(one, "tool, fast");
    let panel = app.panel(one, "Bash");
    assert!(panel["promptToolDetail"].as_str().is_some_and(|detail| !detail.is_empty()), "{panel}");
    app.decide(one, "no");
    let closed = beside.line(r#""type":"request_closed""#);
    assert!(
        closed.contains("handheld at 127.0.0.1") && closed.contains("Denied by user via rAI3DS"),
        "{closed}"
    );
    app.state(one, "idle");

    app.command(one, "ls, fast");
    app.panel(one, "Bash");
    app.decide(one, "yes");
    app.until("the end of the turn", |app| app.slots[one]["state"] == "idle");
    app.command(one, "tool, fast");
    app.panel(one, "Bash");
    app.decide(one, "always");
    app.until("the end of the turn", |app| app.slots[one]["state"] == "idle");
    assert_eq!(state(&home, &first)["rules"], json!(["Bash"]));

    // The other slot meanwhile: a plan, a question, an interrupt.
    app.command(two, "plan, fast");
    let panel = app.panel(two, "Plan");
    assert!(panel["promptToolDetail"].as_str().unwrap().contains("Draw the coast"), "{panel}");
    app.decide(two, "yes");
    app.message(two, "Approved. We sail at dawn.");
    app.state(two, "idle");
    app.command(two, "question, fast");
    app.panel(two, "Question 1/3: Course");
    app.press(two, "yes");
    app.reply(two, "1");
    app.panel(two, "Question 2/3: Cargo");
    app.reply(two, "1,3");
    app.panel(two, "Question 3/3: Name");
    app.reply(two, "Argo");
    app.message(two, "Noted:");
    app.state(two, "idle");
    app.command(two, "slow");
    app.state(two, "working");
    app.press(two, "escape");
    app.message(two, "Interrupted");
    assert_eq!(app.slots[two]["state"], "idle", "not an error");

    // Auto-edit: an edit is approved automatically, a shell command is not.
    app.auto_edit("true");
    app.until("auto-edit", |app| app.slots.iter().all(|slot| slot["autoEdit"] == true));
    app.command(two, "edit, fast");
    app.until("the edit", |app| {
        app.slots[two]["state"] == "idle" && app.slots[two]["message"] != "Interrupted"
    });
    let second = state(&home, &session(&home, two));
    let approved = &second["closed_requests"].as_array().unwrap().last().unwrap()["outcome"];
    assert_eq!(approved["by"]["rule"], "mode acceptEdits, set by auto-edit", "{approved}");
    app.command(two, "tool, fast");
    app.panel(two, "Bash");
    app.press(two, "escape");
    app.message(two, "Interrupted");

    // A flaw of the app: a quote makes a message that cannot be parsed. The daemon ignores it.
    app.command(two, "say \"hi\"");
    app.command(two, "say after it");
    app.message(two, "after it");
    app.command(two, "exit 0");
    app.state(two, "done");
    assert_eq!(app.slots[two]["active"], false);
    assert_eq!(app.spawn(), two, "a slot that is done is spawned again");
    assert_eq!(home.run(["down"]).code, 0);
}

// covers: 000-078, 000-088, 000-092, 000-093, 000-097
#[test]
fn the_owner_binds_sessions_to_slots_and_they_survive_a_kill() {
    let (home, _folder) = home("demo", "fill = false\n");
    home.up();
    let made = home.run(["new", "demo", "say hello from elsewhere"]).ok().trim().to_owned();
    assert_eq!(home.run(["handheld", "bind", "4", &made]).code, 2, "there are four slots, 0 to 3");
    assert_eq!(home.run(["handheld", "bind", "2", "ffffffff"]).code, 4, "there is no such session");
    assert_eq!(home.run(["handheld", "bind", "2", &made[..8]]).code, 0);
    let mut first = app(&home);
    first.message(2, "hello from elsewhere");
    assert_eq!(session(&home, 2), made);
    for expected in [0, 1, 3] {
        assert_eq!(first.spawn(), expected);
    }
    first.command(0, "spawn");
    first.until("no room", |app| app.results.len() == 4);
    assert_eq!(
        first.results[3],
        json!({ "type": "spawn_result", "slot": -1, "success": false, "error": "No free slots" })
    );
    assert_eq!(home.run(["handheld", "unbind", "3"]).code, 0);
    first.until("an empty slot", |app| app.slots[3]["agent"] == "slot-3");
    assert_eq!(home.run(["handheld", "unbind", "3"]).code, 4, "it is empty");
    let (zero, own) = (session(&home, 0), state(&home, &made)["summary"]["agent_session"].clone());
    home.kill();
    home.up();
    let mut second = app(&home);
    second.until("what ran to run again", |app| {
        [0, 1, 2].iter().all(|slot| app.slots[*slot]["active"] == true && app.slots[*slot]["state"] == "idle")
    });
    assert_eq!((session(&home, 0), session(&home, 2)), (zero, made.clone()));
    assert_eq!(second.slots[3]["agent"], "slot-3");
    assert_eq!(state(&home, &made)["summary"]["agent_session"], own, "under its own id");
    let shown = home.run(["handheld", "status"]).ok();
    assert!(shown.contains("auto-edit off") && shown.contains(&made), "{shown}");
    assert_eq!(home.run(["down"]).code, 0);
}

// covers: 000-091
#[test]
fn without_a_listener_there_is_no_handheld_and_the_error_says_how_to_get_one() {
    let home = Home::new(env!("CARGO_BIN_EXE_portolan"));
    home.up();
    for verb in [["handheld", "status"], ["devices", "list"]] {
        let asked = home.run(verb);
        assert!(asked.code == 1 && asked.stderr.contains("[handheld]"), "{asked:?}");
    }
    assert_eq!(home.run(["down"]).code, 0);
    home.configure("[handheld]\nlisten = \"127.0.0.1:0\"\nallow = [\"home\"]\n");
    let refused = home.run(["config", "check"]);
    assert!(refused.code != 0 && refused.stderr.contains("not an address or a network"), "{refused:?}");
}

fn script() -> Script {
    Script::new()
        .on(contains("please allow"))
        .reply(tool("Bash", json!({ "command": "touch allowed.txt", "description": "Make a file" })))
        .then(text("It ran."))
        .on(contains("please refuse"))
        .reply(tool("Bash", json!({ "command": "touch denied.txt" })))
        .then(text("I was told: {last_tool_result}"))
        .on(contains("please always"))
        .reply(tool("Bash", json!({ "command": "touch always.txt" })))
        .then(text("Always then."))
        .on(contains("please repeat"))
        .reply(tool("Bash", json!({ "command": "touch again.txt" })))
        .then(text("Without asking."))
        .on(contains("please write"))
        .reply(tool("Write", json!({ "file_path": "written.txt", "content": "words" })))
        .then(text("Written."))
        .on(contains("please question"))
        .reply(tool(
            "AskUserQuestion",
            json!({ "questions": [{ "question": "Which one?", "header": "Pick", "multiSelect": false, "options": [
                { "label": "Red", "description": "warm" }, { "label": "Blue", "description": "cool" }] }] }),
        ))
        .then(text("You chose: {last_tool_result}"))
        .on(contains("please ramble"))
        .reply(text("word ".repeat(2000)).chunks_of(5).each_after(std::time::Duration::from_millis(50)))
}

/// Every button with the real CLI.
fn play(version: &'static str, model: &str) {
    let program = claude(version).program().unwrap();
    let agent_home = tempfile::tempdir().unwrap();
    let quoted = |value: &Path| json!(value).to_string();
    let (home, folder) = home(
        "claude",
        &format!(
            "[agents.claude]\ncommand = [{}]\n[agents.claude.env]\nHOME = {}\nANTHROPIC_BASE_URL = {}\n\
             ANTHROPIC_API_KEY = \"fake\"\nCLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC = \"1\"\n\
             DISABLE_AUTOUPDATER = \"1\"\nDISABLE_TELEMETRY = \"1\"\n",
            quoted(&program),
            quoted(agent_home.path()),
            json!(model)
        ),
    );
    let work = folder.path().join("shop");
    let made = |name: &str| work.join(name).exists();
    home.up();
    let mut app = app(&home);
    let slot = app.spawn();
    app.command(slot, "please allow");
    let panel = app.panel(slot, "Bash");
    assert_eq!(
        (&panel["promptToolDetail"], &panel["state"]),
        (&json!("touch allowed.txt"), &json!("waiting"))
    );
    app.decide(slot, "yes");
    app.message(slot, "It ran.");
    app.state(slot, "idle");
    assert!(made("allowed.txt"), "{version}");
    assert!(app.slots[slot]["contextPercent"].as_u64().is_some(), "{version}");

    app.command(slot, "please refuse");
    app.panel(slot, "Bash");
    app.decide(slot, "no");
    app.message(slot, "Denied by user via rAI3DS");
    app.state(slot, "idle");
    assert!(!made("denied.txt"), "{version}");

    app.command(slot, "please always");
    app.panel(slot, "Bash");
    app.decide(slot, "always");
    app.message(slot, "Always then.");
    app.state(slot, "idle");
    app.command(slot, "please repeat");
    app.message(slot, "Without asking.");
    app.state(slot, "idle");
    assert!(made("always.txt") && made("again.txt"), "{version}");

    edits_alone(&mut app, slot);
    app.command(slot, "please write");
    app.message(slot, "Written.");
    app.state(slot, "idle");
    assert!(made("written.txt"), "{version}");

    app.command(slot, "please question");
    let panel = app.panel(slot, "Question: Pick");
    assert!(panel["promptToolDetail"].as_str().unwrap().starts_with("Which one?\n1 Red: warm"), "{panel}");
    app.press(slot, "yes");
    app.reply(slot, "2");
    app.message(slot, "You chose:");
    app.state(slot, "idle");
    assert!(app.slots[slot]["message"].as_str().unwrap().contains("Blue"), "{:#}", app.slots[slot]);

    app.command(slot, "please ramble");
    app.state(slot, "working");
    // Only after the model has begun to answer: before that, some versions have nothing to interrupt.
    let talks = session(&home, slot);
    wait_for("the first words", || state(&home, &talks)["items"].get(0).cloned());
    app.press(slot, "escape");
    app.message(slot, "Interrupted");
    assert_eq!(app.slots[slot]["state"], "idle", "{version}: not an error");
    assert_eq!(home.run(["down"]).code, 0);
}

// covers: 000-001, 000-044, 000-045, 000-061, 000-062, 000-063, 000-064
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_button_works_with_the_real_claude_code() {
    for version in VERSIONS {
        let model = Server::start(script().asides(text("scripted"))).await.unwrap();
        let base_url = model.base_url();
        tokio::task::spawn_blocking(move || play(version, &base_url)).await.unwrap();
        model.shutdown().await;
    }
}

/// The paths to which auto-edit must never let an agent write: their names in a prompt, and the files that an approval
/// would write.
struct Traps {
    /// A link in the session's folder that points outside of it.
    outside: tempfile::TempDir,
    work: PathBuf,
}

impl Traps {
    fn in_folder(work: &Path) -> Self {
        let outside = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(outside.path(), work.join("link")).unwrap();
        std::fs::create_dir_all(work.join(".git/hooks")).unwrap();
        std::fs::create_dir_all(work.join(".claude")).unwrap();
        Self { outside, work: work.canonicalize().unwrap() }
    }

    /// The word, the path that the model names, and the file that the model would create.
    fn all(&self) -> [(&'static str, PathBuf, PathBuf); 3] {
        let inside = |path: &str| self.work.join(path);
        [
            ("outside", inside("link/escaped.txt"), self.outside.path().join("escaped.txt")),
            ("hook", inside(".git/hooks/pre-commit"), inside(".git/hooks/pre-commit")),
            ("settings", inside(".claude/settings.json"), inside(".claude/settings.json")),
        ]
    }
}

/// A real CLI, its model and its folder.
struct Cast {
    profile: Profile,
    program: Pinned,
}

/// Auto-edit with a real CLI: an ordinary file is written without a request, everything else opens a request.
fn edit_with(cast: &Cast, work: &Path, traps: &Traps, model: &str) {
    let Cast { profile, program } = cast;
    let (kind, version) = (profile.agent, program.version);
    let agent_home = tempfile::tempdir().unwrap();
    let path = std::env::var_os("PATH").unwrap();
    // The agent uses the PATH of the daemon, which the configuration cannot set.
    let environment: Vec<String> = (profile.environment)(agent_home.path(), model, path)
        .iter()
        .filter(|(name, _)| name != "PATH")
        .map(|(name, value)| format!("{} = {}", name.to_str().unwrap(), json!(value.to_str().unwrap())))
        .collect();
    let environment = environment.join("\n");
    let command: Vec<_> =
        program.command().unwrap().into_iter().map(|it| it.into_string().unwrap()).collect();
    let home = Home::new(env!("CARGO_BIN_EXE_portolan"));
    home.configure(&format!(
        "[handheld]\nlisten = \"127.0.0.1:0\"\nagent = \"{kind}\"\n[agents.{kind}]\ncommand = {}\n\
         [agents.{kind}.env]\n{environment}\n",
        json!(command)
    ));
    home.up();
    let mut app = app(&home);
    let (mode, slot) = (profile.modes.unwrap().0, 0);
    let made = home.run(["new", kind, "please begin", "--cwd", work.to_str().unwrap(), "--mode", mode]).ok();
    app.until("a session", |app| app.slots[slot]["active"] == true && app.slots[slot]["message"] == "Begun.");
    app.state(slot, "idle");
    edits_alone(&mut app, slot);
    for (word, _, lands) in traps.all() {
        app.command(slot, &format!("please {word}"));
        app.state(slot, "waiting");
        assert!(!lands.exists(), "{kind} {version}: {word}");
        app.decide(slot, "no");
        app.state(slot, "idle");
        assert!(!lands.exists(), "{kind} {version}: {word}");
    }
    app.command(slot, "please ordinary");
    let written = work.join("ordinary.txt");
    wait_for("the ordinary file", || written.exists().then_some(()));
    app.state(slot, "idle");
    let state = state(&home, made.trim());
    let answered = state["closed_requests"].as_array().unwrap().iter();
    let by: Vec<_> = answered.map(|closed| closed["outcome"]["by"].clone()).collect();
    let (last, people) = by.split_last().unwrap();
    assert!(
        people.len() == 3 && people.iter().all(|by| by["name"] == "handheld at 127.0.0.1"),
        "{kind} {version}: {by:?}"
    );
    assert_eq!(last["rule"], "mode acceptEdits, set by auto-edit", "{kind} {version}");
    assert_eq!(home.run(["down"]).code, 0);
}

// Auto-edit once gave access to a shell. Tests each agent that can ask about an edit, except the demo agent below.
// covers: 000-045
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn auto_edit_asks_about_links_hooks_and_settings_with_real_agents() {
    let cast = |profile, program| Cast { profile, program };
    for cast in [
        cast(profile::CLAUDE, claude(VERSIONS[0])),
        cast(profile::CLAUDE, claude(VERSIONS[1])),
        cast(profile::CLAUDE_AGENT_ACP, npm::CLAUDE_AGENT_ACP),
        cast(profile::CODEX, codex("0.166.0")),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let work = folder.path().canonicalize().unwrap().join("shop");
        std::fs::create_dir(&work).unwrap();
        let traps = Traps::in_folder(&work);
        let mut script = Script::new().on(contains("please begin")).reply(text("Begun."));
        let ordinary = ("ordinary", work.join("ordinary.txt"), work.join("ordinary.txt"));
        for (word, path, _) in traps.all().into_iter().chain([ordinary]) {
            let call = (cast.profile.write)(&path, "{}\n");
            let rule = script.on(contains(format!("please {word}"))).reply(tools([call]));
            script = rule.then(text(format!("About {word}.")));
        }
        let model = Server::start(script.asides(text("scripted"))).await.unwrap();
        let base_url = model.base_url();
        tokio::task::spawn_blocking(move || edit_with(&cast, &work, &traps, &base_url)).await.unwrap();
        model.shutdown().await;
    }
}

/// A slot whose edit auto-edit leaves to people, for this reason.
fn asked_in_auto_edit(home: &Home, why: &str) -> (App, usize) {
    let mut app = app(home);
    let slot = app.spawn();
    edits_alone(&mut app, slot);
    app.command(slot, "edit, fast");
    let panel = app.panel(slot, "Edit");
    let told = panel["promptDescription"].as_str().unwrap();
    assert!(told.starts_with("Auto-edit asks you: `") && told.contains(why), "{told}");
    (app, slot)
}

// With the agent that every installation has.
// covers: 000-045
#[test]
fn auto_edit_asks_about_a_link_with_the_demo_agent_and_says_why() {
    let (home, folder) = home("demo", "");
    let (file, outside) = (folder.path().join("shop/harbour.txt"), folder.path().join("outside.txt"));
    std::os::unix::fs::symlink(&outside, &file).unwrap();
    home.up();
    let (mut app, slot) = asked_in_auto_edit(&home, "outside the session's folder");
    app.decide(slot, "no");
    app.state(slot, "idle");
    std::fs::remove_file(&file).unwrap();
    app.command(slot, "edit, fast");
    let session = session(&home, slot);
    let by = wait_for("the second edit", || {
        let closed = state(&home, &session)["closed_requests"].as_array().unwrap().clone();
        closed.get(1).map(|closed| closed["outcome"]["by"]["rule"].clone())
    });
    assert_eq!(by, "mode acceptEdits, set by auto-edit");
    assert_eq!(home.run(["down"]).code, 0);
}

// An agent that can write the daemon's own files can get the token, and with it a shell.
#[test]
fn auto_edit_asks_about_files_of_portolan_itself() {
    let home = Home::new(env!("CARGO_BIN_EXE_portolan"));
    home.configure(&format!(
        "[handheld]\nlisten = \"127.0.0.1:0\"\nagent = \"demo\"\nfolder = {}\n",
        json!(home.path())
    ));
    home.up();
    let _app = asked_in_auto_edit(&home, "belongs to Portolan itself");
    assert_eq!(home.run(["down"]).code, 0);
}
