//! TLS to a remote daemon. Trusts the system's certificates and those of a named file; any other certificate is
//! refused, because the token gives access to everything the daemon can do.

use std::{path::Path, sync::Arc};

use rustls_pki_types::{CertificateDer, ServerName, pem::PemObject as _};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::Error;

/// Where systems keep their trusted certificates.
const SYSTEM: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
    "/etc/ssl/ca-bundle.pem",
];

/// Speaks TLS over `stream` with the daemon called `host`.
pub(super) async fn wrap(
    stream: TcpStream,
    host: &str,
    ca_file: Option<&Path>,
) -> Result<TlsStream<TcpStream>, Error> {
    let mut roots = rustls::RootCertStore::empty();
    if let Some(file) = ca_file {
        add(&mut roots, file)
            .map_err(|error| format!("the certificates in `{}` cannot be used: {error}", file.display()))
            .map_err(Error::Invalid)?;
    }
    let named = std::env::var_os("SSL_CERT_FILE").map(std::path::PathBuf::from);
    for file in named.iter().map(std::path::PathBuf::as_path).chain(SYSTEM.iter().map(Path::new)) {
        // Only one of these exists on any system.
        let _ = add(&mut roots, file);
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Unreachable(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| Error::Invalid(format!("`{host}` is not a host name")))?;
    let connected = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
    connected.map_err(|error| Error::Untrusted(format!("no trusted connection to `{host}`: {error}")))
}

fn add(roots: &mut rustls::RootCertStore, file: &Path) -> Result<(), String> {
    let found = CertificateDer::pem_file_iter(file).map_err(|error| error.to_string())?;
    let mut any = false;
    for certificate in found {
        let certificate = certificate.map_err(|error| error.to_string())?;
        any |= roots.add(certificate).is_ok();
    }
    if any { Ok(()) } else { Err("the file holds no usable certificate".into()) }
}
