//! Matcher: which requests a rule is for.
//!
//! Every condition that is set must hold; with none set, every request matches. Conditions match by content, so that
//! side requests, subagents and parallel conversations each find their own rule, in any order.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use crate::asked::Asked;

/// Conditions on a request, all of which must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Matcher {
    /// In the last prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_contains: Option<String>,
    /// In any prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation_contains: Option<String>,
    /// In the system prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_contains: Option<String>,
    /// In the model's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_contains: Option<String>,
    /// The name of a tool, or the id of a call, whose result has just come back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_of: Option<String>,
    /// In a result that has just come back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_contains: Option<String>,
    /// In a note that the agent has just sent to the model by itself, such as news of background work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note_contains: Option<String>,
    /// The name of an offered tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offers_tool: Option<String>,
    /// Only requests on the side (no tools offered), or only the others. Unset is both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aside: Option<bool>,
    /// Only the n-th request, from 1, for which all other conditions hold; counted in the rule's scope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nth: Option<NonZeroU32>,
}

/// Every request.
pub fn anything() -> Matcher {
    Matcher::default()
}

/// The last prompt contains `needle`. Holds through the whole tool loop that follows.
pub fn contains(needle: impl Into<String>) -> Matcher {
    anything().and_contains(needle)
}

/// Any prompt contains `needle`.
pub fn conversation_contains(needle: impl Into<String>) -> Matcher {
    Matcher { conversation_contains: Some(needle.into()), ..anything() }
}

/// The system prompt contains `needle`.
pub fn system_contains(needle: impl Into<String>) -> Matcher {
    anything().and_system_contains(needle)
}

/// The model's name contains `needle`.
pub fn model(needle: impl Into<String>) -> Matcher {
    anything().and_model(needle)
}

/// A result of this tool (or of the call with this id) has just come back.
pub fn result_of(tool: impl Into<String>) -> Matcher {
    anything().and_result_of(tool)
}

/// A result that has just come back contains `needle`.
pub fn result_contains(needle: impl Into<String>) -> Matcher {
    anything().and_result_contains(needle)
}

/// A note that the agent has just sent to the model by itself contains `needle`.
pub fn note_contains(needle: impl Into<String>) -> Matcher {
    Matcher { note_contains: Some(needle.into()), ..anything() }
}

/// The n-th request, from 1; zero counts as 1.
pub fn nth(number: u32) -> Matcher {
    anything().and_nth(number)
}

impl Matcher {
    /// And the last prompt contains `needle`.
    pub fn and_contains(mut self, needle: impl Into<String>) -> Self {
        self.prompt_contains = Some(needle.into());
        self
    }

    /// And the system prompt contains `needle`.
    pub fn and_system_contains(mut self, needle: impl Into<String>) -> Self {
        self.system_contains = Some(needle.into());
        self
    }

    /// And the model's name contains `needle`.
    pub fn and_model(mut self, needle: impl Into<String>) -> Self {
        self.model_contains = Some(needle.into());
        self
    }

    /// And a result of this tool (or of the call with this id) has just come back.
    pub fn and_result_of(mut self, tool: impl Into<String>) -> Self {
        self.result_of = Some(tool.into());
        self
    }

    /// And a result that has just come back contains `needle`.
    pub fn and_result_contains(mut self, needle: impl Into<String>) -> Self {
        self.result_contains = Some(needle.into());
        self
    }

    /// And this tool is offered.
    pub fn and_offers(mut self, tool: impl Into<String>) -> Self {
        self.offers_tool = Some(tool.into());
        self
    }

    /// And it is a request on the side, such as for a title.
    pub fn on_the_side(mut self) -> Self {
        self.aside = Some(true);
        self
    }

    /// And it is not a request on the side.
    pub fn with_tools(mut self) -> Self {
        self.aside = Some(false);
        self
    }

    /// And it is the n-th request, from 1, for which the other conditions hold; zero counts as 1.
    pub fn and_nth(mut self, number: u32) -> Self {
        self.nth = Some(NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN));
        self
    }

    /// Whether all conditions hold except the count, which the rule keeps.
    pub(crate) fn holds(&self, asked: &Asked) -> bool {
        let within =
            |needle: &Option<String>, text: &str| needle.as_ref().is_none_or(|needle| text.contains(needle));
        within(&self.prompt_contains, asked.prompt())
            && self
                .conversation_contains
                .as_ref()
                .is_none_or(|needle| asked.prompts.iter().any(|prompt| prompt.contains(needle)))
            && within(&self.system_contains, &asked.system)
            && within(&self.model_contains, &asked.model)
            && self.result_of.as_ref().is_none_or(|tool| {
                asked.results.iter().any(|result| result.name == *tool || result.id == *tool)
            })
            && self
                .result_contains
                .as_ref()
                .is_none_or(|needle| asked.results.iter().any(|result| result.text.contains(needle)))
            && self
                .note_contains
                .as_ref()
                .is_none_or(|needle| asked.notes.iter().any(|note| note.contains(needle)))
            && self.offers_tool.as_ref().is_none_or(|tool| asked.tools.contains(tool))
            && self.aside.is_none_or(|aside| aside == asked.is_aside())
    }
}
