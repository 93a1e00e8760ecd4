//! What a request asks, in no API's own words: what rules match on and placeholders are filled from.

/// One request for an answer of the model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// The model's name, as asked for.
    pub model: String,
    /// The system prompt, as one text.
    pub system: String,
    /// Everything the user said, oldest first, without the notes an agent adds by itself. One entry per text: prompts
    /// that were never answered share a message with those that follow, and are still prompts of their own.
    pub prompts: Vec<String>,
    /// Turns the model has had since the last prompt: how far the tool loop has come.
    pub turns: usize,
    /// What the agent told the model by itself since the model's last turn: reminders, news of background work.
    pub notes: Vec<String>,
    /// What the tools gave back since the model's last turn. Empty when the user spoke last.
    pub results: Vec<ToolResult>,
    /// The names of the tools offered.
    pub tools: Vec<String>,
    /// Images in the conversation.
    pub images: usize,
    /// Documents in the conversation.
    pub documents: usize,
    /// Streamed, or in one piece.
    pub delivery: Delivery,
    /// What the agent calls its session and its subagent, where the API carries that; else empty.
    pub session: String,
    /// Roughly how many tokens the request has.
    pub tokens: u64,
}

impl Asked {
    /// What the user said last.
    pub fn prompt(&self) -> &str {
        self.prompts.last().map_or("", String::as_str)
    }

    /// A request on the side, such as for a title: it offers the model no tools.
    pub fn is_aside(&self) -> bool {
        self.tools.is_empty()
    }
}

/// What a tool gave back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolResult {
    /// The id of the call.
    pub id: String,
    /// The tool's name; empty if the conversation does not show the call.
    pub name: String,
    /// Its text.
    pub text: String,
    /// Whether it was marked as an error.
    pub is_error: bool,
}

/// How the answer is to come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delivery {
    /// As a stream of events.
    Streamed,
    /// As one body.
    #[default]
    Whole,
}

/// Roughly the tokens of so many bytes: the usual four bytes to one, never zero.
pub(crate) fn tokens_of(bytes: usize) -> u64 {
    (bytes as u64 / 4).max(1)
}
