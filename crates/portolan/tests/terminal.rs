//! `attach` at a real terminal: keys, answers, and what an agent must not be able to do to the terminal.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::time::Duration;

use portolan_testkit::{
    daemon::{Home, wait_for},
    terminal::Terminal,
};

fn home() -> Home {
    let home = Home::new(env!("CARGO_BIN_EXE_portolan"));
    home.up();
    home
}

fn attach(home: &Home, session: &str) -> Terminal {
    Terminal::start(home.command(["attach", session]))
}

/// A request takes no answer until it is on the screen for half a second; a test must wait at least this long.
const GUARD: Duration = Duration::from_millis(600);

// covers: 003-009
#[test]
fn one_key_approves_and_the_terminal_is_restored_at_the_end() {
    let home = home();
    let session = home.run(["new", "demo", "tool fast"]).ok().trim().to_owned();
    let mut one = attach(&home, &session);
    let other = attach(&home, &session);
    one.see("y allow");
    other.see("y allow");
    std::thread::sleep(GUARD);
    one.press("y");
    one.see("allowed by owner (cli)");
    other.see("allowed by owner (cli)");
    other.see("done");
    one.press("say goodbye\r");
    one.see("\u{1b}[1m› say goodbye");
    other.see("\u{1b}[1m› say goodbye");
    assert!(!one.is_as_before(), "keys come one by one while it runs");
    one.press("\u{4}");
    assert!(one.ended().success());
    assert!(one.is_as_before());
    // The cursor is visible again.
    one.see_last("\u{1b}[?25h");
}

#[test]
fn a_denial_with_a_reason_and_an_interrupt() {
    let home = home();
    let session = home.run(["new", "demo", "tool fast"]).ok().trim().to_owned();
    let mut terminal = attach(&home, &session);
    terminal.see("y allow");
    std::thread::sleep(GUARD);
    terminal.press("d");
    terminal.see("reason ›");
    terminal.press("too early\r");
    terminal.see("denied by owner (cli): too early");
    terminal.press("slow\r");
    // The agent's text is on the screen, so its turn runs.
    terminal.see("1 2 3");
    terminal.press("\u{3}");
    terminal.see("── interrupted");
    terminal.press("\u{3}");
    terminal.press("\u{3}");
    assert!(terminal.ended().success());
}

#[test]
fn an_agent_cannot_write_to_the_clipboard_or_move_the_cursor() {
    let home = home();
    let hostile = "say \u{1b}]52;c;ZXZpbA==\u{7}\u{1b}[2J\u{1b}[31mred\u{202e}end";
    let session = home.run(["new", "demo", hostile]).ok().trim().to_owned();
    let mut terminal = attach(&home, &session);
    terminal.see("red<U+202E>end");
    terminal.see("idle");
    let output = terminal.output();
    assert!(
        !output.contains("]52;") && !output.contains("\u{1b}[2J") && !output.contains("\u{1b}[31mred"),
        "{output:?}"
    );
    assert!(!output.contains('\u{202e}'));
    terminal.press("\u{4}");
    assert!(terminal.ended().success());
}

#[test]
fn a_terminal_reconnects_by_itself_after_a_kill_of_the_daemon() {
    let home = home();
    let session = home.run(["new", "demo", "say first words"]).ok().trim().to_owned();
    let mut terminal = attach(&home, &session);
    terminal.see("first words");
    terminal.see("idle");
    home.kill();
    terminal.see("connection lost");
    home.up();
    terminal.see("ended");
    terminal.press("say second words\r");
    terminal.see("\u{1b}[1m› say second words");
    wait_for("the second turn", || (terminal.output().matches("── done").count() == 2).then_some(()));
    terminal.press("\u{4}");
    assert!(terminal.ended().success());
    let prompts = terminal.output().matches("\u{1b}[1m› say first words").count();
    assert_eq!(prompts, 1, "no line is repeated");
}

#[test]
fn a_terminal_stays_through_a_restart_of_the_daemon_during_a_turn() {
    let home = Home::new(env!("CARGO_BIN_EXE_portolan"));
    home.configure("[limits]\nshutdown_grace_seconds = 1\n[agents]\noutlive = true");
    home.up();
    let session = home.run(["new", "demo", "tool fast"]).ok().trim().to_owned();
    let mut terminal = attach(&home, &session);
    terminal.see("y allow");
    home.json(["restart"]);
    assert_eq!(home.ended(), 0);
    terminal.see("connection lost");
    // The same request, which is answered once.
    wait_for("the request again", || (terminal.output().matches("y allow").count() >= 2).then_some(()));
    std::thread::sleep(GUARD);
    terminal.press("y");
    terminal.see("allowed by owner (cli)");
    terminal.see("done");
    terminal.press("\u{4}");
    assert!(terminal.ended().success());
    let prompts = terminal.output().matches("\u{1b}[1m› tool fast").count();
    assert_eq!(prompts, 1, "no line is repeated");
    home.run(["down", "--end"]).ok();
}

#[test]
fn down_asks_whether_running_agents_go_on_and_does_what_the_answer_says() {
    for daemon in [true, false] {
        for (answer, agents) in [("y", 1), ("n", 0), ("", 0)] {
            let home = Home::new(env!("CARGO_BIN_EXE_portolan"));
            home.configure("[limits]\nshutdown_grace_seconds = 1\n[agents]\noutlive = true");
            home.up();
            let session = home.run(["new", "demo", "say hello"]).ok().trim().to_owned();
            home.until_status(&session, "idle");
            if !daemon {
                home.kill();
            }
            let mut terminal = Terminal::start(home.command(["down"]));
            terminal.see("1 agent can continue without the daemon. Let it continue? (no: end it) [y/N]");
            terminal.press(&format!("{answer}\r"));
            assert!(terminal.ended().success(), "{}", terminal.output());
            if daemon {
                assert_eq!(home.ended(), 0);
            }
            assert_eq!(home.holders().len(), agents, "daemon {daemon}, answer `{answer}`");
            assert_eq!(home.agents(&session).len(), agents, "daemon {daemon}, answer `{answer}`");
            match (agents, daemon) {
                (1, _) => terminal.see("`portolan up` takes over running agents"),
                (_, true) => terminal.see_last("stopped\r\n"),
                (_, false) => terminal.see_last("agents of an earlier daemon that were ended: 1\r\n"),
            }
            if agents > 0 {
                home.run(["down", "--end"]).ok();
            }
        }
    }
}

#[test]
fn the_agent_gets_the_edited_input() {
    let home = home();
    let session = home.run(["new", "demo", "tool fast"]).ok().trim().to_owned();
    // An editor that replaces the text.
    let editor = home.path().join("editor");
    std::fs::write(&editor, "#!/bin/sh\necho '{\"command\": \"ls -a\"}' > \"$1\"\n").unwrap();
    std::fs::set_permissions(&editor, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let mut command = home.command(["attach", &session]);
    command.env("EDITOR", &editor).env_remove("VISUAL");
    let mut terminal = Terminal::start(command);
    terminal.see("y allow");
    std::thread::sleep(GUARD);
    terminal.press("e");
    terminal.see("allowed by owner (cli), with edited input");
    terminal.press("\u{4}");
    assert!(terminal.ended().success());
    assert!(terminal.is_as_before());
}

/// An `xdg-open` that records its arguments.
fn desktop(command: &mut std::process::Command, folder: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt as _;
    let script = "#!/bin/sh\ncd \"$(dirname \"$0\")\" || exit 1\nstat -c %a \"$1\" >mode\ncat \"$1\" >page\n\
                  stat -c %a \"$(dirname \"$1\")\" >folder\nprintf '%s\\n' \"$@\" >given.new\nmv given.new given\n";
    let program = folder.join("xdg-open");
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    command
        .env("PATH", format!("{}:{path}", folder.display()))
        .env("DISPLAY", ":0")
        .env_remove("SSH_CONNECTION");
}

#[test]
fn a_browser_gets_the_one_time_link_in_a_file_that_no_other_user_can_read() {
    let home = Home::new(env!("CARGO_BIN_EXE_portolan"));
    for (arguments, printed) in [(&["up", "--detach"][..], "open   http://"), (&["open"][..], "http://")] {
        let folder = tempfile::tempdir().unwrap();
        let mut command = home.command(arguments);
        desktop(&mut command, folder.path());
        let mut terminal = Terminal::start(command);
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).ok();
        let given = wait_for("the browser", || read("given"));
        assert!(terminal.ended().success(), "{}", terminal.output());
        let file = std::path::Path::new(given.trim_end());
        assert!(file.starts_with(home.path()) && given.lines().count() == 1, "{given}");
        assert!(!given.contains("ptt_"), "the ticket can be read by everyone: {given}");
        assert_eq!((read("mode").unwrap().trim(), read("folder").unwrap().trim()), ("600", "700"));
        let page = read("page").unwrap();
        let link = page.split("url=").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
        assert!(link.starts_with("http://127.0.0.1:") && link.contains("/#ticket=ptt_"), "{page}");
        assert!(terminal.output().contains(printed), "{}", terminal.output());
        assert!(terminal.output().contains(link), "the same link: {}", terminal.output());
    }
    home.run(["down"]).ok();
}

#[test]
fn a_key_for_a_request_that_was_answered_elsewhere_does_not_become_a_prompt() {
    let home = home();
    let session = home.run(["new", "demo", "tool fast"]).ok().trim().to_owned();
    let mut terminal = attach(&home, &session);
    terminal.see("y allow");
    std::thread::sleep(GUARD);
    let number = home.json(["show", &session])["state"]["requests"][0]["request"].to_string();
    assert_eq!(home.run(["approve", &session, &number]).code, 0);
    terminal.see("allowed by owner (cli)");
    terminal.press("y");
    terminal.see(&format!("too late: request {number} is closed"));
    // If the key were still in the line, this would send it.
    terminal.press("\rsay goodbye\r");
    terminal.see("\u{1b}[1m› say goodbye");
    terminal.press("\u{4}");
    assert!(terminal.ended().success());
    assert!(!terminal.output().contains("\u{1b}[1m› y"), "{:?}", terminal.output());
}
