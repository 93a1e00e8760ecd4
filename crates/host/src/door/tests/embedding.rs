//! The guard alone, around a router that another program serves.

use axum::{body::Body, extract::Request};
use http::{HeaderValue, StatusCode};
use http_body_util::BodyExt as _;
use portolan_core::{Principal, Role};
use proptest::prelude::*;
use tower::ServiceExt as _;

use super::*;

async fn guarded(settings: DoorSettings) -> (Router, Secret) {
    let home = tempfile::tempdir().unwrap();
    let store: Arc<MemoryStore> = Arc::default();
    let tokens = Tokens::open(store.clone(), Clock::system()).await.unwrap();
    let owner = tokens.owner_secret_file(&home.path().join("token")).await.unwrap();
    let tickets = Tickets::open(store, Clock::system(), tokens.clone()).await.unwrap();
    let access = AccessCheck::new(&settings, tokens, tickets, Clock::system()).unwrap();
    (guard(routes(), Arc::new(access)), owner)
}

fn request(path: &str, headers: &[(&'static str, &[u8])]) -> Request {
    let mut request = Request::builder().uri(path).body(Body::empty()).unwrap();
    for (name, value) in headers {
        if let Ok(value) = HeaderValue::from_bytes(value) {
            request.headers_mut().append(*name, value);
        }
    }
    request
}

fn by_loopback() -> Arrival {
    let local = "127.0.0.1:7420".parse().unwrap();
    Arrival::Tcp { peer: "127.0.0.1:50000".parse().unwrap(), local, secure: false }
}

#[tokio::test]
async fn a_router_served_by_another_program_knows_configured_names_only() {
    let (router, owner) =
        guarded(DoorSettings { hosts: vec!["app.example".into()], ..DoorSettings::default() }).await;
    let bearer = format!("Bearer {}", owner.expose());
    let ask = |host: &'static str| {
        let request =
            request("/api/v1/who", &[("host", host.as_bytes()), ("authorization", bearer.as_bytes())]);
        router.clone().oneshot(request)
    };
    let answer = ask("app.example").await.unwrap();
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "owner owner api");
    assert_eq!(ask("127.0.0.1").await.unwrap().status(), StatusCode::MISDIRECTED_REQUEST);
}

#[tokio::test]
async fn a_guest_that_did_not_pass_the_checks_is_refused() {
    let (router, _) = guarded(DoorSettings::default()).await;
    let mut request = request("/api/v1/who", &[("host", b"127.0.0.1:7420")]);
    let (name, via) = ("forged".into(), "api".into());
    let forged = Principal { token: Tokens::owner_id(), name, role: Role::Owner, sessions: None, via };
    request.extensions_mut().insert(Guest(forged));
    request.extensions_mut().insert(by_loopback());
    assert_eq!(router.oneshot(request).await.unwrap().status(), StatusCode::UNAUTHORIZED);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    // covers: 002-005
    #[test]
    fn no_headers_of_any_kind_open_the_door(
        host in prop_oneof![Just(b"127.0.0.1:7420".to_vec()), any::<Vec<u8>>()],
        origin in proptest::option::of(prop_oneof![Just(b"http://127.0.0.1:7420".to_vec()), any::<Vec<u8>>()]),
        authorization in proptest::option::of(prop_oneof!["[Bb]earer .{0,70}".prop_map(String::into_bytes), any::<Vec<u8>>()]),
        cookie in proptest::option::of(prop_oneof!["portolan=.{0,70}".prop_map(String::into_bytes), any::<Vec<u8>>()]),
        key in proptest::option::of(any::<Vec<u8>>()),
        forwarded in proptest::option::of("[0-9a-f.:, ]{0,40}".prop_map(String::into_bytes)),
        behind_proxy in any::<bool>(),
        path in prop_oneof![Just("/metrics"), Just("/ws"), Just("/api/v1/who"), Just("/nowhere")],
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let proxies = vec!["127.0.0.1".parse().unwrap()];
        let status = runtime.block_on(async {
            let (router, _) = guarded(DoorSettings { behind_proxy, proxies, ..DoorSettings::default() }).await;
            let mut headers: Vec<(&'static str, &[u8])> = vec![("host", &host), ("upgrade", b"websocket")];
            let optional = [
                ("origin", &origin),
                ("authorization", &authorization),
                ("cookie", &cookie),
                ("x-portolan-key", &key),
                ("x-forwarded-for", &forwarded),
                ("x-forwarded-host", &forwarded),
            ];
            headers.extend(optional.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?))));
            let mut request = request(path, &headers);
            request.extensions_mut().insert(by_loopback());
            router.oneshot(request).await.unwrap().status().as_u16()
        });
        prop_assert!([400, 401, 403, 421].contains(&status), "{status}");
    }
}
