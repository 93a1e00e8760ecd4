//! Single calls, and what rules and modes decide about them.

#![expect(clippy::expect_used, reason = "a test says what it expects by failing")]

use std::path::PathBuf;

use portolan_core::{
    Actor, Millis,
    policy::{
        Call, Decision, Effect, Facts, Mode, Reading, Rule, RuleDraft, RuleId, RuleScope, RuleSet, Situation,
        decide,
        facts::Place,
        rule::{Example, Identity, ScopeDraft},
    },
};
use serde_json::{Value, json};

/// The facts about `/work`, which has no links and is in no other project.
fn facts(reading: &Reading<'_>) -> Facts {
    let folder = PathBuf::from("/work");
    let place = |path: String| {
        let mut lies = PathBuf::new();
        for part in folder.join(&path).components() {
            match part {
                std::path::Component::ParentDir => drop(lies.pop()),
                std::path::Component::CurDir => {}
                part => lies.push(part),
            }
        }
        (path, Place { lies: vec![lies], is_ordinary: true })
    };
    Facts {
        places: reading.paths().into_iter().map(place).collect(),
        folder: folder.clone(),
        ..Facts::default()
    }
}

fn rule(number: usize, effect: Effect, text: &str) -> Rule {
    let draft = RuleDraft::new(effect, text, ScopeDraft::User);
    draft.into_rule(RuleId(format!("rule{number}")), RuleScope::User, Millis(0), Actor::Daemon)
}

/// What is decided about a call, under rules such as `deny Bash(rm *)`.
fn decided_in(mode: Mode, rules: &[&str], call: Call<'_>) -> Decision {
    let rule = |(number, line): (usize, &&str)| {
        let (effect, text) = line.split_once(' ').expect("an effect, then a tool");
        rule(number, effect.parse().expect("an effect"), text)
    };
    let (rules, unreadable) = RuleSet::new(rules.iter().enumerate().map(rule));
    assert!(unreadable.is_empty(), "{unreadable:?}");
    let reading = Reading::of(call);
    let facts = facts(&reading);
    decide(&reading, Situation { session: None, mode, rules: &[&rules], facts: &facts, now: Millis(0) })
        .decision
}

fn decided(rules: &[&str], tool: &str, input: &Value) -> Decision {
    decided_in(Mode::Default, rules, Call::new(tool, input))
}

// covers: 002-063
#[test]
fn a_rule_for_a_host_covers_every_spelling_of_the_host() {
    let fetch = |rules: &[&str], url: &str| decided(rules, "WebFetch", &json!({ "url": url }));
    for url in [
        "https://evil.org/x",
        "https://u@evil.org/",
        "https://u:p@EVIL.org:8443/x",
        "https://evil.org./",
        "https://ev%69l.org",
    ] {
        for rule in ["deny WebFetch(evil.org)", "deny WebFetch(https://evil.org*)"] {
            assert_eq!(fetch(&[rule], url), Decision::Deny, "{rule} {url}");
        }
        assert_eq!(fetch(&["allow WebFetch(good.org)"], url), Decision::Ask, "{url}");
    }
    assert_eq!(fetch(&["deny WebFetch(127.0.0.1)"], "http://0x7f.1:8080/"), Decision::Deny);
    assert_eq!(fetch(&["deny WebFetch(::1)"], "http://[0::1]/"), Decision::Deny);
    // What cannot be read is asked about, also where the mode allows everything else.
    let unclear = json!({ "url": "https://good.org\\@evil.org/" });
    let bypass = |rules: &[&str]| decided_in(Mode::BypassPermissions, rules, Call::new("WebFetch", &unclear));
    assert_eq!(bypass(&[]), Decision::Allow);
    assert_eq!(bypass(&["deny WebFetch(evil.org)"]), Decision::Ask);
    // Under a key that is not usual, it is an address as well.
    let href = json!({ "href": "https://evil.org/" });
    assert_eq!(decided(&["deny WebFetch(evil.org)"], "WebFetch", &href), Decision::Deny);
}

#[test]
fn an_allow_rule_for_a_host_covers_no_address_that_hides_its_host() {
    let allow = |rule: &str, url: &str| decided(&[rule], "WebFetch", &json!({ "url": url }));
    assert_eq!(allow("allow WebFetch(good.org)", "https://GOOD.org:443/x"), Decision::Allow);
    assert_eq!(allow("allow WebFetch(https://good.org/*)", "https://good.org/x"), Decision::Allow);
    for (rule, url) in [
        ("allow WebFetch(good.org)", "https://u@good.org/"),
        ("allow WebFetch(good.org)", "https://good.org@evil.org/"),
        ("allow WebFetch(https://good.org*)", "https://good.org@evil.org/"),
        ("allow WebFetch(https://good.org*)", "https://good.org\\@evil.org/"),
    ] {
        assert_eq!(allow(rule, url), Decision::Ask, "{rule} {url}");
    }
}

// covers: 002-063
#[test]
fn an_allow_rule_does_not_look_through_a_program_outside_the_folders_of_the_system() {
    let run = |rules: &[&str], command: &str| decided(rules, "Bash", &json!({ "command": command }));
    let allows = ["allow Bash(git status)", "allow Bash(ls *)"];
    for command in
        ["env git status", "/usr/bin/env git status", "/bin/sh -c 'ls src'", "timeout 5 git status"]
    {
        assert_eq!(run(&allows, command), Decision::Allow, "{command}");
    }
    // A deny rule looks through such a program; the text of such a shell cannot be seen, so a person is asked.
    for (command, denied) in [
        ("./env git status", Decision::Deny),
        ("/tmp/timeout 5 git status", Decision::Deny),
        ("/tmp/sh -c 'git status'", Decision::Ask),
        ("./sh -c 'ls src'", Decision::Ask),
        ("/tmp/env sh -c 'git status'", Decision::Deny),
        ("env /tmp/nice git status", Decision::Deny),
        ("/usr/bin/../../tmp/env git status", Decision::Deny),
    ] {
        assert_eq!(run(&allows, command), Decision::Ask, "{command}");
        assert_eq!(run(&["deny Bash(git status)", "deny Bash(ls)"], command), denied, "{command}");
    }
    assert_eq!(
        run(&["allow Bash(/tmp/env git status)"], "/tmp/env git status"),
        Decision::Allow,
        "it is spelt"
    );
}

#[test]
fn after_a_cd_into_a_protected_folder_a_command_that_may_write_is_asked_about() {
    let rules = ["allow Bash(cd *)", "allow Bash(sed *)", "allow Bash(ls)"];
    for (command, decision) in [
        ("cd .git/hooks && sed -i s/a/b/ pre-commit", Decision::Ask),
        ("cd .git && cd hooks && sed -i s/a/b/ pre-commit", Decision::Ask),
        ("cd .git && ls", Decision::Allow),
        ("cd src && sed -i s/a/b/ main.rs", Decision::Allow),
    ] {
        let input = json!({ "command": command });
        for (mode, rules) in [(Mode::Default, &rules[..]), (Mode::BypassPermissions, &[])] {
            assert_eq!(decided_in(mode, rules, Call::new("Bash", &input)), decision, "{mode:?} {command}");
        }
    }
}

// covers: 002-063
#[test]
fn the_folder_in_which_a_command_runs_decides_where_its_files_lie() {
    let run = |rules: &[&str], mode: Mode, command: &str, folder: &str| {
        let input = json!({ "command": command, "cwd": folder });
        decided_in(mode, rules, Call::new("exec_command", &input))
    };
    let writes = ["allow exec_command(echo *)", "allow Edit(/work/**)", "allow Read(/tmp)"];
    for (folder, decision) in [
        ("/work", Decision::Allow),
        ("/work/sub", Decision::Allow),
        ("sub", Decision::Allow),
        ("/tmp", Decision::Ask),
        ("..", Decision::Ask),
        ("~/x", Decision::Ask),
        (" /work", Decision::Ask),
    ] {
        assert_eq!(run(&writes, Mode::Default, "echo x > a.txt", folder), decision, "{folder}");
    }
    assert_eq!(
        run(&["deny Edit(/etc/**)"], Mode::BypassPermissions, "echo x > passwd", "/etc"),
        Decision::Deny
    );
    assert_eq!(run(&["deny Edit(/etc/**)"], Mode::BypassPermissions, "echo x > passwd", "~"), Decision::Ask);
    // Outside of the session's folder, the folder is a part as after `cd`.
    let make = ["allow exec_command(make)"];
    for (folder, decision) in [("/work/sub", Decision::Allow), ("/tmp", Decision::Ask)] {
        assert_eq!(run(&make, Mode::Default, "make", folder), decision, "{folder}");
    }
    assert_eq!(run(&["allow exec_command"], Mode::Default, "make", "/tmp"), Decision::Allow);
    assert_eq!(run(&[], Mode::Plan, "ls", "/work/sub"), Decision::Allow);
    assert_eq!(run(&[], Mode::Plan, "ls", "/tmp"), Decision::Deny);
    let two = json!({ "command": "make", "cwd": "/work", "workdir": "/tmp" });
    assert_eq!(decided(&make, "exec_command", &two), Decision::Ask, "two folders");
}

#[test]
fn a_folder_that_the_agent_names_beside_the_input_counts_for_every_path() {
    let call = |tool: &'static str, input: &Value| {
        let call = Call { folder: Some("/tmp"), ..Call::new(tool, input) };
        decided_in(Mode::AcceptEdits, &["allow Bash(make)", "deny Read(/tmp/secret)"], call)
    };
    assert_eq!(call("Bash", &json!({ "command": "make" })), Decision::Ask);
    assert_eq!(call("Bash", &json!({ "command": "make", "cwd": "/work" })), Decision::Allow);
    assert_eq!(call("Edit", &json!({ "file_path": "a" })), Decision::Ask);
    assert_eq!(call("Edit", &json!({ "file_path": "/work/a" })), Decision::Allow);
    assert_eq!(call("Read", &json!({ "file_path": "secret" })), Decision::Deny);
    assert_eq!(call("Grep", &json!({ "pattern": "x" })), Decision::Ask, "it searches /tmp");
}

#[test]
fn a_secret_inside_another_protected_place_is_read_only_if_a_person_or_a_rule_that_names_it_says_so() {
    let read = |mode: Mode, rules: &[&str], path: &str| {
        let input = json!({ "file_path": path });
        decided_in(mode, rules, Call::new("Read", &input))
    };
    for path in [
        ".claude/.credentials.json",
        ".devcontainer/.env",
        ".github/.env",
        ".config/x/id_rsa",
        ".codex/auth.json",
        ".gemini/oauth_creds.json",
        ".local/share/opencode/auth.json",
        ".config/gh/hosts.yml",
        ".cargo/credentials.toml",
        ".git/config",
        ".npmrc",
        ".ssh/HEAD",
    ] {
        assert_eq!(read(Mode::Default, &[], path), Decision::Ask, "{path}");
        assert_eq!(read(Mode::BypassPermissions, &[], path), Decision::Ask, "{path}");
        for rule in ["allow Read", "allow Read(**)", "allow @read(/work/**)"] {
            assert_eq!(read(Mode::Default, &[rule], path), Decision::Ask, "{rule} {path}");
        }
        let named = format!("allow Read({path})");
        assert_eq!(read(Mode::Default, &[&named], path), Decision::Allow, "{named}");
    }
    for path in [".claude/settings.json", ".github/workflows/ci.yml", ".git/HEAD", ".codex/config.toml"] {
        assert_eq!(read(Mode::Default, &[], path), Decision::Allow, "{path} holds no secret");
    }
}

#[test]
fn an_allow_rule_covers_a_place_that_is_protected_for_several_reasons_only_if_it_names_each() {
    let edit = |rule: &str, path: &str| decided(&[rule], "Edit", &json!({ "file_path": path }));
    for (rule, path, decision) in [
        ("allow Edit(.claude/**)", ".claude/settings.json", Decision::Allow),
        ("allow Edit(.claude/**)", ".claude/.credentials.json", Decision::Ask),
        ("allow Edit(**/.credentials.json)", ".claude/.credentials.json", Decision::Ask),
        ("allow Edit(.claude/.credentials.json)", ".claude/.credentials.json", Decision::Allow),
        ("allow Edit(.github/**)", ".github/.env", Decision::Ask),
        ("allow Edit(.git/**)", ".git/hooks/pre-commit", Decision::Allow),
        ("allow Edit(.git/**)", ".git/config", Decision::Ask),
        ("allow Edit(.git/config)", ".git/config", Decision::Allow),
        ("allow Edit(.ssh/**)", ".ssh/id_rsa", Decision::Allow),
        ("allow Read(.claude/**)", ".claude/.credentials.json", Decision::Ask),
    ] {
        assert_eq!(edit(rule, path), decision, "{rule} {path}");
    }
}

#[test]
fn an_unknown_tool_that_names_a_protected_place_is_asked_about_unless_a_rule_names_the_place() {
    let write = |path: &str| json!({ "path": path, "content": "x" });
    let call = |mode: Mode, rules: &[&str], input: &Value| {
        decided_in(mode, rules, Call::new("mcp__fs__write", input))
    };
    for input in [
        write(".git/config"),
        write("/work/src/../.git/hooks/pre-commit"),
        write("~/.ssh/id_rsa"),
        write(" .env"),
        write("file:///work/.env"),
        write("file:///work/%2eenv"),
        write("c:\\work\\.env"),
        json!({ "paths": ["a", ".env"] }),
        json!({ "path": "a", "destination": ".git/hooks/post-merge" }),
        json!({ "source": ".env", "destination": "a" }),
        json!({ "files": [{ "filePath": ".claude/settings.json" }] }),
        json!({ "files": { ".claude/settings.json": "{}" } }),
        json!({ "edits": [{ "target_file": ".mcp.json" }] }),
    ] {
        assert_eq!(call(Mode::BypassPermissions, &[], &input), Decision::Ask, "{input}");
        for rule in ["allow mcp__fs__*", "allow @unknown", "allow *", "allow mcp__fs__write(path=*)"] {
            assert_eq!(call(Mode::Default, &[rule], &input), Decision::Ask, "{rule} {input}");
        }
    }
    for input in [
        write("src/a.rs"),
        write("https://example.org/.github/x"),
        json!({ "path": "a", "content": "see .env" }),
        json!({ "query": ".git/config" }),
        json!({}),
    ] {
        assert_eq!(call(Mode::BypassPermissions, &[], &input), Decision::Allow, "{input}");
        assert_eq!(call(Mode::Default, &["allow mcp__fs__*"], &input), Decision::Allow, "{input}");
    }
    for (rule, input, decision) in [
        ("allow mcp__fs__write(path=.env)", write(".env"), Decision::Allow),
        ("allow mcp__fs__write(path=*/.env)", write("src/.env"), Decision::Allow),
        ("allow mcp__fs__write(path=*.env)", write("src/.env"), Decision::Ask),
        ("allow mcp__fs__write(path=.git/*)", write(".git/config"), Decision::Ask),
        (
            "allow mcp__fs__write(path=.env)",
            json!({ "path": ".env", "destination": ".env.local" }),
            Decision::Ask,
        ),
    ] {
        assert_eq!(call(Mode::Default, &[rule], &input), decision, "{rule} {input}");
    }
}

#[test]
fn a_link_of_an_unknown_tool_counts_where_it_leads() {
    let input = json!({ "path": "link" });
    let reading = Reading::of(Call::new("mcp__fs__write", &input));
    let place = Place { lies: vec!["/work/.git/hooks/pre-commit".into()], is_ordinary: true };
    let facts = Facts { places: [("link".to_owned(), place)].into(), ..facts(&reading) };
    let mode = Mode::BypassPermissions;
    let judged =
        decide(&reading, Situation { session: None, mode, rules: &[], facts: &facts, now: Millis(0) });
    assert_eq!(judged.decision, Decision::Ask);
    assert!(judged.risk.reasons.contains(&"`.git` belongs to version control".to_owned()), "{judged:?}");
}

#[test]
fn the_words_that_a_call_gives_beside_its_program_count() {
    let run = |rules: &[&str], input: Value| decided(rules, "execute", &input);
    let git = |args: Value| json!({ "command": "git", "args": args });
    for rule in ["allow execute(git)", "allow execute(git status)"] {
        assert_eq!(run(&[rule], git(json!(["push", "--force"]))), Decision::Ask, "{rule}");
    }
    assert_eq!(run(&["allow execute(git status)"], git(json!(["status"]))), Decision::Allow);
    assert_eq!(run(&["deny execute(git push --force)"], git(json!(["push", "-f"]))), Decision::Deny);
    let allows = ["allow execute(git *)", "allow execute(git)"];
    for args in [json!("push --force"), json!({ "0": "push" }), json!(["push", 1])] {
        assert_eq!(run(&allows, git(args.clone())), Decision::Ask, "{args}");
    }
    assert_eq!(run(&allows, json!({ "command": "git status #", "args": ["; rm -r x"] })), Decision::Ask);
}

#[test]
fn an_allow_rule_whose_examples_no_longer_hold_is_not_in_force_and_a_deny_rule_stays() {
    let example = |command: &str| Example { tool: "Bash".into(), input: json!({ "command": command }) };
    let with_examples = |effect, matches: &str, not: &str| Rule {
        matches: vec![example(matches)],
        does_not_match: vec![example(not)],
        ..rule(0, effect, "Bash(git status)")
    };
    for (effect, wrong, right) in [
        (Effect::Allow, Decision::Ask, Decision::Allow),
        (Effect::Deny, Decision::Deny, Decision::Deny),
        (Effect::Ask, Decision::Ask, Decision::Ask),
    ] {
        for (matches, not, expected) in [
            ("git status", "git push", right),
            ("git push", "git log", wrong),
            ("git status", "git  status", wrong),
        ] {
            let (set, left_out) = RuleSet::new([with_examples(effect, matches, not)]);
            let is_left_out = effect == Effect::Allow && expected == wrong;
            assert_eq!(left_out.len(), usize::from(is_left_out), "{effect} {matches} {not}");
            let input = json!({ "command": "git status" });
            let reading = Reading::of(Call::new("Bash", &input));
            let (facts, mode) = (facts(&reading), Mode::Default);
            let situation = Situation { session: None, mode, rules: &[&set], facts: &facts, now: Millis(0) };
            assert_eq!(decide(&reading, situation).decision, expected, "{effect} {matches} {not}");
        }
    }
    let of_project = Rule {
        scope: RuleScope::Project {
            id: "p".into(),
            folder: "/work".into(),
            identity: Identity { device: 1, inode: 1 },
        },
        matches: vec![Example { tool: "Edit".into(), input: json!({ "file_path": "src/a.rs" }) }],
        ..rule(0, Effect::Allow, "Edit(src/**)")
    };
    assert_eq!(RuleSet::new([of_project]).1, [], "an example is a call in any project");
}

#[test]
fn a_tool_that_reads_something_that_is_not_understood_is_asked_about() {
    for (tool, input, decision) in [
        ("Grep", json!({ "pattern": "x", "-n": true, "output_mode": "content" }), Decision::Allow),
        ("Grep", json!({ "pattern": "x", "path": "src" }), Decision::Allow),
        ("ls", json!({}), Decision::Allow),
        ("think", json!({ "thought": "hm" }), Decision::Allow),
        ("Grep", json!({ "pattern": "x", "root": "/etc" }), Decision::Ask),
        ("search", json!({}), Decision::Ask),
        ("read", json!({}), Decision::Ask),
        ("read", json!({ "target": "/etc/shadow" }), Decision::Ask),
        ("list_dir", json!({ "where": ["/etc"] }), Decision::Ask),
        ("find_files", json!({ "pattern": "/etc/*" }), Decision::Ask),
        ("Read", json!("/etc/shadow"), Decision::Ask),
    ] {
        assert_eq!(decided(&[], tool, &input), decision, "{tool} {input}");
    }
}
