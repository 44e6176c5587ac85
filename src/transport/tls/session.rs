//! The TLS session of one connection. The socket below it has a deadline, which bounds each read
//! and write here, too.

use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;

use rustls::AlertDescription;
use rustls::client::{ClientConfig, ClientConnection};
use rustls::pki_types::ServerName;

use super::{CertificateRefused, HandshakeTimeout};

/// A session. Dropping it sends no `close_notify`: a forked child that drops its copy would end the
/// session of its parent, and the rest of a half-sent request would go out with it.
#[derive(Debug)]
pub(crate) struct Session(Box<ClientConnection>);

impl Session {
    /// Does the handshake over `socket`.
    pub(super) fn open(
        config: Arc<ClientConfig>,
        server: ServerName<'static>,
        socket: &mut (impl Read + Write),
    ) -> io::Result<Self> {
        let mut connection = ClientConnection::new(config, server).map_err(io::Error::other)?;
        connection.complete_io(socket).map_err(in_handshake)?;
        Ok(Self(Box::new(connection)))
    }

    /// Processes bytes from the server, which may be for the session only. The session's response,
    /// if any, is sent before the next write.
    fn receive(&mut self, socket: &mut impl Read) -> io::Result<()> {
        self.0.read_tls(socket)?;
        self.0.process_new_packets().map(drop).map_err(refused)
    }

    /// The records for all of `plain`, after what the session itself has to send.
    pub(crate) fn encrypt(&mut self, mut plain: &[u8]) -> io::Result<Vec<u8>> {
        let mut records = Vec::with_capacity(plain.len() + 64);
        loop {
            self.flush(&mut records)?;
            if plain.is_empty() {
                return Ok(records);
            }
            let taken = self.0.writer().write(plain)?;
            plain = &plain[taken..];
        }
    }

    /// Takes bytes from the server.
    pub(crate) fn decrypt(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        loop {
            self.receive(&mut bytes)?;
            if bytes.is_empty() {
                return Ok(());
            }
        }
    }

    /// Reads text that was decrypted. An error of the kind `WouldBlock` if there is none.
    pub(crate) fn decrypted(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.reader().read(buffer)
    }

    fn flush(&mut self, socket: &mut impl Write) -> io::Result<()> {
        while self.0.wants_write() {
            if self.0.write_tls(socket)? == 0 {
                return Err(ErrorKind::WriteZero.into());
            }
        }
        Ok(())
    }
}

fn refused(error: rustls::Error) -> io::Error {
    let is_refusal = match &error {
        rustls::Error::InvalidCertificate(_) => true,
        rustls::Error::AlertReceived(alert) => is_about_a_certificate(*alert),
        _ => false,
    };
    let text = match error {
        rustls::Error::AlertReceived(alert) => format!("the server ended TLS with {alert:?}"),
        other => format!("TLS failed: {other}"),
    };
    if is_refusal {
        io::Error::new(ErrorKind::InvalidData, CertificateRefused(text))
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

/// Adds to an error what to check.
fn in_handshake(error: io::Error) -> io::Error {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref());
    let text = match (error.kind(), tls) {
        (_, Some(rustls::Error::InvalidMessage(_))) => {
            "the reply to the TLS handshake is not TLS; is this the TLS port?".into()
        }
        (_, Some(other)) => return refused(other.clone()),
        (kind @ ErrorKind::TimedOut, _) => return io::Error::new(kind, HandshakeTimeout),
        _ => format!("TLS handshake: {error}"),
    };
    io::Error::new(error.kind(), text)
}
