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
use tokio::{net::TcpListener, sync::watch};

/// A listener and its connections.
#[derive(Clone, Debug)]
pub(crate) struct Listener {
    /// The agents that may dial in.
    pub(crate) dial_in: DialIn,
    cuts: watch::Sender<u32>,
}

impl Listener {
    /// Listens on loopback for as long as the runtime lives.
    pub(crate) async fn listen() -> std::io::Result<Self> {
        let this = Self { dial_in: DialIn::new(), cuts: watch::Sender::new(0) };
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        this.dial_in.listens_at(format!("ws://{}", listener.local_addr()?));
        let routes = Router::new().route("/ws/cli/{session}", get(upgrade)).with_state(this.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        Ok(this)
    }

    /// Cuts every connection without a close frame.
    pub(crate) fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }
}

async fn upgrade(
    State(listener): State<Listener>,
    Path(session): Path<String>,
    headers: HeaderMap,
    upgrade: WebSocketUpgrade,
) -> Response {
    let bearer = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    let session = session.parse::<SessionId>().ok();
    let admitted = session.zip(bearer).and_then(|(session, bearer)| listener.dial_in.admit(session, bearer));
    match admitted {
        Some(admitted) => {
            let cuts = listener.cuts.subscribe();
            upgrade.on_upgrade(|socket| pass_on(socket, admitted, cuts))
        }
        None => StatusCode::UNAUTHORIZED.into_response(),
    }
}

async fn pass_on(mut socket: WebSocket, mut admitted: Admitted, mut cuts: watch::Receiver<u32>) {
    loop {
        // All arms are cancel-safe.
        tokio::select! {
            _ = cuts.changed() => return,
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
