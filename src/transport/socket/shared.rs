//! A socket on which one thread reads while others write.

use std::io::{self, ErrorKind};
use std::net::Shutdown;

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags};
use rustix::net::{SendFlags, send};

use super::{Armed, Bytes, Socket, check_for_tls, wait};
use crate::base::clock::Moment;
use crate::transport::tls::Session;

/// The most bytes that are read at once below TLS.
const LARGEST_READ: usize = 8 << 10;

#[derive(Debug)]
pub(crate) struct SharedSocket {
    socket: socket2::Socket,
    /// Its mutex protects the state of the session, and is held for no system call.
    tls: Option<Mutex<Session>>,
}

/// What the thread that reads needs.
#[derive(Debug)]
pub(crate) struct Reading {
    armed: Armed,
    may_require_tls: bool,
    /// Bytes of TLS.
    encrypted: Vec<u8>,
}

impl Socket {
    /// Lets several threads use the socket.
    pub(crate) fn share(self) -> (SharedSocket, Reading) {
        let Self {
            bytes: Bytes {
                socket, reading, ..
            },
            tls,
            may_require_tls,
        } = self;
        let encrypted = vec![0; if tls.is_some() { LARGEST_READ } else { 0 }];
        let shared = SharedSocket {
            socket,
            tls: tls.map(Mutex::new),
        };
        let reading = Reading {
            armed: reading,
            may_require_tls,
            encrypted,
        };
        (shared, reading)
    }
}

impl SharedSocket {
    /// The bytes on the network for `plain`, in `plain`'s place.
    pub(crate) fn encrypt(&self, plain: Vec<u8>) -> io::Result<Vec<u8>> {
        match &self.tls {
            None => Ok(plain),
            Some(session) => session.lock().encrypt(&plain),
        }
    }

    /// Writes what the buffer of the system takes now. Does not wait.
    pub(crate) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        let flags = SendFlags::DONTWAIT;
        // There the socket itself has this option.
        #[cfg(not(target_vendor = "apple"))]
        let flags = flags | SendFlags::NOSIGNAL;
        loop {
            match send(&self.socket, bytes, flags) {
                Ok(written) => return Ok(written),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Appends what arrives until the deadline to `plain`, at least a byte. After the deadline,
    /// only what has arrived already. Only one thread calls this at a time.
    pub(crate) fn read(
        &self,
        reading: &mut Reading,
        plain: &mut [u8],
        deadline: Moment,
    ) -> io::Result<usize> {
        let Some(session) = &self.tls else {
            let read = self.read_bytes(&mut reading.armed, plain, deadline);
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
                armed, encrypted, ..
            } = reading;
            let read = self.read_bytes(armed, encrypted, deadline)?;
            session.lock().decrypt(&encrypted[..read])?;
        }
    }

    fn read_bytes(
        &self,
        armed: &mut Armed,
        buffer: &mut [u8],
        deadline: Moment,
    ) -> io::Result<usize> {
        let mut socket = &self.socket;
        let read = armed.until(
            deadline,
            |time| self.socket.set_read_timeout(Some(time)),
            || io::Read::read(&mut socket, buffer),
        );
        match read {
            Err(error) if error.kind() == ErrorKind::TimedOut => match self.is_readable()? {
                true => io::Read::read(&mut socket, buffer),
                false => Err(error),
            },
            read => read,
        }
    }

    /// True if a read does not wait.
    pub(crate) fn is_readable(&self) -> io::Result<bool> {
        wait(
            &mut [PollFd::new(&self.socket, PollFlags::IN)],
            Moment::ZERO,
        )
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

    /// Ends the connection. What has arrived can still be read.
    pub(crate) fn shut_down(&self) {
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}
