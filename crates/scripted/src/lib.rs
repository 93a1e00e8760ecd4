//! A model API on loopback that plays scripts: real, unmodified agent CLIs hold whole conversations against it, with no
//! account and no network. For `portolan doctor`, for demonstrations and for tests; `portolan scripted FILE` serves a script in
//! its JSON form.
//!
//! - [`script`]: what to play. Pure: rules, matched by what the conversation says, each with its steps.
//! - [`step`]: one answer: text, thinking, tool calls, usage, failures, streams that break off.
//! - [`dialect`]: how one API says it. One folder per API; a further API is a further folder.
//! - [`server`]: the listener, its bounds, and the record of what was asked.
//!
//! ```no_run
//! # async fn example() -> Result<(), portolan_scripted::ServerError> {
//! use portolan_scripted::{Script, Server, contains, text, tool};
//! use serde_json::json;
//!
//! let script = Script::new()
//!     .on(contains("list the files"))
//!     .reply(tool("Bash", json!({"command": "ls"})))
//!     .then(text("there are: {last_tool_result}"));
//! let server = Server::start(script).await?;
//! // run an agent with its base URL set to `server.base_url()`
//! server.shutdown().await;
//! # Ok(())
//! # }
//! ```

pub mod asked;
pub mod closed_port;
pub mod dialect;
mod matcher;
mod placeholder;
pub mod record;
mod respond;
pub mod script;
pub mod server;
pub mod step;
mod step_data;

pub use asked::{Asked, Delivery, ToolResult};
pub use closed_port::ClosedPort;
pub use matcher::{
    Matcher, anything, contains, conversation_contains, model, note_contains, nth, result_contains,
    result_of, system_contains,
};
pub use record::{Answered, Credential, Recorded, WaitError};
pub use script::{Playing, Rule, Scope, Script, ScriptError};
pub use server::{Server, ServerError, ServerSettings};
pub use step::{
    Block, Call, Ending, Failure, FailureKind, Message, Pace, Reply, Step, StopReason, Usage, call, fail,
    hang, redacted, text, thinking, tool, tools,
};
