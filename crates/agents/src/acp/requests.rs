//! What an agent asks and waits for. Whether it may make a call, and data for the user to give, are requests of the
//! session; what nobody here knows is answered with an error, so that no agent waits for ever.
//!
//! The choices of a permission are known by their kind, never by their place: some agents put the widest yes first. A
//! plain yes is the agent's yes for once, a plain no its no for once. Where several would do, it is the one that says
//! least, for one that does more says so; the others are shown by name, and are chosen only by name.

use bytes::Bytes;
use indexmap::IndexMap;
use portolan_core::{
    event::Level,
    ports::{Report, Ticket},
    request::{Answer, Ask, AskOption, Verdict},
};
use portolan_wire::jsonrpc::{Error, Id};
use serde_json::{Value, json, value::RawValue};

use super::{
    desk, tools,
    translate::{DIALECT, Translate, notice},
    wire::{self, list, some_text, text},
};
use crate::driver::{Done, Errand, Turnout};

/// Requests of one agent that may wait at once. More means that it does not wait for answers.
const MAX_OPEN: usize = 256;

/// Requests that wait for an answer, by our key for them.
#[derive(Debug, Default)]
pub(super) struct Requests(IndexMap<String, Open>);

/// What is being done for the agent, by the key of its request.
#[derive(Debug, Default)]
pub(super) struct UnderWay(IndexMap<String, Doing>);

impl Requests {
    /// Something waits for an answer.
    pub(super) fn any(&self) -> bool {
        !self.0.is_empty()
    }
}

impl UnderWay {
    /// Something is being done.
    pub(super) fn any(&self) -> bool {
        !self.0.is_empty()
    }
}

#[derive(Debug)]
struct Doing {
    id: Id,
    method: String,
    terminal: String,
}

#[derive(Debug)]
struct Open {
    id: Id,
    what: Asked,
}

/// What is needed to answer.
#[derive(Debug)]
enum Asked {
    Permission { tool: String, choices: Choices },
    Elicitation,
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
    /// A newer one: it is taken for neither a yes nor a no.
    Newer,
}

impl Kind {
    fn allows(self) -> bool {
        matches!(self, Self::AllowOnce | Self::AllowAlways)
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

    /// The one that says least of those that fit.
    fn least(&self, fits: impl Fn(Kind) -> bool) -> Option<&Choice> {
        self.0.iter().filter(|choice| fits(choice.kind)).min_by_key(|choice| choice.id.chars().count())
    }

    /// The only one of those that fit.
    fn only(&self, fits: impl Fn(Kind) -> bool) -> Option<&Choice> {
        let mut all = self.0.iter().filter(|choice| fits(choice.kind));
        all.next().filter(|_| all.next().is_none())
    }

    /// A plain yes.
    fn yes(&self) -> Option<&Choice> {
        self.least(|kind| kind == Kind::AllowOnce).or_else(|| self.only(Kind::allows))
    }

    /// A plain no.
    fn no(&self) -> Option<&Choice> {
        self.least(|kind| kind == Kind::RejectOnce).or_else(|| self.only(Kind::rejects))
    }

    /// Those that a plain yes or no does not stand for; with the names of both where one must tell them apart.
    pub(super) fn beyond(&self) -> Vec<AskOption> {
        let tied = |kind: Kind| self.0.iter().filter(|choice| choice.kind == kind).count() > 1;
        let plain = [self.yes(), self.no()];
        let once = |kind: Kind| matches!(kind, Kind::AllowOnce | Kind::RejectOnce);
        // A yes that holds for longer is the plain one where there is no other, and is shown by its name all the same.
        let is_plain =
            |choice: &&Choice| plain.contains(&Some(*choice)) && once(choice.kind) && !tied(choice.kind);
        let shown = self.0.iter().filter(|choice| !is_plain(choice));
        let option = |choice: &Choice| AskOption {
            id: choice.id.clone(),
            label: choice.name.clone(),
            verdict: if choice.kind.rejects() { Verdict::Deny } else { Verdict::Allow },
        };
        shown.map(option).collect()
    }

    fn named(&self, id: &str) -> Option<&Choice> {
        self.0.iter().find(|choice| choice.id == id)
    }

    /// What the agent is told; nothing where no choice of its says it.
    pub(super) fn chosen(&self, answer: &Answer) -> Option<&str> {
        let chosen = match answer {
            // It does what it asked about and nothing else: with another input it was not allowed.
            Answer::Allow { input: Some(_), .. } => self.no(),
            Answer::Allow { option: Some(option), .. } => {
                self.named(option).filter(|choice| !choice.kind.rejects()).or_else(|| self.no())
            }
            Answer::Allow { option: None, .. } => self.yes(),
            Answer::Deny { interrupt: true, .. } => None,
            // A no is never taken for a yes.
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
        out: &mut Turnout,
    ) {
        let params: Value = wire::open(params).unwrap_or_default();
        match method {
            "session/request_permission" => self.permission(id, &params, line, out),
            "elicitation/create" => self.elicitation(id, &params, line, out),
            _ if desk::is_errand(method, self.setup.serves) => self.do_for_it(id, method, params, out),
            _ => {
                if !self.is_its_own(method) {
                    out.unknown(&self.setup.agent, method, line);
                }
                let error = format!("Portolan does not know `{method}`");
                out.write(&DIALECT.error(&id, Error::METHOD_NOT_FOUND, &error));
            }
        }
    }

    /// The desk does it, and says when it is done.
    fn do_for_it(&mut self, id: Id, method: &str, params: Value, out: &mut Turnout) {
        let key = id.key();
        let terminal = text(&params, "terminalId");
        let doing = Doing { id, method: method.to_owned(), terminal };
        if self.under_way.0.contains_key(&key) {
            let error = "this id is in use already";
            return out.write(&DIALECT.error(&doing.id, Error::INVALID_PARAMS, error));
        }
        self.under_way.0.insert(key.clone(), doing);
        out.errand(Errand { key, method: method.to_owned(), params });
    }

    pub(super) fn done_for_it(&mut self, key: &str, done: Done, out: &mut Turnout) {
        let Some(Doing { id, method, terminal }) = self.under_way.0.shift_remove(key) else { return };
        match done {
            Ok(result) => {
                if let Some(output) = some_text(&result, "output") {
                    self.tools.printed(terminal, output);
                }
                let result = if method == "terminal/release" { json!({}) } else { result };
                out.write(&DIALECT.result(&id, result));
            }
            Err(error) => out.write(&DIALECT.error(&id, error.code, &error.message)),
        }
    }

    fn permission(&mut self, id: Id, params: &Value, line: &str, out: &mut Turnout) {
        let told = &params["toolCall"];
        let choices = Choices::read(list(params, "options"));
        let tool = some_text(told, "toolCallId");
        let (Some(tool), false) = (tool, choices.0.is_empty()) else {
            out.unknown(&self.setup.agent, "session/request_permission", line);
            let error = "a permission needs a `toolCall` with an id, and `options`";
            return out.write(&DIALECT.error(&id, Error::INVALID_PARAMS, error));
        };
        self.sign_of_life(out);
        let call = self.call_asked_about(&tool, told, out);
        let changes = call.changes();
        let is_changed = |path: &String| changes.iter().any(|change| change.path == *path);
        let ask = Ask::Permission {
            tool_name: call.name(),
            input: call.whole_input(),
            // Whole: some agents tell the command nowhere else.
            description: call.title.clone(),
            reason: call.words(),
            // ACP says where a call works, not what made the agent ask. Where that is the file which is shown to be
            // changed, it is nothing to point out.
            blocked_path: tools::first_place(told).filter(|path| !is_changed(path)),
            changes,
            suggestions: vec![],
            options: choices.beyond(),
        };
        let (what, about) = (Asked::Permission { tool: tool.clone(), choices }, (Some(tool), call.parent));
        self.open_request(id, what, ask, about, line, out);
    }

    fn elicitation(&mut self, id: Id, params: &Value, line: &str, out: &mut Turnout) {
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
        out: &mut Turnout,
    ) {
        let key = id.key();
        if self.requests.0.contains_key(&key) {
            // It waits already under this name.
            return;
        }
        if self.requests.0.len() >= MAX_OPEN {
            return out.write(&DIALECT.error(&id, Error::INTERNAL, "too many requests wait for an answer"));
        }
        self.requests.0.insert(key.clone(), Open { id, what });
        let raw = Some(Bytes::copy_from_slice(line.as_bytes()));
        out.report(Report::RequestOpened { key, ask: Box::new(ask), parent, tool, raw });
    }

    // -------------------------------------------------------------------------------------- answers

    pub(super) fn answer(&mut self, ticket: Ticket, key: &str, answer: Answer, out: &mut Turnout) {
        let Some(Open { id, what }) = self.requests.0.shift_remove(key) else {
            return out.rejected(ticket, "the agent does not wait for this any more");
        };
        let stops = matches!(answer, Answer::Deny { interrupt: true, .. });
        let reason = match &answer {
            Answer::Deny { message: Some(reason), .. } if !reason.trim().is_empty() => Some(reason.clone()),
            _ => None,
        };
        let result = match what {
            Asked::Permission { tool, choices } => {
                let chosen = choices.chosen(&answer);
                if !choices.is_yes(chosen) {
                    self.tools.denied(&tool);
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
        out.write_and_consume(ticket, &DIALECT.result(&id, result));
        if let Some(reason) = reason {
            // Not sent as a prompt: that would be a turn which nobody asked for, after the agent has gone on without it.
            let text = format!(
                "{} was told no, without the reason (\u{201c}{reason}\u{201d}): ACP has no place for one. Send it as a prompt \
                 if the agent is to know it",
                self.setup.title
            );
            notice(Level::Warning, text, out);
        }
        if stops {
            self.interrupt(None, out);
        }
    }

    /// The turn is stopped or over: everything that the agent still waits for is answered so. The session is told, which
    /// has closed most of them; not those that were on their way to it.
    pub(super) fn withdraw_all(&mut self, out: &mut Turnout) {
        for (key, open) in std::mem::take(&mut self.requests.0) {
            out.report(Report::RequestWithdrawn { key });
            out.write(&open.cancelled());
        }
    }

    /// The agent does not want to know any more; it is answered all the same.
    pub(super) fn taken_back(&mut self, id: &Value, out: &mut Turnout) {
        let Ok(id) = serde_json::from_value::<Id>(id.clone()) else { return };
        if let Some(open) = self.requests.0.shift_remove(&id.key()) {
            out.report(Report::RequestWithdrawn { key: id.key() });
            out.write(&open.cancelled());
        }
    }
}

impl Open {
    fn cancelled(&self) -> Value {
        let result = match self.what {
            Asked::Permission { .. } => cancelled(),
            Asked::Elicitation => json!({ "action": "cancel" }),
        };
        DIALECT.result(&self.id, result)
    }
}
