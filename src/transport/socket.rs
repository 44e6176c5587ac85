//! A socket, with TLS or without, on which every operation ends by a deadline.
//!
//! A timeout of the system limits one read, so a peer that sends a byte at a time can prolong a
//! reply or a handshake without limit. Here the deadline limits the whole of it.

use std::io::{self, ErrorKind, Read, Write};
use std::net::ToSocketAddrs;
use std::time::Duration;

use redis::ConnectionAddr;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, SockAddr, TcpKeepalive, Type};

use crate::base::clock::Moment;
use crate::transport::tls::{Session, Tls};

mod shared;

pub(crate) use shared::{Reading, SharedSocket};

/// The shortest timeout of an operation. The system accepts no timeout of zero.
const SHORTEST: Duration = Duration::from_millis(1);

/// The longest single wait for a socket. Every system accepts it, and a longer one is repeated.
const LONGEST_POLL: Duration = Duration::from_secs(3600);

/// The first bytes of a TLS alert, of any version. No reply of Redis begins with them.
const ALERT: &[u8] = &[0x15, 0x03];

#[derive(Debug)]
pub(crate) struct Socket {
    bytes: Bytes,
    tls: Option<Session>,
    /// Nothing was read yet, so the server may turn out to require TLS.
    may_require_tls: bool,
}

/// The bytes on the network, below TLS.
#[derive(Debug)]
struct Bytes {
    socket: socket2::Socket,
    deadline: Moment,
    reading: Armed,
    writing: Armed,
}

/// The timeout that the system has for reads or writes. Setting it is a system call, so it is set
/// again only if it would end too late; if it ends too early, the operation is repeated. So a read
/// that waits for a reply is one system call.
#[derive(Debug, Default)]
struct Armed(Duration);

impl Socket {
    /// Connects within `time`, which the addresses of a host and the TLS handshake share. The
    /// system looks up the name of the host, with its own timeout.
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
            // Without TLS, the connection would not be as safe as the user demands.
            (Some(_), other) => return Err(unsupported(other)),
        };
        Ok(Self {
            bytes,
            tls: session,
            may_require_tls: tls.is_none() && matches!(address, ConnectionAddr::Tcp(..)),
        })
    }

    /// Every read and write from here on ends by `deadline`. After that, a read returns only what
    /// has arrived already. With [`Moment::ZERO`], a write does not wait, and ends at once when the
    /// buffer of the system is full.
    pub(crate) fn set_deadline(&mut self, deadline: Moment) {
        self.bytes.deadline = deadline;
    }
}

/// Waits for one of these events until the deadline; false if none came.
pub(crate) fn wait(polled: &mut [PollFd<'_>], deadline: Moment) -> io::Result<bool> {
    loop {
        let left = deadline.left();
        let time = Timespec::try_from(left.min(LONGEST_POLL)).map_err(io::Error::other)?;
        match poll(polled, Some(&time)) {
            Ok(0) if left > LONGEST_POLL => {}
            Ok(count) => return Ok(count > 0),
            Err(error) if error == rustix::io::Errno::INTR => {}
            Err(error) => return Err(error.into()),
        }
    }
}

impl Bytes {
    fn connect(address: &ConnectionAddr, time: Duration) -> io::Result<Self> {
        let deadline = Moment::now().after(time);
        match address {
            ConnectionAddr::Tcp(host, port) => {
                let addresses: Vec<_> = (host.as_str(), *port).to_socket_addrs()?.collect();
                let mut failure = io::Error::from(ErrorKind::AddrNotAvailable);
                for (index, &address) in addresses.iter().enumerate() {
                    let untried = u32::try_from(addresses.len() - index).unwrap_or(u32::MAX);
                    match Self::connect_tcp(address.into(), deadline.left() / untried) {
                        Ok(socket) => return Ok(Self::new(socket)),
                        Err(error) => failure = error,
                    }
                }
                Err(failure)
            }
            ConnectionAddr::Unix(path) => {
                let socket = socket2::Socket::new(Domain::UNIX, Type::STREAM, None)?;
                // This timeout limits the connect, too.
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
        // A subscriber only reads. Without keepalive it would not notice that the peer is gone.
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

impl Armed {
    /// Runs `operation` until the deadline, again if it ends before that with nothing done.
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
            let is_too_long = || self.0 > left && self.0 > left + left / 16 + SHORTEST;
            if self.0.is_zero() || is_too_long() {
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

/// Fails if the first read shows that the server requires TLS: it sends an alert, or it resets the
/// connection.
fn check_for_tls(first_read: &io::Result<usize>, buffer: &[u8]) -> io::Result<()> {
    let (kind, text) = match first_read {
        Ok(read) if buffer[..*read].starts_with(ALERT) => {
            (ErrorKind::InvalidData, "it requires TLS".into())
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
        format!("cannot connect to {address}"),
    )
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = match &mut self.tls {
            Some(tls) => tls.read(&mut self.bytes, buffer),
            None => self.bytes.read(buffer),
        };
        let is_over = matches!(&read, Err(error) if error.kind() == ErrorKind::TimedOut);
        if !is_over && std::mem::take(&mut self.may_require_tls) {
            check_for_tls(&read, buffer)?;
        }
        read
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
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
        let read = self.reading.until(
            self.deadline,
            |time| self.socket.set_read_timeout(Some(time)),
            || socket.read(buffer),
        );
        match read {
            Err(error) if error.kind() == ErrorKind::TimedOut => {
                match wait(&mut [PollFd::new(socket, PollFlags::IN)], Moment::ZERO)? {
                    true => socket.read(buffer),
                    false => Err(error),
                }
            }
            read => read,
        }
    }
}

impl Write for Bytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut socket = &self.socket;
        if self.deadline == Moment::ZERO {
            socket.set_nonblocking(true)?;
            let written = socket.write(bytes);
            socket.set_nonblocking(false)?;
            return written;
        }
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
