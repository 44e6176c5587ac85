//! Which certificates the client trusts, and which certificate it sends.

use std::fmt;
use std::io::{self, ErrorKind};
use std::sync::Arc;

use rustls::client::ClientConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ConfigBuilder, RootCertStore, WantsVerifier};

use super::{Session, TlsSettings};
use crate::error::{Error, Result};

/// Opens connections over TLS. Created once for a client, and cheap to clone.
#[derive(Clone)]
pub(crate) struct Tls(Arc<ClientConfig>);

/// Shows no fields, because the configuration contains a private key.
impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

impl Tls {
    /// Trusts the authorities of the settings, or else those of the system. Sends the certificate
    /// of the settings to servers that require one.
    pub(crate) fn new(settings: &TlsSettings) -> Result<Self> {
        let trusting = builder()?.with_root_certificates(match &settings.ca_certificates {
            Some(pem) => roots(pem)?,
            None => roots_of_the_system()?,
        });
        let config = match &settings.client_certificate {
            Some((chain, key)) => trusting
                .with_client_auth_cert(
                    certificates("client_certificate", chain)?,
                    private_key(key)?,
                )
                .map_err(|error| {
                    Error::config("client_certificate", "not usable", error.to_string())
                })?,
            None => trusting.with_no_client_auth(),
        };
        Ok(Self(Arc::new(config)))
    }

    /// Fails if no certificate can be issued for the host.
    pub(super) fn check_host(&self, field: &'static str, host: &str) -> Result<()> {
        server_name(host).map(drop).map_err(|error| {
            let value = format_args!("invalid (host {host:?})");
            Error::config(field, value, error.to_string())
        })
    }

    /// Opens a session with the server, whose certificate must be for `host`: a name or an address.
    pub(crate) fn open(&self, host: &str) -> io::Result<Session> {
        Session::new(Arc::clone(&self.0), server_name(host)?)
    }
}

fn server_name(host: &str) -> io::Result<ServerName<'static>> {
    let rule = "with TLS a host must be a DNS name or an address";
    let invalid = |_| io::Error::new(ErrorKind::InvalidInput, rule);
    Ok(ServerName::try_from(host).map_err(invalid)?.to_owned())
}

/// Uses the crypto provider that the process has installed, or else `ring`. `rustls` itself panics
/// if none is installed and several are built in.
fn builder() -> Result<ConfigBuilder<ClientConfig, WantsVerifier>> {
    let chosen = CryptoProvider::get_default().cloned();
    let provider = chosen.unwrap_or_else(|| Arc::new(rustls::crypto::ring::default_provider()));
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| {
            let rule = format!("the crypto provider of this process does not support it: {error}");
            Error::config("url", "a URL with TLS", rule)
        })
}

fn roots(pem: &[u8]) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates("ca_certificates", pem)? {
        roots.add(certificate).map_err(|error| {
            let value = format!("{} bytes of PEM", pem.len());
            let rule = format!("each certificate must be that of an authority: {error}");
            Error::config("ca_certificates", value, rule)
        })?;
    }
    Ok(roots)
}

/// The authorities of the system. Skips certificates that cannot be read.
fn roots_of_the_system() -> Result<RootCertStore> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why = found.errors.first();
        let why = why.map_or("there are none".into(), ToString::to_string);
        let rule = format!(
            "none of the system's authorities can be read ({why}); install them, check \
             SSL_CERT_FILE and SSL_CERT_DIR, or set other authorities"
        );
        return Err(Error::config("ca_certificates", "not set", rule));
    }
    Ok(roots)
}

fn certificates(field: &'static str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>> {
    let found: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .unwrap_or_default();
    if found.is_empty() {
        let rule = "must have at least one certificate in PEM, all of them readable";
        let value = format!("{} bytes", pem.len());
        return Err(Error::config(field, value, rule));
    }
    Ok(found)
}

/// Drops the parser's error, because that contains lines of the key.
fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|_| {
        let value = format!("with a key of {} bytes", pem.len());
        let rule = "its key must be one private key in PEM, not encrypted";
        Error::config("client_certificate", value, rule)
    })
}
