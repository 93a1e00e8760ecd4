//! What an agent asks and waits for. Permissions and forms are requests of the session; an unknown request is answered
//! with an error, so that no agent waits for ever.
//!
//! The choices of a permission are recognised by their kind, never by their place: some agents put the widest approval
//! first. A plain approval is the agent's approval for one call, and a plain denial is its denial for one call. If
//! several choices fit, the one with the shortest id counts, because the id of a choice that does more is longer; the
//! others are shown by name, and are chosen only by name.
//!
//! Approvals that last are not passed on: the agent would keep them, and would then not ask about calls that a deny rule
//! forbids. An approval that leads to a mode is passed on, because core knows the mode and decides about it.

use bytes::Bytes;
use indexmap::IndexMap;
use portolan_core::{
    event::Level,
    ports::{InstructionId, Report},
    request::{Answer, Ask, AskOption, Verdict, cancelled as cancelled_tool},
};
use portolan_wire::jsonrpc::{Error, Id};
use serde_json::{Value, json, value::RawValue};

use super::{
    approvals::Approval,
    desk,
    errands::Errand,
    tools,
    translate::{DIALECT, Translate, notice},
    wire::{self, list, some_text, text},
};
use crate::driver::Output;

/// Requests of one agent that may wait at once. An agent with more does not wait for answers.
const MAX_OPEN: usize = 256;

/// The request was cancelled.
const CANCELLED: i64 = -32800;

/// Requests that wait for an answer, by Portolan's key.
#[derive(Debug, Default)]
pub(super) struct Requests(IndexMap<String, Open>);

impl Requests {
    /// Whether a request waits for an answer.
    pub(super) fn any(&self) -> bool {
        !self.0.is_empty()
    }

    /// Whether a request with this key waits.
    pub(super) fn waits(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    pub(super) fn is_full(&self) -> bool {
        self.0.len() >= MAX_OPEN
    }

    pub(super) fn add(&mut self, key: String, id: Id, what: Asked) {
        self.0.insert(key, Open { id, what });
    }

    /// Takes a task that waits.
    pub(super) fn take_errand(&mut self, key: &str) -> Option<(Id, Errand)> {
        if !matches!(self.0.get(key)?.what, Asked::Errand(_)) {
            return None;
        }
        match self.0.shift_remove(key)? {
            Open { id, what: Asked::Errand(errand) } => Some((id, errand)),
            _ => None,
        }
    }
}

#[derive(Debug)]
struct Open {
    id: Id,
    what: Asked,
}

/// What is needed to answer.
#[derive(Debug)]
pub(super) enum Asked {
    Permission {
        tool: String,
        choices: Choices,
        /// What a yes allows.
        approval: Option<Approval>,
    },
    Elicitation,
    /// Something that Portolan is to do.
    Errand(Errand),
}

/// What can be decided.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Choices(Vec<Choice>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Choice {
    id: String,
    name: String,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    AllowOnce,
    AllowAlways,
    RejectOnce,
    RejectAlways,
    /// A newer kind: neither an approval nor a denial.
    Newer,
}

impl Kind {
    fn allows(self) -> bool {
        matches!(self, Self::AllowOnce | Self::AllowAlways)
    }

    /// Perhaps an approval that lasts: nobody knows what a newer kind means.
    fn may_last(self) -> bool {
        matches!(self, Self::AllowAlways | Self::Newer)
    }

    fn rejects(self) -> bool {
        matches!(self, Self::RejectOnce | Self::RejectAlways)
    }
}

impl Choices {
    pub(super) fn read(options: &[Value]) -> Self {
        let choice = |told: &Value| {
            let id = some_text(told, "optionId")?;
            let kind = match told["kind"].as_str() {
                Some("allow_once") => Kind::AllowOnce,
                Some("allow_always") => Kind::AllowAlways,
                Some("reject_once") => Kind::RejectOnce,
                Some("reject_always") => Kind::RejectAlways,
                _ => Kind::Newer,
            };
            Some(Choice { name: some_text(told, "name").unwrap_or_else(|| id.clone()), id, kind })
        };
        Self(options.iter().filter_map(choice).collect())
    }

    /// The choices without the approvals that last, except those that lead to a mode.
    pub(super) fn without_lasting(mut self, mode_behind: impl Fn(&str) -> Option<String>) -> Self {
        self.0.retain(|choice| !choice.kind.may_last() || mode_behind(&choice.id).is_some());
        self
    }

    /// The fitting choice with the shortest id.
    fn least(&self, fits: impl Fn(Kind) -> bool) -> Option<&Choice> {
        self.0.iter().filter(|choice| fits(choice.kind)).min_by_key(|choice| choice.id.chars().count())
    }

    /// The only choice that fits.
    fn only(&self, fits: impl Fn(Kind) -> bool) -> Option<&Choice> {
        let mut all = self.0.iter().filter(|choice| fits(choice.kind));
        all.next().filter(|_| all.next().is_none())
    }

    /// A plain approval: for one call. A choice that allows more is chosen only by name.
    fn yes(&self) -> Option<&Choice> {
        self.least(|kind| kind == Kind::AllowOnce)
    }

    /// A plain denial.
    fn no(&self) -> Option<&Choice> {
        self.least(|kind| kind == Kind::RejectOnce).or_else(|| self.only(Kind::rejects))
    }

    /// The choices that a plain approval or denial does not cover; with the names of both if they must be told apart. Each
    /// says to which mode its id leads.
    pub(super) fn beyond(&self, mode_behind: impl Fn(&str) -> Option<String>) -> Vec<AskOption> {
        let tied = |kind: Kind| self.0.iter().filter(|choice| choice.kind == kind).count() > 1;
        let plain = [self.yes(), self.no()];
        let once = |kind: Kind| matches!(kind, Kind::AllowOnce | Kind::RejectOnce);
        // A denial that lasts is the plain denial if there is no other, and is still shown by its name.
        let is_plain =
            |choice: &&Choice| plain.contains(&Some(*choice)) && once(choice.kind) && !tied(choice.kind);
        let shown = self.0.iter().filter(|choice| !is_plain(choice));
        let option = |choice: &Choice| AskOption {
            id: choice.id.clone(),
            label: choice.name.clone(),
            verdict: if choice.kind.rejects() { Verdict::Deny } else { Verdict::Allow },
            mode: mode_behind(&choice.id).filter(|_| !choice.kind.rejects()),
        };
        shown.map(option).collect()
    }

    fn named(&self, id: &str) -> Option<&Choice> {
        self.0.iter().find(|choice| choice.id == id)
    }

    /// The choice to send to the agent; none if no choice fits the answer.
    pub(super) fn chosen(&self, answer: &Answer) -> Option<&str> {
        let chosen = match answer {
            // The agent runs exactly what it asked about: an edited input is not allowed.
            Answer::Allow { input: Some(_), .. } => self.no(),
            Answer::Allow { option: Some(option), .. } => {
                self.named(option).filter(|choice| !choice.kind.rejects()).or_else(|| self.no())
            }
            Answer::Allow { option: None, .. } => self.yes(),
            Answer::Deny { interrupt: true, .. } => None,
            // A denial never becomes an approval.
            Answer::Deny { option: Some(option), .. } => {
                self.named(option).filter(|choice| !choice.kind.allows()).or_else(|| self.no())
            }
            _ => self.no(),
        };
        chosen.map(|choice| choice.id.as_str())
    }

    fn is_yes(&self, id: Option<&str>) -> bool {
        id.and_then(|id| self.named(id)).is_some_and(|choice| !choice.kind.rejects())
    }
}

fn cancelled() -> Value {
    json!({ "outcome": { "outcome": "cancelled" } })
}

impl Translate {
    pub(super) fn asked(
        &mut self,
        id: Id,
        method: &str,
        params: Option<&RawValue>,
        line: &str,
        out: &mut Output,
    ) {
        let params: Value = wire::open(params).unwrap_or_default();
        match method {
            "session/request_permission" => self.permission(id, &params, line, out),
            "elicitation/create" => self.elicitation(id, &params, line, out),
            _ if desk::is_errand(method, self.setup.serves) => {
                self.errand(id, method, params, line, out);
            }
            _ => {
                if !self.is_its_own(method) {
                    out.unknown(&self.setup.agent, method, line);
                }
                let error = format!("Portolan does not know `{method}`");
                out.write(&DIALECT.error(&id, Error::METHOD_NOT_FOUND, &error));
            }
        }
    }

    fn permission(&mut self, id: Id, params: &Value, line: &str, out: &mut Output) {
        let told = &params["toolCall"];
        let choices = Choices::read(list(params, "options"));
        let tool = some_text(told, "toolCallId");
        let (Some(tool), false) = (tool, choices.0.is_empty()) else {
            out.unknown(&self.setup.agent, "session/request_permission", line);
            let error = "a permission needs a `toolCall` with an id, and `options`";
            return out.write(&DIALECT.error(&id, Error::INVALID_PARAMS, error));
        };
        let choices = choices.without_lasting(|choice| self.mode_behind(choice));
        self.sign_of_life(out);
        let call = self.call_asked_about(&tool, told, out);
        let changes = call.changes();
        let is_changed = |path: &String| changes.iter().any(|change| change.path == *path);
        let named = self.setup.known.command_in_title.then(|| call.command_in_title()).flatten();
        let ask = Ask::Permission {
            tool_name: call.name(),
            input: named.unwrap_or_else(|| call.whole_input()),
            // Uncut: some agents show the command nowhere else.
            description: call.title.clone(),
            reason: call.words(),
            // ACP names the place of a call, not the reason of the request. If that place is the file whose change is
            // shown, it is not a blocked path.
            blocked_path: tools::first_place(told).filter(|path| !is_changed(path)),
            folder: None,
            changes,
            suggestions: vec![],
            options: choices.beyond(|choice| self.mode_behind(choice)),
        };
        let approval = Approval::of(&tool, &ask, &self.setup.folder);
        let what = Asked::Permission { tool: tool.clone(), choices, approval };
        let about = (Some(tool), call.parent);
        self.open_request(id, what, ask, about, line, out);
    }

    fn elicitation(&mut self, id: Id, params: &Value, line: &str, out: &mut Output) {
        let ask = Ask::Elicitation {
            server: self.setup.title.clone(),
            message: text(params, "message"),
            schema: Some(params["requestedSchema"].clone()).filter(Value::is_object),
            url: some_text(params, "url"),
        };
        let tool = some_text(params, "toolCallId");
        let parent = tool.as_ref().and_then(|tool| self.tools.call_of(tool)?.parent.clone());
        self.open_request(id, Asked::Elicitation, ask, (tool, parent), line, out);
    }

    fn open_request(
        &mut self,
        id: Id,
        what: Asked,
        ask: Ask,
        (tool, parent): (Option<String>, Option<String>),
        line: &str,
        out: &mut Output,
    ) {
        let key = id.key();
        if self.requests.waits(&key) {
            // A request already waits under this name.
            return;
        }
        if self.requests.is_full() {
            return out.write(&DIALECT.error(&id, Error::INTERNAL, "too many requests wait for an answer"));
        }
        self.requests.add(key.clone(), id, what);
        let raw = Some(Bytes::copy_from_slice(line.as_bytes()));
        out.report(Report::RequestOpened { key, ask: Box::new(ask), parent, tool, raw });
    }

    // -------------------------------------------------------------------------------------- answers

    pub(super) fn answer(
        &mut self,
        instruction_id: InstructionId,
        key: &str,
        answer: Answer,
        out: &mut Output,
    ) {
        let Some(Open { id, what }) = self.requests.0.shift_remove(key) else {
            return out.rejected(instruction_id, "the agent no longer waits for this answer");
        };
        let stops = matches!(answer, Answer::Deny { interrupt: true, .. });
        let reason = match &answer {
            Answer::Deny { message: Some(reason), .. } if !reason.trim().is_empty() => Some(reason.clone()),
            _ => None,
        };
        let result = match what {
            Asked::Errand(errand) => {
                self.errand_answered(instruction_id, id, errand, &answer, out);
                if stops {
                    self.interrupt(None, out);
                }
                return;
            }
            Asked::Permission { tool, choices, approval } => {
                let chosen = choices.chosen(&answer);
                if choices.is_yes(chosen) {
                    if let Some(approval) = approval {
                        self.approvals.add(approval);
                    }
                } else {
                    self.tools.denied(&tool);
                    if matches!(answer, Answer::Allow { .. }) {
                        self.say_not_passed_on(out);
                    }
                }
                chosen.map_or_else(
                    cancelled,
                    |chosen| json!({ "outcome": { "outcome": "selected", "optionId": chosen } }),
                )
            }
            Asked::Elicitation => match answer {
                Answer::Content { content } => json!({ "action": "accept", "content": content }),
                Answer::Allow { .. } => json!({ "action": "accept" }),
                _ if stops => json!({ "action": "cancel" }),
                _ => json!({ "action": "decline" }),
            },
        };
        out.write_and_consume(instruction_id, &DIALECT.result(&id, result));
        if let Some(reason) = reason {
            // Not sent as a prompt: that would be an extra turn, after the agent has gone on without the reason.
            let text = format!(
                "{} got the denial without its reason (\u{201c}{reason}\u{201d}), because ACP has no field \
                 for a reason. To pass the reason on, send it as a prompt",
                self.setup.title
            );
            notice(Level::Warning, text, out);
        }
        if stops {
            self.interrupt(None, out);
        }
    }

    /// An approval that the agent could only take for more than one call.
    fn say_not_passed_on(&self, out: &mut Output) {
        let text = format!(
            "{} got a denial: it offers no approval for this one call, and Portolan passes on no approval that lasts, \
             because the agent would then act without asking",
            self.setup.title
        );
        notice(Level::Warning, text, out);
    }

    /// The turn is stopped or over: every open request of the agent is answered. The session is informed: it has closed
    /// most of them, but not those that were on their way to it.
    pub(super) fn withdraw_all(&mut self, out: &mut Output) {
        self.approvals.clear();
        for (key, open) in std::mem::take(&mut self.requests.0) {
            out.report(Report::RequestWithdrawn { key });
            out.write(&open.cancelled());
        }
    }

    /// The agent takes a request back; it still gets an answer.
    pub(super) fn taken_back(&mut self, id: &Value, out: &mut Output) {
        let Ok(id) = serde_json::from_value::<Id>(id.clone()) else { return };
        if let Some(open) = self.requests.0.shift_remove(&id.key()) {
            out.report(Report::RequestWithdrawn { key: id.key() });
            out.write(&open.cancelled());
        }
    }
}

impl Open {
    fn cancelled(&self) -> Value {
        let result = match &self.what {
            Asked::Permission { .. } => cancelled(),
            Asked::Elicitation => json!({ "action": "cancel" }),
            Asked::Errand(errand) => {
                let why = cancelled_tool(errand.tool());
                return DIALECT.error(&self.id, CANCELLED, &why);
            }
        };
        DIALECT.result(&self.id, result)
    }
}
