//! The decision: allow, ask or deny, by which rule or mode, and why.
//!
//! Pure: the same call, facts, rules, mode and time always get the same judgement, in whatever order the rules stand. The
//! steps are those of docs/policy.md.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use super::{
    check, commands,
    cover::{Cover, Named, Part, Ready},
    facts::{Facts, Standing},
    mode::{self, Mode},
    places,
    reading::Reading,
    risk::{self, Risk},
    rule::{Effect, Rule, RuleId, RuleScope},
    tool::Kind,
};
use crate::{Millis, SessionId};

/// What is done about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// It runs, and nobody is asked.
    Allow,
    /// A person is asked.
    Ask,
    /// It does not run, and nobody is asked.
    Deny,
}

impl Decision {
    /// The decision as a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

/// A decision with everything that led to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[cfg_attr(feature = "schema", ts(optional_fields))]
pub struct Judgement {
    /// What is done.
    pub decision: Decision,
    /// The rules that decided, the narrowest scope first; empty if the mode did.
    #[serde(default)]
    pub rules: Vec<RuleRef>,
    /// The mode, if no rule decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// Why, in a sentence.
    pub why: String,
    /// How dangerous the call is, and why.
    pub risk: Risk,
}

/// A rule, as a judgement names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct RuleRef {
    /// Its id.
    pub rule: RuleId,
    /// The rule as people read it: `deny Bash(rm -r)`.
    pub line: String,
    /// Where it holds.
    pub scope: String,
}

impl From<&Rule> for RuleRef {
    fn from(rule: &Rule) -> Self {
        Self { rule: rule.rule.clone(), line: rule.line(), scope: rule.scope.to_string() }
    }
}

/// Every rule, ready to be compared.
#[derive(Clone, Debug, Default)]
pub struct RuleSet {
    rules: Vec<Ready>,
    /// Which rules can only be about commands that run a program, by the name of the program.
    by_program: HashMap<String, Vec<usize>>,
    /// All other rules.
    other: Vec<usize>,
}

impl RuleSet {
    /// The set of these rules. One that cannot be read any more, and an allow whose examples no longer hold, is left out,
    /// and its id is given back.
    pub fn new(rules: impl IntoIterator<Item = Rule>) -> (Self, Vec<RuleId>) {
        let mut left_out = Vec::new();
        let mut ready = Vec::new();
        for rule in rules {
            let id = rule.rule.clone();
            match check::stored(rule) {
                Ok(rule) => ready.push(rule),
                Err(_) => left_out.push(id),
            }
        }
        let mut set = Self { rules: ready, by_program: HashMap::new(), other: Vec::new() };
        for (number, rule) in set.rules.iter().enumerate() {
            match rule.program() {
                Some(program) => set.by_program.entry(program).or_default().push(number),
                None => set.other.push(number),
            }
        }
        (set, left_out)
    }

    /// The rules that can be about a call with these parts. A command names few programs, so most rules are never looked
    /// at.
    fn about(&self, parts: &[Part<'_>]) -> Vec<&Ready> {
        let mut names = HashSet::new();
        for part in parts {
            match part {
                Part::Command(command) => match commands::names(command) {
                    Some(of_command) => names.extend(of_command),
                    None => return self.rules.iter().collect(),
                },
                Part::Unreadable | Part::Unseen => return self.rules.iter().collect(),
                Part::File { .. } | Part::Address(_) | Part::Arguments { .. } => {}
            }
        }
        let named = names.iter().filter_map(|name| self.by_program.get(name)).flatten();
        self.other.iter().chain(named).map(|number| &self.rules[*number]).collect()
    }

    /// Does a rule deny or ask about files? Then it matters where the words of a command lead.
    pub fn forbids_files(&self) -> bool {
        self.rules.iter().any(Ready::forbids_files)
    }

    /// Every rule.
    pub fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter().map(|ready| &ready.rule)
    }
}

/// In which session a call is made, and when.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    /// The session; `None` for a question that belongs to none.
    pub session: Option<SessionId>,
    /// The mode that it is in.
    pub mode: Mode,
    /// Every rule of the daemon, and those of the session.
    pub rules: &'a [&'a RuleSet],
    /// What is known of the disk.
    pub facts: &'a Facts,
    /// Now.
    pub now: Millis,
}

/// Decides.
pub fn decide(reading: &Reading<'_>, situation: Situation<'_>) -> Judgement {
    let Situation { session, facts, rules, now, mode } = situation;
    let tool = reading.call().tool;
    let parts = reading.parts(facts);
    let risk = risk::of(reading, &parts, facts);
    let holds = |ready: &&Ready| {
        let rule = &ready.rule;
        let here = match &rule.scope {
            RuleScope::Session { session: only } => Some(*only) == session,
            scope => match facts.standing(scope) {
                Standing::Holds => true,
                Standing::Unsure => rule.effect != Effect::Allow,
                Standing::Elsewhere | Standing::Suspended => false,
            },
        };
        here && !rule.is_expired(now)
    };
    let kind = reading.call().kind();
    let about = rules.iter().flat_map(|set| set.about(&parts)).filter(holds);
    let all: Vec<(&Ready, Named)> =
        about.filter_map(|ready| Some((ready, ready.concerns(tool, kind)?))).collect();
    let allows: Vec<Vec<&Ready>> = parts
        .iter()
        .map(|part| {
            let covering = |(ready, named): &&(&Ready, Named)| {
                ready.rule.effect == Effect::Allow
                    && !reason_stands_against(reading, ready)
                    && ready.allows_part(*named, part, facts)
            };
            all.iter().filter(covering).map(|(ready, _)| *ready).collect()
        })
        .collect();
    let judge = |decision, by: &[&Ready], mode, why: String| {
        let mut by: Vec<&Rule> = by.iter().map(|ready| &ready.rule).collect();
        by.sort_by(|a, b| b.scope.rank().cmp(&a.scope.rank()).then_with(|| a.rule.cmp(&b.rule)));
        by.dedup_by(|a, b| a.rule == b.rule);
        Judgement {
            decision,
            rules: by.into_iter().map(RuleRef::from).collect(),
            mode,
            why,
            risk: risk.clone(),
        }
    };
    // A mode in which nobody is asked denies instead.
    let ask = |by: &[&Ready], why: String| match mode {
        Mode::DontAsk => {
            judge(Decision::Deny, by, Some(mode), format!("{why}; nobody is asked in the mode {mode}"))
        }
        _ => judge(Decision::Ask, by, None, why),
    };

    // Deny beats ask beats allow. An overridable deny yields where narrower rules allow all that it touches.
    let mut unsure: Vec<&Ready> = Vec::new();
    for effect in [Effect::Deny, Effect::Ask] {
        let mut sure: Vec<&Ready> = Vec::new();
        for (ready, named) in all.iter().filter(|(ready, _)| ready.rule.effect == effect) {
            let covers: Vec<Cover> =
                parts.iter().map(|part| ready.touches_part(*named, part, facts)).collect();
            let yields = |at: usize| {
                ready.rule.overridable
                    && allows[at].iter().any(|allow| allow.rule.scope.rank() > ready.rule.scope.rank())
            };
            // A rule without any `*` has seen all of the part that it allows.
            let is_spelt = |at: usize| allows[at].iter().any(|allow| allow.is_exact(&parts[at]));
            let stands = |wanted: Cover, except: &dyn Fn(usize) -> bool| {
                let mut all = covers.iter().enumerate();
                all.any(|(at, cover)| *cover == wanted && !yields(at) && !except(at))
            };
            if stands(Cover::Yes, &|_| false) {
                sure.push(ready);
            } else if stands(Cover::Maybe, &is_spelt) {
                unsure.push(ready);
            }
        }
        if !sure.is_empty() {
            return match effect {
                Effect::Deny => {
                    judge(Decision::Deny, &sure, None, format!("Denied by persisted rule for {tool}."))
                }
                Effect::Ask | Effect::Allow => ask(&sure, "a rule says to ask".into()),
            };
        }
    }
    let plan_denies = mode == Mode::Plan && denied_by_plan(reading, &parts, facts);
    if plan_denies {
        return judge(Decision::Deny, &[], Some(mode), "Tool execution is disabled in plan mode.".into());
    }
    if let Some(Err(why)) = reading.script()
        && !(mode == Mode::BypassPermissions && unsure.is_empty())
    {
        // The rules that may cover the call are why a call is stopped that the agent would not ask about.
        return ask(&unsure, format!("the command cannot be read: {why}"));
    }
    if !unsure.is_empty() {
        let why = match kind {
            Kind::Read => "the search may reach a file that a rule is about",
            _ => "Portolan cannot see what the call does, and a rule may forbid the call",
        };
        return ask(&unsure, why.into());
    }

    // Allow rules cover every part; a mode may cover the files that a command line names.
    let by_mode = |part: &Part<'_>| match part {
        Part::File { kind, redirected: true, .. } => mode_allows_file(mode, *kind, part, facts),
        _ => false,
    };
    let is_allowed = |at: usize| !allows[at].is_empty() || by_mode(&parts[at]);
    if allows.iter().any(|by| !by.is_empty()) && (0..parts.len()).all(is_allowed) {
        let by: Vec<&Ready> =
            allows.iter().filter_map(|by| by.iter().max_by_key(|r| r.rule.scope.rank()).copied()).collect();
        return judge(Decision::Allow, &by, None, "a rule allows the call".into());
    }
    let guarded =
        parts.iter().enumerate().filter(|(at, _)| allows[*at].is_empty()).find_map(|(_, part)| match part {
            Part::File { kind, lies: Some(lies), .. } => {
                lies.iter().find_map(|path| places::guarded(path, *kind, facts).into_iter().next())
            }
            Part::Command(command) => commands::protected(command),
            Part::Arguments { guarded, .. } => guarded.iter().find_map(|found| found.places.first().cloned()),
            Part::Unreadable | Part::Unseen | Part::File { lies: None, .. } | Part::Address(_) => None,
        });
    if let Some((place, name)) = guarded {
        return ask(&[], format!("`{name}` belongs to {}: no mode allows such a call", place.describe()));
    }
    let unplaced = |(at, part): (usize, &Part<'_>)| {
        allows[at].is_empty() && matches!(part, Part::File { kind: Kind::Edit, lies: None, .. })
    };
    if mode == Mode::BypassPermissions && parts.iter().enumerate().any(unplaced) {
        return ask(&[], "it is not clear which file the call changes".into());
    }
    by_the_mode(reading, &parts, situation, &judge, &ask)
}

type Judge<'a> = dyn Fn(Decision, &[&Ready], Option<Mode>, String) -> Judgement + 'a;
type Ask<'a> = dyn Fn(&[&Ready], String) -> Judgement + 'a;

/// The last step: no rule decides.
fn by_the_mode(
    reading: &Reading<'_>,
    parts: &[Part<'_>],
    Situation { mode, facts, .. }: Situation<'_>,
    judge: &Judge<'_>,
    ask: &Ask<'_>,
) -> Judgement {
    let kind = reading.call().kind();
    let by = Some(mode);
    let allowed = || judge(Decision::Allow, &[], by, format!("the mode {mode} allows the call"));
    let asks = |why: String| Judgement { mode: by, ..ask(&[], why) };
    if mode == Mode::Plan && kind == Kind::Run {
        return judge(Decision::Allow, &[], by, "the command only reads".into());
    }
    match mode.answer(kind) {
        mode::Answer::Allow => allowed(),
        mode::Answer::Deny => judge(
            Decision::Deny,
            &[],
            by,
            format!("no rule allows the call, and the mode {mode} asks nobody"),
        ),
        mode::Answer::Ask => asks(format!("no rule decides, and the mode {mode} asks")),
        mode::Answer::AllowInside if reading.call().has_reason => {
            asks("the agent has a reason of its own to ask".into())
        }
        mode::Answer::AllowInside => match parts.iter().find(|part| !is_inside(part, facts)) {
            None => allowed(),
            Some(Part::File { lies: None, .. }) => asks("it is not clear which file the call names".into()),
            Some(Part::File { lies: Some(lies), .. }) => {
                let outside = lies.iter().find(|path| !facts.is_inside(path));
                let shown = outside.map(|path| path.display().to_string()).unwrap_or_default();
                asks(format!("`{shown}` is outside the session's folder"))
            }
            Some(_) => asks("the call leaves the session's folder".into()),
        },
    }
}

/// Does the agent have a reason of its own to ask about an edit, and is the rule no answer to it? Only a rule that spells
/// the file is.
fn reason_stands_against(reading: &Reading<'_>, ready: &Ready) -> bool {
    reading.call().has_reason
        && reading.call().kind() == Kind::Edit
        && !ready.is_whole()
        && ready.rule.text.contains(['*', '?'])
}

/// Does the part lie in the session's folders?
pub(super) fn is_inside(part: &Part<'_>, facts: &Facts) -> bool {
    match part {
        Part::File { lies: Some(lies), .. } => {
            !lies.is_empty() && lies.iter().all(|path| facts.is_inside(path))
        }
        _ => false,
    }
}

fn mode_allows_file(mode: Mode, kind: Kind, part: &Part<'_>, facts: &Facts) -> bool {
    let Part::File { lies, .. } = part else { return false };
    let guarded = || lies.iter().flatten().any(|path| !places::guarded(path, kind, facts).is_empty());
    match mode.answer(kind) {
        mode::Answer::Allow => !guarded(),
        mode::Answer::AllowInside => is_inside(part, facts) && !guarded(),
        mode::Answer::Ask | mode::Answer::Deny => false,
    }
}

/// In plan mode nothing changes, whatever rules allow.
fn denied_by_plan(reading: &Reading<'_>, parts: &[Part<'_>], facts: &Facts) -> bool {
    match reading.call().kind() {
        Kind::Read | Kind::Network => false,
        Kind::Edit | Kind::Unknown => true,
        Kind::Run => !parts.iter().all(|part| match part {
            Part::Command(command) => commands::only_reads(command) && !risk::leaves(command, facts),
            Part::File { kind: Kind::Read, .. } => is_inside(part, facts),
            _ => false,
        }),
    }
}
