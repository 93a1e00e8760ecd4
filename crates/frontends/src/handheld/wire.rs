//! The handheld's frames, in the app's own shape. They never leave this folder.
//!
//! The app keeps everything it has not read yet in 4,096 bytes, understands lengths of 7 and 16 bits only and one whole
//! text frame at a time. So every frame of ours is one text frame of at most [`FRAME_BYTES`].

use bytes::Bytes;
use serde::Serialize;

use super::text;

/// The four places of the app.
pub const SLOTS: usize = 4;

/// Bytes of a frame's payload. The app has 4,096 bytes, one of which ends its string; the frame's head takes four.
pub const FRAME_BYTES: usize = 4096 - 1 - 4;

/// Bytes of a name in the app.
pub const NAME_BYTES: usize = 31;

/// Bytes of a message in the app.
pub const MESSAGE_BYTES: usize = 127;

/// Bytes of the kind of a prompt in the app.
pub const TOOL_TYPE_BYTES: usize = 63;

/// Bytes of the detail of a prompt in the app.
pub const TOOL_DETAIL_BYTES: usize = 1023;

/// Bytes of the description of a prompt in the app.
pub const DESCRIPTION_BYTES: usize = 255;

/// What a slot does.
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

/// Whether edits are approved by themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AutoEdit {
    /// They are.
    On,
    /// They are asked about, as everything else.
    #[default]
    Off,
}

/// What the prompt panel shows. The app shows it exactly while there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// The tool, or the kind of question.
    pub tool_type: String,
    /// What it would do.
    pub tool_detail: String,
    /// What it is for.
    pub description: String,
}

/// One slot as the app shows it. Made by [`AgentStatus::fitted`], so that every text fits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename = "agent_status", rename_all = "camelCase")]
pub struct AgentStatus {
    /// The slot's name.
    pub agent: String,
    /// What it does.
    pub state: SlotState,
    /// 0 to 100, or -1 where nobody knows.
    pub progress: i32,
    /// One line.
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
    /// Edits are approved by themselves.
    pub auto_edit: bool,
    /// Which slot.
    pub slot: u8,
    /// It has a live session.
    pub active: bool,
}

/// A slot before its texts are cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Face {
    /// What it does.
    pub state: SlotState,
    /// One line.
    pub message: String,
    /// What waits.
    pub prompt: Option<Prompt>,
    /// How full the context is, 0 to 100.
    pub context_percent: u8,
    /// It has a live session.
    pub active: bool,
}

impl AgentStatus {
    /// A slot with every text cut to what the app keeps.
    pub fn fitted(slot: usize, name: &str, auto_edit: AutoEdit, face: Face) -> Self {
        let Face { state, message, prompt, context_percent, active } = face;
        let prompt = prompt.map(|prompt| {
            // An empty one would clear the panel.
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

    /// As a frame's payload.
    pub fn frame(&self) -> Bytes {
        frame(self)
    }
}

/// What came of a spawn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename = "spawn_result")]
pub struct SpawnResult {
    /// In which slot; -1 where there was none.
    pub slot: i32,
    /// It runs.
    pub success: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl SpawnResult {
    /// It runs in this slot.
    pub fn started(slot: usize) -> Self {
        Self { slot: slot as i32, success: true, error: None }
    }

    /// It does not.
    pub fn failed(slot: Option<usize>, error: &str) -> Self {
        let slot = slot.map_or(-1, |slot| slot as i32);
        Self { slot, success: false, error: Some(text::line(error, MESSAGE_BYTES)) }
    }

    /// As a frame's payload.
    pub fn frame(&self) -> Bytes {
        frame(self)
    }
}

/// What `/health` tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Health {
    /// Always `ok`.
    pub status: &'static str,
    /// The slots.
    pub agents: Vec<AgentStatus>,
    /// Edits are approved by themselves.
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
    /// In which slot.
    pub slot: usize,
    /// Where it stands.
    pub status: portolan_core::session::state::Status,
    /// The session.
    pub session: portolan_core::SessionId,
    /// The agent's own session id, where known.
    pub agent_session: Option<String>,
}

fn frame(value: &impl Serialize) -> Bytes {
    let text = serde_json::to_vec(value).unwrap_or_else(|error| {
        // Our own types serialise; should one ever not, nothing is sent that the app could misread.
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
