//! Decisions in Codex' own words. Only offered decisions are sent; any other answer is a denial. An approval holds for
//! one call: Codex gets none that lasts.

use indexmap::IndexMap;
use portolan_core::request::Answer;
use serde_json::{Value, json};

use super::{CANCEL, NETWORK};

/// The rule against a host that an option stands for.
fn host_denial_of(option: &str, network: &[Value]) -> Option<Value> {
    let number: usize = option.strip_prefix(NETWORK)?.strip_prefix('-')?.parse().ok()?;
    let rule = network.get(number).filter(|rule| rule["action"] == "deny")?;
    Some(json!({ NETWORK: { "network_policy_amendment": rule } }))
}

/// The decision about a command or a change: Codex' own word, if one was chosen.
pub(super) fn decision(answer: &Answer, network: &[Value]) -> Value {
    match answer {
        // Codex runs exactly what it asked about: an edited input is not allowed.
        Answer::Allow { input: Some(_), .. } => json!("decline"),
        Answer::Allow { option, .. } => match option.as_deref() {
            None => json!("accept"),
            Some(CANCEL) => json!(CANCEL),
            // Any other option is not a plain approval.
            Some(_) => json!("decline"),
        },
        Answer::Deny { interrupt, option, .. } if *interrupt || option.as_deref() == Some(CANCEL) => {
            json!(CANCEL)
        }
        Answer::Deny { option: Some(option), .. } => {
            host_denial_of(option, network).unwrap_or_else(|| json!("decline"))
        }
        _ => json!("decline"),
    }
}

pub(super) fn permissions_answer(answer: &Answer, asked: Value) -> Value {
    match answer {
        Answer::Allow { input: None, option: None, .. } => json!({ "permissions": asked, "scope": "turn" }),
        _ => json!({ "permissions": {}, "scope": "turn" }),
    }
}

pub(super) fn elicitation_answer(answer: Answer) -> Value {
    match answer {
        Answer::Content { content } => json!({ "action": "accept", "content": content, "_meta": null }),
        Answer::Allow { option: Some(option), .. } if option == CANCEL => {
            json!({ "action": "cancel", "content": null, "_meta": null })
        }
        Answer::Allow { input: None, option: None, .. } => {
            json!({ "action": "accept", "content": {}, "_meta": null })
        }
        Answer::Deny { interrupt, option, .. } if interrupt || option.as_deref() == Some(CANCEL) => {
            json!({ "action": "cancel", "content": null, "_meta": null })
        }
        _ => json!({ "action": "decline", "content": null, "_meta": null }),
    }
}

pub(super) fn questions_answer(answer: Answer, ids: &IndexMap<String, String>) -> Value {
    let mut answers = serde_json::Map::new();
    if let Answer::Choices { answers: chosen } = answer {
        for (question, chosen) in chosen {
            if let Some(id) = ids.get(&question) {
                answers.insert(id.clone(), json!({ "answers": chosen }));
            }
        }
    }
    json!({ "answers": answers })
}

#[cfg(test)]
mod tests {
    use portolan_core::request::Scope;

    use super::*;

    fn allow(option: Option<&str>, input: Option<Value>) -> Answer {
        Answer::Allow { input, scope: Scope::Once, mode: None, option: option.map(str::to_owned) }
    }

    fn deny(interrupt: bool) -> Answer {
        Answer::Deny { message: None, interrupt, option: None }
    }

    #[test]
    fn only_a_plain_yes_is_a_yes() {
        let network = [
            json!({ "host": "a.example", "action": "allow" }),
            json!({ "host": "a.example", "action": "deny" }),
        ];
        let decided = |answer: &Answer| decision(answer, &network);
        assert_eq!(decided(&allow(None, None)), "accept");
        for lasting in ["acceptForSession", "acceptWithExecpolicyAmendment", "applyNetworkPolicyAmendment-0"]
        {
            assert_eq!(
                decided(&allow(Some(lasting), None)),
                "decline",
                "{lasting}: Codex gets no lasting approval"
            );
        }
        assert_eq!(decided(&allow(Some(CANCEL), None)), CANCEL, "an option that means no");
        assert_eq!(decided(&allow(Some("newer"), None)), "decline");
        assert_eq!(
            decided(&allow(None, Some(json!({ "command": "ls" })))),
            "decline",
            "it would run another command"
        );
        assert_eq!((decided(&deny(false)), decided(&deny(true))), (json!("decline"), json!(CANCEL)));
        let rule = |number: usize| json!({ NETWORK: { "network_policy_amendment": network[number] } });
        let refuse =
            |option: &str| Answer::Deny { message: None, interrupt: false, option: Some(option.into()) };
        assert_eq!(decided(&refuse("applyNetworkPolicyAmendment-1")), rule(1));
        assert_eq!(
            decided(&allow(Some("applyNetworkPolicyAmendment-1"), None)),
            "decline",
            "an approval with a denial option"
        );
        assert_eq!(
            decided(&refuse("applyNetworkPolicyAmendment-0")),
            "decline",
            "a denial with an approval option"
        );
        assert_eq!(decided(&allow(Some("applyNetworkPolicyAmendment-7"), None)), "decline");
    }

    #[test]
    fn permissions_and_calls_are_given_only_by_what_was_offered() {
        let asked = json!({ "network": true });
        let given = |option| permissions_answer(&allow(option, None), asked.clone());
        assert_eq!(given(None), json!({ "permissions": asked, "scope": "turn" }));
        let nothing = json!({ "permissions": {}, "scope": "turn" });
        assert_eq!((given(Some(CANCEL)), given(Some("session"))), (nothing.clone(), nothing));
        let action = |answer| elicitation_answer(answer)["action"].clone();
        assert_eq!(action(allow(None, None)), "accept");
        assert_eq!(action(allow(Some(CANCEL), None)), "cancel");
        assert_eq!(action(allow(Some("always"), None)), "decline", "it would last");
        assert_eq!(action(allow(None, Some(json!({ "path": "/" })))), "decline");
    }
}
