//! What to start for a Codex session, and how its thread begins.
//!
//! The command line is the same for every session: all settings of a session are sent as messages, which nobody else on
//! the machine can read.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use indexmap::IndexMap;
use portolan_core::{ports::Launch, spec::SystemPrompt};
use serde_json::{Value, json};

use super::{
    Config, KIND, items,
    translate::{Begin, Setup},
};
use crate::{
    Environment, Supervision,
    child::{Program, environment as variables, processes},
    prices::Prices,
};

/// How much Codex logs to stderr, unless the user sets it: errors, which an exit then shows.
const LOG: (&str, &str) = ("RUST_LOG", "error");

/// Marks of an outer Codex, which would change the behaviour of this one.
const OUTER: &[&str] = &["CODEX_SANDBOX", "CODEX_SANDBOX_NETWORK_DISABLED", "CODEX_THREAD_ID", "CODEX_CI"];

/// The platform's package of native programs, and where in it the program is.
const NATIVE: &[(&str, &str)] = &[
    ("codex-linux-x64", "x86_64-unknown-linux-musl"),
    ("codex-linux-arm64", "aarch64-unknown-linux-musl"),
    ("codex-darwin-x64", "x86_64-apple-darwin"),
    ("codex-darwin-arm64", "aarch64-apple-darwin"),
];

/// The program and its first arguments.
pub(super) fn command(config: &Config) -> Vec<OsString> {
    if config.command.is_empty() { vec![KIND.into()] } else { config.command.clone() }
}

/// The native program that npm's script starts. The script starts it as a child, which outlives a killed script.
pub(super) fn native(program: &Path) -> Option<PathBuf> {
    let script = program.canonicalize().ok()?;
    // `@openai/codex/bin/codex.js`
    let package = script.parent()?.parent().filter(|_| script.extension().is_some_and(|it| it == "js"))?;
    let beside = package.parent();
    let within = package.join("node_modules/@openai");
    let here = NATIVE.iter().filter(|(_, triple)| triple.starts_with(std::env::consts::ARCH));
    here.flat_map(|(name, triple)| {
        let places =
            [beside.map(|beside| beside.join(name)), Some(within.join(name)), Some(package.to_owned())];
        let bins = ["bin/codex", "codex/codex"];
        places
            .into_iter()
            .flatten()
            .flat_map(move |place| bins.map(|bin| place.join("vendor").join(triple).join(bin)))
    })
    .find(|program| program.is_file())
}

/// The user's environment less marks of an outer Codex, plus the session's variables.
pub(super) fn environment(
    supervision: &Supervision,
    asked: &IndexMap<String, String>,
    program: Option<&Path>,
) -> Result<Environment, String> {
    let mut environment =
        variables::environment(&supervision.environment, asked).map_err(|refused| refused.to_string())?;
    environment.variables.retain(|(name, _)| !OUTER.contains(&&*name.to_string_lossy()));
    if !environment.variables.iter().any(|(name, _)| name == LOG.0) {
        environment.variables.push((LOG.0.into(), LOG.1.into()));
    }
    // The native program has helpers beside it, which npm's script would add to the path.
    let helpers = program.and_then(|program| Some(program.parent()?.parent()?.join("codex-path")));
    if let Some(helpers) = helpers.filter(|helpers| helpers.is_dir())
        && let Some((_, path)) = environment.variables.iter_mut().find(|(name, _)| name == "PATH")
    {
        let folders = std::env::split_paths(&*path).chain([helpers]);
        if let Ok(longer) = std::env::join_paths(folders) {
            *path = longer;
        }
    }
    environment.variables.sort();
    Ok(environment)
}

/// The folder in which a Codex with this environment keeps its files.
pub(super) fn home(environment: &Environment) -> Option<PathBuf> {
    let value = |wanted: &str| {
        let found = environment.variables.iter().find(|(name, value)| name == wanted && !value.is_empty());
        found.map(|(_, value)| PathBuf::from(value))
    };
    value("CODEX_HOME").or_else(|| value("HOME").map(|home| home.join(".codex")))
}

/// Whether a Codex has created its databases in this home.
pub(super) fn has_databases(home: &Path) -> bool {
    let Ok(files) = std::fs::read_dir(home) else { return false };
    files.flatten().any(|file| file.path().extension().is_some_and(|extension| extension == "sqlite"))
}

/// Everything that a start depends on.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    pub(super) launch: &'a Launch,
    pub(super) config: &'a Config,
    pub(super) supervision: &'a Supervision,
}

impl Plan<'_> {
    /// The program to start.
    pub(super) fn program(&self, mut command: Vec<OsString>) -> Result<Program, String> {
        let spec = &self.launch.spec;
        let environment = environment(self.supervision, &spec.env, command.first().map(Path::new))?;
        command.push("app-server".into());
        Ok(Program { agent: KIND.into(), command, folder: spec.cwd.clone(), environment })
    }

    /// Refuses to resume a thread that another program has open: Codex before 0.166 writes into its file anyway, and
    /// neither sees the messages of the other.
    pub(super) async fn require_unheld(&self) -> Result<(), String> {
        let Some(point) = self.launch.resume.as_ref().filter(|point| !point.fork) else { return Ok(()) };
        let (file, home_key) = (format!("-{}.jsonl", point.agent_session), self.supervision.home_key.clone());
        let is_its =
            move |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(&file));
        let held = tokio::task::spawn_blocking(move || processes::holders(&home_key, is_its)).await;
        held.unwrap_or_default().into_values().next().map_or(Ok(()), |process| {
            Err(format!(
                "the process {process} has this conversation open, and two programs in one conversation do not see \
                 each other's messages; end that process and resume, or fork this session"
            ))
        })
    }

    /// What the conversation begins with.
    pub(super) fn setup(&self) -> Setup {
        let spec = &self.launch.spec;
        Setup {
            session: self.launch.session,
            generation: self.launch.generation,
            begin: self.begin(),
            thread: self.thread(),
            model: spec.model.clone(),
            mode: spec.mode.clone(),
            name: spec.name.clone(),
            extra: spec.extra_dirs.clone(),
            schema: spec.json_schema.clone(),
            prices: Prices::new(self.config.prices.clone()),
            patience: self.supervision.answer,
        }
    }

    fn begin(&self) -> Begin {
        match &self.launch.resume {
            None => Begin::Start,
            Some(point) if point.fork => Begin::Fork {
                thread: point.agent_session.clone(),
                last_turn: point.at_message.as_deref().and_then(items::turn_of),
            },
            Some(point) => {
                Begin::Resume { thread: point.agent_session.clone(), own: self.launch.generation.0 > 1 }
            }
        }
    }

    /// The parameters of every way to begin. Neither policy nor sandbox is among them: Codex would then write into the
    /// user's configuration that it trusts the folder.
    fn thread(&self) -> Value {
        let spec = &self.launch.spec;
        let mut params = json!({ "cwd": spec.cwd });
        if let Some(model) = &spec.model {
            let (model, effort) = match model.rsplit_once(':') {
                Some((model, effort)) if !model.is_empty() && !effort.is_empty() => (model, Some(effort)),
                _ => (model.as_str(), None),
            };
            params["model"] = json!(model);
            if let Some(effort) = effort {
                params["config"]["model_reasoning_effort"] = json!(effort);
            }
        }
        match &spec.system_prompt {
            None => {}
            Some(SystemPrompt::Append(text)) => params["developerInstructions"] = json!(text),
            Some(SystemPrompt::Replace(text)) => params["baseInstructions"] = json!(text),
        }
        for (name, server) in &spec.mcp_servers {
            // One by one: the user's own servers stay.
            params["config"][format!("mcp_servers.{name}")] = server.clone();
        }
        params
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    // Codex before 0.166 would write into the file while the other program does.
    #[tokio::test]
    async fn a_thread_that_another_program_has_open_can_only_be_forked() {
        use portolan_core::{Generation, SessionId, SessionSpec, ports::ResumePoint};
        let folder = tempfile::tempdir().unwrap();
        let id = uuid::Uuid::new_v4().to_string();
        let file =
            fs::File::create(folder.path().join(format!("rollout-2026-11-16T08-00-00-{id}.jsonl"))).unwrap();
        let mut command = std::process::Command::new("sleep");
        #[expect(clippy::disallowed_methods, reason = "no agent: something that holds a file")]
        let mut other = command.arg("600").stdin(file).spawn().unwrap();
        let supervision = Supervision::new("test", vec![]);
        let config = Config::default();
        let resume = |fork| ResumePoint {
            agent_session: id.clone(),
            fork,
            at_message: None,
            last_message: None,
            exchanges: 0,
        };
        let unheld = async |resume| {
            let launch = Launch {
                session: SessionId::from_u128(7),
                generation: Generation(2),
                spec: SessionSpec::default().into(),
                resume,
            };
            Plan { launch: &launch, config: &config, supervision: &supervision }.require_unheld().await
        };
        let (gone_on, copied, new) =
            (unheld(Some(resume(false))).await, unheld(Some(resume(true))).await, unheld(None).await);
        other.kill().unwrap();
        other.wait().unwrap();
        let why = gone_on.unwrap_err();
        assert!(why.contains(&format!("the process {} has this conversation open", other.id())), "{why}");
        assert_eq!((copied, new), (Ok(()), Ok(())));
        assert_eq!(unheld(Some(resume(false))).await, Ok(()), "nobody has it now");
    }

    // covers: 003-034
    #[test]
    fn the_native_program_that_npms_script_starts_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        let modules = top.join("node_modules");
        let (name, triple) =
            NATIVE.iter().find(|(_, triple)| triple.starts_with(std::env::consts::ARCH)).unwrap();
        let native_program = modules.join("@openai").join(name).join("vendor").join(triple).join("bin/codex");
        let script = modules.join("@openai/codex/bin/codex.js");
        for file in [&native_program, &script] {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "").unwrap();
        }
        fs::create_dir_all(modules.join(".bin")).unwrap();
        let link = modules.join(".bin/codex");
        std::os::unix::fs::symlink(&script, &link).unwrap();
        assert_eq!(native(&link), Some(native_program.clone()));
        // A native program has nothing behind it.
        assert_eq!(native(&native_program), None);
        fs::remove_file(&native_program).unwrap();
        assert_eq!(native(&link), None);
    }
}
