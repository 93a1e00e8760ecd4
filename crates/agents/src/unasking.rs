//! Finds the part of a message in an agent's own protocol that switches asking off. Pure.

use serde_json::Value;

/// The first text in the message that fits, by its field name, at any depth. Texts in a list have the list's name.
pub(crate) fn find(body: &Value, fits: impl Fn(&str, &str) -> bool) -> Option<String> {
    let mut left = vec![("", body)];
    while let Some((name, value)) = left.pop() {
        match value {
            Value::String(text) if fits(name, text) => return Some(text.clone()),
            Value::Array(list) => left.extend(list.iter().map(|value| (name, value))),
            Value::Object(fields) => left.extend(fields.iter().map(|(name, value)| (name.as_str(), value))),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use portolan_core::{capabilities::Asks, ports::Means};
    use serde_json::json;

    use crate::{Settings, Supervision, catalogue};

    fn all() -> Vec<Arc<dyn portolan_core::ports::Agent>> {
        catalogue(&Settings {
            supervision: Arc::new(Supervision::new("test", vec![])),
            demo: vec!["demo".into()],
            claude: crate::claude::Config::default(),
            codex: crate::codex::Config::default(),
            acp: vec![],
            dial_in: crate::dial_in::DialIn::new(),
        })
    }

    // covers: 002-067
    #[test]
    fn every_agent_marks_how_much_each_of_its_modes_asks() {
        let everything = |agent: &str| match agent {
            "demo" | "claude" => "default acceptEdits=some plan bypassPermissions=nothing",
            "codex" => "read-only auto=some untrusted never-ask=nothing full-access=nothing plan",
            "claude-agent-acp" => {
                "default acceptEdits=some plan dontAsk auto=nothing bypassPermissions=nothing"
            }
            "codex-acp" => "read-only workspace-write=some agent=nothing agent-full-access=nothing",
            "gemini" => "default autoEdit=some plan yolo=nothing",
            "qwen" => "default plan auto-edit=some auto=nothing yolo=nothing",
            "goose" => "approve chat smart_approve=some auto=nothing",
            "copilot" => "agent plan autopilot=unknown",
            // Their own configuration decides what their modes ask, or they were never run.
            "opencode" => "build=unknown plan=unknown",
            "kilo" => "code=unknown ask=unknown plan=unknown",
            "cline" | "kiro" => "any=unknown",
            other => panic!("no marks for the modes of `{other}`"),
        };
        for agent in all() {
            let can = agent.capabilities();
            for told in everything(agent.kind()).split(' ') {
                let (mode, asks) = told.split_once('=').unwrap_or((told, "everything"));
                let marked = serde_json::to_value(can.asks(mode)).unwrap();
                assert_eq!(marked, asks, "{}: {mode}", agent.kind());
            }
            for mode in can.supported_permission_modes.iter().flatten() {
                assert_ne!(can.asks(mode), Asks::Unknown, "{}: {mode}", agent.kind());
            }
            // The mode that a session falls back to.
            let marks = !can.mode_asks.is_empty();
            assert_eq!(can.asking_mode().is_some(), marks, "{}", agent.kind());
        }
    }

    #[test]
    fn a_native_message_that_switches_asking_off_is_noticed() {
        let control = |request| json!({ "type": "control_request", "request": request });
        let call = |method: &str, params| json!({ "method": method, "params": params });
        let option = |option: &str, value: &str| {
            call("session/set_config_option", json!({ "configId": option, "value": value }))
        };
        let set_mode = |mode: &str| call("session/set_mode", json!({ "modeId": mode }));
        let update = |settings| call("thread/settings/update", settings);
        let off = [
            ("claude", control(json!({ "subtype": "set_permission_mode", "mode": "bypassPermissions" }))),
            ("claude", control(json!({ "subtype": "set_permission_mode", "mode": "auto" }))),
            (
                "claude",
                json!({ "type": "control_response", "response": { "response": { "updatedPermissions": [
                    { "type": "setMode", "mode": "bypassPermissions", "destination": "session" }] } } }),
            ),
            (
                "claude",
                control(json!({ "settings": { "permissions": { "defaultMode": "bypassPermissions" } } })),
            ),
            // Over ACP, if its own protocol cannot be used.
            ("claude", set_mode("bypassPermissions")),
            ("codex", update(json!({ "approvalPolicy": "never" }))),
            ("codex", update(json!({ "sandboxPolicy": { "type": "dangerFullAccess" } }))),
            ("codex", update(json!({ "approvalsReviewer": "auto_review" }))),
            ("codex", call("config/value/write", json!({ "keyPath": "approval_policy", "value": "never" }))),
            ("codex", set_mode("agent-full-access")),
            ("claude-agent-acp", set_mode("bypassPermissions")),
            ("codex-acp", set_mode("agent")),
            ("gemini", set_mode("yolo")),
            ("qwen", option("mode", "yolo")),
            ("goose", option("mode", "auto")),
            ("copilot", option("allow_all", "on")),
        ];
        let on = [
            ("claude", control(json!({ "subtype": "set_permission_mode", "mode": "plan" }))),
            ("codex", update(json!({ "approvalPolicy": "on-request", "approvalsReviewer": "user" }))),
            ("gemini", set_mode("autoEdit")),
            ("goose", option("model", "auto-1")),
            ("copilot", option("allow_all", "off")),
            ("demo", json!({ "mode": "bypassPermissions" })),
        ];
        let all = all();
        let judged = |kind: &str, body: &serde_json::Value| {
            all.iter().find(|agent| agent.kind() == kind).unwrap().asks_nothing(Means::Message(body))
        };
        for (kind, body) in &off {
            assert!(judged(kind, body).is_some(), "{kind}: {body}");
        }
        for (kind, body) in &on {
            assert_eq!(judged(kind, body), None, "{kind}: {body}");
        }
        for (kind, offered) in [("claude-agent-acp", true), ("claude", true), ("gemini", false)] {
            let agent = all.iter().find(|agent| agent.kind() == kind).unwrap();
            let asks_nothing = |choice| agent.asks_nothing(Means::Choice(choice)).is_some();
            assert_eq!(
                asks_nothing("exit-plan-bypass") && asks_nothing("exit-plan-clear-auto"),
                offered,
                "{kind}"
            );
            assert!(!asks_nothing("exit-plan-default") && !asks_nothing("exit-plan-accept-edits"), "{kind}");
        }
        let copilot = all.iter().find(|agent| agent.kind() == "copilot").unwrap();
        let variables = [("COPILOT_ALLOW_ALL".to_owned(), "true".to_owned())].into();
        assert_eq!(copilot.asks_nothing(Means::Variables(&variables)).unwrap(), "COPILOT_ALLOW_ALL");
    }
}
