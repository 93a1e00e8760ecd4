//! Who gets in, with which credential, and until when.

use portolan_core::{RefusalCode, Role, SessionId, TokenId};

use super::*;

// covers: 002-005
#[tokio::test]
async fn without_a_valid_token_nothing_is_answered() {
    let stand = Stand::new().await;
    let wrong = format!("Authorization: Bearer ptl_{}", "0".repeat(64));
    let basic = format!("Authorization: Basic {}", stand.owner.expose());
    let in_cookie = format!("Cookie: portolan={}", stand.owner.expose());
    let bearer = stand.bearer();
    let attempts: [&[&str]; 7] = [
        &[],
        &[&wrong],
        &[&basic],
        &[&in_cookie],
        &["Authorization: Bearer"],
        &["Authorization: Bearer "],
        &[&bearer, &wrong],
    ];
    for lines in attempts {
        for request in
            ["GET /api/v1/who", "GET /metrics", "GET /ws", "GET /nowhere", "DELETE /healthz", "POST /"]
        {
            let answer = stand.ask(request, lines).await;
            assert!(matches!(answer.status, 401 | 429), "{request} {lines:?} {answer:?}");
            assert!(!answer.body.contains("figures"));
        }
    }
    let answer = stand.ask("GET /api/v1/who", &[]).await;
    assert_eq!((answer.refused(), answer.header("www-authenticate")), (forbidden(401), Some("Bearer")));
}

// covers: 002-005
#[tokio::test]
async fn a_token_in_the_address_is_never_read() {
    let stand = Stand::new().await;
    for name in ["token", "access_token", "key", "ticket", "authorization"] {
        let request = format!("GET /api/v1/who?{name}={}", stand.owner.expose());
        assert_eq!(stand.ask(&request, &[]).await.refused(), forbidden(401));
    }
}

#[tokio::test]
async fn open_paths_are_open_for_reading_only() {
    let stand = Stand::new().await;
    for (request, status) in [
        ("GET /healthz", 200),
        ("HEAD /healthz", 200),
        ("GET /", 200),
        ("POST /healthz", 401),
        ("GET /assets/../metrics", 404),
        ("GET /assets/%2e%2e/metrics", 404),
        ("GET //healthz", 401),
        ("GET /api/v1/login", 401),
        ("POST /api/v1/logout", 401),
    ] {
        assert_eq!(stand.ask(request, &[]).await.status, status, "{request}");
    }
}

// covers: 003-004
#[tokio::test]
async fn a_token_gives_its_name_role_and_sessions_and_no_more() {
    let stand = Stand::new().await;
    let session = SessionId::new();
    let (info, secret) =
        stand.tokens.create("ada", Role::Viewer, Some([session].into()), None).await.unwrap();
    let bearer = format!("Authorization: Bearer {secret}");
    assert_eq!(stand.ask("GET /api/v1/who", &[&bearer]).await.body, "ada viewer api");
    let principal = stand.tokens.standing(&info.token).unwrap().principal;
    assert!(principal.may(Role::Viewer, session).is_ok());
    assert_eq!(principal.may(Role::Operator, session).unwrap_err().code, RefusalCode::Forbidden);
    assert_eq!(principal.may(Role::Viewer, SessionId::new()).unwrap_err().code, RefusalCode::NotFound);
}

#[tokio::test]
async fn an_expired_token_gives_no_access_and_its_connections_are_informed() {
    let stand = Stand::new().await;
    let end = Millis(stand.now().0 + 50);
    let (info, secret) = stand.tokens.create("brief", Role::Owner, None, Some(end)).await.unwrap();
    let bearer = format!("Authorization: Bearer {secret}");
    assert_eq!(stand.ask("GET /api/v1/who", &[&bearer]).await.status, 200);
    let stay = stand.tokens.standing(&info.token).unwrap().stay;
    stand.pass(50);
    assert_eq!(stand.ask("GET /api/v1/who", &[&bearer]).await.status, 401);
    stay.over().await;
    assert_eq!(stand.tokens.list().len(), 2, "it is still listed");
    let refusal = stand.tokens.create("late", Role::Owner, None, Some(stand.now())).await.unwrap_err();
    assert_eq!(refusal.code, RefusalCode::Invalid);
}

#[tokio::test]
async fn a_revoked_token_gives_no_access_and_its_connections_are_informed() {
    let stand = Stand::new().await;
    let (info, secret) = stand.tokens.create("ada", Role::Owner, None, None).await.unwrap();
    let bearer = format!("Authorization: Bearer {secret}");
    assert_eq!(stand.ask("GET /api/v1/who", &[&bearer]).await.status, 200);
    let stay = stand.tokens.standing(&info.token).unwrap().stay;
    let told = tokio::spawn(async move { stay.over().await });
    tokio::task::yield_now().await;
    assert!(!told.is_finished());
    stand.tokens.revoke(&info.token).await.unwrap();
    told.await.unwrap();
    assert_eq!(stand.ask("GET /api/v1/who", &[&bearer]).await.status, 401);
    assert_eq!(stand.tokens.revoke(&info.token).await.unwrap_err().code, RefusalCode::NotFound);
    let (store, home) = stand.close().await;
    let stand = Stand::again(store, home, |_| {}).await;
    assert_eq!(stand.ask("GET /api/v1/who", &[&bearer]).await.status, 401, "nor after a restart");
}

#[tokio::test]
async fn tokens_and_their_last_use_survive_a_restart_and_only_digests_are_kept() {
    let stand = Stand::new().await;
    let (info, secret) = stand.tokens.create("ada", Role::Operator, None, None).await.unwrap();
    let bearer = format!("Authorization: Bearer {secret}");
    stand.pass(5000);
    assert_eq!(stand.ask("GET /api/v1/who", &[&bearer]).await.status, 200);
    let used = stand.now();
    let owner = stand.owner.clone();
    let (store, home) = stand.close().await;
    let kept = kept(&store).await;
    assert!(!kept.contains(&secret) && !kept.contains(owner.expose()) && kept.contains("ada"));
    let stand = Stand::again(store, home, |_| {}).await;
    assert_eq!(stand.ask("GET /api/v1/who", &[&bearer]).await.body, "ada operator api");
    assert_eq!(stand.owner.expose(), owner.expose());
    let listed: Vec<_> = stand.tokens.list().into_iter().filter(|token| token.token == info.token).collect();
    assert_eq!(listed, [TokenInfo { used_at: Some(used), ..info }]);
}

#[tokio::test]
async fn the_owners_token_is_restored_when_the_database_lost_it() {
    let stand = Stand::new().await;
    let bearer = stand.bearer();
    let (_, home) = stand.close().await;
    let stand = Stand::again(Arc::default(), home, |_| {}).await;
    assert_eq!(stand.ask("GET /api/v1/who", &[&bearer]).await.body, "owner owner api");
}

#[tokio::test]
async fn the_owners_token_is_rotated_but_never_revoked() {
    let stand = Stand::new().await;
    let (cookie, key) = stand.browser().await;
    let (ticket, _) = {
        let owner = stand.tokens.standing(&Tokens::owner_id()).unwrap().principal;
        stand.access.tickets().create(&owner).unwrap()
    };
    assert_eq!(stand.tokens.revoke(&Tokens::owner_id()).await.unwrap_err().code, RefusalCode::Invalid);
    let stay = stand.tokens.standing(&Tokens::owner_id()).unwrap().stay;
    stand.pass(1);
    let path = stand.home.path().join("token");
    let fresh = stand.tokens.rotate_owner(&path).await.unwrap();
    assert!(stay.is_over());
    assert_eq!(std::fs::read_to_string(&path).unwrap().trim(), fresh.expose());
    assert_eq!(stand.ask_as_owner("GET /api/v1/who", &[]).await.status, 401, "the old secret");
    assert_eq!(stand.ask("GET /api/v1/who", &[&cookie, &key]).await.status, 401, "a browser that came by it");
    assert!(
        stand.access.tickets().redeem(&ticket, Caller::default()).await.unwrap().is_none(),
        "a ticket made by it"
    );
    let bearer = format!("Authorization: Bearer {}", fresh.expose());
    assert_eq!(stand.ask("GET /api/v1/who", &[&bearer]).await.status, 200);
}

#[tokio::test]
async fn a_token_needs_a_name_and_a_purpose() {
    let stand = Stand::new().await;
    for name in ["", "  ", "a\nb", &"x".repeat(65)] {
        let refusal = stand.tokens.create(name, Role::Viewer, None, None).await.unwrap_err();
        assert_eq!(refusal.code, RefusalCode::Invalid, "{name:?}");
    }
    let refusal = stand.tokens.create("a", Role::Viewer, Some([].into()), None).await.unwrap_err();
    assert_eq!(refusal.code, RefusalCode::Invalid);
}

#[tokio::test]
async fn wrong_tokens_lock_their_sender_out_but_nobody_else_on_this_machine() {
    let stand = Stand::with(|settings| settings.limits.failures = 3).await;
    let wrong = ["Authorization: Bearer wrong"];
    for _ in 0..3 {
        assert_eq!(stand.ask("GET /api/v1/who", &wrong).await.status, 401);
    }
    let answer = stand.ask("GET /api/v1/who", &wrong).await;
    assert_eq!((answer.refused(), answer.header("retry-after")), ((429, "busy".into()), Some("60")));
    assert_eq!(answer.json()["error"]["retry_after_ms"], 60_000);
    assert_eq!(
        stand.ask_as_owner("GET /api/v1/who", &[]).await.status,
        200,
        "loopback is everyone's address"
    );
    assert_eq!(stand.ask("GET /healthz", &[]).await.status, 200);
    stand.pass(60_000);
    assert_eq!(stand.ask("GET /api/v1/who", &wrong).await.status, 401, "it is over");
}

#[tokio::test]
async fn a_token_with_too_many_requests_learns_when_to_come_back() {
    let stand = Stand::with(|settings| {
        settings.limits.requests_per_second = 1;
        settings.limits.request_burst = 3;
    })
    .await;
    for _ in 0..3 {
        assert_eq!(stand.ask_as_owner("GET /api/v1/who", &[]).await.status, 200);
    }
    let answer = stand.ask_as_owner("GET /api/v1/who", &[]).await;
    assert_eq!((answer.refused(), answer.header("retry-after")), ((429, "busy".into()), Some("1")));
    assert_eq!(stand.ask("GET /healthz", &[]).await.status, 200);
}

#[tokio::test]
async fn an_own_authenticator_replaces_the_tokens() {
    #[derive(Debug)]
    struct House;
    impl Authenticator for House {
        fn authenticate(&self, credential: &Credential) -> Option<Standing> {
            let Credential::Bearer(secret) = credential;
            (secret.expose() == "sesame").then(|| self.standing(&"house".parse().unwrap()).unwrap())
        }
        fn standing(&self, token: &TokenId) -> Option<Standing> {
            let (name, via) = ("house".into(), "api".into());
            let principal = portolan_core::Principal {
                token: token.clone(),
                name,
                role: Role::Viewer,
                sessions: None,
                via,
            };
            Some(Standing { principal, since: Millis(0), stay: Stay::endless() })
        }
    }
    let store: Arc<MemoryStore> = Arc::default();
    let settings = DoorSettings { listen: vec!["127.0.0.1:0".parse().unwrap()], ..DoorSettings::default() };
    let tickets = Tickets::open(store, Clock::system(), Arc::new(House)).await.unwrap();
    let access = Arc::new(AccessCheck::new(&settings, Arc::new(House), tickets, Clock::system()).unwrap());
    let shutdown = CancellationToken::new();
    let serving = serve(&settings, access, routes(), shutdown.clone()).await.unwrap();
    let url = serving.addresses[0].url().unwrap();
    let host = url.strip_prefix("http://").unwrap();
    let stream = TcpStream::connect(host).await.unwrap();
    let lines = [format!("Host: {host}"), "Authorization: Bearer sesame".into()];
    let lines: Vec<_> = lines.iter().map(String::as_str).collect();
    assert_eq!(exchange(stream, "GET /api/v1/who", &lines, "").await.body, "house viewer api");
    shutdown.cancel();
    serving.closed().await;
}

#[tokio::test]
async fn access_that_has_ended_lets_nobody_in_even_if_an_authenticator_returns_it() {
    #[derive(Debug)]
    struct Late(CancellationToken);
    impl Authenticator for Late {
        fn authenticate(&self, _: &Credential) -> Option<Standing> {
            self.standing(&"late".parse().unwrap())
        }
        fn standing(&self, token: &TokenId) -> Option<Standing> {
            let (name, via) = ("late".into(), "api".into());
            let (token, role) = (token.clone(), Role::Owner);
            let principal = portolan_core::Principal { token, name, role, sessions: None, via };
            Some(Standing { principal, since: Millis(0), stay: Stay::until(self.0.clone()) })
        }
    }
    let ended = CancellationToken::new();
    let late: Arc<dyn Authenticator> = Arc::new(Late(ended.clone()));
    let settings = DoorSettings { hosts: vec!["app.example".into()], ..DoorSettings::default() };
    let tickets = Tickets::open(Arc::<MemoryStore>::default(), Clock::system(), late.clone()).await.unwrap();
    let router =
        guard(routes(), Arc::new(AccessCheck::new(&settings, late, tickets, Clock::system()).unwrap()));
    let ask = |arrival: Arrival| {
        let mut request = http::Request::get("/api/v1/who").header("host", "app.example");
        if arrival != Arrival::Unix {
            request = request.header("authorization", "Bearer sesame");
        }
        let request = request.extension(arrival).body(axum::body::Body::empty()).unwrap();
        tower::ServiceExt::oneshot(router.clone(), request)
    };
    for arrival in [Arrival::Unknown, Arrival::Unix] {
        assert_eq!(ask(arrival).await.unwrap().status(), 200);
    }
    ended.cancel();
    for arrival in [Arrival::Unknown, Arrival::Unix] {
        assert_eq!(ask(arrival).await.unwrap().status(), 401);
    }
}

#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

// One thread, so that the subscriber sees every task of the test.
#[tokio::test(flavor = "current_thread")]
async fn no_secret_reaches_the_log() {
    let captured = Captured::default();
    let writer = captured.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_span_events(tracing_subscriber::fmt::format::FmtSpan::FULL)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let stand = Stand::with(|settings| settings.limits.failures = 2).await;
    let (cookie, key) = stand.browser().await;
    let owner = stand.owner.expose().to_owned();
    let wrong = format!("ptl_{}", "7".repeat(64));
    stand.ask_as_owner("GET /api/v1/who", &[]).await;
    stand.ask("GET /api/v1/who", &[&cookie, &key]).await;
    stand.ask(&format!("GET /api/v1/who?token={owner}&secret=hush"), &[]).await;
    stand.ask_as_owner(&format!("GET /path/{owner}/end"), &[]).await;
    for _ in 0..3 {
        stand.ask("GET /api/v1/who", &[&format!("Authorization: Bearer {wrong}")]).await;
    }
    stand.post(LOGIN_PATH, &[], &format!(r#"{{"ticket":"{wrong}"}}"#)).await;
    stand.close().await;
    let log = String::from_utf8(captured.0.lock().unwrap().clone()).unwrap();
    for secret in [&owner, &wrong, cookie.split('=').nth(1).unwrap(), key.split(' ').nth(1).unwrap(), "hush"]
    {
        assert!(!log.contains(secret), "{secret} in {log}");
    }
    for trace in [
        "/api/v1/who",
        "token=\"owner\"",
        "/path/ptl_***/end",
        "locked out",
        "status=401",
        "peer=\"127.0.0.1\"",
    ] {
        assert!(log.contains(trace), "{trace} not in {log}");
    }
}
