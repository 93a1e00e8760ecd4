//! Prompts on their way: which were written, which the CLI took, and the turns that they began.
//!
//! The CLI queues prompts itself, merges waiting prompts, and puts a prompt that comes while a tool runs into the
//! running turn. So ends of turns show nothing about prompts: each prompt is tracked by its uuid.

use std::collections::VecDeque;

use portolan_core::{
    event::{Content, TurnOrigin},
    ports::InstructionId,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{KIND, names, translate::Translate, wire::Envelope};
use crate::driver::Output;

/// Prompts that the CLI has not taken yet, oldest first.
#[derive(Debug, Default)]
pub(super) struct Prompts {
    sent: VecDeque<(InstructionId, String)>,
    /// The uuid of the last prompt that was answered before the CLI echoed it.
    echo_due: Option<String>,
    /// The CLI reports the state of each prompt, so nothing needs to be guessed.
    pub(super) are_told_of: bool,
    /// The number of prompts taken while no turn ran: the next turn belongs to them.
    pub(super) set_off: usize,
}

impl Prompts {
    /// Takes out the prompt with this uuid.
    fn take(&mut self, uuid: &str) -> Option<InstructionId> {
        let place = self.sent.iter().position(|(_, sent)| sent == uuid)?;
        self.sent.remove(place).map(|(instruction_id, _)| instruction_id)
    }

    /// Takes out the prompt with this uuid and all before it: merged prompts are echoed under the last uuid.
    fn take_up_to(&mut self, uuid: &str) -> Vec<InstructionId> {
        match self.sent.iter().position(|(_, sent)| sent == uuid) {
            Some(place) => self.sent.drain(..=place).map(|(instruction_id, _)| instruction_id).collect(),
            None => vec![],
        }
    }

    fn take_oldest(&mut self) -> Option<InstructionId> {
        let (instruction_id, uuid) = self.sent.pop_front()?;
        self.echo_due = Some(uuid);
        Some(instruction_id)
    }

    pub(super) fn forget(&mut self, instruction_id: InstructionId) {
        self.sent.retain(|(sent, _)| *sent != instruction_id);
    }

    pub(super) fn is_waiting(&self) -> bool {
        !self.sent.is_empty()
    }
}

impl Translate {
    pub(super) fn prompt(&mut self, instruction_id: InstructionId, content: &[Content], out: &mut Output) {
        let uuid = names::prompt(self.setup.session, instruction_id);
        let message = json!({
            "type": "user",
            "message": { "role": "user", "content": blocks(content) },
            "parent_tool_use_id": null,
            "session_id": self.known.agent_session.as_deref().unwrap_or_default(),
            "uuid": uuid,
        });
        self.prompts.sent.push_back((instruction_id, uuid));
        out.write_for(instruction_id, &message);
    }

    fn took(&mut self, instruction_ids: impl IntoIterator<Item = InstructionId>, out: &mut Output) {
        for instruction_id in instruction_ids {
            out.consumed(instruction_id, None);
            match &mut self.turn {
                Some(turn) => turn.prompts += 1,
                None => self.prompts.set_off += 1,
            }
        }
    }

    /// Whether this is a repeated prompt. 1.0 does not mark it.
    pub(super) fn is_echo(&self, message: &Envelope<'_>) -> bool {
        let ours = |uuid: &str| {
            let mut sent = self.prompts.sent.iter().map(|(_, sent)| sent).chain(&self.prompts.echo_due);
            sent.any(|sent| sent == uuid)
        };
        message.is_replay == Some(true) || message.uuid.as_deref().is_some_and(ours)
    }

    /// The CLI echoes a prompt. Versions that report nothing else echo it when they take it.
    pub(super) fn prompt_echoed(&mut self, uuid: &str, out: &mut Output) {
        let instruction_ids = self.prompts.take_up_to(uuid);
        self.took(instruction_ids, out);
    }

    /// These prompts are in the running turn.
    pub(super) fn prompts_named(&mut self, uuids: &[String], out: &mut Output) {
        let instruction_ids: Vec<_> = uuids.iter().filter_map(|uuid| self.prompts.take(uuid)).collect();
        self.took(instruction_ids, out);
    }

    /// A turn begins: finds what began it.
    pub(super) fn turn_begins(&mut self, out: &mut Output) {
        let waiting = !self.prompts.are_told_of && self.prompts.is_waiting();
        let origin = if self.prompts.set_off > 0 || waiting { TurnOrigin::Prompt } else { TurnOrigin::Agent };
        self.ensure_turn(origin, out);
        if let Some(turn) = &mut self.turn {
            turn.prompts += std::mem::take(&mut self.prompts.set_off);
        }
    }

    /// The model answers in a turn that a prompt began, or such a turn has ended, and no prompt was echoed in it: old
    /// versions echo late, and commands never. Then the turn belongs to the oldest prompt.
    pub(super) fn settle_unechoed(&mut self, out: &mut Output) {
        let unnamed =
            self.turn.as_ref().is_some_and(|turn| turn.origin == TurnOrigin::Prompt && turn.prompts == 0);
        if unnamed && !self.prompts.are_told_of {
            let oldest = self.prompts.take_oldest();
            self.took(oldest, out);
        }
    }

    /// `command_lifecycle`: the state of one prompt.
    pub(super) fn lifecycle(&mut self, line: &str, out: &mut Output) {
        #[derive(Deserialize)]
        struct Lifecycle {
            command_uuid: String,
            state: String,
        }
        let Ok(Lifecycle { command_uuid, state }) = serde_json::from_str(line) else {
            return out.unknown(KIND, "command_lifecycle", line);
        };
        self.prompts.are_told_of = true;
        match state.as_str() {
            "queued" => {}
            "started" => {
                let instruction_id = self.prompts.take(&command_uuid);
                self.took(instruction_id, out);
                // During a turn the prompt was put into that turn; otherwise it begins one.
                self.ensure_turn(TurnOrigin::Prompt, out);
                if let Some(turn) = &mut self.turn {
                    turn.prompts += std::mem::take(&mut self.prompts.set_off);
                }
            }
            "completed" => {
                let instruction_id = self.prompts.take(&command_uuid);
                self.took(instruction_id, out);
                self.prompts.set_off = 0;
            }
            "cancelled" => {
                if let Some(instruction_id) = self.prompts.take(&command_uuid) {
                    out.rejected(instruction_id, "the prompt was taken back before the agent read it");
                }
            }
            other => out.unknown(KIND, &format!("command_lifecycle {other}"), line),
        }
    }
}

/// Content in the API's own form. Plain text stays plain: only then does the CLI recognise a command such as
/// `/compact`.
fn blocks(content: &[Content]) -> Value {
    if let [Content::Text { text }] = content {
        return json!(text);
    }
    let block = |piece: &Content| match piece {
        Content::Text { text } | Content::Thinking { text } => json!({ "type": "text", "text": text }),
        Content::Image { media_type, data } => json!({
            "type": "image",
            "source": { "type": "base64", "media_type": media_type, "data": data },
        }),
        Content::Resource { uri, name, text } => {
            let name = name.as_deref().unwrap_or(uri);
            let text = text.as_ref().map_or_else(
                || format!("@{}", uri.strip_prefix("file://").unwrap_or(uri)),
                |text| format!("{name} ({uri}):\n{text}"),
            );
            json!({ "type": "text", "text": text })
        }
        Content::Data { data } => json!({ "type": "text", "text": data.to_string() }),
        Content::RedactedThinking => json!({ "type": "text", "text": "" }),
        Content::Other { body } => body.clone(),
    };
    content.iter().map(block).collect()
}
