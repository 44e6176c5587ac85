//! The TLS session of one connection. The socket below it has a deadline, which bounds each read
//! and write here, too.

use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;

use rustls::client::{ClientConfig, ClientConnection};
use rustls::pki_types::ServerName;
use rustls::{AlertDescription, CertificateError};

use super::CertificateRefused;
use crate::base::excerpt;

/// A session. Dropping it sends no `close_notify`: a forked child that drops its copy would end the
/// session of its parent, and the rest of a half-sent request would go out with it.
#[derive(Debug)]
pub(crate) struct Session(Box<ClientConnection>);

impl Session {
    pub(super) fn new(config: Arc<ClientConfig>, server: ServerName<'static>) -> io::Result<Self> {
        let session = ClientConnection::new(config, server).map_err(io::Error::other)?;
        Ok(Self(Box::new(session)))
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        self.0.is_handshaking()
    }

    /// The records for all of `plain`, after what the session itself has to send.
    pub(crate) fn encrypt(&mut self, mut plain: &[u8]) -> io::Result<Vec<u8>> {
        let mut records = Vec::with_capacity(plain.len() + 64);
        loop {
            while self.0.wants_write() {
                self.0.write_tls(&mut records)?;
            }
            if plain.is_empty() {
                return Ok(records);
            }
            let taken = self.0.writer().write(plain)?;
            plain = &plain[taken..];
        }
    }

    /// Takes bytes from the server, or the end of the connection if there are none. The session's
    /// response, if any, is sent before the next write.
    pub(crate) fn decrypt(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        loop {
            self.0.read_tls(&mut bytes)?;
            self.0.process_new_packets().map_err(refused)?;
            if bytes.is_empty() {
                return Ok(());
            }
        }
    }

    /// Reads text that was decrypted. An error of the kind `WouldBlock` if there is none.
    pub(crate) fn decrypted(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.reader().read(buffer)
    }
}

fn refused(error: rustls::Error) -> io::Error {
    let is_refusal = match &error {
        rustls::Error::InvalidCertificate(_) => true,
        rustls::Error::AlertReceived(alert) => is_about_a_certificate(*alert),
        _ => false,
    };
    let is_of_another_host = matches!(
        error,
        rustls::Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }
        )
    );
    let text = match error {
        rustls::Error::AlertReceived(alert) => format!("the server ended TLS with {alert:?}"),
        rustls::Error::InvalidMessage(_) => "the reply is not TLS; is this the TLS port?".into(),
        // It may repeat the names in a certificate.
        other => excerpt(format_args!("TLS failed: {other}")),
    };
    if is_refusal {
        let refused = CertificateRefused {
            text,
            is_of_another_host,
        };
        io::Error::new(ErrorKind::InvalidData, refused)
    } else {
        io::Error::new(ErrorKind::InvalidData, text)
    }
}

/// True if the alert is about the client's certificate, or a missing one.
fn is_about_a_certificate(alert: AlertDescription) -> bool {
    matches!(
        alert,
        AlertDescription::NoCertificate
            | AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateRequired
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied
    )
}
