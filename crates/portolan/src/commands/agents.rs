//! agents: lists the agents.

use portolan_client::Probe;

use super::Context;
use crate::{
    failure::Outcome,
    output::{self, Format},
    terminal::clean,
};

pub(super) async fn agents(context: &Context, probe: bool) -> Outcome {
    let mut client = context.client().await?;
    let agents = client.agents(if probe { Probe::Anew } else { Probe::Known }).await?;
    client.close().await;
    if context.format() == Format::Json {
        return output::json(&agents);
    }
    let mut rows = vec![["AGENT", "VERSION", "STATE", ""].map(str::to_owned).to_vec()];
    for agent in &agents {
        let (version, state, message) = match &agent.probe {
            Some(found) => (
                found.version.as_deref().map_or_else(|| "-".into(), clean::line),
                match (found.available, &found.program) {
                    (true, _) => "ready",
                    (false, Some(_)) => "not usable",
                    (false, None) => "missing",
                },
                clean::line(&found.message),
            ),
            None => ("-".into(), "not checked", String::new()),
        };
        rows.push(vec![clean::line(&agent.kind), version, state.into(), message]);
    }
    output::raw(output::table(&rows).as_bytes())
}
