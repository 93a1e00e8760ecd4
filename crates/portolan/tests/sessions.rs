//! Sessions from the command line, with the real binary and the demo agent.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::io::{Read as _, Write as _};

use portolan_testkit::daemon::{Home, wait_for};
use serde_json::{Value, json};

fn home() -> Home {
    let home = Home::new(env!("CARGO_BIN_EXE_portolan"));
    home.up();
    home
}

fn new(home: &Home, prompt: &str) -> String {
    home.run(["new", "demo", prompt]).ok().trim().to_owned()
}

fn state(home: &Home, session: &str) -> Value {
    home.json(["show", session])["state"].clone()
}

fn request(home: &Home, session: &str) -> Value {
    wait_for("a request", || state(home, session)["requests"].get(0).cloned())
}

/// The number of the open request, as a user types it.
fn number(home: &Home, session: &str) -> String {
    request(home, session)["request"].to_string()
}

fn entries(home: &Home, session: &str) -> Vec<Value> {
    let text = home.run(["--json", "show", session, "--entries"]).ok();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn idle(home: &Home, session: &str) {
    wait_for("the end of the turn", || {
        let state = state(home, session);
        (state["summary"]["status"] == "idle" && state["turn"].is_null()).then_some(())
    });
}

// covers: 003-009, 003-005
#[test]
fn two_terminals_see_one_session_and_who_answered() {
    let home = home();
    let session = new(&home, "tool fast");
    let (one, other) = (home.watch(["attach", &session]), home.watch(["attach", &session]));
    let asked = one.line("May I use Bash?");
    assert_eq!(other.line("May I use Bash?"), asked);
    let present = wait_for("both", || {
        let ran = home.watch(["--json", "attach", &session]);
        let line = ran.line("\"presence\"");
        let present = serde_json::from_str::<Value>(&line).unwrap()["present"].as_array()?.len();
        (present == 3).then_some(present)
    });
    assert_eq!(present, 3, "two terminals, and the client of this check");
    assert_eq!(home.run(["approve", &session, &number(&home, &session)]).code, 0);
    assert!(one.line("allowed by").contains("allowed by owner (cli)"));
    assert_eq!(other.line("allowed by"), one.line("allowed by"));
    one.line("── done");
    other.line("── done");
    assert_eq!(one.lines(), other.lines(), "both saw the same");
}

// covers: 003-006
#[test]
fn a_client_that_joins_late_sees_the_history_and_the_open_request() {
    let home = home();
    let session = new(&home, "tool fast");
    request(&home, &session);
    let late = home.watch(["attach", &session, "--from", "0"]);
    late.line("› tool fast");
    late.line("May I use Bash?");
    assert_eq!(home.run(["deny", &session, &number(&home, &session), "-m", "not now"]).code, 0);
    late.line("denied by owner (cli): not now");
}

#[test]
fn a_second_answer_is_refused_with_the_reason() {
    let home = home();
    let session = new(&home, "tool fast");
    let number = request(&home, &session)["request"].to_string();
    assert_eq!(home.run(["approve", &session, &number]).code, 0);
    let second = home.run(["deny", &session, &number]);
    assert_eq!(second.code, 4, "{second:?}");
    assert!(second.stderr.contains(&format!("request {number} is not open")), "{second:?}");
}

#[test]
fn an_answer_without_a_number_never_reaches_a_request_that_nobody_can_have_read() {
    let home = home();
    let session = new(&home, "show me everything fast");
    request(&home, &session);
    // Repeated presses: each press may answer only a request that was open long enough to be read.
    let answered = |entries: &[Value]| {
        entries.iter().filter(|entry| entry["event"]["type"] == "request_closed").cloned().collect::<Vec<_>>()
    };
    let mut refused = 0;
    let log = wait_for("two answers", || {
        let ran = home.run(["approve", &session]);
        if ran.stderr.contains("opened just now") {
            refused += 1;
            assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{ran:?}");
            assert!(ran.stderr.contains("May I use"), "the request is shown: {ran:?}");
        }
        assert!(ran.code != 0 || ran.stderr.contains("May I use"), "the answered request is shown: {ran:?}");
        let log = entries(&home, &session);
        (answered(&log).len() >= 2).then_some(log)
    });
    assert!(refused > 0, "the first press came with the request");
    for closed in answered(&log) {
        let opened = log.iter().find(|entry| entry["seq"] == closed["event"]["request"]).unwrap();
        let open_for = closed["at"].as_i64().unwrap() - opened["at"].as_i64().unwrap();
        assert!(open_for >= 2000, "a request was answered {open_for} ms after it had opened");
    }
}

#[test]
fn several_requests_are_listed_and_answered_by_number() {
    let home = home();
    let session = new(&home, "two fast");
    let numbers: Vec<String> = wait_for("two requests", || {
        let requests = state(&home, &session)["requests"].as_array()?.clone();
        (requests.len() == 2).then(|| requests.iter().map(|one| one["request"].to_string()).collect())
    });
    let unclear = home.run(["approve", &session]);
    assert_eq!(unclear.code, 2);
    assert!(numbers.iter().all(|number| unclear.stderr.contains(number.as_str())), "{unclear:?}");
    for number in &numbers {
        assert_eq!(home.run(["approve", &session, number]).code, 0);
    }
    idle(&home, &session);
}

#[test]
fn a_question_is_answered_by_number_by_label_or_with_own_text() {
    let home = home();
    let session = new(&home, "question fast");
    let asked = request(&home, &session);
    let questions = asked["ask"]["questions"].as_array().unwrap().clone();
    let answers: Vec<String> = questions
        .iter()
        .map(|question| if question["choices"].is_array() { "1".to_owned() } else { "Argo".to_owned() })
        .collect();
    let mut line = vec!["answer".to_owned(), session.clone(), asked["request"].to_string()];
    line.extend(answers);
    assert_eq!(home.run(&line).code, 0);
    idle(&home, &session);
    let closed = entries(&home, &session)
        .into_iter()
        .find(|entry| entry["event"]["type"] == "request_closed")
        .unwrap();
    let given = &closed["event"]["outcome"]["answer"]["answers"];
    let first = questions[0]["question"].as_str().unwrap();
    assert_eq!(given[first], json!([questions[0]["choices"][0]["label"]]));
}

// covers: 003-150
#[test]
fn a_killed_daemon_settles_everything_at_its_next_start() {
    let home = home();
    let session = new(&home, "tool fast");
    request(&home, &session);
    let attached = home.watch(["attach", &session, "--from", "0"]);
    attached.line("May I use Bash?");
    let seen = entries(&home, &session);
    assert!(!home.agents(&session).is_empty());
    home.kill();
    home.up();
    assert_eq!(home.agents(&session), [0; 0], "no process is left over");
    let state = wait_for("the settling", || {
        let state = state(&home, &session);
        (state["requests"].as_array()?.is_empty() && state["turn"].is_null()).then_some(state)
    });
    assert_eq!(state["commands"].as_array().unwrap().len(), 0, "{state}");
    let after = entries(&home, &session);
    assert_eq!(after[..seen.len()], seen, "every entry that was seen is still there");
    let last = seen.last().unwrap();
    assert_eq!(state["summary"]["active_at"], last["at"], "its age counts from the agent's last entry");
    let closed = after.iter().find(|entry| entry["event"]["type"] == "request_closed").unwrap();
    assert_eq!(closed["event"]["outcome"]["how"], "agent_gone");
    let ended = after.iter().find(|entry| entry["event"]["type"] == "turn_ended").unwrap();
    assert_eq!(ended["event"]["result"]["outcome"], "interrupted");
    let numbers: Vec<u64> = after.iter().map(|entry| entry["seq"].as_u64().unwrap()).collect();
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "no number is used twice: {numbers:?}");
    // The attached client reconnected by itself and repeats nothing.
    attached.line("the agent that asked has ended");
    let asked = attached.lines().iter().filter(|line| line.contains("May I use Bash?")).count();
    assert_eq!(asked, 1);
}

#[test]
fn a_prompt_after_the_end_of_the_agent_resumes_the_conversation() {
    let home = home();
    let session = new(&home, "say one");
    idle(&home, &session);
    assert_eq!(home.run(["stop", &session]).code, 0);
    home.until_status(&session, "terminated");
    assert_eq!(home.agents(&session), [0; 0]);
    let again = home.run(["send", &session, "--wait", "say two"]);
    assert!(again.code == 0 && again.stdout.contains("two"), "{again:?}");
    assert_eq!(state(&home, &session)["generation"], 2);
}

#[test]
fn the_exit_code_of_a_waiting_send_shows_how_the_turn_ended() {
    let home = home();
    let session = new(&home, "say ready");
    idle(&home, &session);
    let good = home.run(["send", "-w", &session, "say fine"]);
    assert!(good.code == 0 && good.stdout.contains("fine\n"), "{good:?}");
    let bad = home.run(["send", "-w", &session, "error fast"]);
    assert_eq!(bad.code, 5, "{bad:?}");
    let waiting = home.watch(["send", "--wait", &session, "slow"]);
    waiting.line("slow");
    wait_for("the turn", || state(&home, &session)["turn"].is_object().then_some(()));
    assert_eq!(home.run(["interrupt", &session]).code, 0);
    waiting.line("interrupted");
}

#[test]
fn ids_may_be_shortened_while_they_stay_unique() {
    let home = home();
    let (one, two) = (new(&home, "say one"), new(&home, "say two"));
    assert_eq!(home.run(["rename", &one[..35], "first"]).code, 0);
    let list = home.run(["ls"]).ok();
    assert!(list.contains("first"), "{list}");
    let shortest = list.lines().nth(1).unwrap().split_whitespace().next().unwrap();
    assert_eq!(home.json(["show", shortest])["state"]["summary"]["session"], two.as_str());
    assert_eq!(shortest, &two[28..], "the end of an id is random; the beginning is the time");
    assert_eq!(home.json(["show", &one[30..]])["state"]["summary"]["session"], one.as_str());
    let shared: String = one.chars().zip(two.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a).collect();
    let unclear = home.run(["show", &shared]);
    assert_ne!(unclear.code, 0, "{unclear:?}");
    let none = home.run(["show", "ffffffff"]);
    assert_eq!(none.code, 4, "{none:?}");
}

// covers: 003-003
#[test]
fn a_session_is_forked_archived_and_deleted() {
    let home = home();
    let session = new(&home, "say one");
    idle(&home, &session);
    let prompt =
        entries(&home, &session).iter().find(|entry| entry["event"]["type"] == "turn_ended").unwrap()["seq"]
            .to_string();
    let fork = home.json(["fork", &session, "--at", &prompt, "-n", "copy", "say two"]);
    assert_eq!(fork["forked_from"]["session"], session.as_str());
    let copy = fork["session"].as_str().unwrap().to_owned();
    idle(&home, &copy);
    let texts = home.run(["export", &copy, "-f", "markdown"]).ok();
    assert!(texts.contains("one") && texts.contains("two"), "{texts}");
    assert!(!home.run(["export", &session, "-f", "markdown"]).ok().contains("two"));

    assert_eq!(home.run(["archive", &copy]).code, 0);
    assert_eq!(home.json(["ls"]).as_array().unwrap().len(), 1);
    assert_eq!(home.json(["ls", "--archived"]).as_array().unwrap().len(), 1);
    assert_eq!(home.json(["ls", "--all"]).as_array().unwrap().len(), 2);
    assert_eq!(home.run(["archive", "--undo", &copy]).code, 0);
    assert_eq!(home.json(["ls"]).as_array().unwrap().len(), 2);

    let unsure = home.run(["delete", &copy]);
    assert!(unsure.code == 1 && unsure.stderr.contains("--yes"), "{unsure:?}");
    assert_eq!(home.run(["delete", "--yes", &copy]).code, 0);
    assert_eq!(home.run(["show", &copy]).code, 4);
}

#[test]
fn settings_of_a_session_can_be_changed() {
    let home = home();
    let session = new(&home, "say one");
    idle(&home, &session);
    for line in [
        ["model", "demo-small"].as_slice(),
        &["mode", "plan"],
        &["thinking", "4000"],
        &["env", "GREETING=hello"],
    ] {
        let ran = home.run(["set", &session].iter().chain(line));
        assert_eq!(ran.code, 0, "{line:?}: {ran:?}");
    }
    let state = state(&home, &session);
    assert_eq!((&state["summary"]["mode"], &state["thinking"]), (&json!("plan"), &json!(4000)));
    for setting in ["mode", "model"] {
        let unknown = home.run(["set", &session, setting, "nonsense"]);
        assert!(unknown.code == 2 && unknown.stderr.contains("nonsense"), "{setting}: {unknown:?}");
    }
    let context = home.json(["context", &session]);
    assert_eq!(context["receipt"]["stage"], "consumed");
    let servers = home.json(["mcp", &session, "status"]);
    assert_eq!(servers["receipt"]["stage"], "consumed");
    let context = home.run(["context", &session]).ok();
    assert!(context.contains("window") && !context.contains('{'), "for people: {context}");
    let servers = home.run(["mcp", &session, "status"]).ok();
    assert!(servers.starts_with("SERVER") && !servers.contains('{'), "for people: {servers}");
    let env = home.run(["show", &session, "--env"]).ok();
    assert!(env.contains("GREETING=hello"), "{env}");
    assert_eq!(home.run(["stop", &session]).code, 0);
    let later = home.run(["set", &session, "model", "demo-large"]).ok();
    assert_eq!(later, "the setting holds from the agent's next start\n");
}

#[test]
fn an_action_is_confirmed_if_the_agent_reports_nothing() {
    let home = home();
    let session = new(&home, "say one");
    idle(&home, &session);
    for (line, said) in [
        (["rename", &session, "A new name"].as_slice(), "the session is now named `A new name`"),
        (&["set", &session, "mode", "plan"], "the mode is now `plan`"),
        (&["set", &session, "thinking", "4000"], "the thinking budget is now 4000 tokens"),
        (&["archive", &session], "the session is archived; `--undo` takes it out of the archive"),
        (&["archive", "--undo", &session], "the session is out of the archive"),
    ] {
        let ran = home.run(line);
        assert_eq!((ran.code, ran.stderr.trim_end()), (0, said), "{line:?}");
    }
    home.run(["token", "create", "ada"]).ok();
    let revoked = home.run(["token", "revoke", "ada"]);
    assert!(revoked.code == 0 && revoked.stderr.contains("the token `ada` is revoked"), "{revoked:?}");
    let renamed = home.run(["rename", &session, "again", "--json"]);
    assert!(renamed.stderr.is_empty() && renamed.stdout.contains("\"consumed\""), "{renamed:?}");
}

#[test]
fn two_tokens_cannot_have_the_same_name() {
    let home = home();
    home.run(["token", "create", "ada"]).ok();
    for again in ["ada", " ada ", "owner"] {
        let refused = home.run(["token", "create", again]);
        assert!(refused.code == 2 && refused.stderr.contains("use another name"), "{again}: {refused:?}");
    }
    assert_eq!(home.run(["token", "revoke", "ada"]).code, 0);
    home.run(["token", "create", "ada"]).ok();
}

#[test]
#[expect(clippy::disallowed_methods, reason = "tests start the command line itself, not an agent")]
fn attach_without_a_terminal_says_what_it_does_and_how_it_ends() {
    use std::io::BufRead as _;
    let home = home();
    let session = new(&home, "say one");
    let mut command = home.command(["attach", &session]);
    let mut child = command.stdout(std::process::Stdio::null()).spawn().unwrap();
    let mut said = String::new();
    std::io::BufReader::new(child.stderr.take().unwrap()).read_line(&mut said).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(said.contains("prints the session until the session is deleted or you press Ctrl-C"), "{said}");
}

#[test]
fn an_export_replaces_a_file_only_with_force() {
    let home = home();
    let session = new(&home, "say one");
    idle(&home, &session);
    let file = home.path().join("notes.md");
    std::fs::write(&file, "mine").unwrap();
    let name = file.to_str().unwrap();
    for format in ["markdown", "jsonl"] {
        let refused = home.run(["export", &session, "-f", format, "-o", name]);
        assert!(refused.code == 2 && refused.stderr.contains("--force"), "{refused:?}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
    }
    assert_eq!(home.run(["export", &session, "-f", "markdown", "-o", name, "--force"]).code, 0);
    assert!(std::fs::read_to_string(&file).unwrap().contains("one"));
}

#[test]
fn a_history_is_exported_entry_by_entry() {
    let home = home();
    let session = new(&home, "say one");
    idle(&home, &session);
    let file = home.path().join("out.jsonl");
    assert_eq!(home.run(["export", &session, "-o", file.to_str().unwrap()]).code, 0);
    let text = std::fs::read_to_string(&file).unwrap();
    let exported: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(exported, entries(&home, &session));
    assert_eq!(exported[0]["event"]["type"], "session_created");
}

#[test]
fn the_log_of_a_session_has_the_agents_last_output_without_its_secrets() {
    let home = home();
    let session = new(&home, "crash");
    wait_for("the crash", || {
        let log = home.run(["logs", &session]).ok();
        log.contains("the ship hit a rock").then_some(())
    });
    let log = home.run(["logs", &session]).ok();
    assert!(!log.contains("sk-demo"), "{log}");
}

// covers: 003-004
#[test]
fn a_viewer_may_only_read() {
    let home = home();
    let session = new(&home, "tool fast");
    let number = number(&home, &session);
    let file = home.path().join("viewer.token");
    let made = home.run(["token", "create", "vera", "--role", "viewer", "-o", file.to_str().unwrap()]);
    assert_eq!(made.code, 0, "{made:?}");
    let again = home.run(["token", "create", "late", "-o", file.to_str().unwrap()]);
    assert_eq!(
        (again.code, home.run(["token", "list"]).stdout.contains("late")),
        (1, false),
        "without a file for the secret, no token is created"
    );
    assert!(made.stdout.is_empty(), "the secret is only in the file");
    let url = home.record().unwrap()["url"].as_str().unwrap().to_owned();
    let vera = |arguments: &[&str]| {
        let mut command = home.command(arguments);
        command.args(["--url", &url, "--token-file"]).arg(&file);
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(vera(&["show", &session]).0, Some(0));
    for verb in [vec!["approve", &session, &number], vec!["send", &session, "hi"], vec!["token", "list"]] {
        let (code, said) = vera(&verb);
        assert!(code == Some(1) && said.contains("role"), "{verb:?}: {said}");
    }
    assert_eq!(home.run(["token", "revoke", "vera"]).code, 0);
    assert_eq!(vera(&["ls"]).0, Some(3));
}

#[test]
fn a_token_bound_to_a_session_sees_no_other() {
    let home = home();
    let (mine, other) = (new(&home, "say mine"), new(&home, "say other"));
    let made = home.json(["token", "create", "ben", "--session", &mine, "--expires", "1h"]);
    let secret = made["secret"].as_str().unwrap().to_owned();
    let url = home.record().unwrap()["url"].as_str().unwrap().to_owned();
    let ben = |arguments: &[&str]| {
        let mut command = home.command(["--json"]);
        let output = command
            .args(arguments)
            .env("PORTOLAN_URL", &url)
            .env("PORTOLAN_TOKEN", &secret)
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (code, list) = ben(&["ls"]);
    assert_eq!(code, Some(0));
    assert!(list.contains(&mine) && !list.contains(&other), "{list}");
    assert_eq!(ben(&["show", &other]).0, Some(4));
    assert_eq!(ben(&["show", &mine]).0, Some(0));
}

#[test]
fn an_agent_that_does_not_exist_is_an_error() {
    let home = home();
    let ran = home.run(["new", "nobody"]);
    assert!(ran.code == 4 || ran.code == 2, "{ran:?}");
    assert!(ran.stderr.contains("nobody"), "{ran:?}");
}

// covers: 002-067
#[test]
fn only_the_owner_can_use_modes_without_asking_and_only_if_the_configuration_allows_them() {
    let home = home();
    let session = new(&home, "say hi fast");
    idle(&home, &session);
    let set: [&str; 4] = ["set", &session, "mode", "bypassPermissions"];
    let make = ["new", "demo", "say hi fast", "--mode", "bypassPermissions"];
    for arguments in [&set[..], &make[..]] {
        let ran = home.run(arguments);
        assert_ne!(ran.code, 0);
        assert!(ran.stderr.contains("; change `policy.allow_bypass` in portolan.toml"), "{}", ran.stderr);
    }
    home.run(["down"]).ok();
    home.ended();
    home.configure("[policy]\nallow_bypass = true\n");
    home.up();
    let secret = home.path().join("operator");
    home.run(["token", "create", "op", "--role", "operator", "-o", secret.to_str().unwrap()]).ok();
    let url = home.record().unwrap()["url"].as_str().unwrap().to_owned();
    for arguments in [&set[..], &make[..]] {
        let ran = home
            .command(arguments)
            .env("PORTOLAN_URL", &url)
            .env("PORTOLAN_TOKEN_FILE", &secret)
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert!(!ran.status.success() && told.contains("needs the role owner"), "{told}");
        home.run(arguments).ok();
    }
    assert_eq!(state(&home, &session)["summary"]["mode"], "bypassPermissions");
}

#[test]
fn an_action_without_an_effect_says_so() {
    let home = home();
    let session = new(&home, "say hi fast");
    idle(&home, &session);
    assert_eq!(home.run(["interrupt", &session]).ok().trim(), "no turn was running");
    assert_eq!(home.run(["resume", &session]).ok().trim(), "the agent was running already");
    home.run(["stop", &session]).ok();
    assert_eq!(home.run(["stop", &session]).ok().trim(), "the agent was not running");
}

/// A request over REST, as a client without our code sends it.
fn rest(home: &Home, path: &str, body: &Value) -> Value {
    let address = home.record().unwrap()["url"].as_str().unwrap().replace("http://", "");
    let token = std::fs::read_to_string(home.path().join("token")).unwrap();
    let mut stream = std::net::TcpStream::connect(&address).unwrap();
    let body = body.to_string();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        token.trim(),
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap_or_else(|_| panic!("{answer}"))
}

#[test]
fn prompts_parked_by_a_kill_are_shown_and_run_when_their_sender_sends_them_again() {
    let home = Home::new(env!("CARGO_BIN_EXE_portolan"));
    // An agent that starts slowly: the prompt is accepted but never sent to the agent.
    let starts = home.path().join("starts");
    let script =
        format!("test \"$0\" = --version && exit; echo start >>{}; exec sleep 600", starts.display());
    let agent = json!(["sh", "-c", script]);
    home.configure(&format!("[agents.slow]\ncommand = {agent}\n[agents.demo.env]\nDEMO_PACE_MS = \"0\"\n"));
    home.up();
    let started = || std::fs::read_to_string(&starts).unwrap_or_default().lines().count();
    let content = json!([{ "type": "text", "text": "say fair winds" }]);
    let spec = json!({ "agent": "slow", "cwd": home.path(), "prompt": content });
    let create = json!({ "id": "made-before-the-kill", "spec": spec });
    let session = rest(&home, "/api/v1/sessions", &create)["session"]["session"].as_str().unwrap().to_owned();
    wait_for("the start", || (started() == 1).then_some(()));
    home.kill();
    home.up();
    let told = "1 prompt waits; resume the session to send it";
    assert!(home.run(["ls"]).ok().contains(told), "{:?}", home.run(["ls"]));
    assert!(home.run(["show", &session]).ok().contains(told));
    assert_eq!(started(), 1, "the start of the daemon starts no agent");
    let again = rest(&home, "/api/v1/sessions", &create);
    assert_eq!(again["session"]["session"], session.as_str(), "{again}");
    wait_for("the second start", || (started() == 2).then_some(()));
    // The same with a separate prompt.
    home.kill();
    home.up();
    let path = format!("/api/v1/sessions/{session}/commands");
    let prompt = json!({ "id": "said-before-the-kill", "name": "prompt", "content": content });
    rest(&home, &path, &prompt);
    wait_for("the third start", || (started() == 3).then_some(()));
    home.kill();
    home.up();
    assert!(home.run(["ls"]).ok().contains("2 prompts wait; resume the session to send them"));
    let receipt = rest(&home, &path, &prompt);
    assert_eq!(receipt["receipt"]["stage"], "accepted", "{receipt}");
    wait_for("the fourth start", || (started() == 4).then_some(()));
}

#[test]
fn an_agent_that_was_ended_for_another_is_asleep_and_resumes_with_the_next_prompt() {
    let home = Home::new(env!("CARGO_BIN_EXE_portolan"));
    home.configure("[limits]\nagents_at_once = 1\n[agents.demo.env]\nDEMO_PACE_MS = \"0\"\n");
    home.up();
    let first = new(&home, "say one");
    idle(&home, &first);
    let second = new(&home, "say two");
    idle(&home, &second);
    assert_eq!(home.agents(&first), [0; 0], "its processes are gone");
    let list = home.run(["ls"]).ok();
    let line = list.lines().find(|line| line.ends_with("say one")).unwrap().to_owned();
    assert!(line.contains("asleep"), "{list}");
    let why = entries(&home, &first).into_iter().rev().find(|entry| entry["event"]["type"] == "agent_exited");
    let exit = why.unwrap()["event"]["exit"].clone();
    assert_eq!(exit["reason"], "idle");
    assert!(exit["message"].as_str().unwrap().contains("at most 1 run at once"), "{exit}");
    home.run(["send", "--wait", &first, "say", "three"]).ok();
    assert_eq!(state(&home, &second)["summary"]["asleep"], true);
    // If every agent is busy, one more is refused with the way out.
    home.run(["send", &first, "slow"]).ok();
    let refused = home.run(["new", "demo", "say", "four"]);
    assert_ne!(refused.code, 0);
    assert!(refused.stderr.contains("`portolan stop ID`"), "{refused:?}");
    assert!(refused.stderr.contains("raise `limits.agents_at_once`"), "{refused:?}");
}

#[test]
fn an_unattended_session_denies_what_no_rule_allows_and_lists_it() {
    let home = home();
    let run = |more: &[&str]| {
        home.run(["new", "demo", "ls, fast", "--unattended"].iter().chain(more).collect::<Vec<_>>())
    };
    let ran = run(&[]);
    assert_eq!(ran.code, 10, "{ran:?}");
    assert!(ran.stderr.contains("denied: Bash ls"), "{}", ran.stderr);
    assert!(ran.stderr.contains("nobody is asked in an unattended session"), "{}", ran.stderr);
    assert!(ran.stderr.contains("1 of 1 requests were denied"), "{}", ran.stderr);

    home.run(["rules", "add", "allow", "Bash(ls *)"]).ok();
    let ran = run(&["--json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let summary: Value = serde_json::from_str(ran.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(summary["type"], "summary");
    assert_eq!((&summary["completed"], &summary["allowed"]), (&json!(true), &json!(1)));
    assert_eq!(summary["denied"], json!([]));
    let session = summary["session"].as_str().unwrap();
    home.until_status(session, "terminated");

    // Neither a question nor a plan waits for anybody.
    for prompt in ["question, fast", "plan, fast", "form, fast"] {
        let ran = home.run(["new", "demo", prompt, "--unattended"]);
        assert_eq!(ran.code, 10, "{prompt}: {ran:?}");
    }
    let without = home.run(["new", "demo", "--unattended"]);
    assert_eq!(without.code, 2, "there is nothing to wait for without a prompt: {without:?}");
}

#[test]
fn a_request_shows_its_deadline_is_extended_and_denied_at_last() {
    let home = home();
    let session = home.run(["new", "demo", "ls, fast", "--deadline", "90s"]).ok().trim().to_owned();
    let waits = |home: &Home| state(home, &session)["requests"].as_array().unwrap().first().cloned();
    let first = wait_for("the request", || waits(&home));
    let id = first["request"].to_string();
    let left = first["deadline"].as_i64().unwrap() - first["opened_at"].as_i64().unwrap();
    assert_eq!(left, 90_000);
    home.run(["deadline", &session, "2h", "--request", &id]).ok();
    let later = waits(&home).unwrap()["deadline"].as_i64().unwrap();
    assert!(later - first["opened_at"].as_i64().unwrap() >= 7_200_000, "{later}");
    assert!(home.run(["show", &session]).ok().contains("if nobody answers"));

    home.run(["deadline", &session, "1s", "--request", &id]).ok();
    wait_for("the denial", || {
        (state(&home, &session)["closed_requests"][0]["outcome"]["how"] == "expired").then_some(())
    });
    home.run(["deadline", &session, "none"]).ok();
    assert_eq!(state(&home, &session)["spec"]["deadline_seconds"], 0);
    let wrong = home.run(["deadline", &session, "0s"]);
    assert_eq!(wrong.code, 2, "{wrong:?}");
    let unknown = home.run(["deadline", &session, "5m", "--request", "99"]);
    assert_eq!(unknown.code, 4, "{unknown:?}");
}

#[test]
fn a_session_whose_budget_is_spent_waits_until_an_owner_raises_or_resets_it() {
    let home = home();
    let session = home.run(["new", "demo", "say one", "--budget-turns", "1"]).ok().trim().to_owned();
    wait_for("the spent budget", || state(&home, &session)["summary"]["over_budget"].as_str().map(drop));
    let sent = home.run(["send", &session, "say two"]);
    assert_eq!(sent.code, 0, "{sent:?}");
    let why = "the prompt waits: the budget of this session is spent: 1 of 1 turns (`portolan budget`)";
    assert!(sent.stderr.contains(why), "{}", sent.stderr);
    let waited = home.run(["send", &session, "say three", "--wait"]);
    assert_eq!(waited.code, 1, "{waited:?}");
    assert!(
        waited.stderr.contains("the prompt waits until an owner raises or resets the budget"),
        "{}",
        waited.stderr
    );
    assert!(home.run(["ls"]).ok().contains("2 prompts wait: the budget of this session is spent"));
    let listed = home.run(["budget", "list", "--session", &session]).ok();
    assert!(listed.contains("spent: prompts wait") && listed.contains("1 turns"), "{listed}");

    home.run(["budget", "set", "--scope", &format!("session:{session}"), "--turns", "2"]).ok();
    wait_for("the second turn", || (state(&home, &session)["summary"]["turns"] == 2).then_some(()));
    home.run(["budget", "reset", &format!("session:{session}")]).ok();
    wait_for("the third turn", || (state(&home, &session)["summary"]["turns"] == 3).then_some(()));
    home.run(["budget", "remove", &format!("session:{session}")]).ok();
    assert_eq!(home.run(["budget", "list", "--session", &session, "--json"]).ok().trim(), "[]");
    let gone = home.run(["budget", "remove", &format!("session:{session}")]);
    assert_eq!(gone.code, 4, "{gone:?}");
}

#[test]
fn a_budget_of_an_agent_is_listed_and_survives_the_daemon() {
    let home = home();
    let set = [
        "budget",
        "set",
        "--scope",
        "agent:demo",
        "--cost",
        "2.50",
        "--tokens",
        "90000",
        "--per",
        "day",
        "--json",
    ];
    let made: Value = serde_json::from_str(&home.run(set).ok()).unwrap();
    assert_eq!(
        (&made["limits"]["cost_usd"], &made["per"], &made["level"]),
        (&json!(2.5), &json!("day"), &json!("fine"))
    );
    home.run(["new", "demo", "say one", "--unattended"]).ok();
    home.run(["down"]).ok();
    let listed: Value = serde_json::from_str(&home.run(["budget", "list", "--json"]).ok()).unwrap();
    assert_eq!((&listed[0]["budget"], &listed[0]["spent"]["turns"]), (&made["budget"], &json!(1)));
    assert!(listed[0]["spent"]["cost_usd"].as_f64().unwrap() > 0.0, "{listed}");
    assert!(home.run(["budget", "list"]).ok().contains("$2.50, 90000 tokens per day"));
    for wrong in [
        ["budget", "set", "--cost", "0"].as_slice(),
        &["budget", "set"],
        &["budget", "set", "--turns", "1", "--per", "week"],
        &["budget", "set", "--turns", "1", "--scope", "planet"],
    ] {
        assert_eq!(home.run(wrong).code, 2, "{wrong:?}");
    }
    assert_eq!(home.run(["budget", "set", "--turns", "1", "--scope", "agent:nobody"]).code, 4);
}
