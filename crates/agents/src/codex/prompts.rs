//! What people say, as Codex takes it: the pieces of a prompt, commands of Codex' own, and skills.

use portolan_core::{event::Content, ports::Ticket};
use serde_json::{Value, json};

use super::{calls::What, translate::Translate};
use crate::driver::Turnout;

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
            Self::Prompt => "take up the prompt",
            Self::Compact => "make the context smaller",
            Self::Review => "review",
        }
    }
}

impl Translate {
    pub(super) fn prompt(&mut self, ticket: Ticket, content: &[Content], out: &mut Turnout) {
        if let [Content::Text { text }] = content
            && let Some(command) = text.trim().strip_prefix('/')
        {
            let (name, rest) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
            match (name, rest.trim()) {
                ("compact", "") => {
                    let params = self.of_thread(json!({}));
                    let what = What::Turn(Turning::Compact);
                    return self.ask(Some(ticket), what, "thread/compact/start", Some(params), out);
                }
                ("review", instructions) => {
                    let target = if instructions.is_empty() {
                        json!({ "type": "uncommittedChanges" })
                    } else {
                        json!({ "type": "custom", "instructions": instructions })
                    };
                    let params = self.of_thread(json!({ "target": target }));
                    let what = What::Turn(Turning::Review);
                    return self.ask(Some(ticket), what, "review/start", Some(params), out);
                }
                (name, rest) => {
                    if let Some(path) = self.skills.get(name) {
                        let mut input = vec![json!({ "type": "skill", "name": name, "path": path })];
                        if !rest.is_empty() {
                            input.push(json!({ "type": "text", "text": rest }));
                        }
                        return self.start_turn(ticket, &Value::from(input), out);
                    }
                }
            }
        }
        let input: Vec<Value> = content.iter().map(piece).collect();
        self.start_turn(ticket, &Value::from(input), out);
    }

    fn start_turn(&mut self, ticket: Ticket, input: &Value, out: &mut Turnout) {
        // Named after its command, so that Codex' echo of it can be told from another's words.
        let name = format!("{}-{}", self.setup.session, ticket.0);
        let mut params = self.of_thread(json!({ "input": input, "clientUserMessageId": name }));
        if let Some(schema) = &self.setup.schema {
            params["outputSchema"] = schema.clone();
        }
        self.ask(Some(ticket), What::Turn(Turning::Prompt), "turn/start", Some(params), out);
    }
}

fn piece(content: &Content) -> Value {
    let words = |text: String| json!({ "type": "text", "text": text });
    match content {
        Content::Text { text } | Content::Thinking { text } => words(text.clone()),
        // Codex fetches nothing: an image is in the message, or it is not there.
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
