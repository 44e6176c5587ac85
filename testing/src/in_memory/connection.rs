//! A connection that does not block, and the replies that are due on it.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Instant;

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) stream: TcpStream,
    /// Encoded replies, and when each is sent.
    replies: VecDeque<(Instant, Vec<u8>)>,
}

impl Connection {
    pub(super) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let replies = VecDeque::new();
        Ok(Self { stream, replies })
    }

    /// Appends what has arrived. Fails if the connection is closed, also after it has appended
    /// something.
    pub(super) fn read(&mut self, received: &mut Vec<u8>) -> io::Result<()> {
        let mut bytes = [0; 16 << 10];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => received.extend_from_slice(&bytes[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    pub(super) fn reply(&mut self, bytes: Vec<u8>, at: Instant) {
        // Replies keep their order if the delay becomes shorter.
        let last = self.replies.back().map_or(at, |&(last, _)| last.max(at));
        self.replies.push_back((last, bytes));
    }

    /// Sends the replies that are due, as far as the socket has room for them.
    pub(super) fn send(&mut self, now: Instant) -> io::Result<()> {
        while let Some((due, bytes)) = self.replies.front_mut() {
            if *due > now {
                break;
            }
            match self.stream.write(bytes) {
                Ok(count) => drop(bytes.drain(..count)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
            if bytes.is_empty() {
                self.replies.pop_front();
            }
        }
        Ok(())
    }

    /// When the next reply is due.
    pub(super) fn next_reply(&self) -> Option<Instant> {
        self.replies.front().map(|&(due, _)| due)
    }
}
