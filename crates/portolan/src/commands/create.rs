//! new and fork: start a session.

use portolan_client::Client;
use portolan_core::{
    Seq, SessionSpec,
    log::delivery::Start,
    policy::{BudgetTerms, Limits},
    session::state::Summary,
    spec::{ForkPoint, HookDefinition, SystemPrompt},
};

use super::{Context, attach, budgets, follow, inputs};
use crate::{
    arguments::New,
    failure::{Failure, Outcome},
    output::{self, Format},
};

pub(super) async fn new(context: &Context, new: New) -> Outcome {
    let after = match (new.attach, new.unattended) {
        (true, _) => Then::Join,
        (false, true) => Then::SeeThrough,
        (false, false) => Then::Leave,
    };
    let (fork, fork_at) = (new.fork.clone(), new.fork_at);
    let mut spec = spec(new)?;
    let mut client = context.client().await?;
    if let Some(id) = fork {
        spec.fork = Some(ForkPoint { session: client.resolve(&id).await?, at: fork_at.map(Seq) });
    }
    create(context, client, spec, after).await
}

/// What happens once the session exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    Leave,
    Join,
    SeeThrough,
}

/// Arguments of a fork.
pub(super) struct Fork {
    pub(super) id: String,
    pub(super) at: Option<u64>,
    pub(super) name: Option<String>,
    pub(super) attach: bool,
    pub(super) prompt: Vec<String>,
}

pub(super) async fn fork(context: &Context, fork: Fork) -> Outcome {
    let mut client = context.client().await?;
    let session = client.resolve(&fork.id).await?;
    let (_, state) = client.state(session).await?;
    // The copy continues like the original: same agent, same folder, same settings.
    let spec = SessionSpec {
        agent: state.summary.agent,
        cwd: state.summary.cwd,
        prompt: inputs::prompt(&fork.prompt, &[])?,
        name: fork.name,
        fork: Some(ForkPoint { session, at: fork.at.map(Seq) }),
        ..SessionSpec::default()
    };
    create(context, client, spec, if fork.attach { Then::Join } else { Then::Leave }).await
}

async fn create(context: &Context, mut client: Client, spec: SessionSpec, then: Then) -> Outcome {
    let summary = client.create(spec).await?;
    match then {
        Then::Join => attach::join(context, client, summary.session, Start::After(Seq::ZERO)).await,
        Then::SeeThrough => follow::unattended(context, client, summary.session).await,
        Then::Leave => {
            client.close().await;
            created(context, &summary)
        }
    }
}

pub(super) fn created(context: &Context, summary: &Summary) -> Outcome {
    match context.format() {
        Format::Json => output::json(summary),
        Format::Plain => {
            output::line(summary.session.to_string())?;
            output::note(format!("`portolan attach {}` joins the session", summary.session));
            Ok(())
        }
    }
}

fn spec(new: New) -> Outcome<SessionSpec> {
    let cwd = match new.cwd {
        Some(folder) => folder,
        None => std::env::current_dir()
            .map_err(|error| Failure::new(format!("the current folder cannot be read: {error}")))?,
    };
    let cwd = cwd.canonicalize().map_err(|error| Failure::usage(format!("`{}`: {error}", cwd.display())))?;
    let extra_dirs = new
        .extra_dirs
        .iter()
        .map(|folder| {
            folder.canonicalize().map_err(|error| Failure::usage(format!("`{}`: {error}", folder.display())))
        })
        .collect::<Outcome<Vec<_>>>()?;
    let system_prompt = match (new.system_prompt, new.append_system_prompt) {
        (Some(words), _) => Some(SystemPrompt::Replace(inputs::text(&words)?)),
        (None, Some(words)) => Some(SystemPrompt::Append(inputs::text(&words)?)),
        (None, None) => None,
    };
    let limits = budgets::limits(new.budget_cost, new.budget_tokens, new.budget_turns)?;
    Ok(SessionSpec {
        agent: new.agent,
        cwd,
        prompt: inputs::prompt(&new.prompt, &new.images)?,
        name: new.name,
        model: new.model,
        mode: new.mode,
        env: inputs::variables(&new.env)?,
        system_prompt,
        allowed_tools: new.allowed_tools,
        disallowed_tools: new.disallowed_tools,
        mcp_servers: optional(new.mcp_servers.as_deref(), "--mcp-servers")?,
        subagents: optional(new.subagents.as_deref(), "--subagents")?,
        hooks: new.hooks.iter().map(|hook| hook_definition(hook)).collect(),
        setting_sources: new.setting_sources,
        extra_dirs,
        max_turns: new.max_turns,
        max_budget_usd: new.max_budget,
        json_schema: new
            .json_schema
            .as_deref()
            .map(|schema| inputs::json(schema, "--json-schema"))
            .transpose()?,
        unattended: new.unattended,
        deadline_seconds: new
            .deadline
            .as_deref()
            .map(inputs::wait)
            .transpose()?
            .map(Option::unwrap_or_default),
        budget: (limits != Limits::default()).then_some(BudgetTerms { limits, per: None }),
        resume: new.resume,
        fork: None,
    })
}

fn optional<T: serde::de::DeserializeOwned + Default>(given: Option<&str>, what: &str) -> Outcome<T> {
    given.map_or_else(|| Ok(T::default()), |given| inputs::json(given, what))
}

fn hook_definition(given: &str) -> HookDefinition {
    let (event, matcher) = match given.split_once(':') {
        Some((event, matcher)) => (event, Some(matcher.to_owned())),
        None => (given, None),
    };
    HookDefinition { event: event.to_owned(), matcher, timeout_seconds: None }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use portolan_core::spec::SpecOption;

    use super::*;
    use crate::arguments::{Arguments, Verb};

    #[test]
    fn every_option_of_a_session_has_a_flag() {
        let line = [
            "portolan",
            "new",
            "demo",
            "hi",
            "-C",
            "/",
            "-n",
            "n",
            "-m",
            "m",
            "--mode",
            "d",
            "-e",
            "A=1",
            "--append-system-prompt",
            "t",
            "--allow-tool",
            "a",
            "--disallow-tool",
            "b",
            "--mcp-servers",
            r#"{"s":{}}"#,
            "--subagents",
            r#"{"r":{"description":"d","prompt":"p"}}"#,
            "--hook",
            "PreToolUse:Bash",
            "--setting-sources",
            "user,project",
            "--add-dir",
            "/",
            "--max-turns",
            "1",
            "--max-budget",
            "1.5",
            "--json-schema",
            "{}",
            "--resume",
            "id",
        ];
        let Verb::New(new) = Arguments::try_parse_from(line).unwrap().verb else { panic!("not new") };
        let spec = spec(*new).unwrap();
        let mut used = spec.used();
        // --fork is set once its id is resolved, and excludes --resume.
        used.push(SpecOption::Fork);
        assert_eq!(used, SpecOption::ALL);
        assert_eq!(spec.hooks[0].matcher.as_deref(), Some("Bash"));
        assert_eq!(spec.setting_sources, Some(vec!["user".into(), "project".into()]));
    }
}
