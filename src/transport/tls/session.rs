//! One connection's TLS. What it runs over brings its deadline with it, so whatever is read or written
//! here ends by that, too.

use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;

use rustls::AlertDescription;
use rustls::client::{ClientConfig, ClientConnection};
use rustls::pki_types::ServerName;

use super::{CertificateRefused, HandshakeTimeout};

/// Ends without a word to the server: the copies that a forked child drops would say it for its
/// parent, and what is left of half a request would go out with it.
#[derive(Debug)]
pub(crate) struct Session(Box<ClientConnection>);

impl Session {
    /// Shakes hands over `socket`.
    pub(super) fn open(
        config: Arc<ClientConfig>,
        server: ServerName<'static>,
        socket: &mut (impl Read + Write),
    ) -> io::Result<Self> {
        let mut connection = ClientConnection::new(config, server).map_err(io::Error::other)?;
        connection.complete_io(socket).map_err(in_handshake)?;
        Ok(Self(Box::new(connection)))
    }

    /// Reads what the server said. What has arrived of a record when the time is over stays.
    pub(crate) fn read(&mut self, socket: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.reader().read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.receive(socket)?,
                done => return done,
            }
        }
    }

    /// Takes bytes of the server. They may be for the session only; if it has something to say to them, it
    /// says it before what is written next.
    fn receive(&mut self, socket: &mut impl Read) -> io::Result<()> {
        self.0.read_tls(socket)?;
        self.0.process_new_packets().map(drop).map_err(refused)
    }

    /// Sends some of `bytes`, and says how many.
    pub(crate) fn write(
        &mut self,
        socket: &mut (impl Read + Write),
        bytes: &[u8],
    ) -> io::Result<usize> {
        self.flush(socket)?;
        let taken = self.0.writer().write(bytes)?;
        match self.flush(socket) {
            Ok(()) => Ok(taken),
            Err(error) => Err(self.why(socket, error)),
        }
    }

    fn flush(&mut self, socket: &mut impl Write) -> io::Result<()> {
        while self.0.wants_write() {
            if self.0.write_tls(socket)? == 0 {
                return Err(ErrorKind::WriteZero.into());
            }
        }
        Ok(())
    }

    /// A server that did not like the client's certificate says so and hangs up, at a time at which the
    /// client may be writing already.
    fn why(&mut self, socket: &mut impl Read, error: io::Error) -> io::Error {
        if error.kind() == ErrorKind::TimedOut {
            return error;
        }
        match self.receive(socket) {
            Err(alert) if alert.kind() == ErrorKind::InvalidData => alert,
            _ => error,
        }
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

/// Ours, that is, or that we have none.
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

/// In words that say what to look at.
fn in_handshake(error: io::Error) -> io::Error {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref());
    let text = match (error.kind(), tls) {
        (_, Some(rustls::Error::InvalidMessage(_))) => {
            "what answered the TLS handshake is not TLS; is this the TLS port?".into()
        }
        (_, Some(other)) => return refused(other.clone()),
        (kind @ ErrorKind::TimedOut, _) => return io::Error::new(kind, HandshakeTimeout),
        _ => format!("TLS handshake: {error}"),
    };
    io::Error::new(error.kind(), text)
}
