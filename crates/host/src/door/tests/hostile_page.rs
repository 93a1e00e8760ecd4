//! What a hostile web page can try through somebody's browser. Each request carries the right token or the browser's
//! own cookie and key, so that only the check under test can refuse it.

use super::*;

#[tokio::test]
async fn a_page_on_another_origin_reaches_nothing() {
    let stand = Stand::new().await;
    let (cookie, key) = stand.browser().await;
    for origin in [
        "https://evil.example",
        "http://evil.example",
        "http://127.0.0.1.evil.example",
        "null",
        "file://",
        "",
    ] {
        let line = format!("Origin: {origin}");
        for request in
            ["GET /api/v1/who", "GET /healthz", "GET /", "GET /metrics", "POST /api/v1/login", "GET /nowhere"]
        {
            let answer = stand.ask_as_owner(request, &[&line]).await;
            assert_eq!(answer.refused(), forbidden(403), "{origin} {request}");
            assert_eq!(answer.header("access-control-allow-origin"), None);
        }
        let upgrade = ["Connection: Upgrade", "Upgrade: websocket", &cookie, &key, &line];
        assert_eq!(stand.ask("GET /ws", &upgrade).await.refused(), forbidden(403), "{origin}");
    }
}

#[tokio::test]
async fn a_page_on_another_local_port_reaches_nothing() {
    let stand = Stand::new().await;
    let (cookie, key) = stand.browser().await;
    let other = if stand.address.port() == 3000 { 3001 } else { 3000 };
    for origin in
        [format!("http://127.0.0.1:{other}"), format!("http://localhost:{other}"), "http://localhost".into()]
    {
        let line = format!("Origin: {origin}");
        let answer = stand.ask("GET /api/v1/who", &[&cookie, &key, &line]).await;
        assert_eq!(answer.refused(), forbidden(403), "{origin}");
        // The same without an Origin, as an <img> or a <script> sends it: the cookie is sent, the key cannot be.
        let answer = stand.ask("GET /api/v1/who", &[&cookie, "Sec-Fetch-Site: same-site"]).await;
        assert_eq!(answer.refused(), forbidden(403));
        assert_eq!(stand.ask("GET /api/v1/who", &[&cookie]).await.refused(), forbidden(401));
    }
    let secure = format!("Origin: https://{}", stand.address);
    assert_eq!(stand.ask("GET /api/v1/who", &[&cookie, &key, &secure]).await.refused(), forbidden(403));
}

#[tokio::test]
async fn our_own_page_gets_in_by_cookie_and_key() {
    let stand = Stand::new().await;
    let (cookie, key) = stand.browser().await;
    let origin = format!("Origin: http://{}", stand.address);
    let lines = [cookie.as_str(), &key, &origin, "Sec-Fetch-Site: same-origin"];
    let answer = stand.ask("GET /api/v1/who", &lines).await;
    assert_eq!((answer.status, answer.body.as_str()), (200, "owner owner page"));
    assert_eq!(answer.header("access-control-allow-origin"), None, "it needs none");
}

#[tokio::test]
async fn other_names_of_this_machine_are_refused_unless_configured() {
    let stand = Stand::new().await;
    let (cookie, key) = stand.browser().await;
    let port = stand.address.port();
    for name in ["localhost", "LOCALHOST", "localhost.", "[::1]", "[0:0:0:0:0:0:0:1]"] {
        let host = format!("Host: {name}:{port}");
        let answer = stand.ask_raw("GET /healthz", &[&host], "").await;
        assert_eq!(answer.refused(), forbidden(421), "{name}");
        assert!(answer.body.contains(&format!("use `http://{}`", stand.address)), "{}", answer.body);
        let origin = format!("Origin: http://{name}:{port}");
        let answer = stand.ask("GET /api/v1/who", &[&cookie, &key, &origin]).await;
        assert_eq!(answer.refused(), forbidden(403), "a page of {name} is another user's, perhaps");
    }
    let stand = Stand::with(|settings| settings.hosts = vec!["localhost".into()]).await;
    let host = format!("Host: localhost:{}", stand.address.port());
    let origin = format!("Origin: http://localhost:{}", stand.address.port());
    let answer = stand.ask_raw("GET /api/v1/who", &[&host, &origin, &stand.bearer()], "").await;
    assert_eq!(answer.status, 200, "the owner says that it is");
}

#[tokio::test]
async fn a_host_that_is_not_ours_is_refused_on_every_route() {
    let stand = Stand::new().await;
    let port = stand.address.port();
    for host in [
        "evil.example".to_owned(),
        format!("evil.example:{port}"),
        format!("localhost.evil.example:{port}"),
        format!("evil-localhost:{port}"),
        format!("localhostt:{port}"),
        format!("127.0.0.1.nip.io:{port}"),
        format!("127.0.0.2:{port}"),
        format!("127.1:{port}"),
        format!("0.0.0.0:{port}"),
        format!("[::2]:{port}"),
        "127.0.0.1".to_owned(),
        format!("127.0.0.1:{}", port ^ 1),
    ] {
        for request in
            ["GET /healthz", "GET /", "GET /api/v1/who", "POST /api/v1/login", "GET /nowhere", "PUT /healthz"]
        {
            let lines = [format!("Host: {host}"), stand.bearer()];
            let lines: Vec<_> = lines.iter().map(String::as_str).collect();
            let answer = stand.ask_raw(request, &lines, "").await;
            assert_eq!(answer.refused(), forbidden(421), "{host} {request}");
        }
    }
}

#[tokio::test]
async fn a_host_that_is_not_a_name_is_refused() {
    let stand = Stand::new().await;
    let port = stand.address.port();
    let bearer = stand.bearer();
    for host in [
        format!("evil.example@127.0.0.1:{port}"),
        format!("127.0.0.1:{port}@evil.example"),
        format!("127.0.0.1:{port}/evil"),
        format!("127.0.0.1:{port}:{port}"),
        format!("127.0.0.1:+{port}"),
        "::1".to_owned(),
        String::new(),
    ] {
        let answer = stand.ask_raw("GET /healthz", &[&format!("Host: {host}"), &bearer], "").await;
        assert_eq!(answer.status, 400, "{host}");
    }
    let ours = format!("Host: {}", stand.address);
    assert_eq!(stand.ask_raw("GET /healthz", &[&bearer], "").await.status, 400, "none at all");
    assert_eq!(stand.ask_raw("GET /healthz", &[&ours, "Host: evil.example"], "").await.status, 400, "two");
    let both = format!("GET http://evil.example:{port}/healthz");
    assert_eq!(stand.ask_raw(&both, &[&ours], "").await.status, 400, "another one in the request line");
    let user = format!("GET http://a@{}/healthz", stand.address);
    assert_eq!(stand.ask_raw(&user, &[&ours], "").await.status, 400, "a user name in the request line");
}

#[tokio::test]
async fn our_names_are_ours_in_any_spelling() {
    let stand =
        Stand::with(|settings| settings.hosts = vec!["box.example".into(), "other.example:8443".into()])
            .await;
    let port = stand.address.port();
    for host in [
        format!("Box.Example:{port}"),
        format!("box.example.:{port}"),
        "box.example".to_owned(),
        "other.example:8443".to_owned(),
    ] {
        let answer = stand.ask_raw("GET /healthz", &[&format!("Host: {host}")], "").await;
        assert_eq!((answer.status, answer.body.as_str()), (200, "ok"), "{host}");
    }
    for host in [format!("other.example:{port}"), "box.example:1".to_owned(), "sub.box.example".to_owned()] {
        assert_eq!(
            stand.ask_raw("GET /healthz", &[&format!("Host: {host}")], "").await.status,
            421,
            "{host}"
        );
    }
    let absolute = format!("GET http://{}/healthz", stand.address);
    assert_eq!(stand.ask(&absolute, &[]).await.status, 200, "the absolute form, with the same name");
}

#[tokio::test]
async fn another_site_can_link_to_the_page_and_do_nothing_else() {
    let stand = Stand::new().await;
    let visit = ["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"];
    assert_eq!(stand.ask("GET /", &visit).await.body, "page");
    assert_eq!(stand.ask_as_owner("GET /api/v1/who", &visit).await.refused(), forbidden(403));
    for site in ["cross-site", "same-site", "nonsense"] {
        let site = format!("Sec-Fetch-Site: {site}");
        let embedded = [site.as_str(), "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: image"];
        assert_eq!(stand.ask("GET /", &embedded).await.refused(), forbidden(403), "{site}");
        let framed = [site.as_str(), "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe"];
        assert_eq!(stand.ask("GET /", &framed).await.refused(), forbidden(403), "{site}");
    }
    assert_eq!(
        stand.ask_as_owner("GET /api/v1/who", &["Sec-Fetch-Site: none"]).await.status,
        200,
        "typed by hand"
    );
}

fn from(origin: &str) -> [&str; 3] {
    [origin, "Access-Control-Request-Method: POST", "Access-Control-Request-Headers: authorization"]
}

#[tokio::test]
async fn only_configured_origins_get_a_cors_answer() {
    let stand = Stand::with(|settings| settings.origins = vec!["https://app.example/".into()]).await;
    let answer = stand.ask("OPTIONS /api/v1/who", &from("Origin: https://app.example")).await;
    assert_eq!(answer.status, 204);
    assert_eq!(answer.header("access-control-allow-origin"), Some("https://app.example"));
    assert_eq!(answer.header("vary"), Some("origin"));
    assert_eq!(
        answer.header("access-control-allow-credentials"),
        None,
        "such pages bring a token, not a cookie"
    );
    let answer = stand
        .ask_as_owner("GET /api/v1/who", &["Origin: https://app.example", "Sec-Fetch-Site: cross-site"])
        .await;
    assert_eq!(
        (answer.status, answer.header("access-control-allow-origin")),
        (200, Some("https://app.example"))
    );
    assert_eq!(
        stand.ask("GET /api/v1/who", &["Origin: https://app.example"]).await.refused(),
        forbidden(401),
        "an origin is no token"
    );
    for origin in [
        "https://app.example:444",
        "http://app.example",
        "https://evil.app.example",
        "https://app.example.evil",
    ] {
        let line = format!("Origin: {origin}");
        let answer = stand.ask("OPTIONS /api/v1/who", &from(&line)).await;
        assert_eq!((answer.status, answer.header("access-control-allow-origin")), (403, None), "{origin}");
    }
    let own = format!("Origin: http://{}", stand.address);
    assert_eq!(stand.ask("OPTIONS /api/v1/who", &from(&own)).await.status, 403, "our own page never asks");
}

#[tokio::test]
async fn a_refused_page_cannot_lock_the_owner_out() {
    let stand = Stand::with(|settings| settings.limits.failures = 2).await;
    for _ in 0..5 {
        let wrong = ["Origin: https://evil.example", "Authorization: Bearer wrong"];
        assert_eq!(stand.ask("GET /api/v1/who", &wrong).await.status, 403);
    }
    assert_eq!(
        stand.ask("GET /api/v1/who", &["Authorization: Bearer wrong"]).await.status,
        401,
        "not counted"
    );
}

#[tokio::test]
async fn every_answer_makes_browsers_keep_other_pages_away() {
    let stand = Stand::new().await;
    let answers = [
        stand.ask("GET /", &[]).await,
        stand.ask("GET /healthz", &[]).await,
        stand.ask("GET /api/v1/who", &[]).await,
        stand.ask_as_owner("GET /api/v1/who", &[]).await,
        stand.ask_as_owner("GET /nowhere", &[]).await,
        stand.ask_as_owner("PUT /metrics", &[]).await,
        stand.ask_raw("GET /", &["Host: evil.example"], "").await,
    ];
    let statuses: Vec<_> = answers.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses, [200, 200, 401, 200, 404, 405, 421]);
    for answer in answers {
        let policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      manifest-src 'self'; worker-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";
        for (name, value) in [
            ("content-security-policy", policy),
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cross-origin-resource-policy", "same-origin"),
            ("cache-control", "no-store"),
        ] {
            assert_eq!(answer.header(name), Some(value), "{} {name}", answer.status);
        }
    }
}
