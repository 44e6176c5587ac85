//! The client: it connects to Redis and makes lock handles.

mod handles;
mod lifetime;
#[cfg(feature = "testing")]
pub(crate) mod testing;

use std::fmt;
use std::sync::Arc;

pub use handles::{lock_kinds, lock_of_kind};

use crate::base::{LockKey, Subscription};
use crate::config::LockClientBuilder;
use crate::core::Core;
use crate::deployment::Deployment;
use crate::engine;
use crate::error::Result;
use crate::lock::Short;
use crate::observe::{LockEvent, Stats};
use crate::protocol::LockStatus;

/// A client of the locks on one Redis deployment. Cheap to clone: clones share everything.
///
/// A client has a few threads of its own. To each server that has its locks, it opens up to
/// [`connections`](LockClientBuilder::connections) that its callers share, when they need them,
/// one for renewals and one that listens for releases: see
/// [costs](crate::guide::costs#connections).
///
/// # End
///
/// When the last client, lock handle and guard are dropped, the threads end and the connections are
/// closed. Locks that are still held end with their leases. The watchdog releases what this client
/// has in Redis without a hold: locks that [linger](LockClientBuilder::linger), and locks whose
/// releases got no reply yet. Without a reply within a command timeout, they end with their leases,
/// too.
///
/// The last drop waits for the watchdog and for each subscriber. Normally that takes moments. While
/// a server hangs, it takes at most two command timeouts for the watchdog, and at most a connection
/// timeout, a command timeout and one second for each subscriber. Then it waits at most 250 ms for
/// the reporter; if the log blocks, the reporter ends later. It waits for no credentials provider
/// that blocks. The log subscriber itself may drop the last client. A guard that is forgotten
/// ([`std::mem::forget`]) keeps the threads running.
///
/// [`shutdown`](Self::shutdown) ends a client earlier, while handles and guards exist.
#[derive(Clone)]
pub struct LockClient {
    pub(crate) core: Arc<Core>,
}

impl LockClient {
    /// Makes a client with the default settings. **Opens no connection**: the first call that needs
    /// Redis does. So this succeeds even if no server is there. Call [`ping`](Self::ping) to check
    /// that at the start of a program.
    ///
    /// In a child that was forked from a process with several threads, this call can hang, because
    /// the fork can copy a locked mutex of a thread that the child does not have. Fork before
    /// threads start and clients are made, or let the child execute another program (`exec`).
    ///
    /// `url` is `redis://[user:password@]host[:port][/database]`, or the same with `rediss://` for
    /// TLS, or `redis+unix:///path/to/socket`. The default port is 6379, the default database 0.
    /// `valkey://`, `valkeys://` and `valkey+unix://` mean the same, in every URL of this crate.
    /// User, password and database can also be parameters: `?user=..&pass=..&db=..`.
    ///
    /// ```
    /// # fn main() -> leasehold::Result<()> {
    /// use leasehold::LockClient;
    ///
    /// let client = LockClient::connect("redis://127.0.0.1:6379")?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`LockClientBuilder::build`].
    pub fn connect(url: &str) -> Result<Self> {
        Self::builder(url).build()
    }

    /// Makes a builder for a client of one server, from a URL or from settings of the `redis`
    /// crate. [`connect`](Self::connect) describes the URL.
    ///
    /// A program that has a `redis::ConnectionInfo` or a `redis::Client` of version 1 of that
    /// crate passes it or a reference to it. The address, TLS, the user, the password and the
    /// database are reused, but no connection. What this client cannot do is an error of
    /// [`build`](LockClientBuilder::build): TLS with `insecure` or with certificates, keepalive and
    /// other settings of TCP, the name of a library. The version of the protocol does not matter:
    /// this client always speaks RESP2.
    ///
    /// ```
    /// # fn main() -> leasehold::Result<()> {
    /// use std::time::Duration;
    /// use leasehold::LockClient;
    ///
    /// let client = LockClient::builder("redis://127.0.0.1:6379")
    ///     .watchdog_lease(Duration::from_secs(15))
    ///     .namespace("shop")
    ///     .build()?;
    ///
    /// // The server of a client for other data.
    /// # use leasehold::redis;
    /// let cache = redis::Client::open("redis://:secret@127.0.0.1:6379/2").expect("a valid URL");
    /// let client = LockClient::builder(&cache).build()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder(server: impl Into<LockClientBuilder>) -> LockClientBuilder {
        server.into()
    }

    /// Makes a builder for a client of a master that sentinels monitor. The client asks them for
    /// the master's address when it first needs a lock, and again after every failure. So calls
    /// continue at the new master after a failover, as soon as the sentinels agree on it. At other
    /// times the client needs no sentinel.
    ///
    /// `sentinels` are some of the sentinels, preferably all, as
    /// `redis://[user:password@]host[:port][/database]`. The user and the password are those of the
    /// sentinels, the database is that of the master. For the user and the password of the master,
    /// see [`credentials`](LockClientBuilder::credentials). `master` is the name under which the
    /// sentinels monitor the master. The client uses a connection only if the server says that it
    /// is a master (`ROLE`).
    ///
    /// Bounds: at least one URL, each server once, all with the same scheme, user, password and
    /// database.
    ///
    /// **A failover loses the newest writes**, and with them locks: see
    /// [which deployment gives which promise](crate::guide::deployments).
    ///
    /// ```no_run
    /// # fn main() -> leasehold::Result<()> {
    /// use leasehold::LockClient;
    ///
    /// let client = LockClient::builder_sentinel(
    ///     ["redis://s1.example:26379", "redis://s2.example:26379", "redis://s3.example:26379"],
    ///     "mymaster",
    /// )
    /// .build()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors of the calls
    ///
    /// * [`Error::Config`](crate::Error::Config), at once, if every sentinel replies that it does
    ///   not know `master`.
    /// * [`Error::Redis`](crate::Error::Redis), at once, if every sentinel refuses the request (a
    ///   wrong password, or the server is no sentinel).
    /// * [`Error::Unavailable`](crate::Error::Unavailable), after the time limit of the call, if a
    ///   sentinel does not reply.
    pub fn builder_sentinel<S: Into<String>>(
        sentinels: impl IntoIterator<Item = S>,
        master: &str,
    ) -> LockClientBuilder {
        let master = master.into();
        LockClientBuilder::of_urls(Deployment::Sentinel { master }, sentinels)
    }

    /// Makes a builder for a client of a cluster. Each lock is on the primary that has the slot of
    /// its key. The client follows redirects (MOVED, ASK) and failovers, and requests the slot map
    /// again after every failure.
    ///
    /// `nodes` are some of the servers, preferably one of each shard, as
    /// `redis://[user:password@]host[:port]`. If the cluster supports it (Redis 7), releases are
    /// announced only to the shard (`SPUBLISH`), as Redisson does.
    ///
    /// Bounds: at least one URL, each server once, all with the same scheme, user and password;
    /// database 0 only.
    ///
    /// All keys of a lock are in one slot. Some names make that impossible, such as `a}b`, `a{b`
    /// and `{}x`: calls for these fail with
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument). If all servers refuse to report
    /// the slots, because of the login or because there is no cluster, calls fail at once with
    /// [`Error::Redis`](crate::Error::Redis).
    ///
    /// **A failover loses the newest writes**, and with them locks: see
    /// [which deployment gives which promise](crate::guide::deployments).
    ///
    /// ```no_run
    /// # fn main() -> leasehold::Result<()> {
    /// use leasehold::LockClient;
    ///
    /// let nodes = ["redis://n1.example:6379", "redis://n2.example:6379"];
    /// let client = LockClient::builder_cluster(nodes).build()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder_cluster<S: Into<String>>(
        nodes: impl IntoIterator<Item = S>,
    ) -> LockClientBuilder {
        LockClientBuilder::of_urls(Deployment::Cluster, nodes)
    }

    /// Asks Redis which owner holds the lock with this name, how many times, and for how long. How
    /// many times may be up to a second old: see [`LockStatus::hold_count`].
    ///
    /// ```
    /// # fn main() -> leasehold::Result<()> {
    /// # let server = redis_test::server::RedisServer::new();
    /// # let url = &format!("redis://{}", server.addr);
    /// use leasehold::LockClient;
    ///
    /// let client = LockClient::connect(url)?;
    /// let guard = client.reentrant_lock("order:pay").acquire()?;
    /// let status = client.inspect("order:pay")?;
    /// assert_eq!(status.hold_count, 1);
    /// println!("held by {:?} for {:?} more", status.owner, status.remaining);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [Those of every method](crate::Lock#errors-of-every-method-that-asks-redis).
    /// [`Error::Unavailable`](crate::Error::Unavailable) is returned after one command timeout.
    /// [`Error::WrongType`](crate::Error::WrongType) is returned for a semaphore or a latch: ask
    /// its own handle.
    pub fn inspect(&self, name: &str) -> Result<LockStatus> {
        let key = LockKey::new(&self.core.namespace, name);
        engine::inspect(&self.core, &key)
    }

    /// Frees the lock with this name, whichever owner holds it, and wakes the clients that wait for
    /// it. Returns false if no owner held it.
    ///
    /// **The holder continues to work until it notices the loss.** When that is depends on its
    /// client:
    ///
    /// | the holder is a thread of | it notices the loss |
    /// |---|---|
    /// | this client | at once |
    /// | another client that listens for releases at this server (1) | at once |
    /// | any other client | by its next confirmation: after [a second][confirm], by default |
    /// | a Redisson client in a Java process | not by this call |
    ///
    /// 1. A client listens once a thread of it has waited there for a lock of another client. The
    ///    call sends it a message, which can be lost, and which needs the permission to `PUBLISH`
    ///    on the channels of locks. Then it notices the loss like any other client.
    ///
    /// [confirm]: crate::LockClientBuilder::confirm_every
    ///
    /// # Errors
    ///
    /// [Those of every method](crate::Lock#errors-of-every-method-that-asks-redis).
    /// [`Error::Unavailable`](crate::Error::Unavailable) is returned after one command timeout.
    /// [`Error::WrongType`](crate::Error::WrongType) is returned for a semaphore or a latch: ask
    /// its own handle.
    pub fn force_unlock(&self, name: &str) -> Result<bool> {
        engine::force_unlock(&self.core, &LockKey::new(&self.core.namespace, name))
    }

    /// Returns the counters of this client since it was made. Sends nothing.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.core.observer.counters.stats()
    }

    /// Makes a channel that receives the events of this client's locks and connections from now on.
    /// Each call makes a channel of its own.
    ///
    /// A channel holds at most 1,024 events. While it is full, further events are dropped
    /// ([`Stats::events_dropped`] counts them), and no thread of the client waits. It is
    /// disconnected after the last handle of the client is dropped and its threads have ended. In a
    /// process that was forked from the client's, the channel never receives anything.
    ///
    /// ```
    /// # fn main() -> leasehold::Result<()> {
    /// # let server = redis_test::server::RedisServer::new();
    /// # let url = &format!("redis://{}", server.addr);
    /// use leasehold::{LockClient, LockEvent};
    ///
    /// let client = LockClient::connect(url)?;
    /// let events = client.events();
    /// let guard = client.reentrant_lock("order:pay").acquire()?;
    /// client.force_unlock("order:pay")?;
    /// match events.recv() {
    ///     Ok(LockEvent::Lost { lock, reason }) => println!("{lock} is lost: {reason}"),
    ///     other => panic!("{other:?}"),
    /// }
    /// assert!(guard.check().is_err());
    /// assert_eq!(client.stats().lost, 1);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn events(&self) -> Subscription<LockEvent> {
        self.core.observer.events()
    }
}

impl fmt::Debug for LockClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockClient")
            .field("node", &Short(&self.core.redis.topology.deployment()))
            .field("id", &self.core.id)
            .finish()
    }
}

impl LockClientBuilder {
    /// Makes the client. Checks all settings, but opens no connection: if a server cannot be
    /// reached or refuses the login, that is an error of the first call. Waits for the first
    /// credentials of a [provider](Self::credentials_provider), for at most one
    /// [`connect_timeout`](Self::connect_timeout).
    ///
    /// # Errors
    ///
    /// [`Error::Config`](crate::Error::Config) names the setting, its value and the bound that it
    /// violates. [`Error::NoThread`](crate::Error::NoThread) if the client's threads could not be
    /// started. [`Error::Unavailable`](crate::Error::Unavailable) if the provider has failed or has
    /// not returned in time: a later build may succeed.
    pub fn build(self) -> Result<LockClient> {
        let core = Arc::new(Core::open(self.validate()?)?);
        Ok(LockClient { core })
    }
}

#[cfg(test)]
mod tests {
    #[cfg(not(feature = "tls"))]
    #[test]
    fn a_build_without_tls_says_which_feature_it_lacks() {
        for url in ["rediss://h", "valkeys://u:p@h:1/2"] {
            let error = super::LockClient::connect(url).unwrap_err();
            let text = error.to_string();
            assert!(text.starts_with("url is "), "{text}");
            assert!(text.contains("feature `tls`"), "{text}");
        }
    }
}
