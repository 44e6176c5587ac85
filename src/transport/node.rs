//! One server's address, and how to get in there.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::{ConnectionAddr, ConnectionInfo, ErrorKind, RedisError, RedisResult, Value};

use crate::base::clock::Moment;
use crate::script::Publish;
use crate::transport::connection::Connection;
use crate::transport::retry_action::RetryAction;
use crate::transport::socket::Socket;
use crate::transport::tls::Tls;

/// The user, the password and the database of a connection.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Credentials {
    pub(crate) username: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) database: i64,
}

impl From<&ConnectionInfo> for Credentials {
    fn from(server: &ConnectionInfo) -> Self {
        let settings = server.redis_settings();
        Self {
            username: settings.username().map(Into::into),
            password: settings.password().map(Into::into),
            database: settings.db(),
        }
    }
}

/// Shows no secret.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

/// What the connections to all servers of one deployment have in common.
pub(crate) struct Entry {
    tls: Option<Tls>,
    /// What is sent first on every connection, and how many replies it gets.
    log_in: Vec<u8>,
    replies: usize,
    /// Only a master will do: a replica hears of no release in time, and takes no lock.
    master_only: bool,
    /// The servers know shard channels.
    sharded: AtomicBool,
}

impl Entry {
    pub(crate) fn new(credentials: &Credentials, tls: Option<Tls>) -> Self {
        let mut log_in = redis::pipe();
        if let Some(password) = &credentials.password {
            let auth = log_in.cmd("AUTH");
            if let Some(user) = &credentials.username {
                auth.arg(user);
            }
            auth.arg(password);
        }
        if credentials.database != 0 {
            log_in.cmd("SELECT").arg(credentials.database);
        }
        Self {
            tls,
            replies: log_in.len(),
            log_in: log_in.get_packed_pipeline(),
            master_only: false,
            sharded: AtomicBool::new(false),
        }
    }

    /// The same, to a server that says of itself that it is a master.
    pub(crate) fn masters_only(mut self) -> Self {
        self.log_in.extend(redis::cmd("ROLE").get_packed_command());
        self.master_only = true;
        self
    }

    /// Connections that are opened from here on announce releases so.
    pub(crate) fn announce(&self, publish: Publish) {
        self.sharded
            .store(publish == Publish::ToShard, Ordering::Relaxed);
    }

    fn publish(&self) -> Publish {
        if self.sharded.load(Ordering::Relaxed) {
            Publish::ToShard
        } else {
            Publish::ToAll
        }
    }
}

/// A server, and how to get to it.
pub(crate) struct Node {
    address: ConnectionAddr,
    name: Arc<str>,
    entry: Arc<Entry>,
}

impl Node {
    pub(crate) fn new(address: ConnectionAddr, entry: Arc<Entry>) -> Self {
        Self {
            name: address.to_string().into(),
            address,
            entry,
        }
    }

    /// `host:port` or the socket's path, for messages, and to tell one from another.
    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// How releases are announced there.
    pub(crate) fn publish(&self) -> Publish {
        self.entry.publish()
    }

    /// The host, where there is one.
    pub(crate) fn host(&self) -> &str {
        match &self.address {
            ConnectionAddr::Tcp(host, _) => host,
            _ => "",
        }
    }

    /// Opens a connection and logs in, within `time`.
    pub(crate) fn open(&self, time: Duration) -> RedisResult<Connection> {
        let deadline = Moment::now().after(time);
        let socket = Socket::connect(&self.address, self.entry.tls.as_ref(), time)?;
        let mut connection = Connection::new(socket, self.entry.publish());
        if !self.entry.log_in.is_empty() {
            connection.set_deadline(deadline);
            connection.send(&self.entry.log_in)?;
        }
        for _ in 0..self.entry.replies {
            connection.receive().map_err(without_arguments)?;
        }
        if self.entry.master_only {
            check_role(connection.receive())?;
        }
        Ok(connection)
    }
}

/// Removes the arguments of a command that the server does not know, which its reply repeats: the password is
/// one of them.
fn without_arguments(error: RedisError) -> RedisError {
    let command = error
        .detail()
        .and_then(|text| text.split_once(", with args beginning with"));
    match command {
        Some((command, _)) => {
            let command = command.to_owned();
            (error.kind(), "the server refused the log-in", command).into()
        }
        None => error,
    }
}

/// Fails for a server that says that it is no master. One that does not tell may be one.
fn check_role(reply: RedisResult<Value>) -> RedisResult<()> {
    match reply {
        Ok(Value::Array(parts)) => match parts.first() {
            Some(Value::BulkString(role)) if role != b"master" => Err(not_a_master(role)),
            _ => Ok(()),
        },
        Err(error) if !RetryAction::is_reply(&error) => Err(error),
        _ => Ok(()),
    }
}

fn not_a_master(role: &[u8]) -> RedisError {
    let role = String::from_utf8_lossy(role).into_owned();
    (ErrorKind::Io, "the server is no master now, but a", role).into()
}

/// Its name only: what it is made of holds the password.
impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Node").field(&self.name).finish()
    }
}

/// As [`Node`].
impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").finish_non_exhaustive()
    }
}
