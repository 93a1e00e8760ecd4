//! The protocol's own JSON: events that go out, requests that come in. It never leaves this folder.
//!
//! Two generations of clients read the same stream, so only what both accept is sent: no `null` where a field may be
//! absent, no event type, outcome or key that one of them does not know.

mod event;
mod input;

pub use self::{
    event::{AguiEvent, FunctionCall, Interrupt, Message, RunOutcome, ToolCall},
    input::{
        Approval, ContextEntry, Envelope, ForwardedProps, LISTED, MESSAGES, Method, Params, Part, Parts, Raw,
        Resume, ResumeStatus, RunInput, SentMessage, SentTool, Source, StopBody,
    },
};
