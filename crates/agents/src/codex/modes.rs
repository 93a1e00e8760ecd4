//! Permission modes: Codex has a policy for when it asks, and a sandbox for what it may do without asking. A mode is
//! one of each, and planning is one more. Pure.

use std::path::PathBuf;

use indexmap::IndexMap;
use portolan_core::{capabilities::Asks, policy::Mode};
use serde_json::{Value, json};

/// The mode in which it plans, asks questions and changes nothing.
pub(super) const PLAN: &str = "plan";

/// The mode in which Codex asks before it changes anything: the mode in which it begins by itself, in a folder that is
/// not trusted.
pub(super) const ASKS: &str = "read-only";

/// A mode by name: when it asks, and the sandbox in the terms of a policy.
const MODES: &[(&str, &str, &str)] = &[
    ("read-only", "on-request", "readOnly"),
    ("auto", "on-request", "workspaceWrite"),
    ("untrusted", "untrusted", "workspaceWrite"),
    ("never-ask", "never", "workspaceWrite"),
    ("full-access", "never", "dangerFullAccess"),
    (PLAN, "on-request", "readOnly"),
];

/// All modes.
pub(super) fn names() -> Vec<String> {
    MODES.iter().map(|(name, ..)| (*name).to_owned()).collect()
}

/// How much Codex asks in each mode.
pub(super) fn mode_asks() -> IndexMap<String, Asks> {
    MODES.iter().map(|(name, policy, sandbox)| ((*name).to_owned(), asks(policy, sandbox))).collect()
}

/// The meaning of its modes. In `never-ask`, Codex fails what its sandbox forbids, and no answer of Portolan's can do
/// the same; so that mode has no meaning here, nor has the mode in which it plans.
pub(super) fn mode_means() -> IndexMap<String, Mode> {
    [
        ("read-only", Mode::Default),
        ("auto", Mode::AcceptEdits),
        ("untrusted", Mode::Default),
        ("full-access", Mode::BypassPermissions),
    ]
    .map(|(name, means)| (name.to_owned(), means))
    .into()
}

/// The modes that it works in itself. In `full-access` Codex asks about every command and every patch, and Portolan
/// answers, so that a deny rule holds. Inside the sandbox of `auto` Codex goes on without asking.
pub(super) fn mode_works() -> IndexMap<String, String> {
    [("auto", "auto"), ("full-access", "untrusted, dangerFullAccess")]
        .map(|(mode, works)| (mode.to_owned(), works.to_owned()))
        .into()
}

/// How much it asks under a policy and a sandbox.
fn asks(policy: &str, sandbox: &str) -> Asks {
    match (policy, sandbox) {
        // Forbidden actions fail if it never asks, and need permission if it does.
        ("never" | "on-request" | "untrusted", "readOnly") | ("untrusted", _) => Asks::Everything,
        // Actions inside the sandbox run without asking.
        ("on-request", "workspaceWrite") => Asks::Some,
        // It asks only to leave a sandbox, and there is none; or it never asks.
        ("on-request", "dangerFullAccess") | ("never", _) => Asks::Nothing,
        _ => Asks::Unknown,
    }
}

/// Whether this text, under this name in a message or in the configuration, switches asking off.
pub(super) fn switches_asking_off(name: &str, text: &str) -> bool {
    match name {
        "approvalPolicy" | "approval_policy" | "value" if text == "never" => true,
        // A model decides instead of the user.
        "approvalsReviewer" | "approvals_reviewer" => text != "user",
        _ => matches!(text, "dangerFullAccess" | "danger-full-access" | "externalSandbox"),
    }
}

/// The parameters of `thread/settings/update` for a mode; none if there is no such mode.
pub(super) fn settings(mode: &str, model: Option<&str>, extra: &[PathBuf]) -> Option<Value> {
    let named = MODES.iter().find(|(name, ..)| *name == mode).map(|(_, policy, sandbox)| (*policy, *sandbox));
    // The user's own settings, in the form of `named`.
    let in_words = || {
        let (policy, sandbox) = mode.split_once(", ")?;
        let policy = MODES.iter().map(|(_, known, _)| *known).find(|known| *known == policy)?;
        let sandbox = MODES.iter().map(|(.., known)| *known).find(|known| *known == sandbox)?;
        Some((policy, sandbox))
    };
    let (policy, sandbox) = named.or_else(in_words)?;
    let mut sandbox = json!({ "type": sandbox });
    if sandbox["type"] == "workspaceWrite" && !extra.is_empty() {
        sandbox["writableRoots"] = json!(extra);
    }
    let mut settings = json!({ "approvalPolicy": policy, "sandboxPolicy": sandbox });
    if let Some(model) = model {
        let collaboration = if mode == PLAN { "plan" } else { "default" };
        settings["collaborationMode"] = json!({
            "mode": collaboration,
            "settings": { "model": model, "reasoning_effort": null, "developer_instructions": null },
        });
    }
    Some(settings)
}

/// Whether a session that names no mode may begin with these settings of the user. Not if Codex would ask nobody.
pub(super) fn may_begin(policy: &Value, sandbox: &Value) -> bool {
    let sandbox = sandbox["type"].as_str().unwrap_or_default();
    match policy.as_str() {
        Some(policy) => matches!(asks(policy, sandbox), Asks::Everything | Asks::Some),
        None => {
            policy["granular"]["sandbox_approval"] == true && matches!(sandbox, "readOnly" | "workspaceWrite")
        }
    }
}

/// The mode with these settings; in Codex's own terms if it is none of the known modes.
pub(super) fn named(policy: &Value, sandbox: &Value, collaboration: &Value) -> Option<String> {
    if collaboration["mode"] == "plan" {
        return Some(PLAN.into());
    }
    let sandbox = sandbox["type"].as_str()?;
    let Some(policy) = policy.as_str() else { return Some(format!("granular, {sandbox}")) };
    let known = MODES.iter().find(|(name, asks, may)| (*asks, *may) == (policy, sandbox) && *name != PLAN);
    Some(known.map_or_else(|| format!("{policy}, {sandbox}"), |(name, ..)| (*name).to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: 003-020
    #[test]
    fn a_mode_is_a_policy_and_a_sandbox_and_is_recognised_by_them() {
        for name in names() {
            let settings = settings(&name, Some("m"), &["/more".into()]).unwrap();
            let again = named(
                &settings["approvalPolicy"],
                &settings["sandboxPolicy"],
                &settings["collaborationMode"],
            );
            assert_eq!(again.as_deref(), Some(&*name));
        }
        let auto = settings("auto", None, &["/more".into()]).unwrap();
        let sandbox = json!({ "type": "workspaceWrite", "writableRoots": ["/more"] });
        assert_eq!(auto, json!({ "approvalPolicy": "on-request", "sandboxPolicy": sandbox }));
        for unknown in ["on-failure", "granular, readOnly", "never, externalSandbox", ", ", ""] {
            assert_eq!(settings(unknown, None, &[]), None, "{unknown}");
        }
    }

    #[test]
    fn a_deny_rule_binds_in_every_mode_in_which_codex_asks_portolan() {
        let can = crate::codex::capabilities(&crate::codex::Config::default());
        let bound: Vec<_> = names().into_iter().filter(|mode| can.rules_bind(mode)).collect();
        assert_eq!(bound, ["read-only", "untrusted", "full-access", PLAN]);
    }

    #[test]
    fn a_session_that_names_no_mode_begins_only_where_codex_asks_somebody() {
        let may = |mode: &str| {
            let settings = settings(mode, None, &[]).unwrap();
            may_begin(&settings["approvalPolicy"], &settings["sandboxPolicy"])
        };
        let all = names();
        let begun: Vec<_> = all.iter().filter(|mode| may(mode)).collect();
        assert_eq!(begun, ["read-only", "auto", "untrusted", "plan"]);
        assert!(!may("on-request, dangerFullAccess") && may("never, readOnly"));
        let granular = |may: bool| json!({ "granular": { "sandbox_approval": may } });
        let sandbox = json!({ "type": "workspaceWrite" });
        assert!(may_begin(&granular(true), &sandbox) && !may_begin(&granular(false), &sandbox));
        assert!(!may_begin(&json!("on-request"), &json!({ "type": "externalSandbox" })));
    }

    #[test]
    fn the_users_own_settings_are_shown_in_codex_own_words() {
        let read_only = json!({ "type": "readOnly" });
        assert_eq!(named(&json!("never"), &read_only, &Value::Null).unwrap(), "never, readOnly");
        let again = json!({ "approvalPolicy": "never", "sandboxPolicy": read_only });
        assert_eq!(settings("never, readOnly", None, &[]), Some(again), "so that a later start has it too");
        assert_eq!(
            named(&json!({ "granular": {} }), &read_only, &Value::Null).unwrap(),
            "granular, readOnly"
        );
        assert_eq!(named(&json!("never"), &Value::Null, &Value::Null), None);
    }
}
