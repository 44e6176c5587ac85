//! For operations tools: the servers that have a client's locks, commands on one server, and the
//! names of a lock in Redis.
//!
//! Calls about one lock need none of this: [`LockClient::inspect`] and
//! [`LockClient::force_unlock`] find its server themselves.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = redis_test::server::RedisServer::new();
//! # let url = &format!("redis://{}", server.addr);
//! use leasehold::{LockClient, admin};
//! use leasehold::admin::redis::{cmd, from_redis_value};
//!
//! let client = LockClient::connect(url)?;
//! # client.inspect("order:pay")?; // waits until the server is there
//! for server in admin::servers(&client)? {
//!     let mut connection = server.connect()?;
//!     let policy = connection.run(cmd("CONFIG").arg("GET").arg("maxmemory-policy"))?;
//!     let (_, policy): (String, String) = from_redis_value(policy)?;
//!     println!("{}: {policy}", server.name());
//! }
//! # Ok(())
//! # }
//! ```

mod handles;
pub(crate) mod holder;

use std::sync::Arc;

/// The crate of the commands, values and errors in this module.
pub use redis;
use redis::{Cmd, Pipeline, RedisError, RedisResult, Value};

// For the command.
#[doc(hidden)]
pub use crate::client::{lock_kinds, lock_of_kind};
pub use crate::topology::{LookUpFailed, RouteError};
pub use crate::transport::server_error::ServerError;
pub use holder::ConnectedClients;

use crate::base::{Family, LockKey, Moment};
use crate::client::LockClient;
use crate::error::Result;
use crate::request::RedisClient;
use crate::transport::retry_action::RetryAction;
use crate::transport::{link::Link, server};

/// Returns the servers that have locks, in the order of their names: one server, the master behind
/// the sentinels, or the primaries of the cluster.
///
/// Looks them up again, for at most one
/// [connect timeout](crate::LockClientBuilder::connect_timeout). The example of the
/// [module](self) uses it.
///
/// # Errors
///
/// [`RouteError`] if no sentinel or cluster node reported the servers, and
/// [`RouteError::Invalid`] in a process that was forked from the client's. No panics.
pub fn servers(client: &LockClient) -> Result<Vec<Server>, RouteError> {
    let check = client.core.check_process("");
    check.map_err(RouteError::Invalid)?;
    let redis = &client.core.redis;
    let servers = redis.topology.servers(redis.connect_timeout)?;
    let named = servers.into_iter().map(|server| Server::new(redis, server));
    let mut servers: Vec<Server> = named.collect();
    servers.sort_by(|a, b| a.name().cmp(b.name()));
    Ok(servers)
}

/// Returns the server that has the lock of this name, as far as the client knows. Sends requests
/// only if the client does not know the server, for at most one
/// [connect timeout](crate::LockClientBuilder::connect_timeout).
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = redis_test::server::RedisServer::new();
/// # let url = &format!("redis://{}", server.addr);
/// use leasehold::{LockClient, admin};
///
/// let client = LockClient::connect(url)?;
/// println!("order:pay is on {}", admin::server_of(&client, "order:pay")?.name());
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// Those of [`servers`], and [`RouteError::Invalid`] with
/// [`Error::InvalidArgument`](crate::Error::InvalidArgument) for an invalid name. No panics.
pub fn server_of(client: &LockClient, name: &str) -> Result<Server, RouteError> {
    let check = check_name(client, name).and_then(|()| client.core.check_process(name));
    check.map_err(RouteError::Invalid)?;
    let redis = &client.core.redis;
    let key = key(client, name);
    let server = redis.topology.server(&key, redis.connect_timeout)?;
    Ok(Server::new(redis, server))
}

/// Returns the addresses that the client was given, without credentials, for messages. No I/O.
///
/// ```
/// # fn main() -> leasehold::Result<()> {
/// use leasehold::{LockClient, admin};
///
/// let client = LockClient::connect("redis://:secret@127.0.0.1:6379")?;
/// assert_eq!(admin::deployment(&client), "127.0.0.1:6379");
/// # Ok(())
/// # }
/// ```
#[must_use]
pub fn deployment(client: &LockClient) -> String {
    client.core.redis.topology.deployment().as_ref().into()
}

/// Fails for a name that no lock of the client can have, as the first call for such a lock does. No
/// I/O.
///
/// ```
/// # fn main() -> leasehold::Result<()> {
/// use leasehold::{LockClient, admin};
///
/// let client = LockClient::connect("redis://127.0.0.1:6379")?;
/// assert!(admin::check_name(&client, "order:pay").is_ok());
/// assert!(admin::check_name(&client, "").is_err());
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// [`Error::InvalidArgument`](crate::Error::InvalidArgument) for a name that is not 1 to 512 bytes
/// long, and in a cluster for one whose key and channel are in different slots.
pub fn check_name(client: &LockClient, name: &str) -> Result<()> {
    let key = key(client, name);
    key.check()?;
    client.core.redis.topology.check(&key)
}

fn key(client: &LockClient, name: &str) -> LockKey {
    LockKey::new(&client.core.namespace, name)
}

/// The names of one lock in Redis, as Redisson has them.
///
/// ```
/// # fn main() -> leasehold::Result<()> {
/// use leasehold::{LockClient, admin};
///
/// let client = LockClient::connect("redis://127.0.0.1:6379")?;
/// let names = admin::LockKeys::new(&client, "order:pay");
/// assert_eq!(names.key, "order:pay");
/// assert_eq!(names.channel, "redisson_lock__channel:{order:pay}");
/// assert_eq!(names.last_token, "redisson_lock_token:{order:pay}");
/// assert_eq!(names.leases, "{order:pay}:timeout");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockKeys {
    /// The key of the lock: a hash of owner and hold count. A semaphore and a latch are a number.
    pub key: String,
    /// The channel on which releases are published.
    pub channel: String,
    /// The key of the last fencing token.
    pub last_token: String,
    /// The line of the clients that wait, except those of a fair lock: their places.
    pub line: String,
    /// Of a fair lock: the list of places in its queue.
    pub queue: String,
    /// Of a fair lock: when each place ends.
    pub places: String,
    /// Of a semaphore whose permits have leases: when each lease ends.
    pub leases: String,
    /// The channel of a read-write lock.
    pub read_write_channel: String,
    /// The channel of a semaphore.
    pub semaphore_channel: String,
    /// The channel of a count-down latch.
    pub latch_channel: String,
}

impl LockKeys {
    /// Returns the names of the lock that the client knows by `name`. Does not check the name. No
    /// I/O.
    #[must_use]
    pub fn new(client: &LockClient, name: &str) -> Self {
        let key = key(client, name);
        let channel = |family| {
            let key = LockKey::of(family, &client.core.namespace, name);
            key.channel().to_string()
        };
        Self {
            key: key.key().to_string(),
            channel: key.channel().to_string(),
            last_token: key.last_token_key(),
            line: key.line_key(),
            queue: key.prefixed("redisson_lock_queue"),
            places: key.prefixed("redisson_lock_timeout"),
            leases: key.suffixed("timeout"),
            read_write_channel: channel(Family::ReadWriteLock),
            semaphore_channel: channel(Family::Semaphore),
            latch_channel: channel(Family::CountDownLatch),
        }
    }

    /// Returns the key whose time to live is the lease of one hold of a read lock. `owner` has
    /// several holds, numbered from 1. No I/O.
    ///
    /// ```
    /// # fn main() -> leasehold::Result<()> {
    /// use leasehold::{LockClient, admin};
    ///
    /// let client = LockClient::connect("redis://127.0.0.1:6379")?;
    /// let names = admin::LockKeys::new(&client, "catalog");
    /// assert_eq!(names.read_lease("uuid:7", 1), "{catalog}:uuid:7:rwlock_timeout:1");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn read_lease(&self, owner: &str, hold: u64) -> String {
        let key = LockKey::new("", &self.key);
        key.suffixed(&format!("{owner}:rwlock_timeout:{hold}"))
    }
}

/// A server that has locks of a client.
#[derive(Clone, Debug)]
pub struct Server {
    redis: Arc<RedisClient>,
    server: Arc<server::Server>,
}

impl Server {
    fn new(redis: &Arc<RedisClient>, server: Arc<server::Server>) -> Self {
        let redis = Arc::clone(redis);
        Self { redis, server }
    }

    /// Returns `host:port`, or the path of its socket.
    #[must_use]
    pub fn name(&self) -> &str {
        self.server.name()
    }

    /// Opens a connection and logs in. The client's locks do not use it.
    ///
    /// # Errors
    ///
    /// [`ServerError`] if the server cannot be reached, refuses the login, or does not reply within
    /// one [connect timeout](crate::LockClientBuilder::connect_timeout). No panics.
    pub fn connect(&self) -> Result<Connection, ServerError> {
        let opened = self.server.node.open(self.redis.connect_timeout);
        Ok(Connection {
            link: opened.map_err(|error| self.error(error))?,
            server: self.clone(),
            failed: None,
        })
    }

    /// Returns the server that a MOVED or ASK reply of this server about a lock names; `None` for
    /// any other error. After ASK, send `ASKING` before each command for the lock.
    #[must_use]
    pub fn redirect(&self, client: &LockClient, name: &str, error: &ServerError) -> Option<Self> {
        let topology = &self.redis.topology;
        let to = topology.redirect(&key(client, name), &self.server, &error.cause)?;
        Some(Self::new(&self.redis, to.server))
    }

    fn error(&self, cause: RedisError) -> ServerError {
        ServerError {
            node: Arc::clone(self.server.name()),
            hint: self.redis.topology.hint(&cause),
            cause,
        }
    }
}

/// A connection to one server, for commands that the client itself does not send.
///
/// Each reply may take one [command timeout](crate::LockClientBuilder::command_timeout).
#[derive(Debug)]
pub struct Connection {
    link: Arc<Link>,
    server: Server,
    /// Why the connection is of no use any more.
    failed: Option<ServerError>,
}

impl Connection {
    /// Sends a command and returns its reply.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = redis_test::server::RedisServer::new();
    /// # let url = &format!("redis://{}", server.addr);
    /// use leasehold::{LockClient, admin};
    /// use leasehold::admin::redis::{Value, cmd};
    ///
    /// let client = LockClient::connect(url)?;
    /// # client.inspect("order:pay")?; // waits until the server is there
    /// let mut connection = admin::server_of(&client, "order:pay")?.connect()?;
    /// assert_eq!(connection.run(&cmd("PING"))?, Value::SimpleString("PONG".into()));
    /// let error = connection.run(&cmd("NO-SUCH-COMMAND")).unwrap_err();
    /// assert!(error.is_reply());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ServerError`] for an error reply, if no reply came in time, and for a reply above 64 MB or
    /// a million elements. After an error that [is no reply](ServerError::is_reply) every further
    /// call returns the same error. No panics.
    pub fn run(&mut self, command: &Cmd) -> Result<Value, ServerError> {
        self.ask(1, &command.get_packed_command())?.remove(0)
    }

    /// Sends all commands together and returns one result for each, in their order.
    ///
    /// # Errors
    ///
    /// [`ServerError`] if a reply did not come in time. Every further call returns the same error.
    /// No panics.
    pub fn run_all(
        &mut self,
        commands: &Pipeline,
    ) -> Result<Vec<Result<Value, ServerError>>, ServerError> {
        self.ask(commands.len(), &commands.get_packed_pipeline())
    }

    /// The replies and error replies to this number of commands. The outer error is that of the
    /// connection.
    fn ask(
        &mut self,
        commands: usize,
        packed: &[u8],
    ) -> Result<Vec<Result<Value, ServerError>>, ServerError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let timeout = self.server.redis.command_timeout;
        let replies = self.link.ask((commands, packed), Moment::NEVER, timeout);
        let reply = |reply: RedisResult<Value>| match reply {
            Err(error) if !RetryAction::is_reply(&error) => Err(self.server.error(error)),
            reply => Ok(reply.map_err(|error| self.server.error(error))),
        };
        let replies: Result<Vec<_>, _> = replies.into_iter().map(reply).collect();
        replies.inspect_err(|error| self.failed = Some(error.clone()))
    }
}
