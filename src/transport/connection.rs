//! A connection to a server for one thread, on which every reply arrives by a deadline or fails.

use std::fmt;
use std::sync::Arc;

use redis::{RedisError, RedisResult, Value};

use crate::base::clock::Moment;
use crate::script::Publish;
use crate::transport::connection_name::{ConnectionName, refuses_connection};
use crate::transport::link::Link;
use crate::transport::received::Received;
use crate::transport::socket::{Reading, Socket};

/// A connection in a known state. After any failure except an error reply it must be dropped: a
/// late reply, or half a command, would be taken for a part of the next exchange.
pub(crate) struct Connection {
    socket: Socket,
    reading: Reading,
    deadline: Moment,
    received: Received,
    /// Is sent before the next request.
    name: Option<Arc<ConnectionName>>,
    /// Was sent; the next reply is the reply to it.
    name_sent: Option<Arc<ConnectionName>>,
    publish: Publish,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("socket", &self.socket)
            .finish_non_exhaustive()
    }
}

impl Connection {
    pub(crate) fn new((socket, reading): (Socket, Reading), publish: Publish) -> Self {
        Self {
            socket,
            reading,
            deadline: Moment::ZERO,
            received: Received::default(),
            name: None,
            name_sent: None,
            publish,
        }
    }

    /// Names this connection on the server, by a command before the next request.
    pub(crate) fn set_name(&mut self, name: Arc<ConnectionName>) {
        self.name = Some(name);
    }

    /// Lets all threads use the connection. No reply is awaited on it.
    pub(crate) fn into_link(self) -> Link {
        let socket = (self.socket, self.reading);
        Link::new(socket, self.received, self.name, self.publish)
    }

    /// Sets when every send and receive from here on ends. After that moment, `receive` returns
    /// only what has arrived already.
    pub(crate) fn set_deadline(&mut self, deadline: Moment) {
        self.deadline = deadline;
    }

    pub(crate) fn send(&mut self, packed: &[u8]) -> RedisResult<()> {
        let mut bytes = packed.to_vec();
        if let Some(name) = self.name.take() {
            bytes.splice(..0, name.packed().iter().copied());
            self.name_sent = Some(name);
        }
        let sent = self
            .socket
            .write_all(&mut self.reading, bytes, self.deadline);
        sent.map_err(|error| self.failed(error.into()))
    }

    /// Receives the next reply. An error reply is an error. The part of a reply that arrived
    /// before the deadline is kept, so `receive` can be called again after a timeout.
    pub(crate) fn receive(&mut self) -> RedisResult<Value> {
        loop {
            let Some(reply) = self.received.next()? else {
                let (socket, reading) = (&self.socket, &mut self.reading);
                let read = |room: &mut [u8]| socket.read(reading, room, self.deadline);
                let read = self.received.fill(read);
                read.map_err(|error| self.failed(error.into()))?;
                continue;
            };
            let reply = reply.extract_error();
            match self.name_sent.take() {
                Some(name) => match reply {
                    Err(error) if refuses_connection(&error) => return Err(error),
                    reply => name.received(reply),
                },
                None => return reply,
            }
        }
    }

    fn failed(&self, error: RedisError) -> RedisError {
        if let Some(name) = &self.name_sent {
            name.not_received(&error);
        }
        error
    }

    /// How releases are published on this connection.
    pub(crate) fn publish(&self) -> Publish {
        self.publish
    }
}
