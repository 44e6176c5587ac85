//! A socket, with TLS or without, on which one thread reads while others write.
//!
//! A timeout of the system limits one read, so a peer that sends a byte at a time can prolong a
//! reply or a handshake without limit. Here the deadline limits the whole of it.

use std::io::{self, ErrorKind, Read};
use std::net::{Shutdown, SocketAddr, ToSocketAddrs};
use std::time::Duration;

use parking_lot::Mutex;
use redis::ConnectionAddr;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, SockAddr, TcpKeepalive, Type};

use crate::base::Moment;
use crate::transport::tls::{Session, Tls, in_handshake};

/// The shortest timeout of an operation. The system accepts no timeout of zero.
const SHORTEST: Duration = Duration::from_millis(1);

/// The longest single wait for a socket. Every system accepts it, and a longer one is repeated.
const LONGEST_POLL: Duration = Duration::from_secs(3600);

/// The most bytes that are read at once below TLS.
const LARGEST_READ: usize = 8 << 10;

/// The most reads in one wait after its deadline. What had arrived before is read, and a server
/// that sends without end does not prolong the wait.
const MOST_LATE: u32 = 32;

/// The first bytes of a TLS alert, of any version. No reply of Redis begins with them.
const ALERT: &[u8] = &[0x15, 0x03];

#[derive(Debug)]
pub(crate) struct Socket {
    socket: socket2::Socket,
    /// Its mutex protects the state of the session, and is held for no system call.
    tls: Option<Mutex<Session>>,
}

/// What the thread that reads needs.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    limits: ReadLimits,
    /// Nothing was read yet, so the server may turn out to require TLS.
    may_require_tls: bool,
    /// Bytes of TLS.
    encrypted: Vec<u8>,
}

/// What limits the reads.
#[derive(Debug, Default)]
struct ReadLimits {
    /// The timeout that the system has for reads; zero if no timeout is set. Setting a timeout is a
    /// system call, so it is set again only if the present one would end too late. If that ends too
    /// early, the read is repeated. So a read that waits for a reply is one system call.
    timeout: Duration,
    /// How many reads of this wait began after its deadline.
    late: u32,
}

impl Reading {
    /// Begins a wait, which may have several reads.
    pub(crate) fn begin(&mut self) {
        self.limits.late = 0;
    }
}

impl Socket {
    /// Connects within `time`, which the [resolved](resolve) addresses of a host and the TLS
    /// handshake share.
    pub(crate) fn connect(
        address: &ConnectionAddr,
        resolved: &[SocketAddr],
        tls: Option<&Tls>,
        time: Duration,
    ) -> io::Result<(Self, Reading)> {
        let deadline = Moment::now().after(time);
        let mut socket = Self {
            socket: connect(address, resolved, deadline)?,
            tls: None,
        };
        let mut reading = Reading::default();
        match (tls, address) {
            (None, _) => reading.may_require_tls = matches!(address, ConnectionAddr::Tcp(..)),
            (Some(tls), ConnectionAddr::Tcp(host, _)) => {
                reading.encrypted = vec![0; LARGEST_READ];
                let mut session = tls.open(host)?;
                let done = socket.shake_hands(&mut session, &mut reading, deadline);
                done.map_err(in_handshake)?;
                socket.tls = Some(Mutex::new(session));
            }
            // Without TLS, the connection would not be as safe as the user demands.
            (Some(_), other) => return Err(unsupported(other)),
        }
        Ok((socket, reading))
    }

    /// Does the handshake of TLS by the deadline.
    fn shake_hands(
        &self,
        session: &mut Session,
        reading: &mut Reading,
        deadline: Moment,
    ) -> io::Result<()> {
        let Reading {
            limits, encrypted, ..
        } = reading;
        let mut received = Ok(());
        loop {
            // After an error, an alert.
            self.write_bytes(&session.encrypt(&[])?, deadline)?;
            received?;
            if !session.is_handshaking() {
                return Ok(());
            }
            received = match self.read_bytes(limits, encrypted, deadline)? {
                0 => Err(ErrorKind::UnexpectedEof.into()),
                read => session.decrypt(&encrypted[..read]),
            };
        }
    }

    /// The bytes on the network for `plain`, in `plain`'s place.
    pub(crate) fn encrypt(&self, plain: Vec<u8>) -> io::Result<Vec<u8>> {
        match &self.tls {
            None => Ok(plain),
            Some(session) => session.lock().encrypt(&plain),
        }
    }

    /// Writes what the buffer of the system takes now. Does not wait.
    pub(crate) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        let flags = libc::MSG_DONTWAIT;
        // There the socket itself has this option.
        #[cfg(not(target_vendor = "apple"))]
        let flags = flags | libc::MSG_NOSIGNAL;
        loop {
            match self.socket.send_with_flags(bytes, flags) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }

    /// Writes all of these bytes by the deadline.
    fn write_bytes(&self, mut bytes: &[u8], deadline: Moment) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.try_write(bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if !wait(&mut [PollFd::new(&self.socket, PollFlags::OUT)], deadline)? {
                        return Err(ErrorKind::TimedOut.into());
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads what arrives until the deadline, at least a byte. After the deadline, only what has
    /// arrived already, and not [often](MOST_LATE). After a timeout, TLS keeps the part of a record
    /// that has arrived. Only one thread calls this at a time.
    pub(crate) fn read(
        &self,
        reading: &mut Reading,
        plain: &mut [u8],
        deadline: Moment,
    ) -> io::Result<usize> {
        let Some(session) = &self.tls else {
            let read = self.read_bytes(&mut reading.limits, plain, deadline);
            let is_over = matches!(&read, Err(error) if error.kind() == ErrorKind::TimedOut);
            if !is_over && std::mem::take(&mut reading.may_require_tls) {
                check_for_tls(&read, plain)?;
            }
            return read;
        };
        loop {
            // What the session has is read before the socket is.
            match session.lock().decrypted(plain) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                read => return read,
            }
            let Reading {
                limits, encrypted, ..
            } = reading;
            let read = self.read_bytes(limits, encrypted, deadline)?;
            session.lock().decrypt(&encrypted[..read])?;
        }
    }

    fn read_bytes(
        &self,
        ReadLimits { timeout, late }: &mut ReadLimits,
        buffer: &mut [u8],
        deadline: Moment,
    ) -> io::Result<usize> {
        let mut socket = &self.socket;
        loop {
            let left = deadline.left();
            if left.is_zero() {
                let is_allowed = *late < MOST_LATE;
                *late += u32::from(is_allowed);
                return match is_allowed && self.is_readable()? {
                    true => socket.read(buffer),
                    false => Err(ErrorKind::TimedOut.into()),
                };
            }
            let is_too_long = || *timeout > left && *timeout > left + left / 16 + SHORTEST;
            if timeout.is_zero() || is_too_long() {
                *timeout = left.max(SHORTEST);
                socket.set_read_timeout(Some(*timeout))?;
            }
            match socket.read(buffer) {
                Err(error) => match error.kind() {
                    ErrorKind::Interrupted => {}
                    ErrorKind::WouldBlock | ErrorKind::TimedOut => *timeout = Duration::ZERO,
                    _ => return Err(error),
                },
                read => return read,
            }
        }
    }

    /// True if a read does not wait.
    pub(crate) fn is_readable(&self) -> io::Result<bool> {
        wait(&mut [self.polled()], Moment::ZERO)
    }

    /// Waits until a read or a write does something, or the deadline has passed.
    pub(crate) fn wait_for_room(&self, deadline: Moment) -> io::Result<()> {
        let events = PollFlags::IN | PollFlags::OUT;
        wait(&mut [PollFd::new(&self.socket, events)], deadline).map(drop)
    }

    /// For a wait for something to read on several sockets.
    pub(crate) fn polled(&self) -> PollFd<'_> {
        PollFd::new(&self.socket, PollFlags::IN)
    }

    /// Ends the connection, or one direction of it. After the end of both, some systems discard
    /// what has arrived and was not read.
    pub(crate) fn shut_down(&self, how: Shutdown) {
        let _ = self.socket.shutdown(how);
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

/// The addresses of a host. The system looks up its name, with its own timeout.
pub(crate) fn resolve(address: &ConnectionAddr) -> io::Result<Vec<SocketAddr>> {
    match address {
        ConnectionAddr::Tcp(host, port) => Ok((&**host, *port).to_socket_addrs()?.collect()),
        _ => Ok(Vec::new()),
    }
}

fn connect(
    address: &ConnectionAddr,
    resolved: &[SocketAddr],
    deadline: Moment,
) -> io::Result<socket2::Socket> {
    match address {
        ConnectionAddr::Tcp(..) => {
            let mut failure = io::Error::from(ErrorKind::AddrNotAvailable);
            for (index, &address) in resolved.iter().enumerate() {
                let time = deadline.share(resolved.len() - index);
                match connect_tcp(address.into(), time) {
                    Ok(socket) => return Ok(socket),
                    Err(error) => failure = error,
                }
            }
            Err(failure)
        }
        ConnectionAddr::Unix(path) => {
            let socket = socket2::Socket::new(Domain::UNIX, Type::STREAM, None)?;
            // This timeout limits the connect, too.
            socket.set_write_timeout(Some(deadline.left().max(SHORTEST)))?;
            socket.connect(&SockAddr::unix(path)?)?;
            Ok(socket)
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
    let text = format!("cannot connect to {address}");
    io::Error::new(ErrorKind::Unsupported, text)
}

#[cfg(test)]
mod tests;
