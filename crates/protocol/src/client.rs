//! Frames and REST bodies that clients send.

mod body;
mod call;

use portolan_core::{CommandId, ports::Secret};
use serde::{Deserialize, Serialize};

pub use self::{
    body::{ArchivePast, CreateSession, CreateToken, SendCommand, SimulateRule, TakeUpPast, TestRule},
    call::Call,
};

/// The client's first frame. The server answers no other frame before it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Greeting {
    /// Opens the conversation with the server.
    Hello {
        /// The highest protocol version that the client speaks.
        protocol: u32,
        /// The client's name and version.
        client: ClientInfo,
        /// Browsers only: the key from origin storage that belongs to the cookie.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(
            feature = "schema",
            schemars(with = "Option<String>"),
            ts(optional, as = "Option<String>")
        )]
        key: Option<Secret>,
    },
}

impl Greeting {
    /// The frame's name on the wire.
    pub const NAME: &'static str = "hello";
}

/// Every later frame from the client: a call, under an id that the reply repeats.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct ClientFrame {
    /// The call's id, made by the client. `command`, `create` and `take_up` run at most once under the same id.
    pub id: CommandId,
    /// The call.
    #[serde(flatten)]
    pub call: Call,
}

impl ClientFrame {
    /// A call under a new id.
    pub fn new(call: Call) -> Self {
        Self { id: CommandId::random(), call }
    }
}

/// The client's name and version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct ClientInfo {
    /// The client's name, such as `portolan-cli`. Other people see this name as the frontend used.
    pub name: String,
    /// The client's version.
    #[serde(default)]
    pub version: String,
}
