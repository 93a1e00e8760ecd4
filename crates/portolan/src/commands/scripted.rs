//! scripted: a model API on loopback that plays a script, for manual tests of an agent and for the browser tests.
//!
//! The first line is the address; each further line is a request.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use portolan_scripted::{Recorded, Script, ScriptError, Server, ServerSettings};

use crate::{
    arguments::Scripted,
    failure::{Failure, Outcome},
    output,
};

/// The timeout of one wait for the next request; then the next wait begins.
const WAIT: Duration = Duration::from_hours(1);

pub(super) async fn scripted(asked: Scripted) -> Outcome {
    let script = match &asked.script {
        Some(path) => {
            let name = path.display();
            let text = std::fs::read_to_string(path)
                .map_err(|error| Failure::usage(format!("`{name}` cannot be read: {error}")))?;
            Script::from_json(&text).map_err(|error| Failure::usage(format!("`{name}`: {}", why(&error))))?
        }
        None => Script::new(),
    };
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, asked.port));
    let settings = ServerSettings { address, ..ServerSettings::default() };
    let server = Server::start_with(script, settings).await.map_err(|error| {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
        Failure::new(format!("{error}{cause}"))
    })?;
    output::line(server.base_url())?;
    for number in 1.. {
        let request = loop {
            if let Ok(request) = server.wait_until(WAIT, |request| request.number == number).await {
                break request;
            }
        };
        output::line(told(&request))?;
        if asked.bodies {
            output::line(format!("  {:?}", request.headers))?;
            output::json(&request.body)?;
        }
    }
    Ok(())
}

fn why(error: &ScriptError) -> String {
    match error {
        ScriptError::Form(cause) => format!("{error}: {cause}"),
        ScriptError::NoSteps(_) => error.to_string(),
    }
}

/// A request in one line: the request and its answer.
fn told(request: &Recorded) -> String {
    let query = request.query.as_deref().map(|query| format!("?{query}")).unwrap_or_default();
    let asked = request.asked.as_ref();
    let asked = asked.map(|asked| (&asked.model, asked.prompt(), asked.tools.len(), asked.results.len()));
    let Recorded { number, method, path, answered, .. } = request;
    format!("{number} {method} {path}{query} {answered:?} {asked:?}")
}
