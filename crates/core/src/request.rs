//! Requests: everything an agent waits for, and the answers to it.
//!
//! A request is opened once, gets at most one answer, and is closed for everybody at the same entry.
//! The rules of that life are in `session::requests`; here are only the shapes.

mod brief;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Actor, Generation, Millis, RequestId, event::FileChange};

/// What the agent wants to know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Ask {
    /// May I use this tool with this input?
    Permission {
        /// The tool's name.
        tool_name: String,
        /// What it would be called with.
        input: Value,
        /// One line for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        description: Option<String>,
        /// The changes to files it would make, where known.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changes: Vec<FileChange>,
        /// Why the agent asks.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        reason: Option<String>,
        /// The path that made it ask.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        blocked_path: Option<String>,
        /// Permission updates the agent itself proposes, in its own form. Some widen more than this one tool.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        suggestions: Vec<Value>,
        /// The decisions the agent offers beyond allow and deny, by its own names.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        options: Vec<AskOption>,
    },
    /// Questions with choices.
    Question {
        /// At least one.
        questions: Vec<Question>,
    },
    /// May I carry out this plan?
    Plan {
        /// The plan, in Markdown; absent where the agent does not tell it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        plan: Option<String>,
        /// The input of the call that asked, to be echoed.
        #[serde(default)]
        input: Value,
    },
    /// A tool server wants data from the user.
    Elicitation {
        /// Which server.
        server: String,
        /// Its words.
        message: String,
        /// JSON Schema of the answer, or nothing for a plain confirmation.
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
        /// The agent's name for the event.
        event: String,
        /// What the hook is told.
        input: Value,
    },
    /// Something a newer agent asks; its own words are kept.
    Other {
        /// The agent's name for it.
        name: String,
        /// All of it.
        body: Value,
    },
}

impl Ask {
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

    /// One line that says what waits, for lists and notifications.
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

/// A decision an agent offers by its own name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct AskOption {
    /// What goes back to the agent.
    pub id: String,
    /// What people read.
    pub label: String,
    /// Which answer it belongs to.
    #[serde(default)]
    pub verdict: Verdict,
}

/// Is an agent's own option a yes or a no? A no must never be sent as a yes, whatever it is called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It goes with [`Answer::Allow`].
    #[default]
    Allow,
    /// It goes with [`Answer::Deny`].
    Deny,
}

/// One question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct Question {
    /// The question itself; also its key in the answer.
    pub question: String,
    /// A word or two as heading.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub header: Option<String>,
    /// What to choose from; empty asks for free text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<Choice>,
    /// More than one choice may be taken.
    #[serde(default)]
    pub multiple: bool,
    /// Own words are welcome beside the choices.
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
    /// What is chosen.
    pub label: String,
    /// What it means.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub description: Option<String>,
}

/// A request that waits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct Request {
    /// Its id: the number of the entry that opened it.
    pub request: RequestId,
    /// Which start of the agent asked; an answer to an older one is refused.
    pub generation: Generation,
    /// What it asks.
    pub ask: Ask,
    /// The subagent that asks, by the call that started it; absent is the main agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub parent: Option<String>,
    /// The tool call it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub tool: Option<String>,
    /// SHA-256 of what is asked, hex. An answer that names another digest is refused.
    pub digest: String,
    /// When it was opened.
    pub opened_at: Millis,
    /// When it is denied by itself; absent is never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub deadline: Option<Millis>,
    /// What it asks is cut short here, because it is large: the session's own entry and state have all of it. Only in the daemon's
    /// log and inbox.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[cfg_attr(feature = "schema", ts(as = "Option<bool>", optional))]
    pub shortened: bool,
}

/// How long an allow holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// This one call.
    #[default]
    Once,
    /// Every later call of this tool in this session, by a rule of Portolan's own.
    Session,
}

/// What someone answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Answer {
    /// Yes, to a permission or a plan.
    Allow {
        /// Edited input; the original when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        input: Option<Value>,
        /// How long it holds.
        #[serde(default)]
        scope: Scope,
        /// The mode to go on in, after a plan.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        mode: Option<String>,
        /// One of the agent's own options, by id.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        option: Option<String>,
    },
    /// No, to anything.
    Deny {
        /// Why; the agent is told.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        message: Option<String>,
        /// End the turn too.
        #[serde(default)]
        interrupt: bool,
        /// One of the agent's own options, by id.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        option: Option<String>,
    },
    /// To questions: by question text, the labels chosen or own words.
    Choices {
        /// A question left out was not answered.
        answers: IndexMap<String, Vec<String>>,
    },
    /// To an elicitation: the data.
    Content {
        /// What was asked for.
        content: Value,
    },
    /// To a hook, or to something newer: the output in the agent's own form.
    Output {
        /// All of it.
        output: Value,
    },
}

impl Answer {
    /// A plain yes.
    pub fn allow() -> Self {
        Self::Allow { input: None, scope: Scope::Once, mode: None, option: None }
    }

    /// A plain no.
    pub fn deny(message: Option<String>) -> Self {
        Self::Deny { message, interrupt: false, option: None }
    }

    /// The agent's own option that was chosen, and what it must be to be sent.
    fn option(&self) -> Option<(&str, Verdict)> {
        match self {
            Self::Allow { option, .. } => Some((option.as_deref()?, Verdict::Allow)),
            Self::Deny { option, .. } => Some((option.as_deref()?, Verdict::Deny)),
            _ => None,
        }
    }

    /// Can this be an answer to `ask`? The reason when not.
    pub fn fits(&self, ask: &Ask) -> Result<(), String> {
        if let Some((chosen, verdict)) = self.option() {
            let offered = match ask {
                Ask::Permission { options, .. } => options.as_slice(),
                _ => &[],
            };
            match offered.iter().find(|option| option.id == chosen) {
                None => return Err(format!("the agent offers no option `{chosen}` here")),
                Some(option) if option.verdict != verdict => {
                    return Err(format!(
                        "`{chosen}` (\u{201c}{}\u{201d}) does not go with this answer",
                        option.label
                    ));
                }
                Some(_) => {}
            }
        }
        match (self, ask) {
            (Self::Deny { .. }, _) => Ok(()),
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
                    Some(q) => Err(format!("`{}` takes one choice", q.question)),
                    None if answers[&question.question].is_empty() => Err("an answer holds no choice".into()),
                    None => Ok(()),
                }
            }
            (Self::Content { .. }, Ask::Elicitation { .. }) => Ok(()),
            (Self::Output { .. }, Ask::Hook { .. } | Ask::Other { .. }) => Ok(()),
            (_, ask) => Err(format!("this is not an answer to a {}", ask.kind())),
        }
    }
}

/// How a request ended. The first to come is the only one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(tag = "how", rename_all = "snake_case")]
pub enum Outcome {
    /// Someone answered, or a rule did.
    Answered {
        /// What.
        answer: Answer,
        /// Who.
        by: Actor,
    },
    /// Its deadline passed; the agent was told no.
    Expired,
    /// The turn was interrupted.
    Interrupted {
        /// By whom.
        by: Actor,
    },
    /// The agent took it back.
    Withdrawn,
    /// The agent that asked is gone.
    AgentGone {
        /// In words.
        reason: String,
    },
}
