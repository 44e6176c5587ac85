//! What `leasehold::testing` adds to the crate `leasehold-testing`: clients of its server, and the
//! names of the scripts.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Deref;
use std::sync::LazyLock;

use leasehold_testing::KnownScripts;

use super::LockClient;
use crate::base::Moment;
use crate::config::LockClientBuilder;
use crate::error::{Error, Result};
use crate::lock::LockGuard;
use crate::script;

static SCRIPTS: LazyLock<KnownScripts> =
    LazyLock::new(|| KnownScripts::new(script::named_sources()));

/// A small Redis in this process, for tests: its clients need no Redis.
///
/// The clients are the same types as with Redis, and run the same code. They connect to the server
/// over loopback, and it executes the Lua scripts of this crate. So all kinds of locks, semaphores,
/// latches and conditions behave as they do with Redis. The server has one database, which is empty
/// at first. It has no replicas and no persistence, and knows only the commands that this crate
/// uses, and a few to look at keys. Other commands are errors.
///
/// A test can
///
/// * move the time of the server and of its clients ([`advance`], [`pause_process`]), which affects
///   no other client in the process,
/// * take a lock away from its holder ([`lose`], [`take_over`]),
/// * make the server unavailable ([`set_available`]), or slow ([`set_delay`]).
///
/// [`advance`]: leasehold_testing::InMemoryRedis::advance
/// [`pause_process`]: leasehold_testing::InMemoryRedis::pause_process
/// [`lose`]: leasehold_testing::InMemoryRedis::lose
/// [`take_over`]: leasehold_testing::InMemoryRedis::take_over
/// [`set_available`]: leasehold_testing::InMemoryRedis::set_available
/// [`set_delay`]: leasehold_testing::InMemoryRedis::set_delay
///
/// Clones are the same server. It ends when the last clone and the last of its clients are dropped.
/// A panic in a test drops them, too.
///
/// # Panics
///
/// Methods that change the time, a lock or the server wait until the threads of the clients have
/// noticed that. They panic if a thread is busy for 10 seconds of real time, for example in a log
/// subscriber, or because its request gets no reply and its
/// [`command_timeout`](LockClientBuilder::command_timeout) is longer. They also panic if the thread
/// of the server has ended after an error of the system.
///
/// ```
/// # fn main() -> leasehold::Result<()> {
/// use std::time::Duration;
/// use leasehold::testing::InMemoryRedis;
/// use leasehold::{Error, LostReason};
///
/// let redis = InMemoryRedis::start()?;
/// let client = redis.client()?;
/// let guard = client.reentrant_lock("order:pay").acquire()?;
///
/// redis.advance(Duration::from_secs(3600));   // The watchdog renews the lease meanwhile.
/// guard.check()?;
///
/// assert!(redis.lose("order:pay"));
/// assert!(matches!(guard.check(), Err(Error::Lost { reason: LostReason::Deleted, .. })));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct InMemoryRedis(leasehold_testing::InMemoryRedis);

impl InMemoryRedis {
    /// Starts a server.
    ///
    /// # Errors
    ///
    /// [`Error::Config`], if the system refuses a port on loopback or a thread.
    pub fn start() -> Result<Self> {
        let now = || Moment::now().since(Moment::ZERO);
        let started = leasehold_testing::InMemoryRedis::start(SCRIPTS.clone(), now);
        let rule = "the server could not be started";
        let failed = |error: io::Error| Error::config("InMemoryRedis", error.to_string(), rule);
        started.map(Self).map_err(failed)
    }

    /// Makes a client with the default settings. To the locks, each client is another process.
    ///
    /// # Errors
    ///
    /// Those of [`LockClientBuilder::build`].
    pub fn client(&self) -> Result<LockClient> {
        self.builder().build()
    }

    /// Makes a builder for a client of this server.
    pub fn builder(&self) -> LockClientBuilder {
        let mut builder = LockClient::builder(&self.0.url());
        builder.clock = self.0.clock();
        builder
    }
}

impl fmt::Debug for InMemoryRedis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Deref for InMemoryRedis {
    type Target = leasehold_testing::InMemoryRedis;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

/// A proxy between clients and one Redis server that causes network faults.
///
/// It parses requests and replies of the Redis protocol, so that a fault hits a chosen request: it
/// loses or delays a request or its reply, or breaks the connection in the middle of one. So a test
/// shows what a program does if a request was executed and its reply is lost.
///
/// It works with clients of any language, without TLS. It expects one reply to each request, and
/// one for each channel to a request that begins or ends subscriptions. So it does not support
/// `UNSUBSCRIBE` without a channel, `MONITOR`, `CLIENT REPLY`, and of RESP3 no pushes except
/// messages: the faults of later replies would hit others.
///
/// The proxy listens on loopback. It ends, and closes its connections, when it is dropped. That
/// waits until no rule runs, so a rule must not wait for what happens after it.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use leasehold::testing::{Fault, FaultProxy, InMemoryRedis};
/// use leasehold::{Error, LockClient};
///
/// let redis = InMemoryRedis::start()?;    // or the address of any Redis server
/// let proxy = FaultProxy::start(redis.address())?;
/// let client = LockClient::builder(&proxy.url())
///     .command_timeout(Duration::from_millis(50))
///     .build()?;
/// let lock = client.reentrant_lock("job");
///
/// // Redis executes each acquire, and the client never gets the reply.
/// proxy.on_request(|request| match request.runs("acquire") {
///     true => Fault::SwallowReply,
///     false => Fault::Pass,
/// });
/// assert!(matches!(lock.try_acquire_now(), Err(Error::Unavailable { .. })));
///
/// proxy.clear_rules();
/// let guard = lock.acquire()?;    // The client has undone the first one.
/// guard.check()?;
/// # Ok(())
/// # }
/// ```
pub struct FaultProxy(leasehold_testing::FaultProxy);

impl FaultProxy {
    /// Starts a proxy on a free port of loopback, for clients of the server at `upstream`, which is
    /// `host:port`.
    ///
    /// # Errors
    ///
    /// Those of the system, which refuses a port or a thread. It is no error if there is no such
    /// server: then the proxy closes the connections of its clients.
    pub fn start(upstream: impl Into<String>) -> io::Result<Self> {
        Self::listening((Ipv4Addr::LOCALHOST, 0).into(), upstream)
    }

    /// Starts a proxy that listens at this address.
    ///
    /// # Errors
    ///
    /// Those of [`start`](Self::start), and if the address is in use.
    pub fn listening(listen: SocketAddr, upstream: impl Into<String>) -> io::Result<Self> {
        leasehold_testing::FaultProxy::listening(listen, upstream, &SCRIPTS).map(Self)
    }
}

impl fmt::Debug for FaultProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Deref for FaultProxy {
    type Target = leasehold_testing::FaultProxy;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl LockClient {
    /// Makes a client of a new [`InMemoryRedis`], which no other client uses. Needs the feature
    /// `testing`.
    ///
    /// Start the server itself to make several clients of it, or to change it during the test.
    ///
    /// ```
    /// # fn main() -> leasehold::Result<()> {
    /// use leasehold::LockClient;
    ///
    /// let client = LockClient::in_memory()?;
    /// let guard = client.reentrant_lock("order:pay").acquire()?;
    /// guard.check()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`InMemoryRedis::start`].
    pub fn in_memory() -> Result<Self> {
        InMemoryRedis::start()?.client()
    }
}

impl LockGuard {
    /// Makes the guard of a lock of a new [`InMemoryRedis`], for an implementation of
    /// [`Lock`](crate::Lock) that a test uses in place of a real lock. Needs the feature `testing`.
    ///
    /// It is the guard of a held lock, with [`Lease::RENEWED`](crate::Lease::RENEWED). No other
    /// client competes for it. The page [testing](crate::guide::testing) has an example.
    ///
    /// # Errors
    ///
    /// Those of [`InMemoryRedis::start`], and [`Error::InvalidArgument`] for a name that is empty
    /// or longer than 512 bytes.
    pub fn in_memory(name: &str) -> Result<Self> {
        LockClient::in_memory()?.reentrant_lock(name).acquire()
    }
}
