//! One connection to the server: what has arrived on it, and what is to be sent.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use super::data::SessionId;
use super::reply::Reply;
use crate::frame;

/// A connection that does not block.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) id: SessionId,
    pub(super) stream: TcpStream,
    received: Vec<u8>,
    /// Encoded replies, and when each is sent.
    replies: VecDeque<(Instant, Vec<u8>)>,
    /// The commands since `MULTI`.
    pub(super) transaction: Option<Vec<Vec<Vec<u8>>>>,
    /// By `CLIENT SETNAME`.
    pub(super) name: Vec<u8>,
    pub(super) is_subscribed: bool,
}

impl Session {
    pub(super) fn new(id: SessionId, stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        Ok(Self {
            id,
            stream,
            received: Vec::new(),
            replies: VecDeque::new(),
            transaction: None,
            name: Vec::new(),
            is_subscribed: false,
        })
    }

    /// Reads what has arrived. Fails if the connection is closed.
    pub(super) fn receive(&mut self) -> io::Result<()> {
        let mut bytes = [0; 16 << 10];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.received.extend_from_slice(&bytes[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// The next command that has arrived; an error if the peer does not speak the protocol.
    pub(super) fn next_command(&mut self) -> Result<Option<Vec<Vec<u8>>>, frame::ProtocolError> {
        let framed = frame::request(&self.received)?;
        Ok(framed.map(|(length, command)| {
            self.received.drain(..length);
            command
        }))
    }

    pub(super) fn reply(&mut self, reply: &Reply, at: Instant) {
        let mut bytes = Vec::new();
        reply.encode(&mut bytes);
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
