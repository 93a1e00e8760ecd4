//! What an agent lets Portolan do: reading and writing files, running commands. Policy decides first. If the agent has
//! just got an approval for the same thing ([`super::approvals`]), only rules count. A file that policy lets the agent read is read
//! without a request, because agents read many files; writing and running are always shown.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use indexmap::IndexMap;
use portolan_core::{
    policy::Kind,
    ports::{Doer, InstructionId, Report},
    request::{Answer, Ask},
};
use portolan_wire::jsonrpc::{Error, Id};
use serde_json::{Value, json};

use super::{
    approvals::{Wanted, What},
    requests::Asked,
    translate::{DIALECT, Translate},
    wire::{list, some_text, text},
};
use crate::driver::{Done, DriverTask, Output};

/// Tasks that run for the agent, by the key of its request.
#[derive(Debug, Default)]
pub(super) struct UnderWay(IndexMap<String, Doing>);

impl UnderWay {
    /// Whether a task runs.
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

/// A task that waits for a decision.
#[derive(Debug)]
pub(super) struct Errand {
    method: String,
    params: Value,
    /// The name of the tool that was asked about.
    tool: String,
}

impl Errand {
    pub(super) fn tool(&self) -> &str {
        &self.tool
    }
}

/// The task as policy sees it.
struct Seen {
    kind: Kind,
    input: Value,
    /// The file, or the words of the command and its folder.
    file: Option<PathBuf>,
    words: Vec<String>,
    folder: Option<String>,
}

impl Seen {
    /// `None` for what only continues something that was decided: the terminals of a command.
    fn of(method: &str, params: &Value, session_folder: &Path) -> Option<Self> {
        let file = |kind: Kind, input: Value| {
            let file = Some(PathBuf::from(text(params, "path")));
            Self { kind, input, file, words: vec![], folder: None }
        };
        match method {
            "fs/read_text_file" => Some(file(Kind::Read, json!({ "path": params["path"] }))),
            "fs/write_text_file" => {
                Some(file(Kind::Edit, json!({ "path": params["path"], "content": params["content"] })))
            }
            "terminal/create" => {
                let args = list(params, "args").iter().filter_map(Value::as_str).map(str::to_owned);
                let words: Vec<String> = std::iter::once(text(params, "command")).chain(args).collect();
                let folder = some_text(params, "cwd");
                let elsewhere = folder.as_deref().filter(|folder| Path::new(folder) != session_folder);
                let input = json!({ "command": line(&words, list(params, "env"), elsewhere) });
                Some(Self { kind: Kind::Run, input, file: None, words, folder })
            }
            _ => None,
        }
    }

    fn what(&self) -> What<'_> {
        match &self.file {
            Some(path) => What::File(path),
            None => What::Command { words: &self.words, folder: self.folder.as_deref() },
        }
    }
}

/// The command line that does the same as these words, with these variables and in this folder.
fn line(words: &[String], variables: &[Value], folder: Option<&str>) -> String {
    let mut line = folder.map(|folder| format!("cd {} && ", quoted(folder))).unwrap_or_default();
    for variable in variables {
        // Quoted, a name that is none becomes the program that is judged, and no rule for another program covers it.
        line.extend([&*quoted(&text(variable, "name")), "=", &*quoted(&text(variable, "value")), " "]);
    }
    match words {
        // The desk gives such a line to a shell.
        [script] if script.contains(char::is_whitespace) => line.push_str(script),
        words => line.push_str(&words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")),
    }
    line
}

/// A word that a shell reads as it is.
pub(super) fn is_bare(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_./:@%+,-".contains(&byte))
}

fn quoted(word: &str) -> String {
    if is_bare(word) { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

impl Translate {
    /// The agent wants Portolan to do this.
    pub(super) fn errand(&mut self, id: Id, method: &str, params: Value, raw: &str, out: &mut Output) {
        let key = id.key();
        if self.under_way.0.contains_key(&key) || self.requests.waits(&key) {
            let error = "this id is already in use";
            return out.write(&DIALECT.error(&id, Error::INVALID_PARAMS, error));
        }
        let mut errand = Errand { method: method.to_owned(), params, tool: method.to_owned() };
        let folder = self.setup.folder.clone();
        let Some(seen) = Seen::of(method, &errand.params, &folder) else {
            return self.run_errand(id, errand, out);
        };
        let named = some_text(&errand.params, "toolCallId")
            .or_else(|| some_text(&errand.params["_meta"], "toolCallId"));
        let wanted = Wanted { kind: seen.kind, tool: named.as_deref(), what: seen.what() };
        let approved = self.approvals.take(wanted, &folder);
        if self.requests.is_full() {
            let error = "too many requests wait for an answer";
            return out.write(&DIALECT.error(&id, Error::INTERNAL, error));
        }
        self.sign_of_life(out);
        // An approved call is the call that the work belongs to.
        let named = approved.as_ref().map(|(tool, _)| tool.clone()).or(named);
        let call = self.tools.call_for(named.as_deref(), seen.kind, seen.file.as_deref());
        let (tool, name, title, parent) = match call {
            Some((id, call)) => (Some(id), Some(call.name()), call.title.clone(), call.parent.clone()),
            None => (None, None, None, None),
        };
        // Without a call, the tool has the name of its ACP kind.
        let acp_kind = match seen.kind {
            Kind::Read => "read",
            Kind::Edit => "edit",
            Kind::Run | Kind::Network | Kind::Unknown => "execute",
        };
        errand.tool = name.unwrap_or_else(|| acp_kind.to_owned());
        let ask = Box::new(Ask::permission(errand.tool.clone(), seen.input).with_description(title));
        self.requests.add(key.clone(), id, Asked::Errand(errand));
        let raw = Some(Bytes::copy_from_slice(raw.as_bytes()));
        out.report(match (approved, seen.kind) {
            (Some((tool, approval)), _) => {
                Report::Unasked { key, ask, parent, tool: Some(tool), doer: Doer::Approved(approval), raw }
            }
            (None, Kind::Read) => Report::Unasked { key, ask, parent, tool, doer: Doer::Portolan, raw },
            (None, _) => Report::RequestOpened { key, ask, parent, tool, raw },
        });
    }

    /// Policy lets the task pass.
    pub(super) fn errand_checked(&mut self, key: &str, out: &mut Output) {
        if let Some((id, errand)) = self.requests.take_errand(key) {
            self.run_errand(id, errand, out);
        }
    }

    /// The answer to a task that was asked about.
    pub(super) fn errand_answered(
        &mut self,
        instruction_id: InstructionId,
        id: Id,
        errand: Errand,
        answer: &Answer,
        out: &mut Output,
    ) {
        let why = match answer {
            Answer::Allow { input: None, .. } => {
                out.consumed(instruction_id, None);
                return self.run_errand(id, errand, out);
            }
            // The agent believes that what it asked for is done: an edited input is not allowed.
            Answer::Allow { .. } => None,
            Answer::Deny { message, .. } => message.clone(),
            Answer::Choices { .. } | Answer::Content { .. } | Answer::Output { .. } => None,
        };
        let why = why.filter(|why| !why.trim().is_empty()).unwrap_or_else(|| "the request was denied".into());
        out.write_and_consume(instruction_id, &DIALECT.error(&id, Error::INTERNAL, &why));
    }

    /// Gives a task to the desk, which reports when it is done.
    fn run_errand(&mut self, id: Id, Errand { method, params, .. }: Errand, out: &mut Output) {
        let key = id.key();
        let doing = Doing { id, method: method.clone(), terminal: text(&params, "terminalId") };
        self.under_way.0.insert(key.clone(), doing);
        out.task(DriverTask { key, method, params });
    }

    pub(super) fn errand_done(&mut self, key: &str, done: Done, out: &mut Output) {
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
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_name_of_a_variable_hides_no_part_of_the_command() {
        let words = ["rm".to_owned(), "-rf".to_owned(), "src".to_owned()];
        let judged = |name: &str| line(&words, &[json!({ "name": name, "value": "x" })], None);
        assert_eq!(judged("FOO"), "FOO=x rm -rf src");
        assert_eq!(judged("ls #"), "'ls #'=x rm -rf src");
    }
}
