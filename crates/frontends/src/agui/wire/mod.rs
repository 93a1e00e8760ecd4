//! The JSON of the protocol: outgoing events, incoming requests. These types never leave this folder.
//!
//! Two generations of clients read the same stream, so only what both accept is sent: no `null` for an absent field,
//! and no event type, outcome or key that one of them does not know.

mod event;
mod input;

pub use self::{
    event::{AguiEvent, FunctionCall, Interrupt, Message, RunOutcome, ToolCall},
    input::{
        Approval, ContextEntry, Envelope, ForwardedProps, LISTED, MESSAGES, Method, Params, Part, Parts, Raw,
        Resume, ResumeStatus, RunInput, SentMessage, SentTool, Source, StopBody,
    },
};
