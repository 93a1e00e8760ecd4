//! A listener for agents that dial in, as the daemon has one: the bearer decides, then frames go both ways.

use axum::{
    Router,
    body::Bytes,
    extract::{
        Path, State, WebSocketUpgrade,
        ws::{CloseFrame, Message, WebSocket},
    },
    http::{HeaderMap, StatusCode, header::AUTHORIZATION},
    response::{IntoResponse as _, Response},
    routing::get,
};
use portolan_agents::dial_in::{Admitted, CLOSE_FOR_GOOD, DialIn};
use portolan_core::SessionId;
use tokio::net::TcpListener;

/// Listens on loopback for as long as the runtime lives.
pub(crate) async fn listen() -> DialIn {
    let dial_in = DialIn::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    dial_in.listens_at(format!("ws://{}", listener.local_addr().expect("an address")));
    let routes = Router::new().route("/ws/cli/{session}", get(upgrade)).with_state(dial_in.clone());
    tokio::spawn(async move { axum::serve(listener, routes).await });
    dial_in
}

async fn upgrade(
    State(dial_in): State<DialIn>,
    Path(session): Path<String>,
    headers: HeaderMap,
    upgrade: WebSocketUpgrade,
) -> Response {
    let bearer = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    let session = session.parse::<SessionId>().ok();
    let admitted = session.zip(bearer).and_then(|(session, bearer)| dial_in.admit(session, bearer));
    match admitted {
        Some(admitted) => upgrade.on_upgrade(|socket| pass_on(socket, admitted)),
        None => StatusCode::UNAUTHORIZED.into_response(),
    }
}

async fn pass_on(mut socket: WebSocket, mut admitted: Admitted) {
    loop {
        // Both arms are cancel-safe.
        tokio::select! {
            received = socket.recv() => match received {
                Some(Ok(Message::Text(text))) => {
                    if !admitted.incoming.frame(Bytes::from(text)).await {
                        return;
                    }
                }
                Some(Ok(Message::Binary(bytes))) => {
                    if !admitted.incoming.frame(bytes).await {
                        return;
                    }
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
            },
            frame = admitted.outgoing.frame() => {
                let Some(frame) = frame else {
                    let reason = CloseFrame { code: CLOSE_FOR_GOOD, reason: "done".into() };
                    let _ = socket.send(Message::Close(Some(reason))).await;
                    return;
                };
                let Ok(text) = String::from_utf8(frame.to_vec()) else { continue };
                if socket.send(Message::Text(text.into())).await.is_err() {
                    return;
                }
            }
        }
    }
}
