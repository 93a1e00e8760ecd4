//! Whether the demo agent may do what it simulates: modes, lists, hooks, and finally a person.

use portolan_core::{
    Event,
    event::{Content, FileChange, HookStatus, ToolKind, ToolOutcome},
    request::{Answer, Ask},
};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::stage::Stage;

/// The tools it has.
const TOOLS: [&str; 7] = ["Bash", "Read", "Edit", "Agent", "AskUserQuestion", "ExitPlanMode", "TodoWrite"];

/// The tools that remain without the disallowed ones.
pub(super) fn offered(disallowed: &[String]) -> Vec<String> {
    TOOLS.into_iter().filter(|tool| !disallowed.iter().any(|gone| gone == tool)).map(Into::into).collect()
}

/// A question that waits for its answer.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) answer: oneshot::Sender<Answer>,
    pub(super) tool: Option<String>,
}

/// What was decided.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Verdict {
    /// With this input, which may have been edited.
    Allowed(Value),
    Denied(String),
}

impl Stage {
    /// Passes an answer to the waiting request.
    pub(super) fn answer(&self, key: &str, answer: Answer) -> Result<(), String> {
        let Some(waiting) = self.with(|inner| inner.waiting.shift_remove(key)) else {
            return Err(format!("no request `{key}` is open"));
        };
        if let (Answer::Deny { message, interrupt: true, .. }, Some(tool)) = (&answer, &waiting.tool) {
            // The turn ends here; the tool gets the reason before that.
            let why = message.clone().unwrap_or_else(|| "denied".into());
            self.result(tool, ToolOutcome::Denied, vec![Content::text(why)], vec![]);
        }
        // The waiting call may have been interrupted meanwhile.
        let _ = waiting.answer.send(answer);
        Ok(())
    }

    /// Whether this call may run.
    pub(super) async fn permit(
        &self,
        tool: &str,
        name: &str,
        kind: ToolKind,
        input: Value,
        description: &str,
        changes: Vec<FileChange>,
    ) -> Verdict {
        let (mode, spec, parent) = self
            .with(|inner| (inner.mode.clone(), inner.spec.clone(), inner.tools.get(tool).cloned().flatten()));
        if spec.disallowed_tools.iter().any(|gone| gone == name) {
            return Verdict::Denied(format!("the tool {name} is not offered in this session"));
        }
        for hook in spec.hooks.iter().filter(|hook| hook.event == "PreToolUse") {
            if hook.matcher.as_deref().is_some_and(|matcher| matcher != name) {
                continue;
            }
            match self.ask_hook(&hook.event, tool, name, &input).await {
                Some(false) => return Verdict::Denied("a hook denied this".into()),
                Some(true) => return Verdict::Allowed(input),
                None => {}
            }
        }
        let unasked = spec.allowed_tools.iter().any(|allowed| allowed == name)
            || mode == "bypassPermissions"
            || mode == "acceptEdits" && kind == ToolKind::Edit;
        if unasked {
            return Verdict::Allowed(input);
        }
        if mode == "plan" {
            return Verdict::Denied("in plan mode no tool runs".into());
        }
        let always = json!({
            "type": "addRules", "rules": [{"toolName": name}], "behavior": "allow", "destination": "session"
        });
        // No reason: the agent asks about every call.
        let ask = Ask::permission(name, input.clone())
            .with_description(description.to_owned())
            .with_changes(changes)
            .with_suggestions(vec![always]);
        match self.ask(ask, parent.as_deref(), Some(tool)).await {
            Answer::Allow { input: edited, .. } => Verdict::Allowed(edited.unwrap_or(input)),
            Answer::Deny { message, .. } => {
                Verdict::Denied(message.unwrap_or_else(|| format!("Tool \"{name}\" was denied by the user.")))
            }
            Answer::Choices { .. } | Answer::Content { .. } | Answer::Output { .. } => {
                Verdict::Denied("the answer does not fit a permission".into())
            }
        }
    }

    /// Asks the hook: allow, deny, or no opinion.
    async fn ask_hook(&self, event: &str, tool: &str, name: &str, input: &Value) -> Option<bool> {
        let hook = self.name();
        let told = |status, data| Event::Hook {
            hook: hook.clone(),
            name: "session hook".into(),
            event: event.into(),
            status,
            data,
        };
        self.event(told(HookStatus::Started, None));
        let asked = json!({"hook_event_name": event, "tool_name": name, "tool_input": input});
        let answer = self.ask(Ask::Hook { event: event.into(), input: asked }, None, Some(tool)).await;
        let (verdict, output) = match answer {
            Answer::Output { output } => {
                let verdict = match output.get("decision").and_then(Value::as_str) {
                    Some("allow" | "approve") => Some(true),
                    Some("deny" | "block") => Some(false),
                    _ => None,
                };
                (verdict, Some(output))
            }
            Answer::Deny { .. } => (Some(false), None),
            Answer::Allow { .. } | Answer::Choices { .. } | Answer::Content { .. } => (None, None),
        };
        self.event(told(HookStatus::Completed, output));
        verdict
    }
}
