//! TLS: reads a certificate and its key, or makes a self-signed pair on request.

use std::{
    io,
    net::IpAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use portolan_core::{Millis, ports::Clock};
use rustls::{ServerConfig, client::verify_server_name, server::ParsedCertificate};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _};
use sha2::Digest as _;

use super::{
    owner_file::{private_name, write_private},
    settings::TlsFiles,
};

/// How long a self-signed certificate is valid: browsers accept none that lasts much longer.
const VALID: Duration = Duration::from_hours(397 * 24);
/// The age at which a new certificate is made, well before the old one expires.
const RENEW: Duration = Duration::from_hours(300 * 24);
/// How long before its creation a certificate becomes valid: other clocks are behind ours.
const BACKDATED: Duration = Duration::from_hours(24);

/// The certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read or written.
    #[error("`{}`: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The file does not hold it.
    #[error("`{}` holds no {what} in PEM form: {source}", .path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// Certificate or key.
        what: &'static str,
        /// The reason.
        source: rustls_pki_types::pem::Error,
    },
    /// The certificate and the key do not belong together, or are of an unsupported kind.
    #[error("the certificate and the key cannot be used together: {0}")]
    Unusable(#[from] rustls::Error),
    /// A certificate cannot be made for these names.
    #[error("no certificate can be made for these names: {0}")]
    Names(#[from] rcgen::Error),
}

/// The configuration for accepting connections.
pub(super) fn configure(files: &TlsFiles) -> Result<Arc<ServerConfig>, TlsError> {
    let chain = certificates(&files.certificate)?;
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|source| TlsError::Pem {
        path: files.key.clone(),
        what: "private key",
        source,
    })?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let pem = |source| TlsError::Pem { path: path.to_owned(), what: "certificate", source };
    let chain =
        CertificateDer::pem_file_iter(path).map_err(pem)?.collect::<Result<Vec<_>, _>>().map_err(pem)?;
    if chain.is_empty() {
        return Err(pem(rustls_pki_types::pem::Error::NoItemsFound));
    }
    Ok(chain)
}

impl TlsFiles {
    /// A self-signed certificate in `home` for loopback and these names and addresses: the existing one, or a new one
    /// if it is old or lacks a name.
    pub fn self_signed(home: &Path, names: &[String], clock: &Clock) -> Result<Self, TlsError> {
        let files = Self { certificate: home.join("tls-cert.pem"), key: home.join("tls-key.pem") };
        let mut all = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
        all.extend(names.iter().filter(|name| !all.contains(name)).cloned().collect::<Vec<_>>());
        let now = clock.now();
        if !files.is_good_for(&all, now) {
            files.make(&all, now)?;
        }
        Ok(files)
    }

    /// SHA-256 of the certificate, as browsers show it, so that people can compare.
    pub fn fingerprint(&self) -> Result<String, TlsError> {
        let chain = certificates(&self.certificate)?;
        let digest = chain.first().map(sha2::Sha256::digest).unwrap_or_default();
        Ok(digest.iter().map(|byte| format!("{byte:02X}")).collect::<Vec<_>>().join(":"))
    }

    fn is_good_for(&self, names: &[String], now: Millis) -> bool {
        let made = std::fs::metadata(&self.certificate).and_then(|meta| meta.modified()).ok();
        let made = made.and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
        let age = made.and_then(|made| millis(now).checked_sub(made)).unwrap_or_default();
        if made.is_none() || age > RENEW || configure(self).is_err() {
            return false;
        }
        let Ok(chain) = certificates(&self.certificate) else { return false };
        let Some(Ok(parsed)) = chain.first().map(ParsedCertificate::try_from) else { return false };
        names.iter().all(|name| {
            let name = ServerName::try_from(name.as_str());
            name.is_ok_and(|name| verify_server_name(&parsed, &name).is_ok())
        })
    }

    fn make(&self, names: &[String], now: Millis) -> Result<(), TlsError> {
        let mut params = rcgen::CertificateParams::new(names.to_vec())?;
        let epoch = rcgen::date_time_ymd(1970, 1, 1);
        params.not_before = epoch + millis(now).saturating_sub(BACKDATED);
        params.not_after = epoch + millis(now) + VALID.saturating_sub(BACKDATED);
        params.distinguished_name.push(rcgen::DnType::CommonName, "Portolan on this machine");
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
        let key = rcgen::KeyPair::generate()?;
        let certificate = params.self_signed(&key)?;
        // The key first: a certificate without its key would be found unusable and made again anyway.
        put(&self.key, key.serialize_pem().as_bytes())?;
        put(&self.certificate, certificate.pem().as_bytes())
    }
}

fn put(path: &Path, bytes: &[u8]) -> Result<(), TlsError> {
    let fresh = private_name(path);
    write_private(&fresh, bytes)
        .and_then(|()| std::fs::rename(&fresh, path))
        .map_err(|source| TlsError::Io { path: path.to_owned(), source })
}

fn millis(at: Millis) -> Duration {
    Duration::from_millis(u64::try_from(at.0).unwrap_or_default())
}

/// Whether an address can be reached only from this machine.
pub(super) fn is_local(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn a_self_signed_certificate_is_kept_until_it_is_old_or_lacks_a_name() {
        let home = tempfile::tempdir().unwrap();
        let make = |names: &[&str], days: i64| {
            let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
            let at = Millis(Millis::now().0 + days * 24 * 3600 * 1000);
            TlsFiles::self_signed(home.path(), &names, &Clock::new(move || at))
                .unwrap()
                .fingerprint()
                .unwrap()
        };
        let first = make(&[], 0);
        assert_eq!(make(&[], 1), first);
        let named = make(&["box.example", "192.0.2.7"], 1);
        assert_ne!(named, first);
        assert_eq!(make(&["192.0.2.7"], 2), named);
        assert_ne!(make(&[], 301), named);
        for file in ["tls-key.pem", "tls-cert.pem"] {
            assert_eq!(std::fs::metadata(home.path().join(file)).unwrap().mode() & 0o7777, 0o600);
        }
    }

    #[test]
    fn files_that_are_not_certificates_are_named_in_the_error() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("c.pem");
        let files = TlsFiles { certificate: path.clone(), key: path.clone() };
        assert!(configure(&files).unwrap_err().to_string().contains("c.pem"));
        std::fs::write(&path, "hello").unwrap();
        assert!(configure(&files).unwrap_err().to_string().contains("holds no certificate"));
        let error = TlsFiles::self_signed(home.path(), &["bad name\u{e9}".into()], &Clock::system());
        assert!(error.is_err());
    }
}
