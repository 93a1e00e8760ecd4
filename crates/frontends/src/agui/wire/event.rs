//! Events of a run, as both client generations read them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One event of a run. Its text form is one `data:` line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "SCREAMING_SNAKE_CASE", rename_all_fields = "camelCase")]
pub enum AguiEvent {
    /// A run began; the first event of each.
    RunStarted {
        /// The client's thread.
        thread_id: String,
        /// The client's name of the run.
        run_id: String,
    },
    /// It ended. Nothing follows.
    RunFinished {
        /// The client's thread.
        thread_id: String,
        /// The client's name of the run.
        run_id: String,
        /// Only where something waits for an answer.
        #[serde(skip_serializing_if = "Option::is_none")]
        outcome: Option<RunOutcome>,
    },
    /// It failed. Nothing follows.
    RunError {
        /// What happened, for people.
        message: String,
        /// The kind, for programs.
        #[serde(skip_serializing_if = "Option::is_none")]
        code: Option<String>,
    },
    /// A text began.
    TextMessageStart {
        /// Its name; the same in every run and in the history.
        message_id: String,
        /// `assistant`, or `user` where someone else said it.
        role: String,
        /// The subagent it belongs to.
        #[serde(skip_serializing_if = "Option::is_none")]
        subagent_run_id: Option<String>,
    },
    /// More of it.
    TextMessageContent {
        /// Of which.
        message_id: String,
        /// What follows.
        delta: String,
        /// The subagent it belongs to.
        #[serde(skip_serializing_if = "Option::is_none")]
        subagent_run_id: Option<String>,
    },
    /// It is complete.
    TextMessageEnd {
        /// Which.
        message_id: String,
        /// The subagent it belongs to.
        #[serde(skip_serializing_if = "Option::is_none")]
        subagent_run_id: Option<String>,
    },
    /// A stretch of thinking began.
    ReasoningStart {
        /// Its name.
        message_id: String,
        /// The subagent it belongs to.
        #[serde(skip_serializing_if = "Option::is_none")]
        subagent_run_id: Option<String>,
    },
    /// Its text began.
    ReasoningMessageStart {
        /// Its name.
        message_id: String,
        /// Always `reasoning`.
        role: String,
        /// The subagent it belongs to.
        #[serde(skip_serializing_if = "Option::is_none")]
        subagent_run_id: Option<String>,
    },
    /// More of it.
    ReasoningMessageContent {
        /// Of which.
        message_id: String,
        /// What follows.
        delta: String,
        /// The subagent it belongs to.
        #[serde(skip_serializing_if = "Option::is_none")]
        subagent_run_id: Option<String>,
    },
    /// Its text is complete.
    ReasoningMessageEnd {
        /// Which.
        message_id: String,
        /// The subagent it belongs to.
        #[serde(skip_serializing_if = "Option::is_none")]
        subagent_run_id: Option<String>,
    },
    /// The stretch is over.
    ReasoningEnd {
        /// Which.
        message_id: String,
        /// The subagent it belongs to.
        #[serde(skip_serializing_if = "Option::is_none")]
        subagent_run_id: Option<String>,
    },
    /// The agent calls a tool.
    ToolCallStart {
        /// The call.
        tool_call_id: String,
        /// The tool's name; a page's tool by the page's own name.
        tool_call_name: String,
        /// The subagent that calls.
        #[serde(skip_serializing_if = "Option::is_none")]
        subagent_run_id: Option<String>,
    },
    /// More of its arguments, as JSON text.
    ToolCallArgs {
        /// Of which.
        tool_call_id: String,
        /// What follows.
        delta: String,
        /// The subagent that calls.
        #[serde(skip_serializing_if = "Option::is_none")]
        subagent_run_id: Option<String>,
    },
    /// Its arguments are complete.
    ToolCallEnd {
        /// Which.
        tool_call_id: String,
        /// The subagent that calls.
        #[serde(skip_serializing_if = "Option::is_none")]
        subagent_run_id: Option<String>,
    },
    /// A tool has finished. Never for a page's tool that the page is to run: it would not.
    ToolCallResult {
        /// The name of the message that holds it.
        message_id: String,
        /// Which call.
        tool_call_id: String,
        /// What it gave, as text.
        content: String,
        /// Always `tool`.
        role: String,
        /// The subagent that called.
        #[serde(skip_serializing_if = "Option::is_none")]
        subagent_run_id: Option<String>,
    },
    /// What the agent has and can, what it used; replaces what was told before.
    StateSnapshot {
        /// All of it.
        snapshot: Value,
    },
    /// The whole conversation; replaces what the page shows.
    MessagesSnapshot {
        /// In order.
        messages: Vec<Message>,
    },
    /// A subagent began.
    SubagentStarted {
        /// Its name: the call that started it.
        subagent_run_id: String,
        /// What people call it.
        name: String,
        /// What it is for.
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        /// The subagent that started it.
        #[serde(skip_serializing_if = "Option::is_none")]
        parent_subagent_run_id: Option<String>,
        /// The call that started it.
        #[serde(skip_serializing_if = "Option::is_none")]
        parent_tool_call_id: Option<String>,
    },
    /// It has finished.
    SubagentFinished {
        /// Which.
        subagent_run_id: String,
        /// What it did, in words.
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<Value>,
    },
    /// It failed.
    SubagentError {
        /// Which.
        subagent_run_id: String,
        /// Why.
        message: String,
    },
    /// Anything else, by a name that apps know; docs/copilotkit.md lists them.
    Custom {
        /// What.
        name: String,
        /// With which particulars; never absent.
        value: Value,
    },
}

impl AguiEvent {
    /// Its text form for an event stream.
    pub fn to_frame(&self) -> Vec<u8> {
        let mut frame = b"data: ".to_vec();
        let start = frame.len();
        if let Err(error) = serde_json::to_writer(&mut frame, self) {
            // Our own types serialise; should one ever not, the run says so instead of ending without a word.
            frame.truncate(start);
            let failed = Self::RunError { message: error.to_string(), code: Some("internal".into()) };
            frame.extend(serde_json::to_vec(&failed).unwrap_or_default());
        }
        // Clients take no other end of a frame: `\r\n\r\n` breaks the run.
        frame.extend_from_slice(b"\n\n");
        frame
    }
}

/// How a run ended, where that is more than being done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum RunOutcome {
    /// These wait for an answer; a run with `resume` brings it.
    Interrupt {
        /// At least one.
        interrupts: Vec<Interrupt>,
    },
}

/// Something that waits for an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Interrupt {
    /// The request.
    pub id: String,
    /// `permission`, `question`, `plan`, `elicitation`, `hook` or `other`. Never `tool_call`: the client would make a
    /// tool message of the answer, and the tool has its own result.
    pub reason: String,
    /// One line for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The call it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// JSON Schema of the answer.
    pub response_schema: Value,
    /// When it is denied by itself, ISO 8601.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// The same particulars as the custom event has.
    pub metadata: Value,
}

/// A message of the history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Message {
    /// Someone said this.
    User {
        /// The client's own id where it came from here.
        id: String,
        /// The words, without what was put before them.
        content: String,
    },
    /// The agent said this, or called a tool.
    Assistant {
        /// As it was streamed.
        id: String,
        /// Absent where it only calls a tool.
        #[serde(skip_serializing_if = "Option::is_none")]
        content: Option<String>,
        /// The calls.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCall>,
    },
    /// What a tool gave.
    Tool {
        /// As it was streamed; a page's own where the page ran the tool.
        id: String,
        /// Which call.
        tool_call_id: String,
        /// As text.
        content: String,
        /// Why it failed.
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// What the agent thought.
    Reasoning {
        /// As it was streamed.
        id: String,
        /// The text.
        content: String,
    },
}

/// A call in a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The call.
    pub id: String,
    /// Always `function`.
    #[serde(rename = "type")]
    pub kind: String,
    /// What is called.
    pub function: FunctionCall,
}

/// What is called, and with what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FunctionCall {
    /// The tool's name.
    pub name: String,
    /// Its arguments as JSON text.
    pub arguments: String,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // covers: 004-029
    #[test]
    fn an_event_is_one_data_line_and_an_empty_one() {
        let event = AguiEvent::TextMessageContent {
            message_id: "1.1".into(),
            delta: "two\nlines\r\n".into(),
            subagent_run_id: None,
        };
        let frame = String::from_utf8(event.to_frame()).unwrap();
        assert_eq!(
            frame,
            "data: {\"type\":\"TEXT_MESSAGE_CONTENT\",\"messageId\":\"1.1\",\"delta\":\"two\\nlines\\r\\n\"}\n\n"
        );
        assert_eq!(frame.matches('\n').count(), 2, "no line end but those that end the frame");
    }

    #[test]
    fn what_is_absent_is_left_out_and_never_null() {
        let finished = AguiEvent::RunFinished { thread_id: "t".into(), run_id: "r".into(), outcome: None };
        assert_eq!(
            serde_json::to_value(&finished).unwrap(),
            json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r"})
        );
        let call = Message::Assistant { id: "c".into(), content: None, tool_calls: vec![] };
        assert_eq!(serde_json::to_value(&call).unwrap(), json!({"role": "assistant", "id": "c"}));
    }
}
