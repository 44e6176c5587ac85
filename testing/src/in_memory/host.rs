//! Connects the server to the sockets and the clock of this system.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::mem;
use std::net::TcpStream;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::connection::Connection;
use super::server::{Keyspace, Server, SessionId};
use crate::known_scripts::KnownScripts;

/// A longer delay is cut: the clock has no moment for its end.
const LONGEST_DELAY: Duration = Duration::from_secs(365 * 24 * 3600);

/// What a test can change. Only the thread of the server uses it.
pub(super) struct Host {
    server: Server,
    started: Instant,
    /// From 1970 to the start, and by how much the clock was advanced since.
    start: Duration,
    pub(super) connections: BTreeMap<SessionId, Connection>,
    /// Connections are closed at once if it is not.
    is_available: bool,
    /// The time between a command and its reply.
    delay: Duration,
}

impl Host {
    pub(super) fn new(known: KnownScripts) -> mlua::Result<Self> {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
        Ok(Self {
            server: Server::new(known)?,
            started: Instant::now(),
            start: since_1970.unwrap_or_default(),
            connections: BTreeMap::new(),
            is_available: true,
            delay: Duration::ZERO,
        })
    }

    /// Closes all connections if the server is not available from now on.
    pub(super) fn set_available(&mut self, is_available: bool) {
        self.is_available = is_available;
        if !is_available {
            let closed = mem::take(&mut self.connections);
            closed.into_keys().for_each(|id| self.server.close(id));
        }
    }

    pub(super) fn set_delay(&mut self, delay: Duration) {
        self.delay = delay.min(LONGEST_DELAY);
    }

    /// Moves the clock of the server forward. A lease that is as long is over then.
    pub(super) fn advance(&mut self, time: Duration) {
        self.start = self.start.saturating_add(time);
        self.with_keys(Keyspace::expire_all);
    }

    fn set_time(&mut self) {
        let now = self.start.saturating_add(self.started.elapsed());
        let micros = i64::try_from(now.as_micros()).unwrap_or(i64::MAX);
        self.server.set_time(micros);
    }

    /// Changes keys, by the current time.
    pub(super) fn with_keys(&mut self, change: impl FnOnce(&mut Keyspace)) {
        self.set_time();
        self.server.with_keys(change);
    }

    pub(super) fn open(&mut self, stream: TcpStream) {
        if !self.is_available {
            return;
        }
        let peer = stream.peer_addr();
        let peer = peer.map_or_else(|_| "?".into(), |peer| peer.to_string());
        if let Ok(connection) = Connection::new(stream) {
            self.connections.insert(self.server.open(peer), connection);
        }
    }

    fn close(&mut self, id: SessionId) {
        self.connections.remove(&id);
        self.server.close(id);
    }

    /// Executes the commands that have arrived on a connection.
    pub(super) fn receive(&mut self, id: SessionId) {
        if self.execute_received(id).is_err() {
            self.close(id);
        }
    }

    /// Fails if the connection has ended.
    fn execute_received(&mut self, id: SessionId) -> io::Result<()> {
        let Some(connection) = self.connections.get_mut(&id) else {
            return Ok(());
        };
        let mut received = Vec::new();
        let is_open = connection.read(&mut received);
        self.server.receive(id, &received);
        let next = |server: &mut Server| server.next_command(id).or(Err(ErrorKind::InvalidData));
        while let Some(command) = next(&mut self.server)? {
            self.set_time();
            let output = self.server.execute(id, command);
            let at = Instant::now() + self.delay;
            for (receiver, bytes) in output {
                if let Some(connection) = self.connections.get_mut(&receiver) {
                    connection.reply(bytes, at);
                }
            }
        }
        is_open
    }

    /// Sends the replies that are due.
    pub(super) fn send(&mut self) {
        let now = Instant::now();
        let mut closed = Vec::new();
        for (&id, connection) in &mut self.connections {
            if connection.send(now).is_err() {
                closed.push(id);
            }
        }
        closed.into_iter().for_each(|id| self.close(id));
    }
}
