//! Prompts in the form of Codex: the pieces of a prompt, Codex' own commands, and skills.

use portolan_core::{event::Content, ports::InstructionId};
use serde_json::{Value, json};

use super::{calls::What, translate::Translate};
use crate::driver::Output;

/// What begins a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turning {
    Prompt,
    Compact,
    Review,
}

impl Turning {
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Prompt => "take the prompt",
            Self::Compact => "make the context smaller",
            Self::Review => "review",
        }
    }
}

/// What a prompt means to Codex.
enum Said {
    /// A separate request, which begins a turn.
    Command { turning: Turning, method: &'static str, params: Value },
    /// Input of a turn.
    Input(Value),
}

impl Translate {
    pub(super) fn prompt(&mut self, instruction_id: InstructionId, content: &[Content], out: &mut Output) {
        let input = match self.read(content) {
            Said::Command { turning, method, params } => {
                let params = self.of_thread(params);
                return self.ask(Some(instruction_id), What::Turn(turning), method, Some(params), out);
            }
            Said::Input(input) => input,
        };
        let name = self.name_of(instruction_id);
        let mut params = self.of_thread(json!({ "input": input, "clientUserMessageId": name }));
        if let Some(schema) = &self.setup.schema {
            params["outputSchema"] = schema.clone();
        }
        self.ask(Some(instruction_id), What::Turn(Turning::Prompt), "turn/start", Some(params), out);
    }

    /// A prompt as input of a turn; none if it begins its own turn.
    pub(super) fn input(&self, content: &[Content]) -> Option<Value> {
        match self.read(content) {
            Said::Input(input) => Some(input),
            Said::Command { .. } => None,
        }
    }

    /// Prompts are named after their command, so that Codex' echo of a prompt can be recognised.
    pub(super) fn name_of(&self, instruction_id: InstructionId) -> String {
        format!("{}-{}", self.setup.session, instruction_id.0)
    }

    fn read(&self, content: &[Content]) -> Said {
        if let [Content::Text { text }] = content
            && let Some(command) = text.trim().strip_prefix('/')
        {
            let (name, rest) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
            match (name, rest.trim()) {
                ("compact", "") => {
                    let (turning, method) = (Turning::Compact, "thread/compact/start");
                    return Said::Command { turning, method, params: json!({}) };
                }
                ("review", instructions) => {
                    let target = if instructions.is_empty() {
                        json!({ "type": "uncommittedChanges" })
                    } else {
                        json!({ "type": "custom", "instructions": instructions })
                    };
                    let params = json!({ "target": target });
                    return Said::Command { turning: Turning::Review, method: "review/start", params };
                }
                (name, rest) => {
                    if let Some(path) = self.skills.get(name) {
                        let mut input = vec![json!({ "type": "skill", "name": name, "path": path })];
                        if !rest.is_empty() {
                            input.push(json!({ "type": "text", "text": rest }));
                        }
                        return Said::Input(input.into());
                    }
                }
            }
        }
        Said::Input(content.iter().map(piece).collect())
    }
}

fn piece(content: &Content) -> Value {
    let words = |text: String| json!({ "type": "text", "text": text });
    match content {
        Content::Text { text } | Content::Thinking { text } => words(text.clone()),
        // Codex fetches nothing: an image must be in the message.
        Content::Image { media_type, data } => {
            json!({ "type": "image", "url": format!("data:{media_type};base64,{data}") })
        }
        Content::Resource { uri, name, text: Some(text) } => {
            words(format!("{} ({uri}):\n{text}", name.as_deref().unwrap_or(uri)))
        }
        Content::Resource { uri, name, text: None } => {
            let path = uri.strip_prefix("file://").unwrap_or(uri);
            let name = name.as_deref().or_else(|| path.rsplit('/').next()).unwrap_or(path);
            json!({ "type": "mention", "name": name, "path": path })
        }
        Content::Data { data } => words(data.to_string()),
        Content::RedactedThinking => words(String::new()),
        Content::Other { body } => body.clone(),
    }
}
