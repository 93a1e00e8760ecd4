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
        /// The client's id of the run.
        run_id: String,
    },
    /// The run ended. Nothing follows.
    RunFinished {
        /// The client's thread.
        thread_id: String,
        /// The client's id of the run.
        run_id: String,
        /// Only if a request is open.
        #[serde(skip_serializing_if = "Option::is_none")]
        outcome: Option<RunOutcome>,
    },
    /// The run failed. Nothing follows.
    RunError {
        /// What happened, for people.
        message: String,
        /// The kind, for programs.
        #[serde(skip_serializing_if = "Option::is_none")]
        code: Option<String>,
    },
    /// A text starts.
    TextMessageStart {
        /// Its id; the same in every run and in the history.
        message_id: String,
        /// `assistant`, or `user` for a message of another user.
        role: String,
        /// The subagent it belongs to.
        #[serde(skip_serializing_if = "Option::is_none")]
        subagent_run_id: Option<String>,
    },
    /// The next part of the text.
    TextMessageContent {
        /// The id.
        message_id: String,
        /// The next part.
        delta: String,
        /// The subagent it belongs to.
        #[serde(skip_serializing_if = "Option::is_none")]
        subagent_run_id: Option<String>,
    },
    /// The text is complete.
    TextMessageEnd {
        /// The id.
        message_id: String,
        /// The subagent it belongs to.
        #[serde(skip_serializing_if = "Option::is_none")]
        subagent_run_id: Option<String>,
    },
    /// A block of thinking starts.
    ReasoningStart {
        /// Its id.
        message_id: String,
        /// The subagent it belongs to.
        #[serde(skip_serializing_if = "Option::is_none")]
        subagent_run_id: Option<String>,
    },
    /// The text of the thinking starts.
    ReasoningMessageStart {
        /// Its id.
        message_id: String,
        /// Always `reasoning`.
        role: String,
        /// The subagent it belongs to.
        #[serde(skip_serializing_if = "Option::is_none")]
        subagent_run_id: Option<String>,
    },
    /// The next part of the text.
    ReasoningMessageContent {
        /// The id.
        message_id: String,
        /// The next part.
        delta: String,
        /// The subagent it belongs to.
        #[serde(skip_serializing_if = "Option::is_none")]
        subagent_run_id: Option<String>,
    },
    /// The text of the thinking is complete.
    ReasoningMessageEnd {
        /// The id.
        message_id: String,
        /// The subagent it belongs to.
        #[serde(skip_serializing_if = "Option::is_none")]
        subagent_run_id: Option<String>,
    },
    /// The block of thinking is complete.
    ReasoningEnd {
        /// The id.
        message_id: String,
        /// The subagent it belongs to.
        #[serde(skip_serializing_if = "Option::is_none")]
        subagent_run_id: Option<String>,
    },
    /// The agent calls a tool.
    ToolCallStart {
        /// The id of the call.
        tool_call_id: String,
        /// The tool's name; a page's tool by the page's own name.
        tool_call_name: String,
        /// The subagent that calls.
        #[serde(skip_serializing_if = "Option::is_none")]
        subagent_run_id: Option<String>,
    },
    /// The next part of its arguments, as JSON text.
    ToolCallArgs {
        /// The id.
        tool_call_id: String,
        /// The next part.
        delta: String,
        /// The subagent that calls.
        #[serde(skip_serializing_if = "Option::is_none")]
        subagent_run_id: Option<String>,
    },
    /// Its arguments are complete.
    ToolCallEnd {
        /// The id.
        tool_call_id: String,
        /// The subagent that calls.
        #[serde(skip_serializing_if = "Option::is_none")]
        subagent_run_id: Option<String>,
    },
    /// A tool has finished. Never for a tool that the page must run: the page would not run it.
    ToolCallResult {
        /// The id of the message with the result.
        message_id: String,
        /// The id of the call.
        tool_call_id: String,
        /// The output, as text.
        content: String,
        /// Always `tool`.
        role: String,
        /// The subagent that called.
        #[serde(skip_serializing_if = "Option::is_none")]
        subagent_run_id: Option<String>,
    },
    /// The agent's info, capabilities and usage; replaces the earlier state.
    StateSnapshot {
        /// The whole state.
        snapshot: Value,
    },
    /// The whole conversation; replaces what the page shows.
    MessagesSnapshot {
        /// In order.
        messages: Vec<Message>,
    },
    /// A subagent starts.
    SubagentStarted {
        /// Its id: the call that started it.
        subagent_run_id: String,
        /// Its name.
        name: String,
        /// Its purpose.
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        /// The subagent that started it.
        #[serde(skip_serializing_if = "Option::is_none")]
        parent_subagent_run_id: Option<String>,
        /// The call that started it.
        #[serde(skip_serializing_if = "Option::is_none")]
        parent_tool_call_id: Option<String>,
    },
    /// The subagent has finished.
    SubagentFinished {
        /// The id.
        subagent_run_id: String,
        /// A summary of its work.
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<Value>,
    },
    /// The subagent failed.
    SubagentError {
        /// The id.
        subagent_run_id: String,
        /// The error.
        message: String,
    },
    /// Any other event, under a name that apps know; docs/copilotkit.md lists the names.
    Custom {
        /// The name.
        name: String,
        /// The details; never absent.
        value: Value,
    },
}

impl AguiEvent {
    /// Its text form for an event stream.
    pub fn to_frame(&self) -> Vec<u8> {
        let mut frame = b"data: ".to_vec();
        let start = frame.len();
        if let Err(error) = serde_json::to_writer(&mut frame, self) {
            // Our own types always serialise; if one does not, the run ends with an error.
            frame.truncate(start);
            let failed = Self::RunError { message: error.to_string(), code: Some("internal".into()) };
            frame.extend(serde_json::to_vec(&failed).unwrap_or_default());
        }
        // Clients accept no other end of a frame: `\r\n\r\n` breaks the run.
        frame.extend_from_slice(b"\n\n");
        frame
    }
}

/// How a run ended, if it did not just finish.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum RunOutcome {
    /// The open requests; a run with `resume` answers them.
    Interrupt {
        /// At least one.
        interrupts: Vec<Interrupt>,
    },
}

/// An open request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Interrupt {
    /// The id of the request.
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
    /// When it is denied automatically, ISO 8601.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// The same details as in the custom event.
    pub metadata: Value,
}

/// A message of the history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Message {
    /// A message of a user.
    User {
        /// The client's own id, if the message came from here.
        id: String,
        /// The text, without the page's part before it.
        content: String,
    },
    /// A message or a tool call of the agent.
    Assistant {
        /// The id from the stream.
        id: String,
        /// Absent if it only calls a tool.
        #[serde(skip_serializing_if = "Option::is_none")]
        content: Option<String>,
        /// The calls.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCall>,
    },
    /// The output of a tool.
    Tool {
        /// The id from the stream; the page's own id if the page ran the tool.
        id: String,
        /// The id of the call.
        tool_call_id: String,
        /// The output as text.
        content: String,
        /// The error.
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// Thinking of the agent.
    Reasoning {
        /// The id from the stream.
        id: String,
        /// The text.
        content: String,
    },
}

/// A call in a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The id of the call.
    pub id: String,
    /// Always `function`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The function.
    pub function: FunctionCall,
}

/// The function and its arguments.
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
