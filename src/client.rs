//! Where everything comes from.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::Receiver;

use crate::base::key::LockKey;
use crate::config::{Config, LockClientBuilder};
use crate::core::Core;
use crate::deployment::Urls;
use crate::error::Result;
use crate::lock::{self, FencedLock, MultiLock, RedLock, ReentrantLock, Short};
use crate::observe::{LockEvent, Stats};

/// A client of the locks on one Redis. Cheap to clone; clones share everything.
///
/// It has three threads: the watchdog renews (`leasehold-watchdog`), the reporter calls the log
/// subscriber and the metrics recorder for the client's own threads (`leasehold-reporter`,
/// [why](crate::guide::operations#logs-events-and-metrics)), and `leasehold-pool` manages the connection pool. From the
/// first wait on it has one more for each server with a lock that was waited for: a subscriber
/// listens for releases (`leasehold-subscriber`). To each server that has its locks it opens up to
/// [`pool_size`](LockClientBuilder::pool_size) redis for its callers, when they need them,
/// one for the watchdog and one for the subscriber; while a server hangs, up to three more for each
/// call whose request it has not answered.
///
/// When the last client, lock and guard are gone, the threads end and the redis are closed;
/// locks that are still held then run out with their lease. That last drop waits for the watchdog
/// and the subscribers, which takes moments, and while the server hangs at most a connection
/// time-out, a command time-out and a second for each. Then it waits for the reporter to finish,
/// for at most 250 ms; while the log blocks, the reporter ends later. The log subscriber itself may
/// drop the last client. A guard that is forgotten keeps the threads running.
#[derive(Clone)]
pub struct LockClient {
    pub(crate) core: Arc<Core>,
}

impl LockClient {
    /// A client with the default settings for `redis://[user:password@]host[:port][/database]`, the same
    /// with `rediss://` for TLS, or `redis+unix:///path/to/socket`.
    ///
    /// # Errors
    ///
    /// As [`LockClientBuilder::build`], which see: no connection is opened yet.
    pub fn connect(url: &str) -> Result<Self> {
        Self::builder(url).build()
    }

    /// A client with settings of your own.
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
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder(url: &str) -> LockClientBuilder {
        LockClientBuilder::new(Urls::One(url.into()))
    }

    /// A client of the locks on a master that sentinels watch. They are asked who the master is when a
    /// lock is first used, and again after every failure, so that after a failover calls go on at the new
    /// master, as soon as the sentinels agree on it. No sentinel is needed in between.
    ///
    /// `sentinels` are some of them, better all, as `redis://[user:password@]host[:port][/database]`:
    /// user and password are for the sentinels, the database is the master's; for user and
    /// password of the master see [`credentials`](LockClientBuilder::credentials). `master` is its
    /// name there. A connection is used only if its server says that it is a master (`ROLE`).
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
    /// If every sentinel says that it does not know `master`, calls fail with
    /// [`Error::Config`](crate::Error::Config); if every one refuses to tell (a wrong password, or no
    /// sentinel at all), with [`Error::Redis`](crate::Error::Redis). Both at once. One that does not answer
    /// may tell later, so calls then go on asking, and fail with
    /// [`Error::Unavailable`](crate::Error::Unavailable).
    pub fn builder_sentinel<S: Into<String>>(
        sentinels: impl IntoIterator<Item = S>,
        master: &str,
    ) -> LockClientBuilder {
        LockClientBuilder::new(Urls::Sentinel {
            sentinels: sentinels.into_iter().map(Into::into).collect(),
            service: master.into(),
        })
    }

    /// A client of the locks on a cluster. Each lock is on the primary that has its slot; the client
    /// follows the slots (MOVED, ASK) and failovers, and looks for the map again after every failure.
    ///
    /// `nodes` are some of the servers, better one of each shard, as
    /// `redis://[user:password@]host[:port]`, all with the same user and password. Releases are
    /// announced to the shard (`SPUBLISH`, Redis 7) where the cluster knows that, as Redisson does.
    ///
    /// All that belongs to a lock is in one slot. For names that make that impossible, such as `a}b`,
    /// `a{b` and `{}x`, calls fail with [`Error::Config`](crate::Error::Config). If all servers
    /// refuse to tell where the slots are, because of the log-in or because there is no cluster, calls
    /// fail with [`Error::Redis`](crate::Error::Redis) at once.
    ///
    /// **A failover loses the newest writes**, and with them locks: see
    /// [which deployment gives which promise](crate::guide::deployments).
    ///
    /// ```no_run
    /// # fn main() -> leasehold::Result<()> {
    /// use leasehold::LockClient;
    ///
    /// let client =
    ///     LockClient::builder_cluster(["redis://n1.example:6379", "redis://n2.example:6379"]).build()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder_cluster<S: Into<String>>(
        nodes: impl IntoIterator<Item = S>,
    ) -> LockClientBuilder {
        LockClientBuilder::new(Urls::Cluster(nodes.into_iter().map(Into::into).collect()))
    }

    pub(crate) fn open(config: Config) -> Result<Self> {
        Ok(Self {
            core: Arc::new(Core::open(config)?),
        })
    }

    /// A handle of the reentrant lock of this name. Never fails and asks nobody; a bad name is an
    /// error of the first call that uses it.
    ///
    /// Bounds of a name: 1 to 512 bytes, any UTF-8. Do not use one name for locks of different kinds.
    #[must_use]
    pub fn reentrant_lock(&self, name: &str) -> ReentrantLock {
        ReentrantLock::new(Arc::clone(&self.core), name)
    }

    /// A handle of the fenced lock of this name: reentrant, and each hold has a number that what the
    /// lock protects can tell a late writer by. Otherwise as [`reentrant_lock`](Self::reentrant_lock).
    #[must_use]
    pub fn fenced_lock(&self, name: &str) -> FencedLock {
        FencedLock::new(Arc::clone(&self.core), name)
    }

    /// A handle of the reentrant locks of all these names as one lock, which has all of them or none.
    /// Never fails and asks nobody; no names, a name that is there twice and a bad name are errors of the
    /// first call that uses it. See [`MultiLock`], also for locks of several clients.
    #[must_use]
    pub fn multi_lock<N: AsRef<str>>(&self, names: impl IntoIterator<Item = N>) -> MultiLock {
        MultiLock::new(&self.core, names)
    }

    /// Who holds the lock of this name, as Redis knows it.
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
    /// println!("held by {:?} for {:?} more", status.owner, status.time_to_live);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [Those of every method](crate::Lock#errors-of-every-method-that-asks-redis); `Unavailable`
    /// after one command time-out.
    pub fn inspect(&self, name: &str) -> Result<LockStatus> {
        let key = LockKey::new(&self.core.namespace, name);
        let found = lock::inspect(&self.core, &key)?;
        Ok(found.map_or_else(LockStatus::default, |hold| LockStatus {
            owner: Some(hold.owner),
            hold_count: hold.hold_count,
            time_to_live: hold.millis_left.map(Duration::from_millis),
        }))
    }

    /// Frees the lock of this name, whoever holds it, and wakes those who wait for it; false if
    /// nobody held it. **Its holder goes on working until it notices the loss**: at once if it is a
    /// thread of this client, else within two thirds of its lease. If other threads of the holder's
    /// client wait for the lock, it notices within about a second, and the waiting threads go on.
    ///
    /// # Errors
    ///
    /// As [`inspect`](Self::inspect).
    pub fn force_unlock(&self, name: &str) -> Result<bool> {
        lock::force_unlock(&self.core, &LockKey::new(&self.core.namespace, name))
    }

    /// What this client has counted since it was made.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.core.observer.counters.stats()
    }

    /// What happens to this client's locks and redis from now on. Every call makes a receiver
    /// of its own. A receiver that was dropped is forgotten at the next event; until then it takes
    /// half a kilobyte. A receiver that is 1,024 events behind misses the next ones
    /// ([`Stats::events_dropped`]); it never delays a thread of the client.
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
    pub fn events(&self) -> Receiver<LockEvent> {
        if !self.core.is_same_process() {
            return crossbeam_channel::never();
        }
        self.core.observer.events()
    }
}

impl fmt::Debug for LockClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockClient")
            .field("node", &Short(&self.core.redis.deployment()))
            .field("id", &self.core.id)
            .finish()
    }
}

impl RedLock {
    /// The lock of this name on the servers of all these clients. Never fails and asks nobody.
    ///
    /// An even number of clients, fewer than three, one client twice, and two clients of one address are an
    /// [`Error::Config`](crate::Error::Config) of the first call, and so is a bad name. One server under two
    /// addresses is not noticed: it grants the lock to one of its clients only.
    #[must_use]
    pub fn new(clients: &[LockClient], name: &str) -> Self {
        Self::over(clients.iter().map(|client| &client.core), name)
    }
}

impl LockClientBuilder {
    /// Makes the client. This checks every setting but opens no connection: a server that is away
    /// or refuses the log-in is told by the first call.
    ///
    /// # Errors
    ///
    /// [`Error::Config`](crate::Error::Config) names the setting, its value and the bound that it
    /// breaks, or says that the client's threads could not be started.
    pub fn build(self) -> Result<LockClient> {
        LockClient::open(self.validate()?)
    }
}

/// Who holds a lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockStatus {
    /// `<client uuid>:<thread number>`; `None` if nobody holds the lock.
    pub owner: Option<String>,
    /// How many times its owner holds it; 0 if nobody does.
    pub hold_count: u32,
    /// What is left of the lease, in whole milliseconds; `None` if nobody holds the lock, or if
    /// the hold never expires (no client of this crate makes such a hold).
    pub time_to_live: Option<Duration>,
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
