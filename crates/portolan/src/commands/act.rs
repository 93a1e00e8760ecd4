//! Verbs that ask one thing of a session and wait until it is settled.

use portolan_core::{
    Action, Seq,
    command::{Receipt, Stage},
};
use serde_json::json;

use super::{Context, inputs, results};
use crate::{
    arguments::{Mcp, Rule, Set, Switch, Task, Verb},
    failure::{Failure, Outcome},
    output::{self, Format},
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
        Verb::Resend { id, command } => (id, Action::SendAgain { command: Seq(command) }),
        Verb::Rule { verb: Rule::Remove { id, tool } } => (id, Action::RemoveRule { tool_name: tool }),
        Verb::Native { id, body } => (id, Action::Native { body: inputs::json(&body, "the message")? }),
        other => return Err(Failure::new(format!("no action of a session: {other:?}"))),
    })
}

/// Carries it out.
pub(super) async fn act(context: &Context, verb: Verb) -> Outcome {
    let (id, action) = action(verb)?;
    let mut client = context.client().await?;
    let session = client.resolve(&id).await?;
    let asks_for_servers = matches!(action, Action::McpStatus);
    let receipt = client.carry_out(session, action).await?;
    let has_no_result = matches!(receipt.stage, Stage::Consumed { result: None });
    if asks_for_servers && has_no_result && context.format() == Format::Plain {
        // Such an agent tells the session, and the session knows.
        let (_, state) = client.state(session).await?;
        client.close().await;
        return output::raw(results::servers(&state.mcp_servers).as_bytes());
    }
    client.close().await;
    show(context, session, &receipt)
}

/// What came of a command.
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
