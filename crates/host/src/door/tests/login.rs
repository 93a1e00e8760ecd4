//! Tickets, browsers, and the two halves of a login.

use super::*;

impl Stand {
    fn ticket(&self) -> String {
        let owner = self.tokens.standing(&Tokens::owner_id()).unwrap().principal;
        self.access.tickets().create(&owner).unwrap().0
    }

    async fn login(&self, ticket: &str) -> Answer {
        self.post(LOGIN_PATH, &[], &format!(r#"{{"ticket":"{ticket}"}}"#)).await
    }
}

#[tokio::test]
async fn a_ticket_works_once() {
    let stand = Stand::new().await;
    let ticket = stand.ticket();
    let answer = stand.login(&ticket).await;
    let cookie = answer.header("set-cookie").unwrap();
    let (value, attributes) = cookie.split_once("; ").unwrap();
    assert!(value.starts_with("portolan=ptc_"), "{cookie}");
    assert_eq!(attributes, "Path=/; HttpOnly; SameSite=Strict; Max-Age=2592000");
    assert_eq!(answer.json().as_object().unwrap().keys().collect::<Vec<_>>(), ["key", "browser"]);
    let again = stand.login(&ticket).await;
    assert_eq!((again.refused(), again.header("set-cookie")), (forbidden(401), None));
}

#[tokio::test]
async fn a_ticket_expires_after_a_minute() {
    let stand = Stand::new().await;
    let (early, late) = (stand.ticket(), stand.ticket());
    stand.pass(TICKET_MS - 1);
    assert_eq!(stand.login(&early).await.status, 200);
    stand.pass(1);
    assert_eq!(stand.login(&late).await.refused(), forbidden(401));
}

#[tokio::test]
async fn one_ticket_too_many_invalidates_the_oldest() {
    let stand = Stand::new().await;
    let tickets: Vec<_> = (0..9).map(|_| stand.ticket()).collect();
    assert_eq!(stand.login(&tickets[0]).await.status, 401);
    assert_eq!(stand.login(&tickets[1]).await.status, 200);
    assert_eq!(stand.login(&tickets[8]).await.status, 200);
}

#[tokio::test]
async fn wrong_tickets_count_as_wrong_credentials() {
    let stand = Stand::with(|settings| settings.limits.failures = 2).await;
    for _ in 0..2 {
        assert_eq!(stand.login("ptt_wrong").await.status, 401);
    }
    assert_eq!(stand.login("ptt_wrong").await.status, 429);
    assert_eq!(stand.login(&stand.ticket()).await.status, 200, "a right one, from loopback");
}

#[tokio::test]
async fn a_login_that_is_not_json_is_refused() {
    let stand = Stand::new().await;
    let host = format!("Host: {}", stand.address);
    let form = [host.as_str(), "Content-Type: application/x-www-form-urlencoded", "Content-Length: 8"];
    assert_eq!(stand.ask_raw("POST /api/v1/login", &form, "ticket=x").await.refused(), invalid(415));
    assert_eq!(stand.ask_raw("POST /api/v1/login", &[&host], "").await.refused(), invalid(415));
    for body in ["", "{", "[]", "{}", r#"{"ticket":7}"#, &"[".repeat(1000)] {
        assert_eq!(stand.post(LOGIN_PATH, &[], body).await.refused(), invalid(400), "{body:.20}");
    }
}

#[tokio::test]
async fn neither_half_of_a_login_gives_access() {
    let stand = Stand::new().await;
    let (cookie, key) = stand.browser().await;
    let (other_cookie, other_key) = stand.browser().await;
    assert_eq!(stand.ask("GET /api/v1/who", &[&cookie, &key]).await.body, "owner owner page");
    let halves: [&[&str]; 5] =
        [&[&cookie], &[&key], &[&cookie, &other_key], &[&other_cookie, &key], &[&cookie, "X-Portolan-Key: "]];
    for lines in halves {
        for request in ["GET /api/v1/who", "GET /metrics"] {
            assert_eq!(stand.ask(request, lines).await.refused(), forbidden(401), "{lines:?}");
        }
    }
    let upgrade = [cookie.as_str(), "Upgrade: websocket"];
    assert_eq!(stand.ask("GET /metrics", &upgrade).await.status, 401, "an upgrade elsewhere opens nothing");
}

#[tokio::test]
async fn a_websocket_may_bring_its_key_in_the_hello() {
    let stand = Stand::new().await;
    let (cookie, key) = stand.browser().await;
    let upgrade = "Upgrade: WebSocket";
    assert_eq!(stand.ask("GET /ws", &[&cookie, upgrade]).await.body, "half");
    assert_eq!(stand.ask("GET /ws", &[&cookie, &key, upgrade]).await.body, "known page");
    assert_eq!(stand.ask_as_owner("GET /ws", &[upgrade]).await.body, "known api");
    assert_eq!(stand.ask("GET /ws", &["Cookie: portolan=ptc_wrong", upgrade]).await.status, 401);
    assert_eq!(stand.ask("GET /ws", &[upgrade]).await.status, 401);
    assert_eq!(stand.ask("GET /ws", &[&cookie]).await.status, 401, "no upgrade, no half");

    let secret = |line: &str, mark: char| Secret::sent(line.split_once(mark).unwrap().1);
    let half = stand.access.tickets().half(&secret(&cookie, '='), None).unwrap();
    assert_eq!(stand.access.complete(&half, "wrong"), None);
    let principal = stand.access.complete(&half, key.split(' ').nth(1).unwrap()).unwrap();
    assert_eq!((principal.name.as_str(), principal.via.as_str()), ("owner", "page"));
}

#[tokio::test]
async fn among_cookies_of_the_same_name_ours_is_found() {
    let stand = Stand::new().await;
    let (cookie, key) = stand.browser().await;
    let ours = cookie.strip_prefix("Cookie: ").unwrap();
    let mixed = format!("Cookie: a=b; portolan=of-another-port; {ours}; c");
    assert_eq!(stand.ask("GET /api/v1/who", &[&mixed, &key]).await.status, 200);
    let longer = cookie.replace("portolan=", "xportolan=");
    assert_eq!(stand.ask("GET /api/v1/who", &[&longer, &key]).await.status, 401);
}

#[tokio::test]
async fn a_logout_ends_the_login_everywhere() {
    let stand = Stand::new().await;
    let (cookie, key) = stand.browser().await;
    let half = stand.access.tickets().half(&Secret::sent(cookie.split_once('=').unwrap().1), None).unwrap();
    let answer = stand.post(LOGOUT_PATH, &[&cookie, &key], "").await;
    assert_eq!(answer.status, 204);
    assert_eq!(answer.header("set-cookie"), Some("portolan=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0"));
    assert_eq!(half.stay().ended(), Some(Over::Login));
    assert_eq!(stand.ask("GET /api/v1/who", &[&cookie, &key]).await.status, 401);
    let (store, home) = stand.close().await;
    let stand = Stand::again(store, home, |_| {}).await;
    assert_eq!(stand.ask("GET /api/v1/who", &[&cookie, &key]).await.status, 401, "nor after a restart");
}

#[tokio::test]
async fn the_end_of_a_login_disconnects_its_guests_and_nobody_else() {
    let stand = Arc::new(Stand::new().await);
    let (cookie, key) = stand.browser().await;
    let (other_cookie, other_key) = stand.browser().await;
    let stay = |lines: Vec<String>| {
        let stand = Arc::clone(&stand);
        tokio::spawn(async move {
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            stand.ask("GET /api/v1/stay", &lines).await.status
        })
    };
    let staying = stay(vec![cookie.clone(), key.clone()]);
    let other = stay(vec![other_cookie, other_key]);
    let by_token = stay(vec![stand.bearer()]);
    ARRIVED.acquire_many(3).await.unwrap().forget();
    assert_eq!(stand.post(LOGOUT_PATH, &[&cookie, &key], "").await.status, 204);
    assert_eq!(staying.await.unwrap(), 401);
    assert!(!other.is_finished() && !by_token.is_finished());
}

#[tokio::test]
async fn logins_logouts_and_lockouts_are_reported_for_the_log() {
    let stand = Stand::with(|settings| settings.limits.failures = 2).await;
    let (cookie, key) = stand.browser().await;
    let browser = stand.access.tickets().browsers().first().map(|listed| listed.browser.clone());
    assert!(browser.is_some());
    stand.post(LOGOUT_PATH, &[&cookie, &key], "").await;
    for _ in 0..3 {
        stand.ask("GET /api/v1/who", &["Authorization: Bearer wrong"]).await;
    }
    let owner = || Some("owner".to_owned());
    let refused = DaemonEvent::AccessRefused {
        from: "127.0.0.1".into(),
        attempts: 2,
        reason: "wrong credentials; the address is locked out for a while".into(),
    };
    assert_eq!(
        stand.noted(),
        [
            (owner(), DaemonEvent::LoggedIn { address: Some("127.0.0.1".into()), browser: browser.clone() }),
            (owner(), DaemonEvent::LoggedOut { browser }),
            (None, refused),
        ]
    );
}

#[tokio::test]
async fn a_path_that_is_not_text_is_refused_in_our_own_words() {
    let stand = Stand::new().await;
    assert_eq!(stand.ask_as_owner("GET /api/v1/named/%C3%A9%2f", &[]).await.body, "é/");
    for path in ["%ff", "%C3", "a%C3%28", "%ed%a0%80"] {
        let answer = stand.ask_as_owner(&format!("GET /api/v1/named/{path}"), &[]).await;
        assert_eq!(answer.refused(), invalid(400), "{path}");
    }
    assert_eq!(
        stand.ask("GET /api/v1/named/%ff", &[]).await.refused(),
        forbidden(401),
        "strangers learn nothing"
    );
    assert_eq!(stand.ask_as_owner("GET /api/v1/named/%zz", &[]).await.status, 200, "no escape, but text");
}

#[tokio::test]
async fn a_restart_does_not_log_the_page_out() {
    let stand = Stand::new().await;
    let (cookie, key) = stand.browser().await;
    let (store, home) = stand.close().await;
    let kept = kept(&store).await;
    assert!(
        !kept.contains(cookie.split_once('=').unwrap().1) && !kept.contains(key.split(' ').nth(1).unwrap())
    );
    let stand = Stand::again(store, home, |_| {}).await;
    assert_eq!(stand.ask("GET /api/v1/who", &[&cookie, &key]).await.body, "owner owner page");
}

#[tokio::test]
async fn a_browser_is_logged_out_with_its_token() {
    let stand = Stand::new().await;
    let (info, _) = stand.tokens.create("ada", portolan_core::Role::Viewer, None, None).await.unwrap();
    let ada = stand.tokens.standing(&info.token).unwrap().principal;
    let (ticket, _) = stand.access.tickets().create(&ada).unwrap();
    let (unused, _) = stand.access.tickets().create(&ada).unwrap();
    let session = stand.access.tickets().redeem(&ticket, Caller::default()).await.unwrap().unwrap();
    let principal = stand.access.tickets().authenticate(&session.cookie, &session.key).unwrap();
    assert_eq!((principal.name.as_str(), principal.via.as_str()), ("ada", "page"));
    stand.tokens.revoke(&info.token).await.unwrap();
    assert_eq!(stand.access.tickets().authenticate(&session.cookie, &session.key), None);
    assert!(stand.access.tickets().redeem(&unused, Caller::default()).await.unwrap().is_none());
    stand.access.tidy().await;
    let kept = stand.store.records("browsers").await.unwrap().len();
    assert_eq!(kept, 0, "nothing is left of it");
}

#[tokio::test]
async fn a_browser_not_seen_for_a_month_is_logged_out() {
    let stand = Stand::new().await;
    let (cookie, key) = stand.browser().await;
    stand.pass(BROWSER_IDLE_MS);
    assert_eq!(stand.ask("GET /api/v1/who", &[&cookie, &key]).await.status, 200, "seen just in time");
    stand.pass(BROWSER_IDLE_MS + 1);
    assert_eq!(stand.ask("GET /api/v1/who", &[&cookie, &key]).await.status, 401);
}

#[tokio::test]
async fn one_browser_too_many_logs_out_the_one_not_seen_for_longest() {
    let stand = Stand::new().await;
    let mut browsers = Vec::new();
    for _ in 0..33 {
        browsers.push(stand.browser().await);
        stand.pass(1);
    }
    let statuses = [&browsers[0], &browsers[1], &browsers[32]];
    let mut seen = Vec::new();
    for (cookie, key) in statuses {
        seen.push(stand.ask("GET /api/v1/who", &[cookie, key]).await.status);
    }
    assert_eq!(seen, [401, 200, 200]);
    let kept = stand.store.records("browsers").await.unwrap().len();
    assert_eq!(kept, 32);
}

impl Stand {
    fn device(&self, name: &str) -> Device {
        Device {
            name: name.into(),
            role: portolan_core::Role::Operator,
            sessions: None,
            expires_in: None,
            tokens: self.tokens.clone(),
        }
    }

    fn pair(&self, device: Device) -> Result<String, portolan_core::Refusal> {
        let owner = self.tokens.standing(&Tokens::owner_id()).unwrap().principal;
        self.access.tickets().create_for(&owner, device).map(|(ticket, _)| ticket)
    }

    fn pairing(&self, name: &str) -> Result<String, portolan_core::Refusal> {
        self.pair(self.device(name))
    }

    fn names(&self) -> Vec<String> {
        self.tokens.list().into_iter().map(|token| token.name).collect()
    }
}

#[tokio::test]
async fn a_paired_device_gets_its_own_token_at_login_and_is_logged_out_with_it() {
    let stand = Stand::new().await;
    let ticket = stand.pairing("phone").unwrap();
    assert_eq!(stand.names(), ["owner"], "an unused ticket leaves nothing behind");
    stand.pass(PAIRING_MS - 1);
    let session = stand.access.tickets().redeem(&ticket, Caller::default()).await.unwrap().unwrap();
    let (by, made) = session.made.unwrap();
    assert_eq!((by.name.as_str(), made.name.as_str()), ("owner", "phone"));
    assert_eq!(stand.names(), ["owner", "phone"]);
    let principal = stand.access.tickets().authenticate(&session.cookie, &session.key).unwrap();
    assert_eq!((principal.name.as_str(), principal.role), ("phone", portolan_core::Role::Operator));
    assert!(
        stand.access.tickets().redeem(&ticket, Caller::default()).await.unwrap().is_none(),
        "it works once"
    );
    stand.tokens.revoke(&made.token).await.unwrap();
    assert_eq!(stand.access.tickets().authenticate(&session.cookie, &session.key), None);
}

#[tokio::test]
async fn a_ticket_for_a_device_expires_after_five_minutes() {
    let stand = Stand::new().await;
    let ticket = stand.pairing("phone").unwrap();
    stand.pass(PAIRING_MS);
    assert!(stand.access.tickets().redeem(&ticket, Caller::default()).await.unwrap().is_none());
    assert_eq!(stand.names(), ["owner"]);
}

#[tokio::test]
async fn two_devices_never_share_a_name() {
    let stand = Stand::new().await;
    let ticket = stand.pairing("phone").unwrap();
    stand.tokens.create("phone", portolan_core::Role::Viewer, None, None).await.unwrap();
    let late = stand.access.tickets().redeem(&ticket, Caller::default()).await.unwrap_err();
    assert!(late.message.contains("a token `phone` already exists"), "{late}");
    assert!(stand.pairing("phone").is_err() && stand.pairing("").is_err() && stand.pairing("a\nb").is_err());
}

#[tokio::test]
async fn a_newer_ticket_for_a_device_invalidates_the_older_one_of_its_name() {
    let stand = Stand::new().await;
    let older = stand.pairing("phone").unwrap();
    let other = stand.pairing("tablet").unwrap();
    let newer = stand.pairing(" phone ").unwrap();
    assert!(stand.access.tickets().redeem(&older, Caller::default()).await.unwrap().is_none());
    stand.pass(1);
    assert!(stand.access.tickets().redeem(&newer, Caller::default()).await.unwrap().is_some());
    stand.pass(1);
    assert!(stand.access.tickets().redeem(&other, Caller::default()).await.unwrap().is_some());
    assert_eq!(stand.names(), ["owner", "phone", "tablet"]);
}

#[tokio::test]
async fn a_device_without_any_access_gets_no_ticket() {
    let stand = Stand::new().await;
    let bound_to_nothing =
        Device { sessions: Some(std::collections::BTreeSet::new()), ..stand.device("phone") };
    let over_at_once = Device { expires_in: Some(std::time::Duration::ZERO), ..stand.device("phone") };
    let told = [bound_to_nothing, over_at_once].map(|device| stand.pair(device).unwrap_err().message);
    assert_eq!(
        told,
        [
            "a token bound to no session gives no access; name a session, or leave the sessions out",
            "the device's token would expire at once; give a later time, or leave the time out",
        ]
    );
}

#[tokio::test]
async fn a_failed_login_of_a_device_leaves_neither_a_token_nor_a_browser() {
    let stand = Stand::new().await;
    let ticket = stand.pairing("phone").unwrap();
    // The store takes the token, and loses the browser.
    stand.store.hold_after(1);
    let lose = async {
        while stand.store.waiting() == 0 {
            tokio::task::yield_now().await;
        }
        stand.store.lose();
    };
    let (refused, ()) = tokio::join!(stand.access.tickets().redeem(&ticket, Caller::default()), lose);
    let refused = refused.unwrap_err();
    assert_eq!(refused.code, portolan_core::RefusalCode::StoreFailing);
    assert_eq!((stand.names(), stand.access.tickets().browsers()), (vec!["owner".to_owned()], vec![]));
    let again = stand.pairing("phone").unwrap();
    assert!(stand.access.tickets().redeem(&again, Caller::default()).await.unwrap().is_some());
}
