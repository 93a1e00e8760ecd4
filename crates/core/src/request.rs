//! Requests: everything that an agent waits for, and the answers.
//!
//! A request is opened once, gets at most one answer, and is closed for everybody at the same entry.
//! `session::requests` holds these rules; this module holds only the types.

pub(crate) mod brief;
pub mod persist;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Actor, Generation, Millis, RequestId,
    event::FileChange,
    policy::{Judgement, rule::is_plain_name},
};

/// What an agent asks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Ask {
    /// The agent asks to use a tool with this input.
    Permission {
        /// The tool's name.
        tool_name: String,
        /// The tool's input.
        input: Value,
        /// One line for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        description: Option<String>,
        /// The changes that the tool would make to files, if known.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changes: Vec<FileChange>,
        /// Why the agent asks.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        reason: Option<String>,
        /// The path because of which the agent asks.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        blocked_path: Option<String>,
        /// The folder in which the agent makes the call, if the agent says that it is another one than the session's. The
        /// input may name one too.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        folder: Option<String>,
        /// Permission updates that the agent proposes, in its own form. Some allow more than this one tool.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        suggestions: Vec<Value>,
        /// The agent's own options beyond allow and deny.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        options: Vec<AskOption>,
    },
    /// Questions with choices.
    Question {
        /// The questions, at least one.
        questions: Vec<Question>,
    },
    /// The agent asks to carry out a plan.
    Plan {
        /// The plan, in Markdown; absent if the agent does not send it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        plan: Option<String>,
        /// The input of the tool call that asked, to be repeated in the answer.
        #[serde(default)]
        input: Value,
    },
    /// An MCP server asks the user for data.
    Elicitation {
        /// The server's name.
        server: String,
        /// The server's message.
        message: String,
        /// JSON Schema of the answer; absent for a plain confirmation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        schema: Option<Value>,
        /// A page to open instead.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        url: Option<String>,
    },
    /// A hook waits for its output.
    Hook {
        /// The agent's name for the hook's event.
        event: String,
        /// The hook's input.
        input: Value,
    },
    /// A request of a newer agent, unchanged.
    Other {
        /// The agent's name for the request.
        name: String,
        /// The whole request.
        body: Value,
    },
}

impl Ask {
    /// A permission to use a tool, of which nothing but the input is known. The methods `with_…` add more; they leave
    /// any other request as it is.
    pub fn permission(tool_name: impl Into<String>, input: Value) -> Self {
        Self::Permission {
            tool_name: tool_name.into(),
            input,
            description: None,
            changes: vec![],
            reason: None,
            blocked_path: None,
            folder: None,
            suggestions: vec![],
            options: vec![],
        }
    }

    /// The permission with this line for people.
    #[must_use]
    pub fn with_description(mut self, line: impl Into<Option<String>>) -> Self {
        if let Self::Permission { description, .. } = &mut self {
            *description = line.into();
        }
        self
    }

    /// The permission with these changes to files.
    #[must_use]
    pub fn with_changes(mut self, files: Vec<FileChange>) -> Self {
        if let Self::Permission { changes, .. } = &mut self {
            *changes = files;
        }
        self
    }

    /// The permission with these options of the agent.
    #[must_use]
    pub fn with_options(mut self, offered: Vec<AskOption>) -> Self {
        if let Self::Permission { options, .. } = &mut self {
            *options = offered;
        }
        self
    }

    /// The permission with these proposals of the agent.
    #[must_use]
    pub fn with_suggestions(mut self, proposed: Vec<Value>) -> Self {
        if let Self::Permission { suggestions, .. } = &mut self {
            *suggestions = proposed;
        }
        self
    }

    /// The mode to which this option of the agent leads, if it leads to one.
    pub fn mode_behind(&self, option: &str) -> Option<&str> {
        let Self::Permission { options, .. } = self else { return None };
        options.iter().find(|offered| offered.id == option)?.mode.as_deref()
    }

    /// The kind as a word.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Permission { .. } => "permission",
            Self::Question { .. } => "question",
            Self::Plan { .. } => "plan",
            Self::Elicitation { .. } => "elicitation",
            Self::Hook { .. } => "hook",
            Self::Other { .. } => "other",
        }
    }

    /// One line about the request, for lists and notifications.
    pub fn title(&self) -> String {
        match self {
            Self::Permission { tool_name, input, description, .. } => {
                let told = ["command", "file_path", "notebook_path", "path", "url", "query", "pattern"]
                    .iter()
                    .find_map(|key| input.get(key)?.as_str())
                    .or(description.as_deref());
                told.map_or_else(|| tool_name.clone(), |told| format!("{tool_name}: {told}"))
            }
            Self::Question { questions } => {
                questions.first().map_or_else(|| "question".into(), |q| q.question.clone())
            }
            Self::Plan { .. } => "plan to approve".into(),
            Self::Elicitation { server, message, .. } => format!("{server}: {message}"),
            Self::Hook { event, .. } => format!("hook {event}"),
            Self::Other { name, .. } => name.clone(),
        }
    }
}

/// An agent's own option.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct AskOption {
    /// The option's id, which is sent to the agent.
    pub id: String,
    /// The option's text for people.
    pub label: String,
    /// Whether the option allows or denies.
    #[serde(default)]
    pub verdict: Verdict,
    /// The mode to which the option leads, if the agent's side knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub mode: Option<String>,
}

impl AskOption {
    /// An option that leads to no mode.
    pub fn new(id: impl Into<String>, label: impl Into<String>, verdict: Verdict) -> Self {
        Self { id: id.into(), label: label.into(), verdict, mode: None }
    }
}

/// Whether an agent's own option allows or denies. A denial must never be sent as an approval, whatever the option is
/// called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The option belongs to [`Answer::Allow`].
    #[default]
    Allow,
    /// The option belongs to [`Answer::Deny`].
    Deny,
}

/// One question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct Question {
    /// The question, which is also its key in the answer.
    pub question: String,
    /// A heading of a word or two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub header: Option<String>,
    /// The choices; if empty, the question asks for free text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<Choice>,
    /// Several choices are allowed.
    #[serde(default)]
    pub multiple: bool,
    /// Free text is allowed in addition to the choices.
    #[serde(default)]
    pub free_text: bool,
    /// The answer is a secret and is not kept in the log.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub secret: bool,
}

/// One choice of a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct Choice {
    /// The choice's text.
    pub label: String,
    /// The choice's meaning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub description: Option<String>,
}

/// A request that waits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct Request {
    /// The request's id: the number of the entry that opened it.
    pub request: RequestId,
    /// The number of the agent's start that asked. An answer to an earlier start is refused.
    pub generation: Generation,
    /// What the agent asks.
    pub ask: Ask,
    /// The subagent that asks, named by the tool call that started it; the main agent when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub parent: Option<String>,
    /// The tool call that the request belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub tool: Option<String>,
    /// SHA-256 of `ask`, in hex. An answer that names another digest is refused.
    pub digest: String,
    /// When the request was opened.
    pub opened_at: Millis,
    /// When Portolan denies the request by itself; never when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub deadline: Option<Millis>,
    /// `ask` is shortened here because it is large; the session's own entry and state hold it whole. Only in the
    /// daemon's log and inbox.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[cfg_attr(feature = "schema", ts(as = "Option<bool>", optional))]
    pub shortened: bool,
    /// What policy decided about the request, and why; absent if policy decides nothing about such requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub policy: Option<Box<Judgement>>,
    /// `TOOL` or `TOOL(PATTERN)` of a rule that would answer such a request, for a person to check and change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub suggested_rule: Option<String>,
}

/// How long an approval holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// This one call.
    #[default]
    Once,
    /// Every later call of this tool in this session, by a rule of Portolan.
    Session,
}

/// An answer to a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Answer {
    /// Allow a permission or a plan.
    Allow {
        /// The edited input; the original input when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        input: Option<Value>,
        /// How long the approval holds.
        #[serde(default)]
        scope: Scope,
        /// The agent's mode after a plan.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        mode: Option<String>,
        /// The id of one of the agent's own options.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        option: Option<String>,
    },
    /// Deny any request.
    Deny {
        /// The reason, which the agent gets.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        message: Option<String>,
        /// Also interrupt the turn.
        #[serde(default)]
        interrupt: bool,
        /// The id of one of the agent's own options.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        option: Option<String>,
    },
    /// Answer questions.
    Choices {
        /// The chosen labels or free text, by the question's text. A missing question was not answered.
        answers: IndexMap<String, Vec<String>>,
    },
    /// Answer an elicitation with data.
    Content {
        /// The requested data.
        content: Value,
    },
    /// Answer a hook, or a newer request, in the agent's own form.
    Output {
        /// The whole output.
        output: Value,
    },
}

impl Answer {
    /// An approval without options.
    pub fn allow() -> Self {
        Self::Allow { input: None, scope: Scope::Once, mode: None, option: None }
    }

    /// A denial without options.
    pub fn deny(message: Option<String>) -> Self {
        Self::Deny { message, interrupt: false, option: None }
    }

    /// The chosen option of the agent, and the verdict that it must have.
    fn option(&self) -> Option<(&str, Verdict)> {
        match self {
            Self::Allow { option, .. } => Some((option.as_deref()?, Verdict::Allow)),
            Self::Deny { option, .. } => Some((option.as_deref()?, Verdict::Deny)),
            _ => None,
        }
    }

    /// Can this answer `ask`? If not, the reason.
    pub fn fits(&self, ask: &Ask) -> Result<(), String> {
        if let Some((chosen, verdict)) = self.option() {
            let offered = match ask {
                Ask::Permission { options, .. } => options.as_slice(),
                _ => &[],
            };
            match offered.iter().find(|option| option.id == chosen) {
                None if verdict == Verdict::Allow => {
                    return Err(format!(
                        "the option `{chosen}` is not offered here. Portolan passes on no approval that lasts, because \
                         the agent would then act without asking; allow the request once, or let Portolan make a rule"
                    ));
                }
                None => {
                    return Err(format!("the option `{chosen}` is not offered here; deny without an option"));
                }
                Some(option) if option.verdict != verdict => {
                    return Err(format!(
                        "the option `{chosen}` (\u{201c}{}\u{201d}) contradicts the answer: one allows, the other denies",
                        option.label
                    ));
                }
                Some(_) => {}
            }
        }
        match (self, ask) {
            (Self::Deny { .. }, _) => Ok(()),
            (Self::Allow { scope: Scope::Session, .. }, Ask::Permission { tool_name, .. })
                if !is_plain_name(tool_name) =>
            {
                Err(format!(
                    "`{}` is no plain name of a tool, so no rule can be made for exactly this tool; allow the request \
                     once, or write a rule",
                    crate::capabilities::shown(tool_name)
                ))
            }
            (Self::Allow { input: Some(input), .. }, Ask::Permission { .. }) if !input.is_object() => {
                Err("edited input must be an object".into())
            }
            (Self::Allow { .. }, Ask::Permission { .. } | Ask::Plan { .. }) => Ok(()),
            (Self::Choices { answers }, Ask::Question { questions }) => {
                let unknown = answers.keys().find(|key| !questions.iter().any(|q| &&q.question == key));
                if let Some(key) = unknown {
                    return Err(format!("there is no question `{key}`"));
                }
                let Some(question) = questions.iter().find(|q| answers.contains_key(&q.question)) else {
                    return Err("no question is answered; deny the request to leave it unanswered".into());
                };
                let several = questions
                    .iter()
                    .find(|q| !q.multiple && answers.get(&q.question).is_some_and(|a| a.len() > 1));
                match several {
                    Some(q) => Err(format!("the question `{}` takes one choice", q.question)),
                    None if answers[&question.question].is_empty() => Err("an answer is empty".into()),
                    None => Ok(()),
                }
            }
            (Self::Content { .. }, Ask::Elicitation { .. }) => Ok(()),
            (Self::Output { .. }, Ask::Hook { .. } | Ask::Other { .. }) => Ok(()),
            (_, ask) => Err(format!("this is not an answer to a {}", ask.kind())),
        }
    }
}

/// The words for an approval of this tool that nobody gave in time, because the turn or the agent ended.
pub fn cancelled(tool: &str) -> String {
    format!("Approval cancelled for tool {tool}")
}

impl Ask {
    /// The tool that may be used, if the request is a permission.
    pub fn tool_name(&self) -> Option<&str> {
        match self {
            Self::Permission { tool_name, .. } => Some(tool_name),
            _ => None,
        }
    }
}

impl Outcome {
    /// The words for a permission that ended without an answer.
    pub fn cancellation(&self, ask: &Ask) -> Option<String> {
        let is_cancelled =
            matches!(self, Self::Interrupted { .. } | Self::Withdrawn | Self::AgentGone { .. });
        ask.tool_name().filter(|_| is_cancelled).map(cancelled)
    }
}

/// How a request ended. Only the first outcome counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(tag = "how", rename_all = "snake_case")]
pub enum Outcome {
    /// A person or a rule answered.
    Answered {
        /// The answer.
        answer: Answer,
        /// Who answered.
        by: Actor,
    },
    /// The request's deadline passed; Portolan denied it.
    Expired,
    /// The turn was interrupted.
    Interrupted {
        /// Who interrupted.
        by: Actor,
    },
    /// The agent withdrew the request.
    Withdrawn,
    /// The agent that asked has ended.
    AgentGone {
        /// The reason, in words.
        reason: String,
    },
}
