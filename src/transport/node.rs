//! The address of one server, and how a connection to it is opened.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use redis::{ConnectionAddr, ConnectionInfo, ErrorKind, RedisError, RedisResult, Value};

use crate::base::clock::Moment;
use crate::script::Publish;
use crate::transport::connection_name::ConnectionName;
use crate::transport::link::Link;
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

/// How connections are opened to the servers of one deployment.
pub(crate) struct Login {
    tls: Option<Tls>,
    /// What is sent first on every connection, and the number of replies to it.
    log_in: Vec<u8>,
    replies: usize,
    /// The server must be a master. A replica grants no lock, and publishes releases late.
    master_only: bool,
    /// How releases are published on the connections that are opened from now on.
    publish: Mutex<Publish>,
    /// The name of the connections.
    connection_name: Option<Arc<ConnectionName>>,
}

impl Login {
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
            publish: Mutex::new(Publish::ToAll),
            connection_name: None,
        }
    }

    /// Also names the connections on the server.
    pub(crate) fn with_name(mut self, name: &str) -> Self {
        self.connection_name = Some(Arc::new(ConnectionName::new(name)));
        self
    }

    /// Also requires that the server is a master, by its own reply.
    pub(crate) fn masters_only(mut self) -> Self {
        self.log_in.extend(redis::cmd("ROLE").get_packed_command());
        self.replies += 1;
        self.master_only = true;
        self
    }

    /// Sets how releases are published on the connections that are opened from now on.
    pub(crate) fn set_publish(&self, publish: Publish) {
        *self.publish.lock() = publish;
    }
}

/// The address of a server, and how to open a connection to it.
pub(crate) struct Node {
    address: ConnectionAddr,
    name: Arc<str>,
    login: Arc<Login>,
}

impl Node {
    pub(crate) fn new(address: ConnectionAddr, login: Arc<Login>) -> Self {
        Self {
            name: address.to_string().into(),
            address,
            login,
        }
    }

    /// `host:port` or the path of the socket: the name of the server in messages.
    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// How releases are published on this server.
    pub(crate) fn publish(&self) -> Publish {
        *self.login.publish.lock()
    }

    /// The host, or an empty text for a Unix socket.
    pub(crate) fn host(&self) -> &str {
        match &self.address {
            ConnectionAddr::Tcp(host, _) => host,
            _ => "",
        }
    }

    /// Opens a connection and logs in, within `time`.
    pub(crate) fn open(&self, time: Duration) -> RedisResult<Arc<Link>> {
        let deadline = Moment::now().after(time);
        let login = &*self.login;
        let socket = Socket::connect(&self.address, login.tls.as_ref(), time)?;
        let link = Arc::new(Link::new(socket, *login.publish.lock()));
        let mut replies = link.ask((login.replies, &login.log_in), deadline, Duration::MAX);
        let role = if login.master_only {
            replies.pop()
        } else {
            None
        };
        for reply in replies {
            reply.map_err(without_arguments)?;
        }
        role.map_or(Ok(()), check_role)?;
        let name = login.connection_name.clone();
        link.logged_in(name.filter(|name| !name.is_paused()));
        Ok(link)
    }
}

/// Removes the arguments of an unknown command, which the reply repeats. One of them is the
/// password.
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

/// Fails for a server whose reply says that it is not a master. Without such a reply it may be one.
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
    (ErrorKind::Io, "the server is not a master now, but a", role).into()
}

/// Shows the name only, because the log-in contains the password.
impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Node").field(&self.name).finish()
    }
}

/// Shows no secret.
impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").finish_non_exhaustive()
    }
}
