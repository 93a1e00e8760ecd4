//! handheld status, bind, unbind: which session is in which slot of a handheld.

use http::Method;
use portolan_frontends::handheld::{Bind, BoundSession};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::Context;
use crate::{
    arguments::Handheld,
    failure::{Failure, Outcome},
    output::{self, Format},
    target::{Start, Target},
    terminal::clean,
};

pub(super) async fn run(context: &Context, verb: Handheld) -> Outcome {
    match verb {
        Handheld::Status => {
            let standing: Value = ask(context, Method::GET, "/api/v1/handheld", None).await?;
            match context.format() {
                Format::Json => output::json(&standing),
                Format::Plain => output::raw(table(&standing).as_bytes()),
            }
        }
        Handheld::Bind { slot, session } => {
            let body = serde_json::to_value(Bind { session })?;
            let path = format!("/api/v1/handheld/slots/{slot}");
            changed(context, ask(context, Method::PUT, &path, Some(body)).await?, "is in")
        }
        Handheld::Unbind { slot } => {
            let path = format!("/api/v1/handheld/slots/{slot}");
            changed(context, ask(context, Method::DELETE, &path, None).await?, "is no longer in")
        }
    }
}

/// Asks the daemon, and fails with an error if the daemon has no handheld.
pub(super) async fn ask<T: DeserializeOwned>(
    context: &Context,
    method: Method,
    path: &str,
    body: Option<Value>,
) -> Outcome<T> {
    let target = Target::find(&context.global, Start::IfNeeded)?;
    let answer = target.request(method, path, body).await?;
    let answer = answer.ok_or_else(|| {
        Failure::new(
            "this daemon serves no handheld; set `listen` under [handheld] in portolan.toml, such as \
             \"0.0.0.0:3333\", and restart the daemon",
        )
    })?;
    Ok(serde_json::from_value(answer)?)
}

fn changed(context: &Context, bound: BoundSession, what: &str) -> Outcome {
    match context.format() {
        Format::Json => output::json(&bound),
        Format::Plain => {
            output::note(format!("{} {what} slot {}", bound.session, bound.slot));
            Ok(())
        }
    }
}

fn table(standing: &Value) -> String {
    let text = |value: &Value| clean::line(value.as_str().unwrap_or_default());
    let mut rows = vec![["SLOT", "NAME", "STATE", "SESSION", "MESSAGE"].map(str::to_owned).to_vec()];
    for agent in standing["agents"].as_array().into_iter().flatten() {
        let sessions = standing["sessions"].as_array().into_iter().flatten();
        let session = sessions.into_iter().find(|session| session["slot"] == agent["slot"]);
        rows.push(vec![
            agent["slot"].to_string(),
            text(&agent["agent"]),
            text(&agent["state"]),
            session.map_or_else(|| "-".into(), |session| text(&session["session"])),
            text(&agent["message"]),
        ]);
    }
    let auto_edit = if standing["autoEdit"] == json!(true) { "on" } else { "off" };
    format!(
        "listens on {}, {} connected, auto-edit {auto_edit}\n{}",
        text(&standing["listen"]),
        standing["wsClients"],
        output::table(&rows)
    )
}
