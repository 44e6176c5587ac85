//! One connection to a server, on which every reply arrives by a deadline or fails.

use std::fmt;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::Duration;

use redis::{RedisResult, Value};

use crate::base::clock::Moment;
use crate::base::list::List;
use crate::script::Publish;
use crate::transport::connection_name::ConnectionName;
use crate::transport::resp;
use crate::transport::socket::{self, Socket};

/// A connection that was idle for longer is replaced by a new one. A firewall or a NAT may have
/// dropped it without notice, and each discovery of that costs a whole timeout.
const FRESH: Duration = Duration::from_secs(60);

/// The bounds of the buffer of an idle connection, in bytes.
const SMALLEST_BUFFER: usize = 512;
const LARGEST_BUFFER: usize = 16 << 10;

/// A connection in a known state. After any failure except an error reply it must be dropped: a
/// late reply, or half a command, would be taken for a part of the next exchange.
pub(crate) struct Connection {
    socket: Socket,
    received: Received,
    /// The requests that are sent next. Empty between calls.
    packed: Vec<u8>,
    /// Is sent before the next request.
    name: Option<Arc<ConnectionName>>,
    /// Was sent; the next reply is the reply to it.
    name_sent: Option<Arc<ConnectionName>>,
    /// When the last reply arrived.
    used: Moment,
    /// A reply has arrived on it.
    established: bool,
    publish: Publish,
}

/// The bytes that have arrived and are not decoded yet.
#[derive(Default)]
struct Received {
    buffer: Vec<u8>,
    /// The first of them, and the end of the last one. The rest of the buffer is free.
    start: usize,
    end: usize,
}

impl Received {
    /// The next whole reply.
    fn next(&mut self) -> RedisResult<Option<Value>> {
        let Some((reply, length)) = resp::decode(&self.buffer[self.start..self.end])? else {
            return Ok(None);
        };
        self.start += length;
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            // What is rarely needed, such as for the slots of a cluster, is not kept.
            self.buffer.truncate(LARGEST_BUFFER);
            self.buffer.shrink_to(LARGEST_BUFFER);
        }
        Ok(Some(reply))
    }

    fn read(&mut self, socket: &mut Socket) -> io::Result<()> {
        if self.end == self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end == self.buffer.len() {
            let length = (self.buffer.len() * 2).max(SMALLEST_BUFFER);
            self.buffer.resize(length, 0);
        }
        match socket.read(&mut self.buffer[self.end..])? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            read => {
                self.end += read;
                Ok(())
            }
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("socket", &self.socket)
            .field("used", &self.used)
            .finish_non_exhaustive()
    }
}

impl Connection {
    pub(crate) fn new(socket: Socket, publish: Publish) -> Self {
        Self {
            socket,
            received: Received::default(),
            packed: Vec::new(),
            name: None,
            name_sent: None,
            used: Moment::now(),
            established: false,
            publish,
        }
    }

    /// Names this connection on the server, by a command before the next request.
    pub(crate) fn set_name(&mut self, name: Arc<ConnectionName>) {
        self.name = Some(name);
    }

    /// Sets when every send and receive from here on ends. After that moment, `receive` returns
    /// only what has arrived already. With [`Moment::ZERO`], `send` does not wait, and fails if the
    /// buffer of the system is full.
    pub(crate) fn set_deadline(&mut self, deadline: Moment) {
        self.socket.set_deadline(deadline);
    }

    pub(crate) fn send(&mut self, packed: &[u8]) -> RedisResult<()> {
        self.send_packed(|_, buffer| buffer.extend_from_slice(packed))
    }

    /// Sends what `pack` appends to the buffer of this connection.
    pub(crate) fn send_packed(
        &mut self,
        pack: impl FnOnce(Publish, &mut Vec<u8>),
    ) -> RedisResult<()> {
        if let Some(name) = self.name.take() {
            self.packed.extend_from_slice(name.packed());
            self.name_sent = Some(name);
        }
        pack(self.publish, &mut self.packed);
        let sent = self.socket.write_all(&self.packed);
        let sent = sent.inspect_err(|error| self.note_failure(error.kind()));
        self.packed.clear();
        // What is rarely needed, such as the source of a script, is not kept.
        self.packed.shrink_to(4096);
        Ok(sent?)
    }

    /// Receives the next reply. An error reply is an error. The part of a reply that arrived
    /// before the deadline is kept, so `receive` can be called again after a timeout.
    pub(crate) fn receive(&mut self) -> RedisResult<Value> {
        let reply = loop {
            match self.received.next()? {
                Some(reply) => {
                    self.used = Moment::now();
                    self.established = true;
                    match self.name_sent.take() {
                        Some(name) => name.received(reply)?,
                        None => break reply,
                    }
                }
                None => {
                    let read = self.received.read(&mut self.socket);
                    read.inspect_err(|error| self.note_failure(error.kind()))?;
                }
            }
        };
        reply.extract_error()
    }

    fn note_failure(&self, failure: io::ErrorKind) {
        if let Some(name) = &self.name_sent {
            name.not_received(failure);
        }
    }

    /// True before the reply to the name: a server or a proxy may have closed this connection because
    /// of it, which says nothing of the request.
    pub(crate) fn awaits_name(&self) -> bool {
        self.name_sent.is_some()
    }

    /// Waits until a reply may be read from one of these connections, or the deadline has passed.
    /// Tells for each connection whether `receive` may return something.
    pub(crate) fn wait_readable<'c>(
        connections: impl Iterator<Item = &'c Self>,
        deadline: Moment,
    ) -> RedisResult<List<bool>> {
        let sockets = connections.map(|connection| &connection.socket);
        Ok(socket::wait_readable(sockets, deadline)?)
    }

    /// When the last reply arrived.
    pub(crate) fn used(&self) -> Moment {
        self.used
    }

    /// True once a reply has arrived. Before that, a failure can mean that the server accepted
    /// the connection and closed it because it has too many clients.
    pub(crate) fn is_established(&self) -> bool {
        self.established
    }

    /// Waits until `wanted` replicas have what was written on this connection, or `time` is over,
    /// and returns how many have it. Redis counts for each connection separately. The reply has
    /// `for_reply` more time.
    pub(crate) fn replicate(
        &mut self,
        wanted: u32,
        time: Duration,
        for_reply: Duration,
    ) -> RedisResult<u32> {
        // Zero would mean no timeout.
        let millis = time.as_millis().max(1).to_string();
        let wait = redis::cmd("WAIT")
            .arg(wanted)
            .arg(millis)
            .get_packed_command();
        self.set_deadline(Moment::now().after(time.saturating_add(for_reply)));
        self.send(&wait)?;
        redis::from_redis_value(self.receive()?).map_err(Into::into)
    }

    /// How releases are published on this connection.
    pub(crate) fn publish(&self) -> Publish {
        self.publish
    }

    pub(crate) fn is_fresh(&self) -> bool {
        Moment::now().since(self.used) < FRESH
    }
}
