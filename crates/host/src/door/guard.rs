//! The guard: the layers around every route, so that no route can be reached without the checks.
//!
//! Order: name, origin, preflight, identity, body bounds, then the route. When a guest's access ends, the guard ends
//! the guest's request, response and socket, whatever the route does. Every response gets the headers that make a
//! browser keep other pages away. One line per request goes to the log, without query and secrets.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    extract::{DefaultBodyLimit, FromRequestParts, Request, State},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse, Response},
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header, request::Parts};
use portolan_core::{Principal, RefusalCode};
use tracing::Instrument as _;

use super::{
    access::{AccessCheck, Admission, Arrival, Seen},
    admit::KnownBySecret,
    body::bounded,
    denied::Denied,
    lasting,
    late::Stranger,
    leash::{Farewell, Leash},
    login,
    secret::mask,
    stay::Stay,
    tickets::HalfGuest,
};

/// The sender of a request. A route with this argument is reached only by a known sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guest(pub Principal);

impl<S: Send + Sync> FromRequestParts<S> for Guest {
    type Rejection = Denied;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Denied> {
        parts.extensions.get::<Self>().cloned().ok_or_else(Denied::unauthenticated)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for HalfGuest {
    type Rejection = Denied;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Denied> {
        parts.extensions.get::<Self>().cloned().ok_or_else(Denied::unauthenticated)
    }
}

impl Visitor {
    /// How long the guest may stay.
    pub fn stay(&self) -> &Stay {
        match self {
            Self::Known(_, stay) => stay,
            Self::Half(half) => half.stay(),
        }
    }
}

/// A client of a WebSocket: known, or with a cookie whose key follows in the hello frame.
#[derive(Clone, Debug)]
pub enum Visitor {
    /// A known guest, and how long the guest may stay.
    Known(Guest, Stay),
    /// To be completed with [`AccessCheck::complete`].
    Half(HalfGuest),
}

impl<S: Send + Sync> FromRequestParts<S> for Visitor {
    type Rejection = Denied;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Denied> {
        match Guest::from_request_parts(parts, state).await {
            Ok(guest) => {
                let Ok(stay) = Stay::from_request_parts(parts, state).await;
                Ok(Self::Known(guest, stay))
            }
            Err(_) => HalfGuest::from_request_parts(parts, state).await.map(Self::Half),
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Stay {
    type Rejection = Infallible;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get::<Self>().cloned().unwrap_or_default())
    }
}

/// Marks a request that ends stays, perhaps its own: it is answered anyway.
#[derive(Clone, Debug, Default)]
pub struct Leaving(Arc<AtomicBool>);

impl Leaving {
    /// From here on the request runs to its end.
    pub fn let_finish(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_let_finish(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Leaving {
    type Rejection = Infallible;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get::<Self>().cloned().unwrap_or_default())
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Arrival {
    type Rejection = Infallible;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get::<Self>().cloned().unwrap_or(Self::Unknown))
    }
}

/// Puts the checks around a router, and adds the routes of login and logout. [`super::serve()`] does this itself; this
/// function is for programs that serve the router on their own. Those programs also put an [`Arrival`] on each request.
pub fn guard(router: Router, access: Arc<AccessCheck>) -> Router {
    // Layers on a router also cover its fallback: an unknown path and a wrong method are checked like any other.
    router
        .merge(login::routes(access.clone()))
        .layer(DefaultBodyLimit::disable())
        .layer(from_fn_with_state(access, check))
}

async fn check(State(access): State<Arc<AccessCheck>>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let arrival = parts.extensions.get::<Arrival>().cloned().unwrap_or(Arrival::Unknown);
    // Only our own extensions count from here on.
    parts.extensions.remove::<Guest>();
    parts.extensions.remove::<HalfGuest>();
    parts.extensions.remove::<Stranger>();
    parts.extensions.remove::<Stay>();
    parts.extensions.remove::<KnownBySecret>();
    parts.extensions.remove::<Leaving>();
    let (method, path) = (parts.method.clone(), mask(parts.uri.path()).into_owned());
    let mut log = LogLine { peer: None, token: None };
    let mut configured = None;
    let mut response = match examine(&access, &mut parts, &arrival, &mut log, &mut configured) {
        Ok(Step::Preflight) => preflight(&parts.headers),
        Ok(Step::Route) => match bounded(&parts.headers, body, access.limits.body_of(&parts.extensions)) {
            Ok(body) => {
                let span = tracing::info_span!("request", %method, path, token = log.token);
                let request = Request::from_parts(parts, body);
                run(request, next, access.limits.farewell).instrument(span).await
            }
            Err(denied) => denied.into_response(),
        },
        Err(denied) => denied.into_response(),
    };
    // A frontend's clients get refusals in the frontend's own form, whoever refuses.
    if let Some(denied) = response.extensions_mut().remove::<Denied>()
        && let Some(body) = access.refusal_on(&path, &denied)
    {
        response.headers_mut().remove(header::CONTENT_LENGTH);
        *response.body_mut() = Body::from(body.to_string());
    }
    protect(response.headers_mut());
    if let Some(origin) = configured {
        share(response.headers_mut(), origin);
    }
    let status = response.status().as_u16();
    tracing::debug!(%method, path, status, peer = log.peer, token = log.token, "request");
    response
}

/// Answers a request while its sender's access lasts.
async fn run(mut request: Request, next: Next, farewell: Duration) -> Response {
    let leash = request.extensions().get::<Leash>().cloned();
    let Some(stay) = stay_of(&request) else {
        let response = next.run(request).await;
        // An upgraded connection ends with the door, whoever owns it.
        if let Some(leash) = leash.filter(|_| is_upgraded(&response)) {
            leash.upgraded(Stay::endless(), response.extensions().get().copied());
        }
        return response;
    };
    let leaving = Leaving::default();
    request.extensions_mut().insert(leaving.clone());
    let request = request.map(|body| lasting::request(body, stay.clone()));
    let over = async {
        let why = stay.over().await;
        if leaving.is_let_finish() { std::future::pending().await } else { why }
    };
    // The route comes first: finished work is reported. When the stay is over, the route is cancelled.
    let response = tokio::select! {
        biased;
        response = next.run(request) => response,
        why = over => return lasting::put_out(why).into_response(),
    };
    if leaving.is_let_finish() {
        return response;
    }
    if let Some(why) = stay.ended() {
        return lasting::put_out(why).into_response();
    }
    let farewells = response.extensions().get::<Farewell>().copied();
    if is_upgraded(&response) {
        return match (leash, farewells) {
            (Some(leash), farewells) => {
                leash.upgraded(stay, farewells);
                response
            }
            (None, Some(Farewell)) => response,
            (None, None) => unending().into_response(),
        };
    }
    let moment = farewells.map_or(Duration::ZERO, |Farewell| farewell);
    response.map(|body| lasting::response(body, stay, moment))
}

/// The refusal for a guest whose WebSocket nobody would end.
fn unending() -> Denied {
    let message = "this server does not end WebSockets when a token is revoked; serve the route with `door::serve`, or \
                   let the route itself end its WebSocket and put `Farewell` on the response";
    Denied::new(StatusCode::NOT_IMPLEMENTED, RefusalCode::Unsupported, message)
}

/// How long the sender of a request may stay; `None` if the sender need not be known.
fn stay_of(request: &Request) -> Option<Stay> {
    let known = request.extensions().get::<Stay>();
    known.or_else(|| request.extensions().get::<HalfGuest>().map(HalfGuest::stay)).cloned()
}

fn is_upgraded(response: &Response) -> bool {
    response.status() == StatusCode::SWITCHING_PROTOCOLS
}

struct LogLine {
    peer: Option<String>,
    token: Option<String>,
}

enum Step {
    Preflight,
    Route,
}

fn examine(
    access: &AccessCheck,
    parts: &mut Parts,
    arrival: &Arrival,
    log: &mut LogLine,
    configured: &mut Option<HeaderValue>,
) -> Result<Step, Denied> {
    log.peer = Some(match arrival {
        Arrival::Tcp { peer, .. } => peer.to_string(),
        Arrival::Unix => "unix".into(),
        Arrival::Unknown => "unknown".into(),
    });
    let seen: Seen = access.check_host(parts, arrival)?;
    if let Some(address) = seen.address {
        log.peer = Some(address.to_string());
    }
    *configured = access.check_origin(parts, &seen)?;
    if parts.method == Method::OPTIONS && parts.headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD) {
        return match configured {
            Some(_) => Ok(Step::Preflight),
            None => Err(Denied::new(
                StatusCode::FORBIDDEN,
                RefusalCode::Forbidden,
                "pages of this origin may not talk to this server",
            )),
        };
    }
    let admission = access.admit(parts, arrival, &seen)?;
    parts.extensions.insert(login::From { address: seen.address, scheme: seen.scheme });
    match admission {
        Admission::Open => {}
        Admission::Guest(principal, stay) => {
            log.token = Some(principal.token.as_str().to_owned());
            parts.extensions.insert(Guest(principal));
            parts.extensions.insert(stay);
        }
        Admission::Half(half) => {
            parts.extensions.insert(half);
        }
        Admission::Stranger(stranger) => {
            parts.extensions.insert(stranger);
        }
        Admission::KnownBySecret => {
            parts.extensions.insert(KnownBySecret);
        }
    }
    if !is_text(parts.uri.path()) {
        let message = "the path holds bytes that are not UTF-8";
        return Err(Denied::new(StatusCode::BAD_REQUEST, RefusalCode::Invalid, message));
    }
    Ok(Step::Route)
}

/// Whether a path is UTF-8 after its %XX are decoded. Routes read ids from it and need not check this themselves.
fn is_text(path: &str) -> bool {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let [byte, after @ ..] = rest {
        rest = after;
        bytes.push(*byte);
        if let (b'%', [high, low, after @ ..]) = (*byte, after)
            && let (Some(high), Some(low)) = (digit(*high), digit(*low))
        {
            rest = after;
            bytes.pop();
            bytes.push((high << 4 | low) as u8);
        }
    }
    std::str::from_utf8(&bytes).is_ok()
}

/// The longest list of headers that a preflight may ask for.
const ASKED_HEADERS: usize = 1024;

/// Informs a page of a configured origin what it may send. Any header: apps add their own, and only the token gives
/// access.
fn preflight(asked: &HeaderMap) -> Response {
    const METHODS: HeaderValue = HeaderValue::from_static("GET, POST, PUT, PATCH, DELETE");
    const HEADERS: HeaderValue =
        HeaderValue::from_static("authorization, content-type, last-event-id, x-portolan-key");
    let headers =
        asked.get(header::ACCESS_CONTROL_REQUEST_HEADERS).filter(|asked| asked.len() <= ASKED_HEADERS);
    let headers = headers.cloned().unwrap_or(HEADERS);
    const TEN_MINUTES: HeaderValue = HeaderValue::from_static("600");
    let headers = [
        (header::ACCESS_CONTROL_ALLOW_METHODS, METHODS),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, headers),
        (header::ACCESS_CONTROL_MAX_AGE, TEN_MINUTES),
    ];
    (StatusCode::NO_CONTENT, headers, Body::empty()).into_response()
}

/// Lets a page of a configured origin read the answer. Never with cookies: such pages bring a token.
fn share(headers: &mut HeaderMap, origin: HeaderValue) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.append(header::VARY, HeaderValue::from_static("origin"));
}

/// What the page may load and do: only what we serve, nothing inline, in no frame.
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
     img-src 'self' data:; manifest-src 'self'; worker-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

fn protect(headers: &mut HeaderMap) {
    const SET: [(HeaderName, &str); 7] = [
        (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("permissions-policy"), "camera=(), microphone=(), geolocation=()"),
    ];
    for (name, value) in SET {
        headers.insert(name, HeaderValue::from_static(value));
    }
    // The page's files may set this differently; answers of the API never do.
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
}
