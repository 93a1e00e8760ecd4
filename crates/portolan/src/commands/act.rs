//! Verbs that send one command to a session and wait for its result.

use portolan_client::{Client, Error};
use portolan_core::{
    Action, Refusal, RefusalCode, RequestId, Seq, SessionId,
    command::{Receipt, Stage},
};
use serde_json::json;

use super::{Context, inputs, results};
use crate::{
    arguments::{Mcp, Rule, Set, Switch, Task, Verb},
    failure::{Exit, Failure, Outcome},
    output::{self, Format},
    terminal::clean,
    way_out,
};

/// The session and the action that a verb stands for.
pub(super) fn action(verb: Verb) -> Outcome<(String, Action)> {
    Ok(match verb {
        Verb::Interrupt { id } => (id, Action::Interrupt),
        Verb::Stop { id } => (id, Action::Stop),
        Verb::Resume { id } => (id, Action::Resume),
        Verb::Rename { id, name } => (id, Action::Rename { title: name.join(" ") }),
        Verb::Archive { id, undo } => (id, Action::Archive { archived: !undo }),
        Verb::Set { id, setting } => (
            id,
            match setting {
                Set::Model { model } => Action::SetModel { model },
                Set::Mode { mode } => Action::SetMode { mode },
                Set::Thinking { tokens } => Action::SetThinking { tokens },
                Set::Env { variables } => {
                    Action::SetEnvironment { variables: inputs::variables(&variables)? }
                }
            },
        ),
        Verb::Rewind { id, to, dry_run } => (id, Action::Rewind { to: Seq(to), dry_run }),
        Verb::Mcp { id, verb } => (
            id,
            match verb {
                Mcp::Status => Action::McpStatus,
                Mcp::Reconnect { server } => Action::McpReconnect { server },
                Mcp::Toggle { server, state } => Action::McpToggle { server, enabled: state == Switch::On },
                Mcp::Set { servers } => {
                    Action::McpSet { servers: inputs::json(&servers, "the servers")?, keep: false }
                }
                Mcp::Message { server, message } => {
                    Action::McpMessage { server, message: inputs::json(&message, "the message")? }
                }
            },
        ),
        Verb::Context { id } => (id, Action::Context),
        Verb::Task { verb: Task::Stop { id, task } } => (id, Action::StopTask { task }),
        Verb::Withdraw { id, prompt } => (id, Action::Withdraw { prompt: Seq(prompt) }),
        Verb::Deadline { id, time, request } => {
            let seconds = inputs::wait(&time)?;
            (id, Action::SetDeadline { request: request.map(RequestId), seconds })
        }
        Verb::Steer { id, prompt } => (id, Action::Steer { prompt: Seq(prompt) }),
        Verb::Resend { id, command } => (id, Action::SendAgain { command: Seq(command) }),
        Verb::Rule { verb: Rule::Remove { id, tool } } => {
            (id, Action::RemoveRule { tool_name: tool, rule: None })
        }
        Verb::Native { id, body } => (id, Action::Native { body: inputs::json(&body, "the message")? }),
        other => return Err(Failure::new(format!("this verb is not an action of a session: {other:?}"))),
    })
}

/// Carries the verb out.
pub(super) async fn act(context: &Context, verb: Verb) -> Outcome {
    let (id, action) = action(verb)?;
    let mut client = context.client().await?;
    let session = client.resolve(&id).await?;
    let asks_for_servers = matches!(action, Action::McpStatus);
    let receipt = carry_out(&mut client, session, action.clone()).await?;
    let has_no_result = matches!(receipt.stage, Stage::Consumed { result: None });
    if asks_for_servers && has_no_result && context.format() == Format::Plain {
        // Such an agent reports to the session, and the session keeps the result.
        let (_, state) = client.state(session).await?;
        client.close().await;
        return output::raw(results::servers(&state.mcp_servers).as_bytes());
    }
    client.close().await;
    show(context, session, &receipt)?;
    let is_silent =
        context.format() == Format::Plain && matches!(receipt.stage, Stage::Consumed { result: None });
    if let Some(done) = done(&action).filter(|_| is_silent) {
        output::note(done);
    }
    Ok(())
}

/// Sends a command to a session and waits for its result.
pub(super) async fn carry_out(client: &mut Client, session: SessionId, action: Action) -> Outcome<Receipt> {
    let receipt = match client.carry_out(session, action.clone()).await {
        Err(Error::Unsettled { receipt, seconds }) => {
            let message = format!(
                "the result of command {} is not known after {seconds} s; `portolan show {session}` shows its progress",
                receipt.seq
            );
            return Err(Failure { exit: Exit::Uncertain, message });
        }
        receipt => receipt?,
    };
    match receipt.stage {
        Stage::Refused { refusal } => Err(refused(&action, refusal)),
        Stage::Uncertain { reason } => {
            let way_out = match &action {
                Action::Prompt { .. } | Action::SendAgain { .. } => {
                    format!("`portolan resend {session} {}` sends the command again", receipt.seq)
                }
                _ => format!("`portolan show {session}` shows the state of the session"),
            };
            let message = format!("nobody knows whether the command reached the agent ({reason}); {way_out}");
            Err(Failure { exit: Exit::Uncertain, message })
        }
        Stage::Consumed { .. } | Stage::Accepted | Stage::Sending | Stage::Delivered => Ok(receipt),
    }
}

/// A setting with a refused value is a wrong command line, whether the daemon or the agent refuses the value: the
/// daemon knows the modes of an agent, but only the agent knows its models.
fn refused(action: &Action, refusal: Refusal) -> Failure {
    let is_setting = matches!(
        action,
        Action::SetModel { .. }
            | Action::SetMode { .. }
            | Action::SetThinking { .. }
            | Action::SetEnvironment { .. }
    );
    if is_setting && refusal.code == RefusalCode::AgentRefused {
        return Failure::usage(way_out::told(&refusal));
    }
    refusal.into()
}

/// The result of an action for people, if the agent reports nothing about it.
fn done(action: &Action) -> Option<String> {
    let default = |value: Option<String>| value.unwrap_or_else(|| "the agent's default".into());
    Some(match action {
        Action::Interrupt => "the turn was asked to stop".into(),
        Action::Stop => "the agent has ended; `portolan resume` starts the agent again".into(),
        Action::Resume => "the agent was started".into(),
        Action::Rename { title } => format!("the session is now named `{}`", clean::line(title)),
        Action::Archive { archived: true } => {
            "the session is archived; `--undo` takes it out of the archive".into()
        }
        Action::Archive { archived: false } => "the session is out of the archive".into(),
        Action::SetModel { model } => {
            format!(
                "the model is now {}",
                default(model.as_ref().map(|model| format!("`{}`", clean::line(model))))
            )
        }
        Action::SetMode { mode } => format!("the mode is now `{}`", clean::line(mode)),
        Action::SetThinking { tokens } => {
            format!("the thinking budget is now {}", default(tokens.map(|tokens| format!("{tokens} tokens"))))
        }
        Action::SetEnvironment { variables } => {
            let names: Vec<String> = variables.keys().map(|name| clean::line(name)).collect();
            format!("programs that the agent starts from now on get {}", names.join(", "))
        }
        Action::McpReconnect { server } => format!("`{}` was reconnected", clean::line(server)),
        Action::McpToggle { server, enabled } => {
            format!("`{}` is now {}", clean::line(server), if *enabled { "on" } else { "off" })
        }
        Action::McpSet { servers, .. } => format!("the session now has {} servers of its own", servers.len()),
        Action::StopTask { task } => format!("the task `{}` was asked to stop", clean::line(task)),
        Action::Withdraw { prompt } => format!("the prompt {prompt} was removed from the queue"),
        Action::Steer { prompt } => format!("the prompt {prompt} moves into the running turn"),
        Action::SendAgain { command } => format!("the command {command} was sent again"),
        Action::AddRule { rule } => format!("new rule: {} {}", rule.effect, clean::line(&rule.text)),
        Action::RemoveRule { tool_name, .. } => {
            format!("`{}` needs permission again", clean::line(tool_name))
        }
        Action::SetDeadline { request, seconds } => {
            let which = request.map_or_else(|| "later requests".to_owned(), |id| format!("request {id}"));
            match seconds {
                Some(seconds) => format!("{which}: denied if nobody answers for {seconds} s"),
                None => format!("{which}: no deadline"),
            }
        }
        Action::SetBudget { budget: Some(budget) } => format!("the budget is now {}", budget.limits),
        Action::SetBudget { budget: None } => "the session has no budget of its own now".into(),
        Action::ResetBudget => "the budget counts from zero again".into(),
        // The result of these actions is their report; without a report there is nothing to print.
        Action::Prompt { .. }
        | Action::Answer { .. }
        | Action::Rewind { .. }
        | Action::McpStatus
        | Action::McpMessage { .. }
        | Action::Context
        | Action::Native { .. } => return None,
    })
}

/// Prints the result of a command.
pub(super) fn show(context: &Context, session: portolan_core::SessionId, receipt: &Receipt) -> Outcome {
    let result = match &receipt.stage {
        Stage::Consumed { result } => result.as_ref(),
        _ => None,
    };
    match context.format() {
        Format::Json => output::json(&json!({"session": session, "receipt": receipt})),
        Format::Plain => output::raw(result.map(results::answer).unwrap_or_default().as_bytes()),
    }
}
