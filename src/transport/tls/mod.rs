//! TLS: which URLs use it, which certificates the client trusts, and the stream over a socket.
//!
//! This crate uses `rustls` directly. The TLS of `redis` has no deadline for a handshake, and
//! panics in a process without a crypto provider.

#[cfg(not(feature = "tls"))]
mod absent;
#[cfg(feature = "tls")]
mod session;
#[cfg(feature = "tls")]
mod trust;

#[cfg(not(feature = "tls"))]
pub(crate) use absent::{Session, Tls};
#[cfg(feature = "tls")]
pub(crate) use session::Session;
#[cfg(feature = "tls")]
pub(crate) use trust::Tls;

use std::error::Error as StdError;
use std::io;
use std::sync::Arc;

use redis::{ConnectionAddr, RedisError};

use crate::error::{Error, Result};

/// One side refused the other's certificate. A retry fails in the same way.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub(crate) struct CertificateRefused {
    pub(crate) text: String,
    /// The server's certificate is for another host.
    pub(crate) is_of_another_host: bool,
}

/// The server did not reply to the TLS handshake in time.
#[derive(Debug, thiserror::Error)]
#[error("no reply to the TLS handshake in time; is this the TLS port?")]
pub(crate) struct HandshakeTimeout;

/// Adds to an error of a handshake what to check.
pub(crate) fn in_handshake(error: io::Error) -> io::Error {
    match error.kind() {
        // That of the session itself.
        io::ErrorKind::InvalidData => error,
        kind @ io::ErrorKind::TimedOut => io::Error::new(kind, HandshakeTimeout),
        kind => io::Error::new(kind, format!("TLS handshake: {error}")),
    }
}

/// True if `error` is an I/O error that contains an `E`.
pub(crate) fn is_caused_by<E: StdError + 'static>(error: &RedisError) -> bool {
    io_cause::<E>(error).is_some()
}

/// The `E` that `error` contains, if it is an I/O error with one.
pub(crate) fn io_cause<E: StdError + 'static>(error: &RedisError) -> Option<&E> {
    // The source of a `RedisError` is the `Arc` that holds the I/O error.
    let shared = error
        .source()
        .and_then(|source| source.downcast_ref::<Arc<dyn StdError + Send + Sync>>());
    let io: Option<&io::Error> = shared.and_then(|shared| shared.downcast_ref());
    io.and_then(io::Error::get_ref)
        .and_then(<dyn StdError + Send + Sync>::downcast_ref)
}

/// The TLS settings of the builder. Has no `Debug`, because it contains a private key.
#[derive(Clone, Default)]
pub(crate) struct TlsSettings {
    pub(crate) ca_certificates: Option<Vec<u8>>,
    /// The certificate chain and the private key.
    pub(crate) client_certificate: Option<(Vec<u8>, Vec<u8>)>,
}

impl TlsSettings {
    /// What connections to these servers need, which the setting `field` names. Without TLS it is
    /// nothing, and refuses these settings, so that a missing `s` in `rediss://` is noticed.
    pub(crate) fn check(
        &self,
        with_tls: bool,
        field: &'static str,
        servers: &[ConnectionAddr],
    ) -> Result<Option<Tls>> {
        if with_tls {
            let tls = Tls::new(self)?;
            for server in servers {
                if let ConnectionAddr::Tcp(host, _) = server {
                    tls.check_host(field, host)?;
                }
            }
            return Ok(Some(tls));
        }
        let field = if self.ca_certificates.is_some() {
            "ca_certificates"
        } else if self.client_certificate.is_some() {
            "client_certificate"
        } else {
            return Ok(None);
        };
        let rule = "needs a URL with TLS, which begins with rediss://";
        Err(Error::config(field, "set", rule))
    }
}
