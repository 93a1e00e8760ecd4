//! How the agent's session begins, what it offers, and what can be set in it.
//!
//! Modes and models come in two shapes: lists of their own with methods of their own, and options of the configuration.
//! Both are taken; of models the options are preferred, of modes the lists, because that is what agents keep working.

use portolan_core::{
    Capabilities, Event,
    capabilities::ModelInfo,
    event::{Account, AgentInfo, ErrorInfo, ErrorKind, Level},
    ports::Ticket,
};
use portolan_wire::jsonrpc::Error;
use serde_json::{Value, json};

use super::{
    calls::What,
    errors,
    translate::{Begin, QUIET_SINCE, Translate, notice},
    wire::{self, Takes, list, some_text, text},
};
use crate::driver::Turnout;

/// The version of ACP that we speak. Agents that are offered more really switch, to something else.
pub(super) const VERSION: u64 = 1;

/// Lines that came before the session had a name. An agent that says more than this first is not believed.
const EARLY: usize = 256;

/// Said where a conversation begins anew.
const LOST: &str = "knows nothing of the conversation that was to be taken up; it begins anew, without what was said \
                    before";

/// The agent's session, and what it offers.
#[derive(Debug, Default)]
pub(super) struct Session {
    id: Option<String>,
    /// What was said before the session had a name.
    early: Vec<String>,
    /// What is told is the past, which the log has already.
    replays: bool,
    takes: Takes,
    offers: Offers,
    ways_to_log_in: Vec<String>,
    modes: Vec<Named>,
    mode: Option<String>,
    mode_option: Option<String>,
    has_mode_list: bool,
    models: Vec<ModelInfo>,
    model: Option<String>,
    model_option: Option<String>,
}

/// A mode: by the agent's id, and by a word for people.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Named {
    id: String,
    word: String,
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

    pub(super) fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    pub(super) fn takes(&self) -> Takes {
        self.takes
    }

    /// Is this the past?
    pub(super) fn replays(&self) -> bool {
        self.replays
    }

    /// From now on what is told is new.
    pub(super) fn live(&mut self) {
        self.replays = false;
    }

    /// Keeps a line until the session has a name; not where there are too many.
    pub(super) fn keep_early(&mut self, line: &str) -> bool {
        let room = self.early.len() < EARLY;
        if room {
            self.early.push(line.to_owned());
        }
        room
    }

    /// The id of a mode, by id or word.
    fn mode_id(&self, wanted: &str) -> Option<String> {
        let by = |fits: &dyn Fn(&Named) -> bool| self.modes.iter().find(|mode| fits(mode));
        let found = by(&|mode| mode.id == wanted).or_else(|| by(&|mode| mode.word == wanted));
        found.map(|mode| mode.id.clone())
    }

    fn mode_word(&self, id: &str) -> String {
        self.modes.iter().find(|mode| mode.id == id).map_or_else(|| id.to_owned(), |mode| mode.word.clone())
    }

    /// Takes in what is told of modes, models and options, and says what of it is new.
    fn take_settings(&mut self, told: &Value) -> AgentInfo {
        let mut info = AgentInfo::default();
        if told["modes"].is_object() {
            self.has_mode_list = true;
            self.modes =
                list(&told["modes"], "availableModes").iter().filter_map(|mode| named(mode, "id")).collect();
            self.mode = some_text(&told["modes"], "currentModeId");
        }
        if told["models"].is_object() && self.model_option.is_none() {
            let models = list(&told["models"], "availableModels").iter();
            self.models = models.filter_map(|model| model_info(model, "modelId")).collect();
            self.model = some_text(&told["models"], "currentModelId");
        }
        for option in list(told, "configOptions").iter().filter(|option| option["id"].is_string()) {
            let category = some_text(option, "category").unwrap_or_else(|| text(option, "id"));
            match category.as_str() {
                "mode" => {
                    self.mode_option = some_text(option, "id");
                    self.modes = choices(option).filter_map(|mode| named(mode, "value")).collect();
                    self.mode = some_text(option, "currentValue");
                }
                "model" => {
                    self.model_option = some_text(option, "id");
                    self.models = choices(option).filter_map(|model| model_info(model, "value")).collect();
                    self.model = some_text(option, "currentValue");
                }
                _ => {}
            }
        }
        if told["modes"].is_object() || told["configOptions"].is_array() {
            let words = || self.modes.iter().map(|mode| mode.word.clone()).collect::<Vec<_>>();
            info.modes = (!self.modes.is_empty()).then(words);
            info.mode = self.mode.as_deref().map(|mode| self.mode_word(mode));
        }
        if told["models"].is_object() || told["configOptions"].is_array() {
            info.models = (!self.models.is_empty()).then(|| self.models.clone());
            info.model.clone_from(&self.model);
        }
        info
    }
}

/// What can be chosen, in groups or not.
fn choices(option: &Value) -> impl Iterator<Item = &Value> {
    let grouped = |choice: &Value| choice["options"].is_array();
    list(option, "options").iter().flat_map(move |choice| {
        let group = list(choice, "options").iter();
        let single = (!grouped(choice)).then_some(choice).into_iter();
        group.chain(single)
    })
}

fn named(told: &Value, key: &str) -> Option<Named> {
    let id = some_text(told, key)?;
    // Copilot names its modes by the address of a page.
    let word = id.rsplit('#').next().filter(|word| !word.is_empty()).unwrap_or(&id).to_owned();
    Some(Named { id, word })
}

fn model_info(told: &Value, key: &str) -> Option<ModelInfo> {
    let id = some_text(told, key)?;
    Some(ModelInfo {
        display_name: some_text(told, "name").unwrap_or_else(|| id.clone()),
        description: some_text(told, "description"),
        id,
    })
}

impl Translate {
    pub(super) fn initialize(&mut self, out: &mut Turnout) {
        let serves = self.setup.serves;
        let params = json!({
            "protocolVersion": VERSION,
            "clientCapabilities": {
                "fs": { "readTextFile": serves.files, "writeTextFile": serves.files },
                "terminal": serves.terminals,
                "elicitation": { "form": {}, "url": {} },
                "session": { "compaction": {}, "notices": {} },
            },
            "clientInfo": { "name": "portolan", "title": "Portolan", "version": env!("CARGO_PKG_VERSION") },
        });
        self.ask(None, What::Initialize, "initialize", params, out);
    }

    pub(super) fn initialized(&mut self, result: &Value, out: &mut Turnout) {
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

    pub(super) fn begin(&mut self, out: &mut Turnout) {
        let offers = self.session.offers;
        let mut params = json!({ "cwd": self.setup.folder, "mcpServers": [] });
        match self.servers() {
            Ok(servers) => params["mcpServers"] = Value::from(servers),
            Err(why) => return Self::cannot(ErrorKind::InvalidRequest, why, None, out),
        }
        if !self.setup.extra.is_empty() {
            if !offers.extra {
                let why = format!("{} takes no folders beside the working folder", self.setup.title);
                return Self::cannot(ErrorKind::InvalidRequest, why, None, out);
            }
            params["additionalDirectories"] = json!(self.setup.extra);
        }
        let method = match self.setup.begin.clone() {
            Begin::New => {
                self.turns.begins_anew();
                "session/new"
            }
            Begin::Resume { session, .. } if offers.resume || offers.load => {
                params["sessionId"] = json!(session);
                self.session.id = Some(session);
                self.session.replays = true;
                if offers.resume { "session/resume" } else { "session/load" }
            }
            Begin::Resume { own: true, .. } => return self.begin_anew(out),
            Begin::Resume { own: false, .. } => {
                let why = format!("{} cannot take up a conversation", self.setup.title);
                return Self::cannot(ErrorKind::Agent, why, Some("start a new session".into()), out);
            }
            Begin::Fork { session } if offers.fork => {
                params["sessionId"] = json!(session);
                "session/fork"
            }
            Begin::Fork { .. } => {
                let why = format!("{} cannot go on in a copy of a conversation", self.setup.title);
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
                ("http", false, _) | ("sse", _, false) => {
                    Err(format!("{} takes no MCP servers over {kind}, and `{name}` is one", self.setup.title))
                }
                _ => Ok(server),
            }
        };
        self.setup.servers.iter().map(server).collect()
    }

    fn begin_anew(&mut self, out: &mut Turnout) {
        notice(Level::Warning, format!("{} {LOST}", self.setup.title), out);
        self.setup.begin = Begin::New;
        self.session.id = None;
        self.session.replays = false;
        self.begin(out);
    }

    pub(super) fn begun(&mut self, result: &Value, out: &mut Turnout) {
        let named = some_text(result, "sessionId");
        let Some(id) = named.or_else(|| self.session.id.take()) else {
            let why = format!("{} began a session and did not say which", self.setup.title);
            return Self::cannot(ErrorKind::Protocol, why, None, out);
        };
        self.session.id = Some(id.clone());
        let mut info = self.session.take_settings(result);
        if self.setup.mode.is_some() || self.setup.known.asking_mode.is_some() {
            // Another may follow. Told now, this one would be what a later start asks for.
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

    /// What it can do, now that it has told.
    fn capabilities(&self) -> Capabilities {
        let (session, offers) = (&self.session, self.session.offers);
        Capabilities {
            session_resume: offers.load || offers.resume,
            session_fork: offers.fork,
            image_input: session.takes.images,
            model_switching: !session.models.is_empty(),
            permission_modes: !session.modes.is_empty(),
            permission_mode_switching_mid_session: !session.modes.is_empty(),
            supported_models: Some(session.models.clone()).filter(|models| !models.is_empty()),
            supported_permission_modes: Some(session.modes.iter().map(|mode| mode.word.clone()).collect())
                .filter(|modes: &Vec<String>| !modes.is_empty()),
            ..self.setup.capabilities.clone()
        }
    }

    /// The mode that was asked for; where none was, the one in which the agent asks before it acts. Without it nothing
    /// begins: in another mode the agent might do unasked what it was to ask about.
    fn first_mode(&mut self, out: &mut Turnout) {
        let asking = self.setup.known.asking_mode.map(str::to_owned);
        let Some(wanted) = self.setup.mode.take().or(asking) else { return self.first_model(out) };
        let Some(id) = self.session.mode_id(&wanted) else {
            let why = format!("{} has no mode `{wanted}`", self.setup.title);
            if self.session.modes.is_empty() {
                // It has one way to work, and that is its own.
                notice(Level::Warning, why, out);
                return self.first_model(out);
            }
            return Self::no_such_mode(why, &self.modes_there_are(), out);
        };
        if self.session.mode.as_ref() == Some(&id) {
            self.mode_is(&id, &Value::Null, out);
            return self.first_model(out);
        }
        self.ask_for_mode(None, What::FirstMode(id.clone()), &id, out);
    }

    pub(super) fn first_model(&mut self, out: &mut Turnout) {
        match self.setup.model.take() {
            Some(model) if self.session.model.as_ref() != Some(&model) => {
                self.ask_for_model(None, What::FirstModel(model.clone()), &model, out);
            }
            _ => self.begun_and_set(out),
        }
    }

    /// Ready, unless more of the past may come.
    pub(super) fn begun_and_set(&mut self, out: &mut Turnout) {
        let loaded = self.session.replays && !self.session.offers.resume;
        if loaded && self.setup.known.replays_late {
            return out.set_timer(QUIET_SINCE, self.setup.quiet);
        }
        self.become_ready(out);
    }

    /// More of the past was told.
    pub(super) fn more_past(&mut self, out: &mut Turnout) {
        if !self.is_ready && self.calls.none_begins() {
            out.set_timer(QUIET_SINCE, self.setup.quiet);
        }
    }

    pub(super) fn become_ready(&mut self, out: &mut Turnout) {
        if !self.is_ready {
            self.is_ready = true;
            out.ready();
        }
    }

    /// Its session is let go of, where it wants to know.
    pub(super) fn close_session(&mut self, out: &mut Turnout) {
        if self.session.offers.close && self.session.id.is_some() {
            let params = self.of_session(json!({}));
            self.ask(None, What::Quiet, "session/close", params, out);
        }
    }

    // ---------------------------------------------------------------------------------- where it fails

    pub(super) fn not_begun(&mut self, error: &Error, out: &mut Turnout) {
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

    pub(super) fn not_logged_in(&mut self, error: &Error, out: &mut Turnout) {
        self.tell_login(error, out);
        let message = format!("{} is not logged in: {}", self.setup.title, errors::words(error));
        Self::cannot(ErrorKind::Auth, message, Some(self.way_to_log_in()), out);
    }

    /// Shows the ways to log in that the agent offers.
    pub(super) fn tell_login(&self, error: &Error, out: &mut Turnout) {
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

    /// The agent cannot be worked with, and why.
    fn cannot(kind: ErrorKind, message: String, way_out: Option<String>, out: &mut Turnout) {
        let why = message.clone();
        out.event(Event::Failure { error: ErrorInfo { kind, message, way_out }, recoverable: false });
        out.give_up(why);
    }

    pub(super) fn account_told(told: &Value, out: &mut Turnout) {
        let label = some_text(told, "label").or_else(|| some_text(told, "kind"));
        if label.is_some() {
            let account = Account { token_source: label, ..Account::default() };
            let info = AgentInfo { account: Some(account), ..AgentInfo::default() };
            out.event(Event::AgentInfo { info: Box::new(info) });
        }
    }

    // ------------------------------------------------------------------------------ modes and models

    pub(super) fn set_mode(&mut self, ticket: Option<Ticket>, wanted: &str, out: &mut Turnout) {
        let Some(id) = self.session.mode_id(wanted) else {
            if let Some(ticket) = ticket {
                out.rejected(ticket, format!("there is no mode `{wanted}`; {}", self.modes_there_are()));
            }
            return;
        };
        self.ask_for_mode(ticket, What::Mode(id.clone()), &id, out);
    }

    pub(super) fn no_such_mode(why: String, there_are: &str, out: &mut Turnout) {
        let way_out = format!("name a mode that it has when you start the session; {there_are}");
        Self::cannot(
            ErrorKind::InvalidRequest,
            format!("the session could not begin: {why}"),
            Some(way_out),
            out,
        );
    }

    pub(super) fn modes_there_are(&self) -> String {
        if self.session.modes.is_empty() {
            return format!("{} has no modes", self.setup.title);
        }
        let words: Vec<_> = self.session.modes.iter().map(|mode| mode.word.as_str()).collect();
        format!("there is {}", words.join(", "))
    }

    fn ask_for_mode(&mut self, ticket: Option<Ticket>, what: What, id: &str, out: &mut Turnout) {
        let option = self.session.mode_option.clone().filter(|_| !self.session.has_mode_list);
        if let Some(option) = option {
            return self.ask_for_option(ticket, what, &option, id, out);
        }
        let params = self.of_session(json!({ "modeId": id }));
        self.ask(ticket, what, "session/set_mode", params, out);
    }

    pub(super) fn set_model(&mut self, ticket: Option<Ticket>, model: &str, out: &mut Turnout) {
        self.ask_for_model(ticket, What::Model(model.to_owned()), model, out);
    }

    fn ask_for_model(&mut self, ticket: Option<Ticket>, what: What, model: &str, out: &mut Turnout) {
        if let Some(option) = self.session.model_option.clone() {
            return self.ask_for_option(ticket, what, &option, model, out);
        }
        let params = self.of_session(json!({ "modelId": model }));
        self.ask(ticket, what, "session/set_model", params, out);
    }

    fn ask_for_option(
        &mut self,
        ticket: Option<Ticket>,
        what: What,
        option: &str,
        value: &str,
        out: &mut Turnout,
    ) {
        let params = self.of_session(json!({ "configId": option, "value": value }));
        self.ask(ticket, what, "session/set_config_option", params, out);
    }

    /// The agent has said that it has this mode now.
    pub(super) fn mode_is(&mut self, mode: &str, result: &Value, out: &mut Turnout) {
        let mut info = self.session.take_settings(result);
        let changed = self.session.mode.as_deref() != Some(mode);
        if changed && info.mode.is_none() {
            self.session.mode = Some(mode.to_owned());
        }
        info.mode = Some(self.session.mode_word(self.session.mode.as_deref().unwrap_or(mode)));
        out.event(Event::AgentInfo { info: Box::new(info) });
    }

    pub(super) fn model_is(&mut self, model: &str, result: &Value, out: &mut Turnout) {
        let mut info = self.session.take_settings(result);
        if info.model.is_none() {
            self.session.model = Some(model.to_owned());
        }
        info.model.clone_from(&self.session.model);
        out.event(Event::AgentInfo { info: Box::new(info) });
    }

    /// Modes, models or options have changed.
    pub(super) fn settings_told(&mut self, told: &Value, out: &mut Turnout) {
        let info = self.session.take_settings(told);
        if info != AgentInfo::default() {
            out.event(Event::AgentInfo { info: Box::new(info) });
        }
    }

    pub(super) fn mode_told(&mut self, id: &str, out: &mut Turnout) {
        if self.session.mode.as_deref() == Some(id) {
            return;
        }
        self.session.mode = Some(id.to_owned());
        let info = AgentInfo { mode: Some(self.session.mode_word(id)), ..AgentInfo::default() };
        out.event(Event::AgentInfo { info: Box::new(info) });
    }
}
