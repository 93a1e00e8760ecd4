//! How the agent's session begins: new, resumed, or as a fork; what the agent offers; and the error if the session does
//! not begin. For settings see [`super::settings`].

use portolan_core::{
    Capabilities, Event,
    event::{Account, AgentInfo, ErrorInfo, ErrorKind, Level, ResetReason},
};
use portolan_wire::jsonrpc::Error;
use serde_json::{Value, json};

use super::{
    calls::What,
    errors,
    translate::{Begin, OLD_ENOUGH, QUIET_SINCE, Translate, notice},
    wire::{self, Takes, list, some_text, text},
};
use crate::driver::{self, Output};

/// The version of ACP that Portolan speaks. An agent that is offered a higher version switches to it.
pub(super) const VERSION: u64 = 1;

/// Lines that came before the session had an id. More lines than this are refused.
const EARLY: usize = 256;

/// The notice when a lost conversation begins again.
const LOST: &str = "no longer has this conversation; a new one begins, without the earlier messages";

/// The agent's session, and what it offers.
#[derive(Debug, Default)]
pub(super) struct Session {
    id: Option<String>,
    /// Lines from before the session had an id.
    early: Vec<String>,
    /// The updates are the past, which the log has already.
    replays: bool,
    past: PastTold,
    takes: Takes,
    offers: Offers,
    ways_to_log_in: Vec<String>,
    /// The agent has reported the cost of a turn.
    tells_cost: bool,
}

/// What an agent has replayed of a conversation that it was asked to load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PastTold {
    /// Prompts of the user, separated by output of the agent. Not messages: some agents put their own text before the
    /// user's, or replay a prompt in pieces.
    prompts: u64,
    /// The last replayed message is the user's.
    user_spoke: bool,
    /// The agent has said or done something.
    agent_spoke: bool,
}

impl PastTold {
    fn add(&mut self, kind: &str) {
        let user = kind == "user_message_chunk";
        self.prompts += u64::from(user && !self.user_spoke);
        self.agent_spoke |= !user;
        self.user_spoke = user;
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Offers {
    load: bool,
    resume: bool,
    fork: bool,
    close: bool,
    extra: bool,
    http: bool,
    sse: bool,
}

impl Session {
    pub(super) fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    pub(super) fn takes(&self) -> Takes {
        self.takes
    }

    /// The next updates are the past of this conversation, and none is known yet.
    pub(super) fn is_past(&mut self, id: &str) {
        self.id = Some(id.to_owned());
    }

    /// Is this the past?
    pub(super) fn replays(&self) -> bool {
        self.replays
    }

    /// A piece of the past was replayed.
    pub(super) fn past_told(&mut self, kind: &str) {
        self.past.add(kind);
    }

    /// From now on updates are new.
    pub(super) fn live(&mut self) {
        self.replays = false;
    }

    /// Keeps a line until the session has an id; not if there are too many lines.
    pub(super) fn keep_early(&mut self, line: &str) -> bool {
        let room = self.early.len() < EARLY;
        if room {
            self.early.push(line.to_owned());
        }
        room
    }
}

impl Translate {
    pub(super) fn initialize(&mut self, out: &mut Output) {
        let serves = self.setup.serves;
        let params = json!({
            "protocolVersion": VERSION,
            "clientCapabilities": {
                "fs": { "readTextFile": serves.files, "writeTextFile": serves.files },
                "terminal": serves.terminals,
                "elicitation": { "form": {}, "url": {} },
                "session": { "compaction": {}, "notices": {} },
            },
            "clientInfo": driver::client(),
        });
        self.ask(None, What::Initialize, "initialize", params, out);
    }

    pub(super) fn initialized(&mut self, result: &Value, out: &mut Output) {
        let version = &result["protocolVersion"];
        if version.as_u64() != Some(VERSION) {
            let title = &self.setup.title;
            let known =
                self.setup.known.tested.map(|tested| format!(" (tested with {tested})")).unwrap_or_default();
            let message = format!("{title} speaks version {version} of ACP, and Portolan speaks {VERSION}");
            let way_out = format!("update {title}{known}: {}", self.setup.known.install);
            return Self::cannot(ErrorKind::Protocol, message, Some(way_out), out);
        }
        let told = &result["agentCapabilities"];
        let has = |key: &str| told["sessionCapabilities"][key].is_object();
        self.session.offers = Offers {
            load: told["loadSession"] == true,
            resume: has("resume"),
            fork: has("fork"),
            close: has("close"),
            extra: has("additionalDirectories"),
            http: told["mcpCapabilities"]["http"] == true,
            sse: told["mcpCapabilities"]["sse"] == true,
        };
        self.session.takes = Takes {
            images: told["promptCapabilities"]["image"] == true,
            embedded: told["promptCapabilities"]["embeddedContext"] == true,
        };
        let ways = list(result, "authMethods").iter().filter_map(|way| {
            let name = some_text(way, "name").or_else(|| some_text(way, "id"))?;
            let described = some_text(way, "description").filter(|described| *described != name);
            let described = described.map(|described| format!(": {described}")).unwrap_or_default();
            Some(format!("{name} (`{}`){described}", text(way, "id")))
        });
        self.session.ways_to_log_in = ways.collect();
        if let Some(version) = some_text(&result["agentInfo"], "version") {
            let info = AgentInfo { version: Some(version), ..AgentInfo::default() };
            out.event(Event::AgentInfo { info: Box::new(info) });
        }
        match self.setup.login.clone() {
            Some(method) => {
                let params = json!({ "methodId": method });
                self.ask(None, What::Authenticate, "authenticate", params, out);
            }
            None => self.begin(out),
        }
    }

    pub(super) fn begin(&mut self, out: &mut Output) {
        let offers = self.session.offers;
        let mut params = json!({ "cwd": self.setup.folder, "mcpServers": [] });
        match self.servers() {
            Ok(servers) => params["mcpServers"] = Value::from(servers),
            Err(why) => return Self::cannot(ErrorKind::InvalidRequest, why, None, out),
        }
        if !self.setup.extra.is_empty() {
            if !offers.extra {
                let why = format!("{} takes no folders other than the working folder", self.setup.title);
                return Self::cannot(ErrorKind::InvalidRequest, why, None, out);
            }
            params["additionalDirectories"] = json!(self.setup.extra);
        }
        if let (Begin::Resume { .. }, Some(wait)) = (&self.setup.begin, self.setup.too_young.take()) {
            let text = format!(
                "{} overwrites a conversation that is resumed in the same minute of the clock in which the \
                 conversation began, so Portolan waits {} s before it resumes this conversation",
                self.setup.title,
                wait.as_secs()
            );
            notice(Level::Warning, text, out);
            return out.set_timer(OLD_ENOUGH, wait);
        }
        let method = match self.setup.begin.clone() {
            Begin::New => {
                self.turns.begins_anew();
                "session/new"
            }
            Begin::Resume { session, own } if offers.resume || offers.load => {
                if !own && self.setup.known.loses_young {
                    let text = format!(
                        "{} overwrites a conversation that is resumed in the same minute of the clock in which the \
                         conversation began",
                        self.setup.title
                    );
                    notice(Level::Warning, text, out);
                }
                params["sessionId"] = json!(session);
                self.session.id = Some(session);
                self.session.replays = true;
                if offers.resume { "session/resume" } else { "session/load" }
            }
            Begin::Resume { own: true, .. } => return self.begin_anew(out),
            Begin::Resume { own: false, .. } => {
                let why = format!("{} cannot resume a conversation", self.setup.title);
                return Self::cannot(ErrorKind::Agent, why, Some("start a new session".into()), out);
            }
            Begin::Fork { session } if offers.fork => {
                params["sessionId"] = json!(session);
                "session/fork"
            }
            Begin::Fork { .. } => {
                let why = format!("{} cannot fork a conversation", self.setup.title);
                return Self::cannot(ErrorKind::Agent, why, Some("start a new session".into()), out);
            }
        };
        self.ask(None, What::Begin, method, params, out);
    }

    fn servers(&self) -> Result<Vec<Value>, String> {
        let offers = self.session.offers;
        let server = |(name, config): &(String, Value)| {
            let server = wire::server(name, config);
            let kind = server["type"].as_str().unwrap_or("stdio");
            match (kind, offers.http, offers.sse) {
                ("http", false, _) | ("sse", _, false) => Err(format!(
                    "{} takes no MCP servers over {kind}; `{name}` uses {kind}",
                    self.setup.title
                )),
                _ => Ok(server),
            }
        };
        self.setup.servers.iter().map(server).collect()
    }

    fn begin_anew(&mut self, out: &mut Output) {
        forgotten(format!("{} {LOST}", self.setup.title), out);
        self.setup.begin = Begin::New;
        self.session.id = None;
        self.session.replays = false;
        self.begin(out);
    }

    pub(super) fn begun(&mut self, result: &Value, out: &mut Output) {
        let named = some_text(result, "sessionId");
        let Some(id) = named.or_else(|| self.session.id.take()) else {
            let why = format!("{} began a session without an id", self.setup.title);
            return Self::cannot(ErrorKind::Protocol, why, None, out);
        };
        self.session.id = Some(id.clone());
        let mut info = self.settings.take(result);
        if self.setup.mode.is_some() || self.setup.known.asking_mode.is_some() {
            // Another mode may follow. If this mode were reported now, a later start would ask for it.
            info.mode = None;
        }
        let info = AgentInfo {
            agent_session: Some(id),
            cwd: Some(self.setup.folder.clone()),
            capabilities: Some(Box::new(self.capabilities())),
            ..info
        };
        out.event(Event::AgentInfo { info: Box::new(info) });
        for line in std::mem::take(&mut self.session.early) {
            crate::driver::Translator::line(self, &line, out);
        }
        self.first_mode(out);
    }

    /// The capabilities, after the agent reported them.
    fn capabilities(&self) -> Capabilities {
        let (session, offers) = (&self.session, self.session.offers);
        let (models, modes) = (self.settings.models(), self.settings.words());
        let before = &self.setup.capabilities;
        Capabilities {
            session_resume: offers.load || offers.resume,
            reliable_resume: (offers.load || offers.resume) && self.setup.known.resumes_reliably(),
            session_fork: offers.fork,
            image_input: session.takes.images,
            cost_tracking: before.cost_tracking || session.tells_cost,
            model_switching: models.is_some(),
            permission_modes: modes.is_some(),
            permission_mode_switching_mid_session: modes.is_some(),
            supported_models: models,
            supported_permission_modes: modes,
            ..before.clone()
        }
    }

    /// The cost of turns is reported, which was not known before.
    pub(super) fn cost_told(&mut self, out: &mut Output) {
        if !std::mem::replace(&mut self.session.tells_cost, true) && !self.setup.capabilities.cost_tracking {
            let capabilities = Some(Box::new(self.capabilities()));
            out.event(Event::AgentInfo {
                info: Box::new(AgentInfo { capabilities, ..AgentInfo::default() }),
            });
        }
    }

    /// Ready, unless more of the past may come.
    pub(super) fn begun_and_set(&mut self, out: &mut Output) {
        if !self.begins_as_told(out) {
            return;
        }
        let loaded = self.session.replays && !self.session.offers.resume;
        if loaded && self.setup.known.replays_late {
            return out.set_timer(QUIET_SINCE, self.setup.quiet);
        }
        self.become_ready(out);
    }

    /// More of the past was replayed.
    pub(super) fn more_past(&mut self, out: &mut Output) {
        if !self.is_ready && self.none_begins() {
            out.set_timer(QUIET_SINCE, self.setup.quiet);
        }
    }

    /// Compares the replayed conversation with the log. A report that it is loaded proves nothing: Gemini 0.44.0
    /// reports a lost conversation as loaded.
    fn judge_past(&mut self, out: &mut Output) {
        let (past, known, title) = (self.session.past, self.setup.exchanges, &self.setup.title);
        let loaded = self.session.replays && !self.session.offers.resume;
        let Begin::Resume { own: true, .. } = self.setup.begin else { return };
        if !loaded || known == 0 {
            return;
        }
        if !past.agent_spoke {
            forgotten(format!("{title} resumed the conversation but has forgotten its messages"), out);
        } else if past.prompts < known {
            let text = format!(
                "{title} resumed the conversation and showed {} of its {known} prompts; it may have \
                 forgotten the others",
                past.prompts
            );
            notice(Level::Warning, text, out);
        }
    }

    pub(super) fn become_ready(&mut self, out: &mut Output) {
        if !self.is_ready {
            self.is_ready = true;
            self.judge_past(out);
            out.ready();
        }
    }

    /// Closes the agent's session, if the agent supports that.
    pub(super) fn close_session(&mut self, out: &mut Output) {
        if self.session.offers.close && self.session.id.is_some() {
            let params = self.of_session(json!({}));
            self.ask(None, What::Quiet, "session/close", params, out);
        }
    }

    // ---------------------------------------------------------------------------------- failures

    pub(super) fn not_begun(&mut self, error: &Error, out: &mut Output) {
        if errors::wants_login(error) {
            return self.not_logged_in(error, out);
        }
        if errors::is_lost(error) && matches!(self.setup.begin, Begin::Resume { own: true, .. }) {
            return self.begin_anew(out);
        }
        let info = errors::info(error, "");
        let message = format!("{} could not begin: {}", self.setup.title, info.message);
        Self::cannot(info.kind, message, info.way_out, out);
    }

    pub(super) fn not_logged_in(&mut self, error: &Error, out: &mut Output) {
        self.tell_login(error, out);
        let message = format!("{} is not logged in: {}", self.setup.title, errors::words(error));
        Self::cannot(ErrorKind::Auth, message, Some(self.way_to_log_in()), out);
    }

    /// Shows the login methods that the agent offers.
    pub(super) fn tell_login(&self, error: &Error, out: &mut Output) {
        let error = format!(
            "{} is not logged in: {}; {}",
            self.setup.title,
            errors::words(error),
            self.way_to_log_in()
        );
        let output = self.session.ways_to_log_in.clone();
        out.event(Event::AuthStatus { authenticating: false, output, error: Some(error) });
    }

    pub(super) fn way_to_log_in(&self) -> String {
        let ways = self.session.ways_to_log_in.join("; ");
        let known = self.setup.known.login;
        if ways.is_empty() { known.to_owned() } else { format!("{known}. It offers: {ways}") }
    }

    /// The agent cannot be used, and why.
    pub(super) fn cannot(kind: ErrorKind, message: String, way_out: Option<String>, out: &mut Output) {
        let why = message.clone();
        out.event(Event::Failure { error: ErrorInfo { kind, message, way_out }, recoverable: false });
        out.give_up(why);
    }

    pub(super) fn account_told(told: &Value, out: &mut Output) {
        let label = some_text(told, "label").or_else(|| some_text(told, "kind"));
        if label.is_some() {
            let account = Account { token_source: label, ..Account::default() };
            let info = AgentInfo { account: Some(account), ..AgentInfo::default() };
            out.event(Event::AgentInfo { info: Box::new(info) });
        }
    }
}

/// The agent no longer has the earlier messages.
fn forgotten(why: String, out: &mut Output) {
    notice(Level::Warning, why, out);
    out.event(Event::ConversationReset { agent_session: None, reason: Some(ResetReason::Lost) });
}
