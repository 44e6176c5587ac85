//! A socket on which everything ends by a deadline, with TLS or without.
//!
//! A time-out of the system bounds one read, so a peer that sends a byte at a time can stretch a reply
//! or a handshake without end. Here the deadline bounds the whole of it.

use std::io::{self, ErrorKind, Read, Write};
use std::net::ToSocketAddrs;
use std::time::Duration;

use redis::ConnectionAddr;
use redis::io::tcp::socket2::{self, Domain, SockAddr, TcpKeepalive, Type};

use crate::base::clock::Moment;
use crate::transport::tls::{Session, Tls};

/// Sockets take no time-out of zero.
const SHORTEST: Duration = Duration::from_millis(1);

/// How TLS begins when it says that it ends: an alert, of any version. No reply of Redis begins so.
const ALERT: &[u8] = &[0x15, 0x03];

#[derive(Debug)]
pub(crate) struct Socket {
    bytes: Bytes,
    tls: Option<Session>,
    /// Something was read since the last write. What TLS says to itself does not count: a server may
    /// send its tickets while it has not read the request.
    answered: bool,
    /// Nothing was read yet, and it may turn out that the server wants TLS.
    in_doubt: bool,
}

/// What goes over the connection, as it is.
#[derive(Debug)]
struct Bytes {
    socket: socket2::Socket,
    deadline: Moment,
    reading: Armed,
    writing: Armed,
}

/// The time-out that the system was told. Telling it costs a system call, so it is told anew only if it
/// would end too late; if it ends too early, the operation is begun again.
#[derive(Debug, Default)]
struct Armed(Duration);

impl Socket {
    /// Connects within `time`, which the addresses of a host and the handshake of TLS share. The look-up of
    /// the host's name is the system's, and takes what the system takes.
    pub(crate) fn connect(
        address: &ConnectionAddr,
        tls: Option<&Tls>,
        time: Duration,
    ) -> io::Result<Self> {
        let deadline = Moment::now().after(time);
        let mut bytes = Bytes::connect(address, time)?;
        bytes.deadline = deadline;
        let session = match (tls, address) {
            (None, _) => None,
            (Some(tls), ConnectionAddr::Tcp(host, _)) => Some(tls.open(host, &mut bytes)?),
            // Never what was asked for without what makes it safe.
            (Some(_), other) => return Err(unsupported(other)),
        };
        Ok(Self {
            bytes,
            tls: session,
            answered: false,
            in_doubt: tls.is_none() && matches!(address, ConnectionAddr::Tcp(..)),
        })
    }

    /// Whether anything came since the last that was written.
    pub(crate) fn is_answered(&self) -> bool {
        self.answered
    }

    /// All that is read and written from here on ends within `time` from now.
    pub(crate) fn set_time_limit(&mut self, time: Duration) {
        self.bytes.deadline = Moment::now().after(time.max(SHORTEST));
    }
}

impl Bytes {
    fn connect(address: &ConnectionAddr, time: Duration) -> io::Result<Self> {
        let deadline = Moment::now().after(time);
        match address {
            ConnectionAddr::Tcp(host, port) => {
                let addresses: Vec<_> = (host.as_str(), *port).to_socket_addrs()?.collect();
                let mut failure = io::Error::from(ErrorKind::AddrNotAvailable);
                for (place, &address) in addresses.iter().enumerate() {
                    let untried = u32::try_from(addresses.len() - place).unwrap_or(u32::MAX);
                    match Self::connect_tcp(address.into(), deadline.left() / untried) {
                        Ok(socket) => return Ok(Self::new(socket)),
                        Err(error) => failure = error,
                    }
                }
                Err(failure)
            }
            ConnectionAddr::Unix(path) => {
                let socket = socket2::Socket::new(Domain::UNIX, Type::STREAM, None)?;
                // This is what bounds the connecting, too.
                socket.set_write_timeout(Some(time.max(SHORTEST)))?;
                socket.connect(&SockAddr::unix(path)?)?;
                Ok(Self::new(socket))
            }
            other => Err(unsupported(other)),
        }
    }

    fn connect_tcp(address: SockAddr, time: Duration) -> io::Result<socket2::Socket> {
        let socket = socket2::Socket::new(address.domain(), Type::STREAM, None)?;
        socket.connect_timeout(&address, time.max(SHORTEST))?;
        socket.set_tcp_nodelay(true)?;
        // Without it a peer that vanished is noticed by nobody who only listens.
        socket.set_tcp_keepalive(&TcpKeepalive::new())?;
        Ok(socket)
    }

    fn new(socket: socket2::Socket) -> Self {
        Self {
            socket,
            deadline: Moment::ZERO,
            reading: Armed::default(),
            writing: Armed::default(),
        }
    }
}

/// How a server that wants TLS ends a connection without: it says so, or it just cuts it.
fn speaks_tls(first_read: &io::Result<usize>, buffer: &[u8]) -> io::Result<()> {
    let (kind, text) = match first_read {
        Ok(read) if buffer[..*read].starts_with(ALERT) => {
            (ErrorKind::InvalidData, "it wants TLS".into())
        }
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {
            (error.kind(), format!("{error}, before any reply"))
        }
        _ => return Ok(()),
    };
    let text = format!("{text}; if this is the TLS port, the URL begins with rediss://");
    Err(io::Error::new(kind, text))
}

fn unsupported(address: &ConnectionAddr) -> io::Error {
    io::Error::new(
        ErrorKind::Unsupported,
        format!("no way to connect to {address}"),
    )
}

impl Armed {
    /// Does `operation`, again if it ends before the deadline with nothing done.
    fn until(
        &mut self,
        deadline: Moment,
        arm: impl Fn(Duration) -> io::Result<()>,
        mut operation: impl FnMut() -> io::Result<usize>,
    ) -> io::Result<usize> {
        loop {
            let left = deadline.left();
            if left.is_zero() {
                return Err(ErrorKind::TimedOut.into());
            }
            let tolerance = left / 16 + SHORTEST;
            if self.0.is_zero() || self.0 > left + tolerance {
                self.arm(left, &arm)?;
            }
            match operation() {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                {
                    self.arm(deadline.left(), &arm)?;
                }
                done => return done,
            }
        }
    }

    fn arm(&mut self, time: Duration, arm: impl Fn(Duration) -> io::Result<()>) -> io::Result<()> {
        let time = time.max(SHORTEST);
        arm(time)?;
        self.0 = time;
        Ok(())
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = match &mut self.tls {
            Some(tls) => tls.read(&mut self.bytes, buffer),
            None => self.bytes.read(buffer),
        };
        if std::mem::take(&mut self.in_doubt) {
            speaks_tls(&read, buffer)?;
        }
        let read = read?;
        self.answered |= read > 0;
        Ok(read)
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.answered = false;
        match &mut self.tls {
            Some(tls) => tls.write(&mut self.bytes, bytes),
            None => self.bytes.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Bytes {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut socket = &self.socket;
        self.reading.until(
            self.deadline,
            |time| self.socket.set_read_timeout(Some(time)),
            || socket.read(buffer),
        )
    }
}

impl Write for Bytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut socket = &self.socket;
        self.writing.until(
            self.deadline,
            |time| self.socket.set_write_timeout(Some(time)),
            || socket.write(bytes),
        )
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
