//! Requests from clients: the input of a run, the envelope of the single endpoint, an approval. Lenient, because
//! clients differ: unknown fields are ignored, and optional fields have defaults.
//!
//! A client sends its whole thread and its last state with every run, up to the door's limit of a body. Unused parts
//! are skipped, and parts that may be needed later stay text ([`Raw`]): a parsed tree would take thirty times the
//! memory. Each list has a limit.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{DeserializeOwned, Error as _, IgnoredAny, SeqAccess, Visitor},
};
use serde_json::{Value, value::RawValue};

/// The most messages of a thread. Each costs a few dozen bytes besides its text, and pages get slow long before.
pub const MESSAGES: usize = 20_000;

/// The most tools, pieces of context and answers in one request; far more than clients use.
pub const LISTED: usize = 1024;

/// `null` means absent, because the two client generations differ here.
fn or_default<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(from)?.unwrap_or_default())
}

/// A list of at most `MOST`; `null` is an empty list.
fn bounded<'de, D, T, const MOST: usize>(from: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct Few<T, const MOST: usize>(PhantomData<T>);
    impl<'de, T: Deserialize<'de>, const MOST: usize> Visitor<'de> for Few<T, MOST> {
        type Value = Vec<T>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a list of at most {MOST}")
        }
        fn visit_unit<E>(self) -> Result<Vec<T>, E> {
            Ok(Vec::new())
        }
        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
            let mut taken = Vec::new();
            while taken.len() < MOST {
                match list.next_element()? {
                    Some(one) => taken.push(one),
                    None => return Ok(taken),
                }
            }
            match list.next_element::<IgnoredAny>()? {
                None => Ok(taken),
                Some(_) => Err(A::Error::custom(format_args!("a list has more than {MOST} entries"))),
            }
        }
    }
    from.deserialize_any(Few::<T, MOST>(PhantomData))
}

/// Unparsed JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Raw(Box<RawValue>);

impl Raw {
    /// Its text.
    pub fn text(&self) -> &str {
        self.0.get()
    }

    /// Its content, if it is a string.
    pub fn string(&self) -> Option<String> {
        self.text().starts_with('"').then(|| self.read().ok()).flatten()
    }

    /// Its text; without the quotes if it is a string.
    pub fn words(&self) -> String {
        self.string().unwrap_or_else(|| self.text().to_owned())
    }

    /// Parsed as this type.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.text())
    }
}

impl Default for Raw {
    fn default() -> Self {
        Self(RawValue::NULL.to_owned())
    }
}

impl PartialEq for Raw {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl From<&Value> for Raw {
    fn from(value: &Value) -> Self {
        RawValue::from_string(value.to_string()).map(Self).unwrap_or_default()
    }
}

/// The input of a run or a connect.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RunInput {
    /// The client's thread; empty is the active session.
    #[serde(deserialize_with = "or_default")]
    pub thread_id: String,
    /// The client's id of the run.
    #[serde(deserialize_with = "or_default")]
    pub run_id: String,
    /// The whole thread.
    #[serde(deserialize_with = "bounded::<_, _, MESSAGES>")]
    pub messages: Vec<SentMessage>,
    /// The tools that the page has mounted now.
    #[serde(deserialize_with = "bounded::<_, _, LISTED>")]
    pub tools: Vec<SentTool>,
    /// The page's context.
    #[serde(deserialize_with = "bounded::<_, _, LISTED>")]
    pub context: Vec<ContextEntry>,
    /// The app's own additions (CopilotKit's `properties`).
    pub forwarded_props: Raw,
    /// Answers to the interrupt of the last run.
    #[serde(deserialize_with = "bounded::<_, _, LISTED>", skip_serializing_if = "Vec::is_empty")]
    pub resume: Vec<Resume>,
    /// The run that this one follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<String>,
    /// The protocol version of the newer generation.
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
    pub content: Option<Raw>,
    /// With a tool message: the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// With a tool message: why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The most parts of a message.
const PARTS: usize = 256;

/// The content of a message.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct Parts(#[serde(deserialize_with = "bounded::<_, _, PARTS>")] pub Vec<Part>);

/// A part of a message.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Part {
    /// `text`, `image`, `binary`...
    #[serde(rename = "type", deserialize_with = "or_default")]
    pub kind: String,
    /// With `text`.
    pub text: Option<String>,
    /// Its source.
    pub source: Option<Source>,
    /// The form before `source`: in the part itself, base64.
    pub data: Option<String>,
    /// The form before `source`: a URL.
    pub url: Option<String>,
    /// Such as `image/png`.
    pub mime_type: Option<String>,
    /// Its name.
    pub filename: Option<String>,
}

/// The source of a part that is not text.
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
    /// At a URL.
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
    /// Its description.
    #[serde(deserialize_with = "or_default")]
    pub description: String,
    /// JSON Schema of its arguments.
    pub parameters: Raw,
}

/// A piece of the page's context.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContextEntry {
    /// Its description.
    #[serde(deserialize_with = "or_default")]
    pub description: String,
    /// Its value: JSON text in the protocol; older clients send the value itself.
    pub value: Raw,
}

/// An answer to an interrupt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resume {
    /// The id of the interrupt.
    pub interrupt_id: String,
    /// Answered, or cancelled.
    pub status: ResumeStatus,
    /// The answer.
    #[serde(default)]
    pub payload: Raw,
}

/// Whether an interrupt was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResumeStatus {
    /// It was answered.
    Resolved,
    /// It was cancelled.
    Cancelled,
}

/// The request of the single endpoint; or, without a method, the input of a run, which is only detected here.
#[derive(Debug, Deserialize)]
pub struct Envelope<'a> {
    /// The method.
    pub method: Option<String>,
    /// The parameters.
    #[serde(default, deserialize_with = "or_default")]
    pub params: Params,
    /// The body.
    #[serde(default, borrow)]
    pub body: Option<&'a RawValue>,
    /// Present if it is the input of a run.
    pub messages: Option<IgnoredAny>,
}

/// The parameters of a request.
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

/// The additions of an app that Portolan uses.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ForwardedProps {
    /// How the client wants to get requests.
    pub approvals: Option<Raw>,
    /// The older form of an answer to an interrupt.
    pub command: Option<Command>,
}

/// An answer to an interrupt in the older form.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Command {
    /// The answer.
    pub resume: Option<Raw>,
    /// The value of the request's event, as sent or as JSON text.
    pub interrupt_event: Raw,
}

/// The methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// List the agents.
    Info,
    /// The history and the running turn.
    Connect,
    /// Send a message, or continue.
    Run,
    /// Stop the run.
    Stop,
}

impl Method {
    /// From its name on the wire.
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

/// The run to stop.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StopBody {
    /// Absent means any run on the thread.
    pub run_id: Option<String>,
}

/// An answer to a request, on the side channel or as the payload of a resume.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Approval {
    /// The request; a string, or the number itself.
    pub request_id: Value,
    /// `allow` or `deny`.
    pub behavior: Option<String>,
    /// The same as a boolean.
    pub approved: Option<bool>,
    /// Edited input; default: the original.
    pub updated_input: Option<Value>,
    /// The reason of a denial, for the agent.
    pub message: Option<String>,
    /// With a denial: also end the turn.
    pub interrupt: Option<bool>,
    /// `session`: every later call of this tool in this session.
    pub scope: Option<String>,
    /// For questions: by question, one or several choices.
    pub answers: Option<Value>,
    /// For a form of a tool server: its content.
    pub content: Option<Value>,
    /// For a hook, or a newer kind: the output in the agent's own form.
    pub output: Option<Value>,
    /// For a plan: the mode to continue in.
    pub mode: Option<String>,
    /// One of the agent's own options, by id.
    pub option: Option<String>,
    /// The digest of the shown request, to ensure that the request is unchanged.
    pub digest: Option<String>,
}
