//! Requests from clients: a run's input, the single endpoint's envelope, an approval. Lenient where clients differ:
//! unknown fields are ignored, and what a client may leave out is its default.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// `null` is as good as absent: two generations of clients, two habits.
fn or_default<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(from)?.unwrap_or_default())
}

/// What a run, or a connect, is about.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RunInput {
    /// The client's thread; empty is the active session.
    #[serde(deserialize_with = "or_default")]
    pub thread_id: String,
    /// The client's name of the run.
    #[serde(deserialize_with = "or_default")]
    pub run_id: String,
    /// The whole thread.
    #[serde(deserialize_with = "or_default")]
    pub messages: Vec<SentMessage>,
    /// The tools that the page has mounted now.
    #[serde(deserialize_with = "or_default")]
    pub tools: Vec<SentTool>,
    /// What the page makes readable.
    #[serde(deserialize_with = "or_default")]
    pub context: Vec<ContextEntry>,
    /// The state that was told last, echoed.
    pub state: Value,
    /// What the app adds of its own (CopilotKit's `properties`).
    pub forwarded_props: Value,
    /// Answers to what the last run was interrupted for.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub resume: Vec<Resume>,
    /// The run that this one follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<String>,
    /// What the newer generation speaks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol_version: Option<String>,
}

/// One message of the thread, as the client has it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SentMessage {
    /// The client's id.
    #[serde(deserialize_with = "or_default")]
    pub id: String,
    /// `user`, `assistant`, `tool`, `system`, `developer`, `reasoning`, `activity`.
    #[serde(deserialize_with = "or_default")]
    pub role: String,
    /// Text, or parts; an activity's object.
    pub content: Option<SentContent>,
    /// With a tool message: the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// With a tool message: why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What a message says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum SentContent {
    /// Plain text.
    Text(String),
    /// Parts, each with its `type`; kept as they came.
    Parts(Vec<Value>),
    /// Something else, such as an activity.
    Other(Value),
}

/// Where a part that is no text lies.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Source {
    /// In the message itself, base64.
    Data {
        /// The base64.
        value: String,
        /// Such as `image/png`.
        #[serde(default)]
        mime_type: Option<String>,
    },
    /// Elsewhere.
    Url {
        /// The address.
        value: String,
    },
}

/// A tool that the page has mounted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SentTool {
    /// Its name.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// What it is for.
    #[serde(deserialize_with = "or_default")]
    pub description: String,
    /// JSON Schema of its arguments.
    pub parameters: Value,
}

/// Something that the page makes readable.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContextEntry {
    /// What it is.
    #[serde(deserialize_with = "or_default")]
    pub description: String,
    /// Its value: JSON text, by the protocol; older clients send the value itself.
    pub value: Value,
}

/// An answer to an interrupt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resume {
    /// Which.
    pub interrupt_id: String,
    /// Answered, or left.
    pub status: ResumeStatus,
    /// The answer.
    #[serde(default)]
    pub payload: Value,
}

/// Whether an interrupt was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResumeStatus {
    /// It was.
    Resolved,
    /// It was left.
    Cancelled,
}

/// The single endpoint's request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Envelope {
    /// What is asked for.
    pub method: String,
    /// Of whom.
    #[serde(default, deserialize_with = "or_default")]
    pub params: Params,
    /// With what.
    #[serde(default)]
    pub body: Value,
}

/// Of whom something is asked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Params {
    /// The agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// With a stop: the thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<String>,
}

/// The methods there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Which agents can be run.
    Info,
    /// The history, and what runs now.
    Connect,
    /// Say something, or go on.
    Run,
    /// Stop what runs.
    Stop,
}

impl Method {
    /// By its name on the wire.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "info" => Some(Self::Info),
            "agent/connect" => Some(Self::Connect),
            "agent/run" => Some(Self::Run),
            "agent/stop" => Some(Self::Stop),
            _ => None,
        }
    }
}

/// Which run a stop is for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StopBody {
    /// Absent is whatever runs on the thread.
    pub run_id: Option<String>,
}

/// An answer to what an agent asks, by the side channel or as the payload of a resume.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Approval {
    /// Which request; a string, or the number itself.
    pub request_id: Value,
    /// `allow` or `deny`.
    pub behavior: Option<String>,
    /// The same as a yes or no.
    pub approved: Option<bool>,
    /// Edited input; the original when absent.
    pub updated_input: Option<Value>,
    /// Why not; the agent is told.
    pub message: Option<String>,
    /// With a no: end the turn too.
    pub interrupt: Option<bool>,
    /// `session`: every later call of this tool in this session.
    pub scope: Option<String>,
    /// To questions: by question, a choice or several.
    pub answers: Option<Value>,
    /// To a form of a tool server: its content.
    pub content: Option<Value>,
    /// To a hook, or to something newer: the output in the agent's own form.
    pub output: Option<Value>,
    /// After a plan: the mode to go on in.
    pub mode: Option<String>,
    /// One of the agent's own options, by id.
    pub option: Option<String>,
    /// What was shown, to be sure that it is still what is asked.
    pub digest: Option<String>,
}
