//! Behind a reverse proxy, and in front of a false one.

use super::*;

fn behind(settings: &mut DoorSettings) {
    settings.behind_proxy = true;
    settings.proxies = vec!["127.0.0.1".parse().unwrap()];
    settings.hosts = vec!["portolan.example".into()];
    settings.limits.failures = 2;
}

#[tokio::test]
async fn our_page_behind_a_tls_proxy_is_known_by_its_public_origin() {
    let stand = Stand::with(behind).await;
    let proto = "X-Forwarded-Proto: https";
    let host = "X-Forwarded-Host: portolan.example";
    let origin = "Origin: https://portolan.example";
    assert_eq!(stand.ask_as_owner("GET /api/v1/who", &[proto, host, origin]).await.status, 200);
    assert_eq!(
        stand.ask_as_owner("GET /api/v1/who", &[host, origin]).await.status,
        403,
        "not told to be https"
    );
    assert_eq!(
        stand.ask_as_owner("GET /api/v1/who", &[proto, origin]).await.status,
        403,
        "called by another name"
    );
    let passed_on = ["Host: portolan.example", proto, origin, &stand.bearer()];
    assert_eq!(
        stand.ask_raw("GET /api/v1/who", &passed_on, "").await.status,
        200,
        "the Host itself passed on"
    );
    let ticket =
        stand.access.tickets().create(&stand.tokens.standing(&Tokens::owner_id()).unwrap().principal);
    let body = format!(r#"{{"ticket":"{}"}}"#, ticket.unwrap().0);
    let answer = stand.post(LOGIN_PATH, &[proto, host, origin], &body).await;
    assert!(answer.header("set-cookie").unwrap().ends_with("; Secure"), "{answer:?}");
}

#[tokio::test]
async fn both_the_host_and_the_forwarded_host_must_be_ours() {
    let stand = Stand::with(behind).await;
    let bearer = stand.bearer();
    // A page that rebinds its own name to us can set the header, but not the Host.
    let rebound = ["Host: evil.example", "X-Forwarded-Host: portolan.example", &bearer];
    assert_eq!(stand.ask_raw("GET /api/v1/who", &rebound, "").await.status, 421);
    assert_eq!(stand.ask_as_owner("GET /api/v1/who", &["X-Forwarded-Host: evil.example"]).await.status, 421);
    assert_eq!(stand.ask_as_owner("GET /api/v1/who", &["X-Forwarded-Proto: gopher"]).await.status, 400);
    let two = ["X-Forwarded-Host: portolan.example", "X-Forwarded-Host: portolan.example"];
    assert_eq!(stand.ask_as_owner("GET /api/v1/who", &two).await.status, 400);
}

#[tokio::test]
async fn a_client_behind_the_proxy_is_locked_out_alone_and_even_with_the_right_token() {
    let stand = Stand::with(behind).await;
    let bad = "X-Forwarded-For: 198.51.100.1, 203.0.113.5";
    for _ in 0..2 {
        assert_eq!(stand.ask("GET /api/v1/who", &[bad, "Authorization: Bearer wrong"]).await.status, 401);
    }
    let answer = stand.ask_as_owner("GET /api/v1/who", &[bad]).await;
    assert_eq!((answer.refused(), answer.header("retry-after")), ((429, "busy".into()), Some("60")));
    let ticket =
        stand.access.tickets().create(&stand.tokens.standing(&Tokens::owner_id()).unwrap().principal);
    let body = format!(r#"{{"ticket":"{}"}}"#, ticket.unwrap().0);
    assert_eq!(stand.post(LOGIN_PATH, &[bad], &body).await.status, 429);
    for other in ["X-Forwarded-For: 203.0.113.6", "X-Forwarded-For: 203.0.113.5, 203.0.113.6"] {
        assert_eq!(stand.ask_as_owner("GET /api/v1/who", &[other]).await.status, 200, "{other}");
    }
    assert_eq!(stand.post(LOGIN_PATH, &[], &body).await.status, 200, "the ticket is not used up");
}

#[tokio::test]
async fn without_a_proxy_its_headers_are_not_trusted() {
    let stand = Stand::with(|settings| settings.limits.failures = 2).await;
    let wrong = "Authorization: Bearer wrong";
    for n in 0..2 {
        let forged = format!("X-Forwarded-For: 203.0.113.{n}");
        assert_eq!(stand.ask("GET /api/v1/who", &[&forged, wrong]).await.status, 401);
    }
    assert_eq!(stand.ask("GET /api/v1/who", &["X-Forwarded-For: 203.0.113.9", wrong]).await.status, 429);
    let forged = [&format!("Origin: https://{}", stand.address), "X-Forwarded-Proto: https"];
    assert_eq!(stand.ask_as_owner("GET /api/v1/who", &forged).await.status, 403);
    let forged = ["X-Forwarded-Host: evil.example", "Origin: http://evil.example"];
    assert_eq!(stand.ask_as_owner("GET /api/v1/who", &forged).await.status, 403);
}

#[tokio::test]
async fn a_local_program_that_is_not_a_proxy_is_not_trusted() {
    let stand = Stand::with(|settings| {
        behind(settings);
        settings.proxies = vec!["127.0.0.2".parse().unwrap()];
    })
    .await;
    // A false proxy could lock out others, use another address each time, and pretend to be our page.
    let wrong = "Authorization: Bearer wrong";
    for n in 0..2 {
        let forged = format!("X-Forwarded-For: 203.0.113.{n}");
        assert_eq!(stand.ask("GET /api/v1/who", &[&forged, wrong]).await.status, 401);
    }
    assert_eq!(stand.ask("GET /api/v1/who", &["X-Forwarded-For: 203.0.113.9", wrong]).await.status, 429);
    let forged = [
        "X-Forwarded-Proto: https",
        "X-Forwarded-Host: portolan.example",
        "Origin: https://portolan.example",
    ];
    assert_eq!(stand.ask_as_owner("GET /api/v1/who", &forged).await.status, 403);
    // The proxy itself, by its own address.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    let stream = socket.connect(stand.address).await.unwrap();
    let host = format!("Host: {}", stand.address);
    let bearer = stand.bearer();
    let lines = [&[host.as_str(), &bearer], &forged[..]].concat();
    assert_eq!(exchange(stream, "GET /api/v1/who", &lines, "").await.status, 200);
}

#[tokio::test]
async fn settings_that_are_not_names_are_refused() {
    let stand = Stand::new().await;
    let make = |settings: DoorSettings| {
        AccessCheck::new(&settings, stand.tokens.clone(), stand.access.tickets().clone(), Clock::system())
            .err()
    };
    let hosts = |host: &str| DoorSettings { hosts: vec![host.into()], ..DoorSettings::default() };
    let origins = |origin: &str| DoorSettings { origins: vec![origin.into()], ..DoorSettings::default() };
    assert_eq!(make(hosts("http://a.example")), Some(BadName::Host("http://a.example".into())));
    assert_eq!(make(hosts("*.example")), Some(BadName::Host("*.example".into())));
    assert_eq!(make(origins("*")), Some(BadName::Origin("*".into())));
    assert_eq!(make(origins("null")), Some(BadName::Origin("null".into())));
    assert_eq!(make(origins("https://a.example/")), None);
    let nobody = DoorSettings { behind_proxy: true, ..DoorSettings::default() };
    assert_eq!(make(nobody), Some(BadName::NoProxies));
}
