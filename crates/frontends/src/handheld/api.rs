//! The owner's API for the handheld, on the main listener and behind its door: devices and slots. `portolan devices`
//! and `portolan handheld` use it.

use std::net::IpAddr;

use axum::{
    Json, Router,
    extract::{Path, State},
    routing::{delete, get, post, put},
};
use portolan_core::{DaemonEvent, Principal, Refusal, RefusalCode, Role, SessionId};
use serde::{Deserialize, Serialize};

use super::{
    Handheld,
    devices::{Decide, DeviceInfo, principal},
    wire::Health,
};
use portolan_host::door::{Denied, Guest, JsonBody};

/// The state of the handheld.
#[derive(Debug, Serialize)]
pub struct Standing {
    /// The address it listens on.
    pub listen: std::net::SocketAddr,
    /// The slots, as devices see them.
    #[serde(flatten)]
    pub health: Health,
}

/// The body of a request that puts a session into a slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bind {
    /// The session: its id, or a unique beginning or end of the id.
    pub session: String,
}

/// A binding that was added or removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundSession {
    /// The slot.
    pub slot: usize,
    /// The session.
    pub session: SessionId,
}

type Answered<T> = Result<Json<T>, Denied>;

/// The routes. The door checks tokens before these handlers run.
pub(super) fn routes(handheld: Handheld) -> Router {
    Router::new()
        .route("/api/v1/handheld", get(standing))
        .route("/api/v1/handheld/slots/{slot}", put(bind).delete(unbind))
        .route("/api/v1/devices", get(devices))
        .route("/api/v1/devices/{address}/approve", post(approve))
        .route("/api/v1/devices/{address}", delete(revoke))
        .with_state(handheld)
}

async fn standing(State(handheld): State<Handheld>, Guest(who): Guest) -> Answered<Standing> {
    // The answer includes every session in the slots.
    who.may_daemon(Role::Viewer)?;
    Ok(Json(Standing { listen: handheld.address(), health: handheld.session_slots().health() }))
}

async fn bind(
    State(handheld): State<Handheld>,
    Guest(who): Guest,
    Path(slot): Path<String>,
    JsonBody(Bind { session }): JsonBody<Bind>,
) -> Answered<BoundSession> {
    who.may_daemon(Role::Owner)?;
    let slot = number(&slot)?;
    let session_slots = handheld.session_slots();
    let session = session_slots.registry().resolve(&who, &session).await?;
    session_slots.put_in(&who, slot, session).await?;
    Ok(Json(BoundSession { slot, session }))
}

async fn unbind(
    State(handheld): State<Handheld>,
    Guest(who): Guest,
    Path(slot): Path<String>,
) -> Answered<BoundSession> {
    who.may_daemon(Role::Owner)?;
    let slot = number(&slot)?;
    let session = handheld.session_slots().take_out(slot).await?;
    Ok(Json(BoundSession { slot, session }))
}

async fn devices(State(handheld): State<Handheld>, Guest(who): Guest) -> Answered<Vec<DeviceInfo>> {
    who.may_daemon(Role::Owner)?;
    Ok(Json(handheld.session_slots().devices().list()))
}

async fn approve(
    State(handheld): State<Handheld>,
    Guest(who): Guest,
    Path(address): Path<String>,
) -> Answered<DeviceInfo> {
    decide(&handheld, &who, &address, Decide::Approve).await
}

async fn revoke(
    State(handheld): State<Handheld>,
    Guest(who): Guest,
    Path(address): Path<String>,
) -> Answered<DeviceInfo> {
    decide(&handheld, &who, &address, Decide::Revoke).await
}

async fn decide(
    handheld: &Handheld,
    who: &Principal,
    address: &str,
    decision: Decide,
) -> Answered<DeviceInfo> {
    who.may_daemon(Role::Owner)?;
    let address: IpAddr = address.parse().map_err(|_| {
        let message = format!("`{}` is not an address; use one such as 192.168.1.7", address.escape_debug());
        Refusal::new(RefusalCode::Invalid, message)
    })?;
    let device = handheld.session_slots().devices().decide(address, decision).await?;
    // In the log, each device has its own token id.
    let Principal { token, name, role, .. } = principal(device.address);
    let event = match decision {
        Decide::Approve => DaemonEvent::TokenCreated { token, name, role },
        Decide::Revoke => DaemonEvent::TokenRevoked { token },
    };
    if let Err(refusal) = handheld.session_slots().registry().note(Some(who), event).await {
        tracing::warn!(%refusal, "what was decided about a device is not in the log");
    }
    Ok(Json(device))
}

fn number(slot: &str) -> Result<usize, Refusal> {
    slot.parse().map_err(|_| {
        Refusal::new(RefusalCode::Invalid, format!("`{}` is not a slot; use 0 to 3", slot.escape_debug()))
    })
}
