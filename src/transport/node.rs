//! The address of one server, and how a connection to it is opened.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use redis::{ConnectionAddr, ErrorKind, RedisError, RedisResult, Value};

use crate::base::{Moment, excerpt};
use crate::script::Publish;
use crate::transport::credentials::{CredentialSource, Credentials};
use crate::transport::link::{Link, reply_of};
use crate::transport::retry_action::RetryAction;
use crate::transport::socket::{Socket, resolve};
use crate::transport::tls::Tls;

/// How many connections to each server a client has, and how long it waits for them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Links that the callers share.
    pub(crate) connections: usize,
    /// Exclusive connections.
    pub(crate) replica_connections: u32,
    pub(crate) connect_timeout: Duration,
    pub(crate) command_timeout: Duration,
}

#[cfg(test)]
impl Limits {
    /// One connection of each sort, and this time for each exchange.
    pub(crate) fn within(time: Duration) -> Self {
        Self {
            connections: 1,
            replica_connections: 1,
            connect_timeout: time,
            command_timeout: time,
        }
    }
}

#[cfg(test)]
impl Login {
    /// Without credentials, TLS or names of connections.
    pub(crate) fn plain(limits: Limits) -> Arc<Self> {
        let no_credentials = (CredentialSource::Fixed(None), 0);
        Arc::new(Self::new(no_credentials, None, limits, None, false))
    }
}

/// How connections are opened to the servers of one deployment.
pub(crate) struct Login {
    tls: Option<Tls>,
    credentials: CredentialSource,
    database: i64,
    /// The name of the connections on their server.
    name: Option<Box<str>>,
    /// Until when connections get no name.
    unnamed_until: Mutex<Moment>,
    /// The server must be a master. A replica grants no lock, and publishes releases late.
    master_only: bool,
    /// How releases are published on the connections that are opened from now on.
    publish: Mutex<Publish>,
    pub(crate) limits: Limits,
}

/// How long no name is sent after a connection was closed before the reply to it. Some proxies
/// close a connection on which they receive a command that they do not know.
const UNNAMED: Duration = Duration::from_secs(60);

impl Login {
    /// With a `name` of the connections on the server. A `master_only` login requires that the
    /// server is a master, by its own reply.
    pub(crate) fn new(
        (credentials, database): (CredentialSource, i64),
        tls: Option<Tls>,
        limits: Limits,
        name: Option<&str>,
        master_only: bool,
    ) -> Self {
        Self {
            tls,
            credentials,
            database,
            name: name.map(Into::into),
            unnamed_until: Mutex::default(),
            master_only,
            publish: Mutex::new(Publish::ToAll),
            limits,
        }
    }

    /// Sets how releases are published on the connections that are opened from now on.
    pub(crate) fn set_publish(&self, publish: Publish) {
        *self.publish.lock() = publish;
    }

    /// Names no connection until this moment.
    fn omit_name(&self, until: Moment) {
        let mut unnamed_until = self.unnamed_until.lock();
        *unnamed_until = unnamed_until.max(until);
    }

    /// Logs in on a new connection with these credentials, by this moment. The error contains no
    /// password.
    fn log_in(
        &self,
        link: &Arc<Link>,
        credentials: Option<&Credentials>,
        name: Option<&str>,
        until: Moment,
    ) -> RedisResult<()> {
        let done = self.send_log_in(link, credentials, name, until);
        done.map_err(|error| match credentials {
            Some(credentials) => credentials.hide_in(error),
            None => error,
        })
    }

    /// Sends the log-in. At least one reply arrives: a server with too many clients accepts a
    /// connection, too, and closes it.
    fn send_log_in(
        &self,
        link: &Arc<Link>,
        credentials: Option<&Credentials>,
        name: Option<&str>,
        until: Moment,
    ) -> RedisResult<()> {
        let mut commands = redis::pipe();
        if let Some(credentials) = credentials {
            commands.add_command(credentials.log_in());
        }
        if self.database != 0 {
            commands.cmd("SELECT").arg(self.database);
        }
        if self.master_only {
            commands.cmd("ROLE");
        }
        let has_ping = name.is_none() && commands.is_empty();
        if let Some(name) = name {
            commands.cmd("CLIENT").arg("SETNAME").arg(name);
        } else if has_ping {
            commands.cmd("PING");
        }
        let packed = commands.get_packed_pipeline();
        let replies = link.ask((commands.len(), &packed), until, Duration::MAX);
        let mut replies = replies.into_iter();
        // That of each command above, in their order.
        let mut next_reply = || replies.next().unwrap_or_else(|| reply_of(None));
        if credentials.is_some() {
            next_reply()?;
        }
        if self.database != 0 {
            next_reply()?;
        }
        if self.master_only {
            check_role(next_reply())?;
        }
        if name.is_none() && !has_ping {
            return Ok(());
        }
        match next_reply() {
            // The server logs each refusal of the name, which is no error.
            Err(error) if !is_refused(&error) => {
                // Without a name, it refused the PING.
                if name.is_some() && RetryAction::on(&error) == RetryAction::Fail {
                    self.omit_name(Moment::NEVER);
                }
                Ok(())
            }
            reply => reply.map(drop),
        }
    }
}

/// The time for [another](Node::open_another) connection, at least.
const BRIEFLY: Duration = Duration::from_millis(100);

/// The address of a server, and how to open a connection to it.
pub(crate) struct Node {
    address: ConnectionAddr,
    name: Arc<str>,
    /// To which a connection was opened last.
    resolved: Mutex<Vec<SocketAddr>>,
    /// How long the last connection took, or half of the time in which no other one could be opened
    /// since.
    took: Mutex<Duration>,
    pub(crate) login: Arc<Login>,
}

impl Node {
    pub(crate) fn new(address: ConnectionAddr, login: Arc<Login>) -> Self {
        Self {
            name: address.to_string().into(),
            address,
            resolved: Mutex::default(),
            took: Mutex::default(),
            login,
        }
    }

    /// As if a connection had been opened to this address.
    #[cfg(test)]
    pub(crate) fn resolved_to(self, address: SocketAddr) -> Self {
        *self.resolved.lock() = vec![address];
        self
    }

    /// `host:port` or the path of the socket: the name of the server in messages.
    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// How releases are published on this server.
    pub(crate) fn publish(&self) -> Publish {
        *self.login.publish.lock()
    }

    /// A connection to it was opened before.
    pub(crate) fn was_reached(&self) -> bool {
        !self.resolved.lock().is_empty()
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
        self.open_at(Vec::new(), time)
    }

    /// [Opens](Self::open) a connection without a look-up of the host's name, which may take much
    /// longer than `time`: to the addresses of the last connection. If the time is too short, the
    /// next attempt has twice as much, up to half of a connect timeout.
    pub(crate) fn open_another(&self, time: Duration) -> RedisResult<Arc<Link>> {
        let addresses = self.resolved.lock().clone();
        self.open_at(addresses, time).inspect_err(|error| {
            if error.is_timeout() {
                let most = self.login.limits.connect_timeout / 8;
                let mut took = self.took.lock();
                *took = (*took).max(most.min(time / 2));
            }
        })
    }

    /// How long opening [another](Self::open_another) connection may take.
    pub(crate) fn briefly(&self) -> Duration {
        BRIEFLY.max(*self.took.lock() * 4)
    }

    /// Opens a connection to one of these addresses, and logs in. Looks up the addresses of the
    /// host if none are given. If the server refuses the credentials of the program's provider, and
    /// the provider returns new credentials in time, logs in once more.
    fn open_at(&self, mut addresses: Vec<SocketAddr>, time: Duration) -> RedisResult<Arc<Link>> {
        let until = Moment::now().after(time);
        if addresses.is_empty() {
            addresses = resolve(&self.address)?;
        }
        let source = &self.login.credentials;
        let (credentials, calls) = source.last();
        let opened = match self.open_as(&addresses, credentials.as_ref(), until) {
            Err(error) if RetryAction::refuses_log_in(&error) && source.renewed(calls, until) => {
                let (credentials, calls) = source.last();
                let opened = self.open_as(&addresses, credentials.as_ref(), until);
                opened.inspect_err(|error| {
                    if RetryAction::refuses_log_in(error) {
                        source.refused(calls);
                    }
                })
            }
            opened => opened,
        };
        let link = opened?;
        *self.resolved.lock() = addresses;
        Ok(link.logged_in())
    }

    /// Whether the server refuses these credentials on a new connection, within `time`.
    pub(super) fn refuses(&self, credentials: &Credentials, time: Duration) -> bool {
        let addresses = self.resolved.lock().clone();
        let opened = self.open_as(&addresses, Some(credentials), Moment::now().after(time));
        opened.is_err_and(|error| RetryAction::refuses_log_in(&error))
    }

    /// Opens a connection, and logs in with these credentials. If the connection is closed before
    /// the reply to its name, the name may be the reason: opens one without a name. The next ones
    /// have none for a while, not for good, because the server may have stopped.
    fn open_as(
        &self,
        addresses: &[SocketAddr],
        credentials: Option<&Credentials>,
        until: Moment,
    ) -> RedisResult<Arc<Link>> {
        let began = Moment::now();
        let login = &*self.login;
        let name = login.name.as_deref();
        let name = name.filter(|_| login.unnamed_until.lock().is_past());
        let mut link = self.connect(addresses, until)?;
        match login.log_in(&link, credentials, name, until) {
            // A server that is no master has replied to the name, and its link has not ended.
            Err(error) if name.is_some() && error.is_connection_dropped() && !link.is_usable() => {
                login.omit_name(Moment::now().after(UNNAMED));
                link = self.connect(addresses, until)?;
                login.log_in(&link, credentials, None, until)?;
            }
            result => result?,
        }
        *self.took.lock() = Moment::now().since(began);
        Ok(link)
    }

    fn connect(&self, addresses: &[SocketAddr], until: Moment) -> RedisResult<Arc<Link>> {
        let tls = self.login.tls.as_ref();
        let socket = Socket::connect(&self.address, addresses, tls, until.left())?;
        Ok(Arc::new(Link::new(socket, self.publish())))
    }
}

/// True if the connection broke or will be closed, or the server requires a password.
fn is_refused(error: &RedisError) -> bool {
    !RetryAction::is_reply(error)
        || RetryAction::refuses_client(error)
        || RetryAction::on(error) == RetryAction::FailAndDrop
}

/// Fails for a server whose reply says that it is not a master. Without such a reply it may be one.
fn check_role(reply: RedisResult<Value>) -> RedisResult<()> {
    match reply {
        Ok(Value::Array(parts)) => match parts.first() {
            Some(Value::BulkString(role)) if role != b"master" => Err(not_a_master(role)),
            _ => Ok(()),
        },
        Err(error) if is_refused(&error) => Err(error),
        _ => Ok(()),
    }
}

fn not_a_master(role: &[u8]) -> RedisError {
    let role = excerpt(format_args!("{}", String::from_utf8_lossy(role)));
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

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    #[test]
    fn a_refused_ping_does_not_turn_the_names_of_connections_off() {
        const SOON: Duration = Duration::from_secs(10);
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let at = listener.local_addr().unwrap();
        let limits = Limits::within(SOON);
        let login = Login::new(
            (CredentialSource::Fixed(None), 0),
            None,
            limits,
            Some("n"),
            false,
        );
        let named_at = Moment::now().after(UNNAMED);
        login.omit_name(named_at);
        let address = ConnectionAddr::Tcp("127.0.0.1".into(), at.port());
        let node = Node::new(address, Arc::new(login));
        thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().unwrap();
                let read = stream.read(&mut [0; 64]).unwrap();
                stream.write_all(b"-NOPERM no PING\r\n").unwrap();
                read
            });
            node.open(SOON).unwrap();
        });
        assert_eq!(*node.login.unnamed_until.lock(), named_at);
    }
}
