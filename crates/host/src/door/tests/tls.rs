//! TLS, and where we may listen without it.

use std::time::Duration;

use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::{CertificateDer, ServerName, pem::PemObject as _};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::*;

async fn secure(change: impl FnOnce(&mut DoorSettings)) -> (Stand, TlsFiles) {
    let home = tempfile::tempdir().unwrap();
    let files = TlsFiles::self_signed(home.path(), &[], &Clock::system()).unwrap();
    let here = files.clone();
    let stand = Stand::again(Arc::default(), home, move |settings| {
        settings.tls = Some(here);
        change(settings);
    })
    .await;
    (stand, files)
}

async fn connect(stand: &Stand, files: &TlsFiles, name: &str) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&files.certificate).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let stream = TcpStream::connect(stand.address).await.unwrap();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

#[tokio::test]
async fn the_self_signed_certificate_carries_a_login() {
    let (stand, files) = secure(|_| {}).await;
    assert_eq!(
        stand.serving.as_ref().unwrap().addresses[0].url(),
        Some(format!("https://{}", stand.address))
    );
    let host = format!("Host: {}", stand.address);
    let origin = format!("Origin: https://{}", stand.address);
    let stream = connect(&stand, &files, "localhost").await.unwrap();
    let answer = exchange(stream, "GET /api/v1/who", &[&host, &origin, &stand.bearer()], "").await;
    assert_eq!((answer.status, answer.body.as_str()), (200, "owner owner api"));
    let stream = connect(&stand, &files, "127.0.0.1").await.unwrap();
    let plain = origin.replace("https", "http");
    let answer = exchange(stream, "GET /api/v1/who", &[&host, &plain, &stand.bearer()], "").await;
    assert_eq!(answer.status, 403, "the same page by http is another one");
    assert!(connect(&stand, &files, "evil.example").await.is_err());

    let ticket =
        stand.access.tickets().create(&stand.tokens.standing(&Tokens::owner_id()).unwrap().principal);
    let body = format!(r#"{{"ticket":"{}"}}"#, ticket.unwrap().0);
    let length = format!("Content-Length: {}", body.len());
    let stream = connect(&stand, &files, "localhost").await.unwrap();
    let lines = [host.as_str(), &length, "Content-Type: application/json"];
    let answer = exchange(stream, "POST /api/v1/login", &lines, &body).await;
    assert!(answer.header("set-cookie").unwrap().ends_with("; Secure"));
}

#[tokio::test]
async fn a_client_that_never_ends_its_handshake_is_cut_off_and_holds_up_nobody() {
    let (stand, files) = secure(|settings| settings.limits.handshake = Duration::from_millis(200)).await;
    let mut silent = TcpStream::connect(stand.address).await.unwrap();
    let host = format!("Host: {}", stand.address);
    let stream = connect(&stand, &files, "localhost").await.unwrap();
    assert_eq!(exchange(stream, "GET /healthz", &[&host], "").await.status, 200);
    let mut bytes = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(20), silent.read_to_end(&mut bytes)).await;
    let _ = read.expect("the connection stays open");
    assert_eq!(bytes, b"");
}

#[tokio::test]
async fn without_tls_only_loopback_may_be_listened_on() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "[2001:db8::1]:0", "[::ffff:192.0.2.1]:0"] {
        for behind_proxy in [false, true] {
            let listen = vec!["127.0.0.1:0".parse().unwrap(), address.parse().unwrap()];
            let settings = DoorSettings { listen, behind_proxy, ..DoorSettings::default() };
            let error = Door::bind(&settings).await.unwrap_err();
            assert!(matches!(error, DoorError::PlainBeyondLoopback(_)), "{error}");
            assert!(error.to_string().contains("tls_cert"), "it says the way out: {error}");
        }
    }
}

#[tokio::test]
async fn with_tls_other_addresses_may_be_listened_on() {
    let home = tempfile::tempdir().unwrap();
    let tls = Some(TlsFiles::self_signed(home.path(), &[], &Clock::system()).unwrap());
    // An address for documentation, which no machine has: the door only tries to bind it.
    let settings =
        DoorSettings { listen: vec!["192.0.2.1:0".parse().unwrap()], tls, ..DoorSettings::default() };
    let error = Door::bind(&settings).await.unwrap_err();
    assert!(matches!(error, DoorError::Io { .. }), "{error}");
}
