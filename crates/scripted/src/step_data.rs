//! The JSON form of a step: one flat object, read strictly, so that a misspelt key is an error.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

use crate::step::{Block, Ending, Failure, Message, Pace, Reply, Step, StopReason, Usage};

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StepData {
    /// The usual step in one key: the same as `say` with one text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    say: Option<Vec<Block>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fail: Option<Failure>,
    #[serde(default, skip_serializing_if = "is_false")]
    hang: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    usage: Option<Usage>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stop: Option<StopReason>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    chunk: Option<usize>,
    #[serde(default, skip_serializing_if = "is_zero")]
    delay_ms: u64,
    #[serde(default, skip_serializing_if = "is_whole")]
    end: Ending,
    #[serde(default, skip_serializing_if = "is_zero")]
    wait_ms: u64,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    headers: BTreeMap<String, String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_false(value: &bool) -> bool {
    !value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(value: &u64) -> bool {
    *value == 0
}

fn is_whole(ending: &Ending) -> bool {
    *ending == Ending::Whole
}

/// A step that is two things at once, or nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StepDataError {
    #[error("a step must have exactly one of `text`, `say`, `fail` and `hang`; this one has {0}")]
    NotOneReply(usize),
    #[error("`usage`, `stop`, `chunk`, `delay_ms` and `end` belong to `text` and `say` only")]
    NothingSaid,
}

impl TryFrom<StepData> for Step {
    type Error = StepDataError;

    fn try_from(data: StepData) -> Result<Self, StepDataError> {
        let given = [data.text.is_some(), data.say.is_some(), data.fail.is_some(), data.hang];
        let replies = given.into_iter().filter(|given| *given).count();
        if replies != 1 {
            return Err(StepDataError::NotOneReply(replies));
        }
        let said = data.say.or_else(|| data.text.map(|text| vec![Block::Text { text }]));
        let reply = match (said, data.fail) {
            (Some(blocks), _) => {
                let chunk = data.chunk.unwrap_or(Pace::default().chunk);
                let pace = Pace { chunk, delay: Duration::from_millis(data.delay_ms) };
                Reply::Say(Message { blocks, usage: data.usage, stop: data.stop, pace, ending: data.end })
            }
            _ if data.usage.is_some()
                || data.stop.is_some()
                || data.chunk.is_some()
                || data.delay_ms != 0
                || data.end != Ending::Whole =>
            {
                return Err(StepDataError::NothingSaid);
            }
            (None, Some(failure)) => Reply::Fail(failure),
            (None, None) => Reply::Hang,
        };
        Ok(Self { reply, wait: Duration::from_millis(data.wait_ms), headers: data.headers })
    }
}

impl From<Step> for StepData {
    fn from(step: Step) -> Self {
        let wait_ms = millis(step.wait);
        let rest = Self { wait_ms, headers: step.headers, ..Self::default() };
        match step.reply {
            Reply::Hang => Self { hang: true, ..rest },
            Reply::Fail(failure) => Self { fail: Some(failure), ..rest },
            Reply::Say(message) => Self {
                say: Some(message.blocks),
                usage: message.usage,
                stop: message.stop,
                chunk: (message.pace.chunk != Pace::default().chunk).then_some(message.pace.chunk),
                delay_ms: millis(message.pace.delay),
                end: message.ending,
                ..rest
            },
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
