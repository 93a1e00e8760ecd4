//! Rules from the command line, with the real binary and the demo agent.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use portolan_testkit::daemon::{CommandResult, Home, wait_for};
use serde_json::{Value, json};

fn home() -> Home {
    let home = Home::new(env!("CARGO_BIN_EXE_portolan"));
    home.up();
    home
}

fn new(home: &Home, prompt: &str) -> String {
    home.run(["new", "demo", prompt]).ok().trim().to_owned()
}

/// The number of the open request, as a user types it.
fn number(home: &Home, session: &str) -> String {
    let state = || home.json(["show", session])["state"].clone();
    wait_for("a request", || state()["requests"].get(0).cloned())["request"].to_string()
}

/// Adds a rule; returns its id.
fn add(home: &Home, words: &[&str]) -> String {
    let made = home.json(["rules", "add"].iter().chain(words));
    made["rule"].as_str().unwrap().to_owned()
}

fn rules(home: &Home) -> Vec<Value> {
    home.json(["rules", "list"]).as_array().unwrap().clone()
}

fn lines(home: &Home) -> Vec<String> {
    let line =
        |rule: &Value| format!("{} {}", rule["effect"].as_str().unwrap(), rule["text"].as_str().unwrap());
    rules(home).iter().map(line).collect()
}

// covers: 002-070
#[test]
fn rules_test_has_a_fixed_form_and_ends_well_for_every_decision() {
    let home = home();
    let allow = add(&home, &["allow", "Bash(git status)"]);
    let deny = add(&home, &["deny", "Bash(git push --force)"]);
    let folder = home.path().to_str().unwrap();
    let test = |command: &str| -> Value {
        let input = json!({ "command": command }).to_string();
        let ran = home.run(["--json", "rules", "test", "Bash", &input, "--cwd", folder]);
        assert_eq!(ran.code, 0, "{ran:?}");
        serde_json::from_str(&ran.stdout).unwrap()
    };
    let of = |rule: &str, line: &str| json!([{ "rule": rule, "line": line, "scope": "user" }]);
    assert_eq!(
        test("git status"),
        json!({ "decision": "allow", "why": "a rule allows the call", "risk": "high", "reasons": ["runs a command"],
            "rule": allow, "rules": of(&allow, "allow Bash(git status)") })
    );
    assert_eq!(
        test("git push -f"),
        json!({ "decision": "deny", "why": "Denied by persisted rule for Bash.", "risk": "high",
            "reasons": ["runs a command", "uses the network", "forces a push"],
            "rule": deny, "rules": of(&deny, "deny Bash(git push --force)") })
    );
    assert_eq!(
        test("make"),
        json!({ "decision": "ask", "why": "no rule decides, and the mode default asks", "risk": "high",
            "reasons": ["runs a command"], "mode": "default" })
    );
}

// covers: 002-061
#[test]
fn a_rule_is_added_with_everything_that_it_can_say_and_changed_under_its_id() {
    let home = home();
    let project = tempfile::tempdir().unwrap();
    let project = project.path().canonicalize().unwrap();
    let scope = format!("project:{}", project.display());
    let covered = r#"{"tool": "Bash", "input": {"command": "npm run test"}}"#;
    let other = r#"{"tool": "Bash", "input": {"command": "npm publish"}}"#;
    let whole = [
        "deny",
        "Bash(npm run *)",
        "--scope",
        &scope,
        "--overridable",
        "--expires",
        "30d",
        "--comment",
        "use make",
        "--match",
        covered,
        "--not-match",
        other,
    ];
    let id = add(&home, &whole);
    let known = rules(&home).remove(0);
    assert_eq!(known["scope"]["folder"], project.to_str().unwrap());
    assert_eq!((&known["overridable"], &known["comment"]), (&json!(true), &json!("use make")));
    let days = (known["expires_at"].as_i64().unwrap() - known["made_at"].as_i64().unwrap()) / 86_400_000;
    assert_eq!(days, 30);
    assert_eq!(known["match"][0]["input"]["command"], "npm run test");
    assert_eq!(known["not_match"][0]["input"]["command"], "npm publish");
    // A wrong example is refused, and nothing is saved.
    let wrong = home.run(["rules", "add", "deny", "Bash(npm run *)", "--match", other]);
    assert_ne!(wrong.code, 0, "{wrong:?}");
    assert_eq!(rules(&home).len(), 1);

    home.run(["rules", "edit", &id, "allow", "Bash(npm test)"]).ok();
    let changed = rules(&home).remove(0);
    assert_eq!((&changed["rule"], &changed["effect"]), (&json!(id), &json!("allow")));
    assert_eq!((&changed["text"], &changed["scope"]), (&json!("Bash(npm test)"), &json!({ "kind": "user" })));
    assert_eq!(
        (&changed["comment"], &changed["expires_at"]),
        (&Value::Null, &Value::Null),
        "the whole rule is new"
    );
    assert_ne!(home.run(["rules", "edit", "nothing", "deny", "Bash"]).code, 0);
}

// covers: 002-077
#[test]
fn explain_says_what_decided_and_what_was_cancelled() {
    let home = home();
    let deny = add(&home, &["deny", "Bash(ls *)"]);
    let denied = new(&home, "ls, fast");
    home.until_status(&denied, "idle");
    let told = home.run(["explain", &denied]);
    assert!(told.stdout.contains("deny: Denied by persisted rule for Bash."), "{}", told.stdout);
    assert!(told.stdout.contains(&format!("rule {deny}: deny Bash(ls *) (user)")), "{}", told.stdout);
    let found = home.json(["explain", &denied]);
    assert_eq!(found[0]["judgement"]["rule"], json!(deny));
    home.run(["rules", "remove", &deny]).ok();

    let cut = new(&home, "ls, fast");
    let request = number(&home, &cut);
    home.run(["interrupt", &cut]).ok();
    home.until_status(&cut, "idle");
    let told = home.run(["explain", &cut, &request]).stdout;
    assert!(told.contains("Approval cancelled for tool Bash: owner (cli) interrupted the turn"), "{told}");
    assert_ne!(home.run(["explain", &cut, "1"]).code, 0, "there is no such request");
}

// covers: 002-070
#[test]
fn simulate_looks_only_at_requests_since_a_time() {
    let home = home();
    let session = new(&home, "ls, fast");
    home.run(["approve", &session, &number(&home, &session)]).ok();
    home.until_status(&session, "idle");
    let simulate = |since: &str| {
        let found = home.json(["simulate", "deny", "Bash", "--since", since]);
        (found["requests"].clone(), found["covered"].clone(), found["against"].clone())
    };
    assert_eq!(simulate("1h"), (json!(1), json!(1), json!(1)), "a person allowed it");
    assert_eq!(simulate("2100-01-01"), (json!(0), json!(0), json!(0)));
    assert_ne!(home.run(["simulate", "deny", "Bash", "--since", "yesterdayish"]).code, 0);
    assert_eq!(rules(&home), [] as [Value; 0], "nothing is saved");
}

fn said(ran: &CommandResult) -> (i32, bool, bool) {
    (ran.code, ran.stderr.contains("made the rule"), ran.stderr.contains("allowed: "))
}

// covers: 002-065, 002-072
#[test]
fn an_answer_makes_a_rule_shows_it_and_the_next_call_needs_no_person() {
    let home = home();
    let session = new(&home, "ls, fast");
    let ran = home.run(["approve", &session, &number(&home, &session), "--always"]);
    assert_eq!(said(&ran), (0, true, true), "{ran:?}");
    assert!(ran.stderr.contains("made the rule `allow Bash(ls"), "{ran:?}");
    home.until_status(&session, "idle");
    home.run(["send", &session, "ls, fast", "--wait"]).ok();
    assert_eq!(lines(&home), [""; 0], "a rule of the session alone");

    let other = new(&home, "ls, fast");
    let deny =
        ["deny", &other, &number(&home, &other), "--always", "--scope", "user", "--rule", "Bash(ls *)"];
    let ran = home.run(deny);
    assert!(
        ran.code == 0 && ran.stderr.contains("made the rule `deny Bash(ls *)` in every session"),
        "{ran:?}"
    );
    assert_eq!(lines(&home), ["deny Bash(ls *)"]);
    let third = new(&home, "ls, fast");
    home.until_status(&third, "idle");
    let told = home.run(["explain", &third]).stdout;
    assert!(told.contains("Denied by persisted rule for Bash."), "{told}");
    let without = home.run(["deny", &third, "--scope", "user"]);
    assert_eq!(without.code, 2, "--scope says nothing without --always: {without:?}");
}
