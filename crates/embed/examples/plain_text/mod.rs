//! A whole frontend: the messages of a session's agent as plain text, one after the other, for `curl -N`.

use axum::{
    Router,
    body::Body,
    extract::{Path, State},
    http::header,
    response::{IntoResponse as _, Response},
    routing::get,
};
use futures_util::stream;
use portolan_core::{
    Seq, SessionId,
    event::plain_text,
    log::delivery::{Delivery, Mode, Start},
    ports::Boxed,
    registry::SessionReader,
};
use portolan_embed::{
    Event, Frontend, Host, MountError, Mounted, Place,
    door::{Denied, Guest},
};

/// The frontend, for the list of frontends of a host.
pub(crate) fn frontend() -> Box<dyn Frontend> {
    Box::new(PlainText)
}

#[derive(Debug)]
struct PlainText;

impl Frontend for PlainText {
    fn name(&self) -> &'static str {
        "plain-text"
    }

    fn mount(self: Box<Self>, host: &Host) -> Boxed<'_, Result<Mounted, MountError>> {
        let host = host.clone();
        let routes = Router::new().route("/plain/{session}", get(read)).with_state(host);
        let main = Some(Place::new(move |_| routes));
        Box::pin(std::future::ready(Ok(Mounted { main, ..Mounted::default() })))
    }
}

/// All past and future messages. The door ends the response when the caller loses access.
async fn read(
    State(host): State<Host>,
    Guest(who): Guest,
    Path(session): Path<SessionId>,
) -> Result<Response, Denied> {
    let reader = host.registry.attach(&who, session, Start::After(Seq::ZERO), Mode::Items).await?;
    let messages = stream::unfold(reader, |mut reader| async {
        let text = next_messages(&mut reader).await?;
        Some((Ok::<_, std::convert::Infallible>(text), reader))
    });
    let plain = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
    Ok((plain, Body::from_stream(messages)).into_response())
}

/// The next finished messages; nothing if the session is gone.
async fn next_messages(reader: &mut SessionReader) -> Option<String> {
    loop {
        match reader.next().await {
            Delivery::Entries(pieces) => {
                let said: String =
                    pieces.iter().filter_map(|piece| message(&piece.entry().ok()?.event)).collect();
                if !said.is_empty() {
                    return Some(said);
                }
            }
            // A reader from the first entry needs no snapshot, and this frontend does not show presence.
            Delivery::Snapshot(_) | Delivery::Presence(_) => {}
            Delivery::Closed(_) => return None,
        }
    }
}

fn message(event: &Event) -> Option<String> {
    match event {
        Event::Message { content, .. } => Some(format!("{}\n", plain_text(content))),
        _ => None,
    }
}
