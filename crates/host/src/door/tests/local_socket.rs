//! The Unix socket: our own user, and no agent.

use std::{
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use tokio::net::UnixStream;

use super::*;

struct Local {
    stand: Stand,
    path: PathBuf,
    asked: Arc<Mutex<Vec<u32>>>,
}

async fn local(welcome: bool) -> Local {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("daemon.sock");
    let asked: Arc<Mutex<Vec<u32>>> = Arc::default();
    let (listen, noted) = (ListenAddress::Unix(path.clone()), asked.clone());
    let stand = Stand::again(Arc::default(), home, move |settings| {
        settings.listen = vec![listen];
        settings.peer_check = Arc::new(move |pid| {
            noted.lock().unwrap().push(pid);
            welcome
        });
    })
    .await;
    Local { stand, path, asked }
}

async fn ask(path: &Path, request: &str, lines: &[&str]) -> Answer {
    exchange(UnixStream::connect(path).await.unwrap(), request, lines, "").await
}

#[tokio::test]
async fn our_own_user_is_the_owner_at_the_socket() {
    let local = local(true).await;
    assert_eq!(std::fs::metadata(&local.path).unwrap().mode() & 0o7777, 0o600);
    let answer = ask(&local.path, "GET /api/v1/who", &["Host: whatever"]).await;
    assert_eq!((answer.status, answer.body.as_str()), (200, "owner owner cli"));
    assert_eq!(ask(&local.path, "GET /metrics", &[]).await.body, "figures", "no Host is needed");
    let own = std::process::id();
    assert_eq!(*local.asked.lock().unwrap(), [own, own]);
}

#[tokio::test]
async fn a_token_shown_at_the_socket_is_what_counts() {
    let local = local(true).await;
    let (_, secret) =
        local.stand.tokens.create("ada", portolan_core::Role::Viewer, None, None).await.unwrap();
    let bearer = format!("Authorization: Bearer {secret}");
    assert_eq!(ask(&local.path, "GET /api/v1/who", &[&bearer]).await.body, "ada viewer api");
    assert_eq!(ask(&local.path, "GET /api/v1/who", &["Authorization: Bearer wrong"]).await.status, 401);
    assert_eq!(
        ask(&local.path, "GET /api/v1/who", &["Origin: http://localhost"]).await.status,
        403,
        "no page comes here"
    );
}

#[tokio::test]
async fn a_process_inside_an_agents_tree_is_refused() {
    let local = local(false).await;
    for request in ["GET /api/v1/who", "GET /healthz"] {
        let answer = ask(&local.path, request, &[&local.stand.bearer()]).await;
        assert_eq!(answer.refused(), forbidden(403));
        assert!(answer.body.contains("an agent started the process"));
    }
    let uid = rustix::process::getuid().as_raw();
    let refused = |attempts| {
        let from = format!("unix socket, uid {uid}, pid {}", std::process::id());
        let reason = "another user, or a process of an agent".to_owned();
        (None, DaemonEvent::AccessRefused { from, attempts, reason })
    };
    assert_eq!(local.stand.noted(), [refused(1)], "one line a minute, however many come");
    local.stand.pass(60_000);
    ask(&local.path, "GET /healthz", &[]).await;
    assert_eq!(local.stand.noted(), [refused(1), refused(2)]);
}

#[test]
fn another_user_and_an_unseen_process_are_refused() {
    let anyone: PeerCheck = Arc::new(|_| true);
    let is_ours = |uid, pid| crate::door::serve::is_ours(uid, pid, 1000, &anyone);
    assert!(is_ours(1000, Some(7)));
    assert!(!is_ours(1001, Some(7)));
    assert!(!is_ours(0, Some(7)), "not even root, who can do without us");
    assert!(!is_ours(1000, None));
    assert!(!is_ours(1000, Some(0)));
}

#[tokio::test]
async fn a_socket_left_behind_is_replaced_and_a_live_one_is_not() {
    let local = local(true).await;
    let settings =
        DoorSettings { listen: vec![ListenAddress::Unix(local.path.clone())], ..DoorSettings::default() };
    assert!(matches!(Door::bind(&settings).await, Err(DoorError::Taken(_))));
    let path = local.path.clone();
    let (_, home) = local.stand.close().await;
    assert!(!path.exists(), "it goes with the door");

    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists(), "a killed daemon leaves it");
    drop(Door::bind(&settings).await.unwrap());
    std::fs::write(&path, "hello").unwrap();
    assert!(matches!(Door::bind(&settings).await, Err(DoorError::InTheWay(_))));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "hello");
    let long = ListenAddress::Unix(home.path().join("x".repeat(200)));
    let settings = DoorSettings { listen: vec![long], ..DoorSettings::default() };
    assert!(matches!(Door::bind(&settings).await, Err(DoorError::Io { .. })), "a name is not shortened");
}

#[tokio::test]
async fn a_socket_deep_down_is_bound_and_reached() {
    let home = tempfile::tempdir().unwrap();
    let deep = home.path().join("d".repeat(120)).join("e".repeat(120));
    std::fs::create_dir_all(&deep).unwrap();
    let path = deep.join("daemon.sock");
    let settings =
        DoorSettings { listen: vec![ListenAddress::Unix(path.clone())], ..DoorSettings::default() };
    let door = Door::bind(&settings).await.unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
    let reach = Reach::to(&path).unwrap();
    tokio::net::UnixStream::connect(reach.path()).await.unwrap();
    assert!(matches!(Door::bind(&settings).await, Err(DoorError::Taken(_))));
    drop(door);
    assert!(!path.exists());
}

#[tokio::test]
async fn a_door_removes_its_own_socket_and_no_newer_one() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("daemon.sock");
    let settings =
        DoorSettings { listen: vec![ListenAddress::Unix(path.clone())], ..DoorSettings::default() };
    let old = Door::bind(&settings).await.unwrap();
    std::fs::remove_file(&path).unwrap();
    let newer = Door::bind(&settings).await.unwrap();
    drop(old);
    assert!(path.exists());
    drop(newer);
    assert!(!path.exists());
}

// The kernel's identification holds no longer than the owner's secret.
#[tokio::test]
async fn clients_at_the_socket_are_disconnected_when_the_owners_secret_is_replaced() {
    let local = local(true).await;
    let path = local.path.clone();
    let waiting = tokio::spawn(async move { ask(&path, "GET /api/v1/stay", &[]).await });
    ARRIVED.acquire().await.unwrap().forget();
    let file = local.stand.home.path().join("token");
    local.stand.tokens.rotate_owner(&file).await.unwrap();
    let answer = tokio::time::timeout(std::time::Duration::from_secs(20), waiting).await.expect("it goes on");
    assert_eq!(answer.unwrap().refused(), forbidden(401));
}
