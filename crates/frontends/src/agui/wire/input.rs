//! Requests from clients: a run's input, the single endpoint's envelope, an approval. Lenient where clients differ:
//! unknown fields are ignored, and what a client may leave out is its default.
//!
//! A client sends its whole thread and the state it was told with every run, up to the door's limit of a body. What
//! nobody looks at is skipped, and what may be looked at later stays the text it came as ([`Raw`]): a tree of it
//! would take thirty times the room. Lists have a bound each.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{DeserializeOwned, Error as _, IgnoredAny, SeqAccess, Visitor},
};
use serde_json::{Value, value::RawValue};

/// The most messages of a thread. Each costs a few dozen bytes beside its text, and pages grow slow long before.
pub const MESSAGES: usize = 20_000;

/// The most tools, pieces of context and answers in one request; far more than are ever used.
pub const LISTED: usize = 1024;

/// `null` is as good as absent: two generations of clients, two habits.
fn or_default<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(from)?.unwrap_or_default())
}

/// A list of at most `MOST`; `null` is an empty one.
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

/// JSON as it came.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Raw(Box<RawValue>);

impl Raw {
    /// Its text.
    pub fn text(&self) -> &str {
        self.0.get()
    }

    /// What it says, where it is a text.
    pub fn string(&self) -> Option<String> {
        self.text().starts_with('"').then(|| self.read().ok()).flatten()
    }

    /// Its text; without the quotes where it is a text.
    pub fn words(&self) -> String {
        self.string().unwrap_or_else(|| self.text().to_owned())
    }

    /// As a value of this kind.
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
    #[serde(deserialize_with = "bounded::<_, _, MESSAGES>")]
    pub messages: Vec<SentMessage>,
    /// The tools that the page has mounted now.
    #[serde(deserialize_with = "bounded::<_, _, LISTED>")]
    pub tools: Vec<SentTool>,
    /// What the page makes readable.
    #[serde(deserialize_with = "bounded::<_, _, LISTED>")]
    pub context: Vec<ContextEntry>,
    /// What the app adds of its own (CopilotKit's `properties`).
    pub forwarded_props: Raw,
    /// Answers to what the last run was interrupted for.
    #[serde(deserialize_with = "bounded::<_, _, LISTED>", skip_serializing_if = "Vec::is_empty")]
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

/// What a message says.
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
    /// Where it lies.
    pub source: Option<Source>,
    /// The form before `source`: in the part itself, base64.
    pub data: Option<String>,
    /// The form before `source`: elsewhere.
    pub url: Option<String>,
    /// Such as `image/png`.
    pub mime_type: Option<String>,
    /// What it is called.
    pub filename: Option<String>,
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
    pub parameters: Raw,
}

/// Something that the page makes readable.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContextEntry {
    /// What it is.
    #[serde(deserialize_with = "or_default")]
    pub description: String,
    /// Its value: JSON text, by the protocol; older clients send the value itself.
    pub value: Raw,
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
    pub payload: Raw,
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

/// The single endpoint's request; or, without a method, a run's input, of which only that it is one is looked at.
#[derive(Debug, Deserialize)]
pub struct Envelope<'a> {
    /// What is asked for.
    pub method: Option<String>,
    /// Of whom.
    #[serde(default, deserialize_with = "or_default")]
    pub params: Params,
    /// With what.
    #[serde(default, borrow)]
    pub body: Option<&'a RawValue>,
    /// There where it is a run's input.
    pub messages: Option<IgnoredAny>,
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

/// What of an app's own additions means something to us.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ForwardedProps {
    /// How the client wants to be asked.
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
    /// The value of the event that asked, as it was sent or as its JSON text.
    pub interrupt_event: Raw,
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
