//! What each layer sets, which layer wins, and the text of every error.

use super::*;
use crate::config::{Level, Policy};

fn file(text: &str) -> Result<Loaded, Vec<String>> {
    assemble(text, [], &[])
}

fn flag(path: &str, value: &str) -> Override {
    Override { path: path.into(), value: value.into(), flag: "--set".into() }
}

#[test]
fn without_any_setting_the_defaults_are_used() {
    assert_eq!(file("").unwrap().settings, Settings::default());
}

#[test]
fn an_unknown_key_is_reported_with_its_line_and_a_similar_key() {
    assert_eq!(
        file("# comment\n[listen]\nadress = \"127.0.0.1:1\"\n\n[limit]\nx = 1\n").unwrap_err(),
        [
            "portolan.toml:3: unknown key `listen.adress`; did you mean `address`?",
            "portolan.toml:5: unknown key `limit`; did you mean `limits`?"
        ]
    );
    assert_eq!(
        file("[agents.claude]\nzzz = 1\n").unwrap_err(),
        ["portolan.toml:2: unknown key `agents.claude.zzz`; `portolan config` shows every key"]
    );
}

#[test]
fn the_table_of_a_frontend_is_checked_like_every_other_table() {
    assert_eq!(
        file("[agui]\norigin = []\n[handheld]\nfill = 3\n[insight]\nagent = \"demo\"\n").unwrap_err(),
        [
            "portolan.toml:2: unknown key `agui.origin`; did you mean `origins`?",
            "portolan.toml:4: `handheld.fill`: invalid type: integer `3`, expected a boolean",
            "portolan.toml:5: unknown key `insight`; did you mean `insights`?"
        ]
    );
    let variables = [("PORTOLAN_HANDHELD_FILL".to_owned(), "false".to_owned())];
    let loaded = assemble("[agui]\nagent = \"demo\"\n", variables, &[]).unwrap();
    let frontends = loaded.settings.frontends;
    assert_eq!((frontends.agui.agent.as_str(), frontends.handheld.fill), ("demo", false));
}

#[test]
fn a_key_under_its_old_name_works_with_a_warning() {
    for (table, key, value) in [
        ("sessions", "allow_bypass", "true"),
        ("insights", "allow_bypass", "true"),
        ("requests", "deadline_seconds", "7"),
    ] {
        let later = "; the next version refuses the old name";
        let loaded = file(&format!("[{table}]\n{key} = {value}\n")).unwrap();
        let why = format!("portolan.toml:2: `{table}.{key}` is now called `policy.{key}`{later}");
        assert_eq!(loaded.warnings, [why]);
        let policy = loaded.settings.policy;
        assert_eq!(
            (policy.allow_bypass, policy.deadline_seconds),
            match value {
                "true" => (true, None),
                _ => (false, Some(7)),
            }
        );
        assert_eq!(loaded.origins[&format!("policy.{key}")], Origin::File(2));
        let [old, new] = [table, "policy"].map(|table| format!("PORTOLAN_{table}_{key}").to_uppercase());
        let loaded = assemble("", [(old.clone(), value.to_owned())], &[]).unwrap();
        assert_eq!(loaded.warnings, [format!("environment {old}: `{old}` is now called `{new}`{later}")]);
        assert_ne!(loaded.settings.policy, Policy::default());
    }
    let both = file("[sessions]\nallow_bypass = true\n[policy]\nallow_bypass = false\n").unwrap();
    assert!(!both.settings.policy.allow_bypass, "the new name counts");
    let wrong = "portolan.toml:2: `policy.allow_bypass`: invalid type: integer `3`, expected a boolean";
    assert_eq!(file("[sessions]\nallow_bypass = 3\n").unwrap_err(), [wrong]);
}

#[test]
fn a_value_of_the_wrong_type_is_reported_with_its_line() {
    assert_eq!(
        file("[limits]\n\nline_bytes = \"big\"\n").unwrap_err(),
        ["portolan.toml:3: `limits.line_bytes`: invalid type: string \"big\", expected u32"]
    );
    assert_eq!(
        file("[store]\ndurability = \"some\"\n").unwrap_err(),
        ["portolan.toml:2: `store.durability`: unknown variant `some`, expected `normal` or `full`"]
    );
    assert_eq!(
        file("listen = 3\n").unwrap_err(),
        ["portolan.toml:1: `listen` must be a table, not `integer`"]
    );
}

#[test]
fn all_errors_are_reported_at_once() {
    let text = "[listen]\nself_signed = \"yes\"\nadress = \"x\"\n[agents.demo]\ncommand = \"demo\"\n";
    assert_eq!(
        file(text).unwrap_err(),
        [
            "portolan.toml:2: `listen.self_signed`: invalid type: string \"yes\", expected a boolean",
            "portolan.toml:3: unknown key `listen.adress`; did you mean `address`?",
            "portolan.toml:5: `agents.demo.command`: invalid type: string \"demo\", expected a sequence",
        ]
    );
}

#[test]
fn whether_an_agent_outlives_the_daemon_is_set_for_all_agents_and_for_each() {
    let outlives = |text: &str| {
        let agents = file(text).unwrap().settings.agents;
        ["demo", "claude"].map(|kind| agents.outlives(kind))
    };
    assert_eq!(outlives(""), [false, false]);
    assert_eq!(outlives("[agents]\noutlive = true\n"), [true, true]);
    assert_eq!(outlives("[agents.demo]\noutlive = true\n"), [true, false]);
    assert_eq!(outlives("[agents]\noutlive = true\n[agents.demo]\noutlive = false\n"), [false, true]);
}

#[test]
fn text_that_is_not_toml_is_reported_with_its_line() {
    let problems = file("[log]\nlevel = \n").unwrap_err();
    assert_eq!(problems.len(), 1);
    assert!(problems[0].starts_with("portolan.toml:2: "), "{problems:?}");
}

#[test]
fn the_command_line_overrides_the_environment_which_overrides_the_file() {
    let text = "[log]\nlevel = \"warn\"\nformat = \"json\"\n[limits]\nline_bytes = 5\n";
    let variables = [("PORTOLAN_LOG_LEVEL", "debug"), ("PORTOLAN_LIMITS_LINE_BYTES", "6")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    let loaded = assemble(text, variables, &[flag("limits.line_bytes", "7")]).unwrap();
    assert_eq!(loaded.settings.log.level, Level::Debug);
    assert_eq!(loaded.settings.limits.line_bytes, 7);
    let origins: Vec<String> =
        loaded.origins.iter().map(|(path, origin)| format!("{path}: {origin}")).collect();
    assert_eq!(
        origins,
        [
            "limits.line_bytes: option --set",
            "log.format: portolan.toml:3",
            "log.level: environment PORTOLAN_LOG_LEVEL"
        ]
    );
}

#[test]
fn lists_in_the_environment_are_separated_by_commas() {
    let variables = [("PORTOLAN_LISTEN_HOSTS".to_owned(), "a.example, b.example".to_owned())];
    assert_eq!(assemble("", variables, &[]).unwrap().settings.listen.hosts, ["a.example", "b.example"]);
}

#[test]
fn a_wrong_value_in_the_environment_is_reported_with_its_variable() {
    let variables = [("PORTOLAN_LISTEN_ADDRESS".to_owned(), "nowhere".to_owned())];
    let problems = assemble("", variables, &[]).unwrap_err();
    assert_eq!(problems.len(), 1);
    assert!(
        problems[0].starts_with("environment PORTOLAN_LISTEN_ADDRESS: `listen.address`: "),
        "{problems:?}"
    );
}

#[test]
fn a_variable_similar_to_one_of_ours_is_a_warning() {
    let variables = [
        ("PORTOLAN_LISTEN_ADRESS".to_owned(), "x".to_owned()),
        ("PORTOLAN_HOME".to_owned(), "/tmp".to_owned()),
        ("PORTOLAN_ZZZ".to_owned(), "someone else's".to_owned()),
    ];
    assert_eq!(
        assemble("", variables, &[]).unwrap().warnings,
        ["unknown variable `PORTOLAN_LISTEN_ADRESS`; did you mean `PORTOLAN_LISTEN_ADDRESS`?"]
    );
}

#[test]
fn an_unknown_key_on_the_command_line_is_an_error() {
    assert_eq!(
        assemble("", [], &[flag("log.levl", "info")]).unwrap_err(),
        ["--set: unknown key `log.levl`; did you mean `log.level`?"]
    );
}

#[test]
fn a_certificate_without_its_key_is_refused() {
    assert_eq!(
        file("[listen]\ntls_cert = \"c.pem\"\n").unwrap_err(),
        ["portolan.toml:2: `listen.tls_cert` needs `listen.tls_key`"]
    );
}

#[test]
fn prices_are_set_by_model_and_an_invalid_price_is_refused_with_its_line() {
    let text =
        "[agents.claude.prices]\n\"claude-sonnet-4\" = { input = 3, output = 15.5, cache_read = 0.3 }\n";
    let loaded = file(text).unwrap();
    let price =
        portolan_agents::prices::Price { input: 3.0, output: 15.5, cache_write: 0.0, cache_read: 0.3 };
    assert_eq!(loaded.settings.agents["claude"].prices["claude-sonnet-4"], price);
    let wrong = |text: &str| {
        let problems = file(&format!("[agents.claude.prices.m]\ninput = 3\n{text}\n")).unwrap_err();
        assert_eq!(problems.len(), 1, "{problems:?}");
        problems[0].clone()
    };
    assert!(wrong("output = -1").contains("`-1` is not a price"), "{}", wrong("output = -1"));
    assert!(wrong("output = nan").contains("is not a price"));
    assert!(wrong("").contains("missing field `output`"), "{}", wrong(""));
    assert!(wrong("output = 1\ncache = 2").contains("unknown field `cache`"));
    assert!(wrong("output = 1\ncache = 2").starts_with("portolan.toml:"));
}

#[test]
fn the_liveness_check_of_an_agent_cannot_be_switched_off() {
    assert_eq!(file("").unwrap().settings.limits.liveness_seconds.get(), 30);
    assert_eq!(file("[limits]\nliveness_seconds = 5\n").unwrap().settings.limits.liveness_seconds.get(), 5);
    let problems = file("[limits]\nliveness_seconds = 0\n").unwrap_err();
    assert!(problems[0].starts_with("portolan.toml:2: `limits.liveness_seconds`: "), "{problems:?}");
}

#[test]
fn an_agent_that_does_not_exist_is_refused_with_a_similar_name() {
    assert_eq!(
        file("[agents.cluade]\nenabled = false\n").unwrap_err(),
        [
            "portolan.toml:2: there is no agent `cluade`; did you mean `claude`? An agent that speaks ACP needs its \
          `command`"
        ]
    );
    let all = portolan_agents::KINDS.join(", ");
    assert_eq!(
        file("[agents.zzzzzz]\nenabled = false\n").unwrap_err(),
        [format!(
            "portolan.toml:2: there is no agent `zzzzzz`; the agents are {all}. An agent that \
             speaks ACP needs its `command`"
        )]
    );
}

// covers: 003-017
#[test]
fn an_agent_outside_of_the_catalogue_needs_only_its_command() {
    let loaded = file("[agents.harbour]\ncommand = [\"harbour\", \"acp\"]\nfiles = false\n").unwrap();
    let harbour = &loaded.settings.agents["harbour"];
    assert_eq!(
        (harbour.command.as_slice(), harbour.files),
        (&["harbour".to_owned(), "acp".to_owned()][..], false)
    );
}

#[test]
fn a_limit_of_zero_is_refused() {
    for key in ["limits.agent_ready_seconds", "limits.control_request_seconds", "limits.line_bytes"] {
        assert_eq!(
            assemble("", [], &[flag(key, "0")]).unwrap_err(),
            [format!("option --set: `{key}` must be at least 1; nothing works with 0")]
        );
    }
    assert!(
        assemble("", [], &[flag("limits.shutdown_grace_seconds", "0")]).is_ok(),
        "a grace time of zero is allowed"
    );
    assert_eq!(
        file("[policy]\ndeadline_seconds = 0\n").unwrap_err(),
        ["portolan.toml:2: `policy.deadline_seconds` must be at least 1; nothing works with 0"]
    );
}

#[test]
fn the_command_of_an_agent_is_a_list_and_never_a_shell_line() {
    let loaded = file("[agents.claude]\ncommand = [\"/opt/claude\", \"--x\"]\n").unwrap();
    assert_eq!(loaded.settings.agents["claude"].command, ["/opt/claude", "--x"]);
    assert!(file("[agents.claude]\ncommand = \"claude --x\"\n").is_err());
}
