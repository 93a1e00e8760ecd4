//! Script: what to play, and to whom. Pure: it takes a request and returns the step to play.
//!
//! Rules are tried in order; the first rule that matches plays its next step. The request decides which step: the
//! number of the model's turns since the last prompt is the number of whole turns that the rule has played. So
//! conversations and subagents that run at once do not take each other's steps, a repeated prompt starts again, and a
//! resumed conversation continues. A step that is not a whole turn (a failure, a stream that is cut off) is played
//! once; the same request made again gets the next step.
//!
//! A rule that has played its last step plays it again, so that one failure step fails for ever. Only a step that calls
//! tools is not repeated, because the loop would never end: the rule then no longer matches.

use std::{
    collections::{HashMap, VecDeque},
    hash::{DefaultHasher, Hash, Hasher},
};

use serde::{Deserialize, Serialize};

use crate::{
    asked::Asked,
    matcher::{Matcher, anything},
    step::{Step, text},
};

/// Places at which requests are counted. Far more than one run of an agent has; beyond it the oldest starts again.
const PLACES: usize = 4096;

/// What to play.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// Tried in order.
    #[serde(default)]
    pub rules: Vec<Rule>,
    /// The answer when no rule matches.
    #[serde(default = "nothing_scripted")]
    pub otherwise: Step,
    /// The answer to requests on the side (no tools offered, such as for a title), before every rule that does not
    /// itself ask for them. Absent: they are matched like all others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aside: Option<Step>,
    /// The result of a token count; if absent, an estimate from the request's size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// The models that the API lists; if empty, a small list of the dialect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<String>,
}

/// Steps for the requests that match.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The requests.
    #[serde(default)]
    pub when: Matcher,
    /// Played in order.
    pub steps: Vec<Step>,
    /// What decides the position in the steps.
    #[serde(default)]
    pub scope: Scope,
}

/// What decides a rule's position in its steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Each exchange separately: one prompt of one conversation, with all the requests that follow from it.
    #[default]
    Exchange,
    /// All matching requests: the first gets the first step, the second the second.
    Server,
}

/// Why a text is not a script.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// It does not have the form of a script.
    #[error("not a valid script")]
    Form(#[from] serde_json::Error),
    /// A rule without steps.
    #[error("rule {0} (counted from 0) has no steps; add a step, or remove the rule")]
    NoSteps(usize),
}

fn nothing_scripted() -> Step {
    text("The script has no answer to this.")
}

impl Default for Script {
    fn default() -> Self {
        Self {
            rules: Vec::new(),
            otherwise: nothing_scripted(),
            aside: None,
            count: None,
            models: Vec::new(),
        }
    }
}

/// A rule that waits for its first step.
#[derive(Debug)]
#[must_use = "a rule needs a reply"]
pub struct OpenRule {
    script: Script,
    when: Matcher,
}

impl OpenRule {
    /// The first step of the rule.
    pub fn reply(mut self, step: Step) -> Script {
        self.script.rules.push(Rule { when: self.when, steps: vec![step], scope: Scope::Exchange });
        self.script
    }
}

impl Script {
    /// A script without rules.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads the JSON form.
    pub fn from_json(json: &str) -> Result<Self, ScriptError> {
        let script: Self = serde_json::from_str(json)?;
        match script.rules.iter().position(|rule| rule.steps.is_empty()) {
            Some(index) => Err(ScriptError::NoSteps(index)),
            None => Ok(script),
        }
    }

    /// A rule for the requests that match.
    pub fn on(self, when: Matcher) -> OpenRule {
        OpenRule { script: self, when }
    }

    /// A further step of the newest rule. Without a rule before it, the first step for every request.
    pub fn then(mut self, step: Step) -> Self {
        match self.rules.last_mut() {
            Some(rule) => rule.steps.push(step),
            None => return self.on(anything()).reply(step),
        }
        self
    }

    /// The newest rule plays its steps once for all requests, not again in every exchange.
    pub fn for_all(mut self) -> Self {
        if let Some(rule) = self.rules.last_mut() {
            rule.scope = Scope::Server;
        }
        self
    }

    /// The answer when no rule matches.
    pub fn otherwise(mut self, step: Step) -> Self {
        self.otherwise = step;
        self
    }

    /// The answer to requests on the side, before every rule that does not itself ask for them.
    pub fn asides(mut self, step: Step) -> Self {
        self.aside = Some(step);
        self
    }

    /// The result of a token count.
    pub fn counts(mut self, tokens: u64) -> Self {
        self.count = Some(tokens);
        self
    }
}

/// A script, and how far each rule has come.
#[derive(Debug)]
pub struct Playing {
    script: Script,
    counts: Counts,
}

/// Requests so far, by place.
#[derive(Debug, Default)]
struct Counts {
    by_place: HashMap<Place, u32>,
    oldest: VecDeque<Place>,
}

/// Where requests are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Place {
    /// Requests that match a rule's conditions, in one exchange or (none) in all.
    Matches { rule: usize, exchange: Option<u64> },
    /// The same request, made again.
    Attempts { rule: usize, exchange: u64, turns: usize },
}

/// The step to play.
#[derive(Clone, Debug, PartialEq)]
pub struct Cue {
    /// The rule's position in the script; none for the answer on the side or the default answer.
    pub rule: Option<usize>,
    /// The position of the step in the rule.
    pub step: usize,
    /// The step.
    pub play: Step,
}

impl Playing {
    /// At the beginning.
    pub fn new(script: Script) -> Self {
        Self { script, counts: Counts::default() }
    }

    /// The script.
    pub fn script(&self) -> &Script {
        &self.script
    }

    /// The answer to `asked`; advances the rule.
    pub fn cue(&mut self, asked: &Asked) -> Cue {
        let exchange = exchange_of(asked);
        let aside = self.script.aside.as_ref().filter(|_| asked.is_aside());
        for (index, rule) in self.script.rules.iter().enumerate() {
            let meant = aside.is_none() || rule.when.aside == Some(true);
            if !meant || !rule.when.holds(asked) {
                continue;
            }
            if let Some(step) = rule.step_for(index, asked, exchange, &mut self.counts) {
                return Cue { rule: Some(index), step, play: rule.steps[step].clone() };
            }
        }
        let play = aside.unwrap_or(&self.script.otherwise).clone();
        Cue { rule: None, step: 0, play }
    }
}

impl Rule {
    /// The step to play for a matching request; none if it is not the n-th request, or if no step is left.
    fn step_for(&self, rule: usize, asked: &Asked, exchange: u64, counts: &mut Counts) -> Option<usize> {
        let last = self.steps.len().checked_sub(1)?;
        let place = |exchange| Place::Matches { rule, exchange };
        let wanted = match (self.when.nth, self.scope) {
            (Some(nth), scope) => {
                let exchange = (scope == Scope::Exchange).then_some(exchange);
                // There is only one such request, so only the first step can come.
                return (counts.add(place(exchange)) == nth.get()).then_some(0);
            }
            (None, Scope::Server) => counts.add(place(None)) as usize - 1,
            (None, Scope::Exchange) => {
                let behind = self.after_turns(asked.turns);
                let attempt = counts.add(Place::Attempts { rule, exchange, turns: asked.turns }) as usize - 1;
                let whole = self.steps.iter().skip(behind).position(Step::is_whole).unwrap_or(usize::MAX);
                behind.saturating_add(attempt.min(whole))
            }
        };
        let used_up = wanted > last;
        if used_up && self.steps[last].calls_tools() { None } else { Some(wanted.min(last)) }
    }

    /// The first step that is not played yet, after this many turns of the model.
    fn after_turns(&self, turns: usize) -> usize {
        let whole = self.steps.iter().enumerate().filter(|(_, step)| step.is_whole());
        match turns.checked_sub(1) {
            None => 0,
            Some(before) => whole.map(|(index, _)| index + 1).nth(before).unwrap_or(self.steps.len()),
        }
    }
}

impl Counts {
    /// Counts one more request at `place`, from 1.
    fn add(&mut self, place: Place) -> u32 {
        if !self.by_place.contains_key(&place) {
            if self.by_place.len() >= PLACES
                && let Some(forgotten) = self.oldest.pop_front()
            {
                self.by_place.remove(&forgotten);
            }
            self.oldest.push_back(place);
        }
        let count = self.by_place.entry(place).or_default();
        *count = count.saturating_add(1);
        *count
    }
}

/// The session, the first prompt of the conversation, and the current prompt. The model is not part of it: an agent
/// that falls back to another model stays in the same exchange.
fn exchange_of(asked: &Asked) -> u64 {
    let mut hasher = DefaultHasher::new();
    asked.session.hash(&mut hasher);
    asked.prompts.first().hash(&mut hasher);
    asked.prompts.len().hash(&mut hasher);
    asked.prompt().hash(&mut hasher);
    asked.is_aside().hash(&mut hasher);
    hasher.finish()
}
