//! The handheld's frames, in the app's own shape. They never leave this folder.
//!
//! The app buffers unread data in 4,096 bytes, and understands only lengths of 7 and 16 bits and one whole text frame
//! at a time. So each of our frames is one text frame of at most [`FRAME_BYTES`].

use bytes::Bytes;
use serde::Serialize;

use super::text;

/// The four slots of the app.
pub const SLOTS: usize = 4;

/// The largest payload of a frame. The app has 4,096 bytes, one of which ends its string; the frame header takes four.
pub const FRAME_BYTES: usize = 4096 - 1 - 4;

/// The largest name in the app, in bytes.
pub const NAME_BYTES: usize = 31;

/// The largest message in the app, in bytes.
pub const MESSAGE_BYTES: usize = 127;

/// The largest kind of a prompt in the app, in bytes.
pub const TOOL_TYPE_BYTES: usize = 63;

/// The largest detail of a prompt in the app, in bytes.
pub const TOOL_DETAIL_BYTES: usize = 1023;

/// The largest description of a prompt in the app, in bytes.
pub const DESCRIPTION_BYTES: usize = 255;

/// The state of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SlotState {
    /// The agent works.
    Working,
    /// It waits for an answer.
    Waiting,
    /// It waits for a prompt.
    Idle,
    /// Something went wrong.
    Error,
    /// Its process has ended.
    Done,
}

/// Whether edits are approved automatically.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AutoEdit {
    /// Edits are approved automatically.
    On,
    /// Edits open requests, like everything else.
    #[default]
    Off,
}

/// The content of the prompt panel. The app shows the panel exactly while there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// The tool, or the kind of question.
    pub tool_type: String,
    /// Its action.
    pub tool_detail: String,
    /// Its description.
    pub description: String,
}

/// One slot as the app shows it. Made by [`AgentStatus::fitted`], so that every text fits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename = "agent_status", rename_all = "camelCase")]
pub struct AgentStatus {
    /// The slot's name.
    pub agent: String,
    /// Its state.
    pub state: SlotState,
    /// 0 to 100, or -1 if unknown.
    pub progress: i32,
    /// The message line.
    pub message: String,
    /// How full the context is, 0 to 100.
    pub context_percent: u8,
    /// Present while it waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_tool_type: Option<String>,
    /// Present while it waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_tool_detail: Option<String>,
    /// Present while it waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_description: Option<String>,
    /// Whether edits are approved automatically.
    pub auto_edit: bool,
    /// The slot.
    pub slot: u8,
    /// Whether it has a live session.
    pub active: bool,
}

/// A slot before its texts are cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Face {
    /// Its state.
    pub state: SlotState,
    /// The message line.
    pub message: String,
    /// The open request.
    pub prompt: Option<Prompt>,
    /// How full the context is, 0 to 100.
    pub context_percent: u8,
    /// Whether it has a live session.
    pub active: bool,
}

impl AgentStatus {
    /// A slot with every text cut to the app's limits.
    pub fn fitted(slot: usize, name: &str, auto_edit: AutoEdit, face: Face) -> Self {
        let Face { state, message, prompt, context_percent, active } = face;
        let prompt = prompt.map(|prompt| {
            // An empty text would clear the panel.
            let kind = text::line(&prompt.tool_type, TOOL_TYPE_BYTES);
            let kind = if kind.is_empty() { "?".to_owned() } else { kind };
            let detail = text::lines(&prompt.tool_detail, TOOL_DETAIL_BYTES);
            (kind, detail, text::line(&prompt.description, DESCRIPTION_BYTES))
        });
        let (kind, detail, description) = match prompt {
            Some((kind, detail, description)) => (Some(kind), Some(detail), Some(description)),
            None => (None, None, None),
        };
        Self {
            agent: text::name(name, NAME_BYTES),
            state,
            progress: if state == SlotState::Working { -1 } else { 0 },
            message: text::line(&message, MESSAGE_BYTES),
            context_percent: context_percent.min(100),
            prompt_tool_type: kind,
            prompt_tool_detail: detail,
            prompt_description: description,
            auto_edit: auto_edit == AutoEdit::On,
            slot: slot as u8,
            active,
        }
    }

    /// The payload of a frame.
    pub fn frame(&self) -> Bytes {
        frame(self)
    }
}

/// The result of a spawn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename = "spawn_result")]
pub struct SpawnResult {
    /// The slot; -1 if there was none.
    pub slot: i32,
    /// Whether the agent runs.
    pub success: bool,
    /// The error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl SpawnResult {
    /// The agent runs in this slot.
    pub fn started(slot: usize) -> Self {
        Self { slot: slot as i32, success: true, error: None }
    }

    /// The spawn failed.
    pub fn failed(slot: Option<usize>, error: &str) -> Self {
        let slot = slot.map_or(-1, |slot| slot as i32);
        Self { slot, success: false, error: Some(text::line(error, MESSAGE_BYTES)) }
    }

    /// The payload of a frame.
    pub fn frame(&self) -> Bytes {
        frame(self)
    }
}

/// The content of `/health`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Health {
    /// Always `ok`.
    pub status: &'static str,
    /// The slots.
    pub agents: Vec<AgentStatus>,
    /// Whether edits are approved automatically.
    pub auto_edit: bool,
    /// Devices that are connected.
    pub ws_clients: usize,
    /// The sessions behind the slots.
    pub sessions: Vec<HealthSession>,
}

/// A session behind a slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HealthSession {
    /// The slot.
    pub slot: usize,
    /// Its status.
    pub status: portolan_core::session::state::Status,
    /// The session.
    pub session: portolan_core::SessionId,
    /// The agent's own session id, if known.
    pub agent_session: Option<String>,
}

fn frame(value: &impl Serialize) -> Bytes {
    let text = serde_json::to_vec(value).unwrap_or_else(|error| {
        // Our own types always serialise; if one does not, the app gets nothing that it could misread.
        tracing::error!(%error, "a handheld's frame cannot be written");
        b"{}".to_vec()
    });
    debug_assert!(text.len() <= FRAME_BYTES, "{} bytes", text.len());
    text.into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn waiting(text: &str) -> Face {
        Face {
            state: SlotState::Waiting,
            message: text.into(),
            prompt: Some(Prompt {
                tool_type: text.into(),
                tool_detail: text.into(),
                description: text.into(),
            }),
            context_percent: 100,
            active: true,
        }
    }

    // covers: 000-037
    #[test]
    fn a_status_has_every_field_in_the_apps_own_shape() {
        let face = Face { message: "Bash: ls".into(), ..waiting("Bash") };
        let status: Value =
            serde_json::from_slice(&AgentStatus::fitted(2, "claude-2", AutoEdit::On, face).frame()).unwrap();
        assert_eq!(
            status,
            json!({
                "type": "agent_status", "agent": "claude-2", "state": "waiting", "progress": 0,
                "message": "Bash: ls", "contextPercent": 100, "promptToolType": "Bash",
                "promptToolDetail": "Bash", "promptDescription": "Bash", "autoEdit": true, "slot": 2, "active": true
            })
        );
        let idle = Face {
            state: SlotState::Idle,
            message: String::new(),
            prompt: None,
            context_percent: 0,
            active: false,
        };
        let status: Value =
            serde_json::from_slice(&AgentStatus::fitted(0, "slot-0", AutoEdit::Off, idle).frame()).unwrap();
        assert_eq!(
            status,
            json!({
                "type": "agent_status", "agent": "slot-0", "state": "idle", "progress": 0, "message": "",
                "contextPercent": 0, "autoEdit": false, "slot": 0, "active": false
            }),
            "no field of the prompt is there"
        );
    }

    // covers: 000-038
    #[test]
    fn a_spawn_result_has_an_error_only_where_it_failed() {
        let read = |result: SpawnResult| serde_json::from_slice::<Value>(&result.frame()).unwrap();
        assert_eq!(
            read(SpawnResult::started(1)),
            json!({ "type": "spawn_result", "slot": 1, "success": true })
        );
        assert_eq!(
            read(SpawnResult::failed(None, "No free slots")),
            json!({ "type": "spawn_result", "slot": -1, "success": false, "error": "No free slots" })
        );
    }

    proptest! {
        // covers: 000-001
        #[test]
        fn whatever_an_agent_says_fits_the_apps_fields_and_its_buffer(
            text in prop_oneof![any::<String>(), "[\"\\\\\n]{0,3000}", "[\u{1}-\u{1f}ä]{0,3000}", "[😀]{0,900}"],
        ) {
            let status = AgentStatus::fitted(3, &text, AutoEdit::On, waiting(&text));
            let sizes = [
                (status.agent.len(), NAME_BYTES),
                (status.message.len(), MESSAGE_BYTES),
                (status.prompt_tool_type.as_ref().unwrap().len(), TOOL_TYPE_BYTES),
                (status.prompt_tool_detail.as_ref().unwrap().len(), TOOL_DETAIL_BYTES),
                (status.prompt_description.as_ref().unwrap().len(), DESCRIPTION_BYTES),
            ];
            for (size, limit) in sizes {
                prop_assert!(size <= limit, "{} of {}", size, limit);
            }
            prop_assert!(!status.agent.contains(['"', '\\']));
            prop_assert!(!status.prompt_tool_type.as_ref().unwrap().is_empty(), "the panel would not show");
            prop_assert!(status.frame().len() <= FRAME_BYTES);
        }
    }
}
