//! send: sends a prompt to the agent and, if wanted, waits for the end of its turn.

use portolan_core::{Action, CommandId, command::Stage};
use serde_json::json;

use super::{Context, follow, inputs};
use crate::{
    arguments::Send,
    failure::{Failure, Outcome},
    output::{self, Format},
    terminal::clean,
};

pub(super) async fn send(context: &Context, send: Send) -> Outcome {
    let content = inputs::prompt(&send.text, &send.images)?;
    if content.is_empty() {
        return Err(Failure::usage("give a prompt, or `-` to read it from stdin"));
    }
    let mut client = context.client().await?;
    let session = client.resolve(&send.id).await?;
    let action = Action::Prompt { content };
    if send.wait {
        return follow::prompt(context, client, session, action).await;
    }
    let receipt = client.submit(session, CommandId::random(), action).await?;
    let waits = if receipt.stage == Stage::Accepted {
        client.state(session).await?.1.summary.over_budget
    } else {
        None
    };
    client.close().await;
    if let Stage::Refused { refusal } = receipt.stage {
        return Err(refusal.into());
    }
    match context.format() {
        Format::Json => output::json(&json!({"session": session, "receipt": receipt})),
        Format::Plain => {
            if let Some(why) = waits {
                output::note(format!("the prompt waits: {} (`portolan budget`)", clean::line(&why)));
            }
            Ok(())
        }
    }
}
