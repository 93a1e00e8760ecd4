//! The settings of a session: modes, models and the agent's other options.
//!
//! Modes and models come in two forms: lists with their own methods, and options of the configuration. Both are read;
//! options are preferred for models and lists for modes, because agents keep those working.

use portolan_core::{
    Event,
    capabilities::ModelInfo,
    event::{AgentInfo, ErrorKind, Level},
    ports::InstructionId,
};
use serde_json::{Value, json};

use super::{
    calls::What,
    translate::{Translate, notice},
    wire::{list, some_text, text},
};
use crate::driver::Output;

/// The available modes and models, and the current ones.
#[derive(Debug, Default)]
pub(super) struct Settings {
    modes: Vec<Named>,
    mode: Option<String>,
    /// The id of the mode that the session must begin in.
    begins_in: Option<String>,
    mode_option: Option<String>,
    has_mode_list: bool,
    models: Vec<ModelInfo>,
    model: Option<String>,
    model_option: Option<String>,
}

/// A mode: the agent's id, and a word for people.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Named {
    id: String,
    word: String,
}

impl Settings {
    pub(super) fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// The available models, if any.
    pub(super) fn models(&self) -> Option<Vec<ModelInfo>> {
        (!self.models.is_empty()).then(|| self.models.clone())
    }

    /// The words of the available modes, if any.
    pub(super) fn words(&self) -> Option<Vec<String>> {
        (!self.modes.is_empty()).then(|| self.modes.iter().map(|mode| mode.word.clone()).collect())
    }

    /// The id of a mode, by id or word.
    pub(super) fn mode_id(&self, wanted: &str) -> Option<String> {
        let by = |fits: &dyn Fn(&Named) -> bool| self.modes.iter().find(|mode| fits(mode));
        let found = by(&|mode| mode.id == wanted).or_else(|| by(&|mode| mode.word == wanted));
        found.map(|mode| mode.id.clone())
    }

    fn mode_word(&self, id: &str) -> String {
        self.modes.iter().find(|mode| mode.id == id).map_or_else(|| id.to_owned(), |mode| mode.word.clone())
    }

    /// Reads modes, models and options, and returns what is new.
    pub(super) fn take(&mut self, told: &Value) -> AgentInfo {
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
            info.modes = self.words();
            info.mode = self.mode.as_deref().map(|mode| self.mode_word(mode));
        }
        if told["models"].is_object() || told["configOptions"].is_array() {
            info.models = self.models();
            info.model.clone_from(&self.model);
        }
        info
    }
}

/// The choices of an option, in groups or not.
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
    Some(Named { word: word(&id).to_owned(), id })
}

/// A mode's word for people. Copilot names its modes by the address of a page.
pub(super) fn word(id: &str) -> &str {
    id.rsplit('#').next().filter(|word| !word.is_empty()).unwrap_or(id)
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
    /// Sets the mode that the session names, or the mode in which the agent asks before it acts. Without it nothing
    /// begins: in another mode the agent might act without asking.
    pub(super) fn first_mode(&mut self, out: &mut Output) {
        let (asked, asking) = (self.setup.mode.take(), self.setup.known.asking_mode.map(str::to_owned));
        let named = asked.is_some();
        let Some(wanted) = asked.or(asking) else { return self.first_model(out) };
        let Some(id) = self.settings.mode_id(&wanted) else {
            let why = format!("{} has no mode `{wanted}`", self.setup.title);
            if self.settings.modes.is_empty() {
                // The agent has only one way to work.
                if named {
                    notice(Level::Warning, why, out);
                }
                return self.first_model(out);
            }
            return Self::no_such_mode(why, &self.modes_there_are(), out);
        };
        self.settings.begins_in = Some(id.clone());
        if self.settings.mode.as_ref() == Some(&id) {
            self.mode_is(&id, &Value::Null, out);
            return self.first_model(out);
        }
        self.ask_for_mode(None, What::FirstMode(id.clone()), &id, out);
    }

    pub(super) fn first_model(&mut self, out: &mut Output) {
        match self.setup.model.take() {
            Some(model) if self.settings.model.as_ref() != Some(&model) => {
                self.ask_for_model(None, What::FirstModel(model.clone()), &model, out);
            }
            _ => self.begun_and_set(out),
        }
    }

    /// The agent took the mode, unless it reports another mode.
    pub(super) fn first_mode_set(&mut self, mode: &str, result: &Value, out: &mut Output) {
        let told = self.settings.take(result).mode.is_some();
        if told && self.settings.mode.as_deref() != Some(mode) {
            self.begins_as_told(out);
            return;
        }
        self.mode_is(mode, result, out);
        self.first_model(out);
    }

    /// Whether the agent is in the mode that it was set to. In another mode nothing begins.
    pub(super) fn begins_as_told(&mut self, out: &mut Output) -> bool {
        let Some(wanted) = self.settings.begins_in.take() else { return true };
        let is = self.settings.mode.as_deref().unwrap_or_default();
        if is == wanted {
            return true;
        }
        let (wanted, is) = (self.settings.mode_word(&wanted), self.settings.mode_word(is));
        let title = &self.setup.title;
        let why = format!("{title} was set to the mode `{wanted}` but reports the mode `{is}`");
        Self::no_such_mode(why, &self.modes_there_are(), out);
        false
    }

    /// The mode to which a choice leads: as the catalogue says, or because the choice has the id of a mode.
    pub(super) fn mode_behind(&self, choice: &str) -> Option<String> {
        let known = self.setup.known.mode_behind(choice).map(str::to_owned);
        known.or_else(|| {
            self.settings.modes.iter().find(|mode| mode.id == choice).map(|mode| mode.word.clone())
        })
    }

    pub(super) fn set_mode(&mut self, instruction_id: Option<InstructionId>, wanted: &str, out: &mut Output) {
        let Some(id) = self.settings.mode_id(wanted) else {
            if let Some(instruction_id) = instruction_id {
                out.rejected(
                    instruction_id,
                    format!("there is no mode `{wanted}`; {}", self.modes_there_are()),
                );
            }
            return;
        };
        self.ask_for_mode(instruction_id, What::Mode(id.clone()), &id, out);
    }

    pub(super) fn no_such_mode(why: String, there_are: &str, out: &mut Output) {
        let way_out = format!("start the session with another mode; {there_are}");
        Self::cannot(
            ErrorKind::InvalidRequest,
            format!("the session could not begin: {why}"),
            Some(way_out),
            out,
        );
    }

    pub(super) fn modes_there_are(&self) -> String {
        if self.settings.modes.is_empty() {
            return format!("{} has no modes", self.setup.title);
        }
        let words: Vec<_> = self.settings.modes.iter().map(|mode| mode.word.as_str()).collect();
        format!("the modes are {}", words.join(", "))
    }

    fn ask_for_mode(
        &mut self,
        instruction_id: Option<InstructionId>,
        what: What,
        id: &str,
        out: &mut Output,
    ) {
        let option = self.settings.mode_option.clone().filter(|_| !self.settings.has_mode_list);
        if let Some(option) = option {
            return self.ask_for_option(instruction_id, what, &option, id, out);
        }
        let params = self.of_session(json!({ "modeId": id }));
        self.ask(instruction_id, what, "session/set_mode", params, out);
    }

    pub(super) fn set_model(&mut self, instruction_id: Option<InstructionId>, model: &str, out: &mut Output) {
        self.ask_for_model(instruction_id, What::Model(model.to_owned()), model, out);
    }

    fn ask_for_model(
        &mut self,
        instruction_id: Option<InstructionId>,
        what: What,
        model: &str,
        out: &mut Output,
    ) {
        if let Some(option) = self.settings.model_option.clone() {
            return self.ask_for_option(instruction_id, what, &option, model, out);
        }
        let params = self.of_session(json!({ "modelId": model }));
        self.ask(instruction_id, what, "session/set_model", params, out);
    }

    fn ask_for_option(
        &mut self,
        instruction_id: Option<InstructionId>,
        what: What,
        option: &str,
        value: &str,
        out: &mut Output,
    ) {
        let params = self.of_session(json!({ "configId": option, "value": value }));
        self.ask(instruction_id, what, "session/set_config_option", params, out);
    }

    /// The agent reports its new mode.
    pub(super) fn mode_is(&mut self, mode: &str, result: &Value, out: &mut Output) {
        let mut info = self.settings.take(result);
        let changed = self.settings.mode.as_deref() != Some(mode);
        if changed && info.mode.is_none() {
            self.settings.mode = Some(mode.to_owned());
        }
        info.mode = Some(self.settings.mode_word(self.settings.mode.as_deref().unwrap_or(mode)));
        out.event(Event::AgentInfo { info: Box::new(info) });
    }

    pub(super) fn model_is(&mut self, model: &str, result: &Value, out: &mut Output) {
        let mut info = self.settings.take(result);
        if info.model.is_none() {
            self.settings.model = Some(model.to_owned());
        }
        info.model.clone_from(&self.settings.model);
        out.event(Event::AgentInfo { info: Box::new(info) });
    }

    /// Modes, models or options have changed.
    pub(super) fn settings_told(&mut self, told: &Value, out: &mut Output) {
        let info = self.settings.take(told);
        if info != AgentInfo::default() {
            out.event(Event::AgentInfo { info: Box::new(info) });
        }
    }

    pub(super) fn mode_told(&mut self, id: &str, out: &mut Output) {
        if self.settings.mode.as_deref() == Some(id) {
            return;
        }
        self.settings.mode = Some(id.to_owned());
        if self.settings.begins_in.is_some() {
            // The mode is checked before anything begins. If it were reported now, a later start would ask for it.
            return;
        }
        let info = AgentInfo { mode: Some(self.settings.mode_word(id)), ..AgentInfo::default() };
        out.event(Event::AgentInfo { info: Box::new(info) });
    }
}
