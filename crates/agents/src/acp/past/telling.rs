//! A conversation that is being loaded, as events: the same translation as for a running session, plus the user's
//! prompts, which a running session has from elsewhere.

use portolan_core::{
    Event, Seq,
    event::Content,
    ports::{PastEntry, Report},
};
use serde_json::Value;

use super::super::{
    messages::Ending,
    subagents,
    translate::{Setup, Translate},
    updates::CONVERSATION,
    wire::{self, some_text, text},
};
use crate::driver::Output;

/// A longer prompt is shown in parts. It stays in memory until its end.
const LONGEST: usize = 16 * 1024 * 1024;

/// Turns updates into entries.
pub(super) struct Telling {
    translate: Translate,
    session: String,
    /// The user's prompt so far, and the message that it is part of.
    prompt: Vec<Content>,
    size: usize,
    message: Option<String>,
}

impl Telling {
    pub(super) fn new(setup: Setup, session: &str) -> Self {
        let mut translate = Translate::new(setup);
        translate.session.is_past(session);
        translate.turns.tell_past();
        Self { translate, session: session.to_owned(), prompt: vec![], size: 0, message: None }
    }

    /// The entries of an update.
    pub(super) fn update(&mut self, params: &Value, line: &str) -> Vec<PastEntry> {
        let (update, kind) = (&params["update"], text(&params["update"], "sessionUpdate"));
        if params["sessionId"] != self.session.as_str() || !CONVERSATION.contains(&kind.as_str()) {
            return vec![];
        }
        let mut out = Output::default();
        if kind == "user_message_chunk" {
            return self.users_words(update, line.len(), out);
        }
        let mut entries = self.prompt_ends();
        self.translate.told_update(&kind, update, line, &mut out);
        entries.extend(said(out));
        entries
    }

    fn users_words(&mut self, update: &Value, size: usize, mut out: Output) -> Vec<PastEntry> {
        if subagents::marked(update).is_some() {
            // The prompt of a subagent is in the call that started it.
            return vec![];
        }
        self.translate.end_all_words(Ending::Whole, &mut out);
        let mut entries = said(out);
        let message = some_text(update, "messageId");
        if self.message != message || self.size + size > LONGEST {
            entries.extend(self.prompt_ends());
        }
        (self.message, self.size) = (message, self.size + size);
        match (wire::content(&update["content"]), self.prompt.last_mut()) {
            (Content::Text { text: more }, Some(Content::Text { text })) => text.push_str(&more),
            (piece, _) => self.prompt.push(piece),
        }
        entries
    }

    fn prompt_ends(&mut self) -> Vec<PastEntry> {
        (self.message, self.size) = (None, 0);
        let content = std::mem::take(&mut self.prompt);
        if content.is_empty() {
            return vec![];
        }
        vec![PastEntry { at: None, event: Event::Prompt { command: Seq::ZERO, content } }]
    }

    /// No more updates come.
    pub(super) fn end(mut self) -> Vec<PastEntry> {
        let mut out = Output::default();
        self.translate.end_all_words(Ending::Whole, &mut out);
        let mut entries = said(out);
        entries.extend(self.prompt_ends());
        entries
    }
}

/// The messages and tool calls in a output; streamed pieces are part of them.
fn said(out: Output) -> Vec<PastEntry> {
    let entry = |report| match report {
        Report::Event {
            event:
                event @ (Event::Message { .. }
                | Event::ToolCall { .. }
                | Event::ToolResult { .. }
                | Event::Plan { .. }
                | Event::SubagentStarted { .. }
                | Event::SubagentEnded { .. }),
            ..
        } => Some(PastEntry { at: None, event }),
        _ => None,
    };
    out.reports.into_iter().filter_map(entry).collect()
}

#[cfg(test)]
mod tests {
    use portolan_core::event::{ToolOutcome, plain_text};
    use serde_json::json;

    use super::*;
    use crate::acp::catalogue;

    fn told(updates: &[Value]) -> Vec<Event> {
        let setup = Setup::bare("harbour", "Harbour", &catalogue::UNKNOWN);
        let mut telling = Telling::new(setup, "S");
        let mut entries = vec![];
        for update in updates {
            let params = json!({ "sessionId": "S", "update": update });
            entries.extend(telling.update(&params, &params.to_string()));
        }
        entries.extend(telling.end());
        entries.into_iter().map(|entry| entry.event).collect()
    }

    fn chunk(kind: &str, text: &str) -> Value {
        json!({ "sessionUpdate": kind, "content": { "type": "text", "text": text } })
    }

    #[test]
    fn a_loaded_conversation_gives_the_events_of_a_running_session() {
        let events = told(&[
            chunk("user_message_chunk", "how is "),
            chunk("user_message_chunk", "the mast?"),
            chunk("agent_thought_chunk", "I look."),
            json!({ "sessionUpdate": "tool_call", "toolCallId": "c", "kind": "execute", "title": "look",
                "status": "completed", "rawInput": { "command": "look" },
                "content": [{ "type": "content", "content": { "type": "text", "text": "it leans" } }] }),
            chunk("agent_message_chunk", "It "),
            chunk("agent_message_chunk", "leans."),
            chunk("user_message_chunk", "then mend it"),
        ]);
        let prompt = |text: &str| Event::Prompt { command: Seq::ZERO, content: vec![Content::text(text)] };
        let mut told = events.into_iter();
        assert_eq!(told.next(), Some(prompt("how is the mast?")));
        let thought = told.next();
        let Some(Event::Message { content, .. }) = &thought else { panic!("{thought:?}") };
        assert_eq!(*content, [Content::Thinking { text: "I look.".into() }]);
        assert!(matches!(told.next(), Some(Event::ToolCall { tool, .. }) if tool == "c"));
        let result = told.next();
        let Some(Event::ToolResult { outcome: ToolOutcome::Done, content, .. }) = &result else {
            panic!("{result:?}")
        };
        assert_eq!(plain_text(content), "it leans");
        let said = told.next();
        let Some(Event::Message { content, .. }) = &said else { panic!("{said:?}") };
        assert_eq!(*content, [Content::text("It leans.")]);
        assert_eq!(told.collect::<Vec<_>>(), [prompt("then mend it")]);
    }

    #[test]
    fn updates_of_another_conversation_are_ignored() {
        let other = json!({ "sessionId": "T", "update": chunk("agent_message_chunk", "hello") });
        let setup = Setup::bare("harbour", "Harbour", &catalogue::UNKNOWN);
        assert_eq!(Telling::new(setup, "S").update(&other, ""), vec![]);
        let commands = json!({ "sessionUpdate": "available_commands_update", "availableCommands": [] });
        assert_eq!(told(&[commands, json!({ "sessionUpdate": "of a newer version" }), json!(7)]), vec![]);
    }

    #[test]
    fn two_messages_of_the_user_are_two_prompts() {
        let named = |id: &str, text: &str| json!({ "sessionUpdate": "user_message_chunk", "messageId": id, "content": { "type": "text", "text": text } });
        let events = told(&[named("1", "one"), named("1", " and a half"), named("2", "two")]);
        let texts: Vec<_> = events
            .iter()
            .map(|event| match event {
                Event::Prompt { content, .. } => plain_text(content),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(texts, ["one and a half", "two"]);
    }
}
