//! The builder of a client, and the settings that it has checked.

mod checked;
mod options;
#[cfg(feature = "serde")]
mod settings;
mod sources;

use std::sync::Arc;
use std::time::Duration;

use crate::base::ClientClock;
use crate::deployment::{Deployment, Fault, NamedServer};
use crate::error::{Cause, Result};
use crate::transport::credentials::{Credentials, Provide};
use crate::transport::tls::TlsSettings;
pub(crate) use checked::Config;
pub(crate) use options::Options;

/// The settings of a [`LockClient`](crate::LockClient).
///
/// [`LockClient::builder`](crate::LockClient::builder),
/// [`builder_sentinel`](crate::LockClient::builder_sentinel) and
/// [`builder_cluster`](crate::LockClient::builder_cluster) create a builder. [`build`](Self::build)
/// checks all bounds. `Debug` shows neither URLs, which may contain a password, nor certificates
/// and keys.
///
/// ```
/// use std::time::Duration;
/// use leasehold::LockClient;
///
/// let client = LockClient::builder("redis://127.0.0.1:6379")
///     .namespace("shop")
///     .watchdog_lease(Duration::from_secs(10))
///     .build()?;
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Clone)]
#[must_use = "a builder does nothing until it is built"]
pub struct LockClientBuilder {
    deployment: Deployment,
    servers: Vec<Result<NamedServer, Fault>>,
    credentials: Option<Credentials>,
    provider: Option<Provide>,
    tls: TlsSettings,
    /// Another one for clients of an in-memory server, whose time tests skip.
    pub(crate) clock: ClientClock,
    options: Options,
}

impl LockClientBuilder {
    /// A builder for servers with these URLs.
    pub(crate) fn of_urls(
        deployment: Deployment,
        urls: impl IntoIterator<Item: Into<String>>,
    ) -> Self {
        let servers = urls.into_iter();
        let servers = servers.map(|url| NamedServer::of_url(&url.into()));
        Self::new(deployment, servers.collect())
    }

    fn new(deployment: Deployment, servers: Vec<Result<NamedServer, Fault>>) -> Self {
        Self {
            deployment,
            servers,
            credentials: None,
            provider: None,
            tls: TlsSettings::default(),
            clock: ClientClock::default(),
            options: Options::default(),
        }
    }

    /// The length of leases that the watchdog renews ([`Lease::RENEWED`](crate::Lease::RENEWED)).
    /// This is also the longest time that locks stay held after their process has crashed. A lease
    /// is renewed when a little more than a third of it is left.
    ///
    /// Default: 30 seconds. Bounds: 10 ms to 2^53 ms.
    pub fn watchdog_lease(mut self, lease: Duration) -> Self {
        self.options.watchdog_lease = lease;
        self
    }

    /// Sets how long a lock stays in Redis after its last unlock, at most, if no thread of this
    /// client waits for it. If a thread of this client acquires the lock again within this time,
    /// with a [renewed](crate::Lease::RENEWED) lease of the same length, it sends no request: this
    /// makes a thread fast that locks and unlocks often. The watchdog releases the lock otherwise,
    /// and dropping the client releases it, too.
    ///
    /// The price: other clients wait up to this time longer, and
    /// [`is_locked`](crate::Lock::is_locked) returns true meanwhile. However often this client
    /// acquires the lock again, it stays in Redis unused only until this time and 10 ms have passed
    /// since the reply that granted it (2 ms while other clients wait for it, and at most a
    /// quarter of the lease). A later unlock releases it at once. If another program deletes the
    /// lock meanwhile, the next hold begins on a lost lock, and its thread is notified like any
    /// other holder: at the latest when its lease could have run out.
    ///
    /// Default: zero, which means that the last unlock releases the lock at once. Bounds: at most a
    /// third of the [`watchdog_lease`](Self::watchdog_lease).
    ///
    /// ```
    /// # fn main() -> leasehold::Result<()> {
    /// # let server = redis_test::server::RedisServer::new();
    /// # let url = &format!("redis://{}", server.addr);
    /// use std::time::Duration;
    /// use leasehold::LockClient;
    ///
    /// let client = LockClient::builder(url)
    ///     .linger(Duration::from_millis(10))
    ///     .build()?;
    /// let lock = client.reentrant_lock("stock");
    /// for _ in 0..1000 {
    ///     lock.acquire()?.unlock()?; // Few of them send a request.
    /// }
    /// assert!(client.stats().acquisitions < 1000);
    /// # Ok(())
    /// # }
    /// ```
    pub fn linger(mut self, time: Duration) -> Self {
        self.options.linger = time;
        self
    }

    /// Sets how often Redis is asked whether it still has the locks that threads of this client
    /// hold. So a holder learns within about this time that its lock was deleted, for example by
    /// [`force_unlock`](crate::LockClient::force_unlock) or `FLUSHALL`, or was taken over, and
    /// [`lost`](crate::LockGuard::lost) and [`check`](crate::LockGuard::check) report the loss.
    /// Without this, it learns that by the next renewal, after at most two thirds of the lease.
    ///
    /// The price: at most one script call to each server in this time, which only reads. A lock
    /// that is held for a shorter time costs nothing.
    ///
    /// One call confirms up to 250 locks of one kind, and in a cluster of one slot: the locks that
    /// were not confirmed for the longest time. So of 1,000 locks at one server, each is confirmed
    /// once in four times this long. None is confirmed more rarely than after two thirds of its
    /// lease. A lock that was acquired while the client confirms others may be confirmed first
    /// after twice this time. A server that does not reply is asked more rarely.
    ///
    /// Default: 1 second. Bounds: 100 ms to 1 hour, or zero, which turns this off.
    pub fn confirm_every(mut self, interval: Duration) -> Self {
        self.options.confirm_every = interval;
        self
    }

    /// The largest number of connections to each server that the calls of this client share. A call
    /// uses an idle one. If all are busy, it opens another one, up to this number; then calls share
    /// the busy ones, and their requests are sent together. So this number can be much smaller than
    /// the number of threads. A thread that waits for a lock uses none.
    ///
    /// The watchdog and the subscriptions have a connection each besides, and so have
    /// [confirmations by replicas](Self::replica_connections).
    ///
    /// Default: 8. Bounds: 1 to 1,000.
    pub fn connections(mut self, connections: u32) -> Self {
        self.options.connections = connections;
        self
    }

    /// The largest number of connections to each server for confirmations by
    /// [replicas](Self::min_replicas). A confirmation blocks its connection, so they share none.
    /// They are opened when they are first needed.
    ///
    /// Default: 10. Bounds: 1 to 1,000.
    pub fn replica_connections(mut self, connections: u32) -> Self {
        self.options.replica_connections = connections;
        self
    }

    /// How long opening one connection may take, login included, within the time limit of the call.
    /// This does not cover the resolution of a host name: the system does that, with a timeout of
    /// its own. If all [`replica_connections`](Self::replica_connections) are in use, a request
    /// waits as long for one of them.
    ///
    /// Default: 2 seconds. Bounds: 1 ms to 1 hour.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.options.connect_timeout = timeout;
        self
    }

    /// The time limit of one attempt: from sending a command until its whole reply has arrived,
    /// without opening the connection ([`connect_timeout`](Self::connect_timeout)). A command
    /// without a reply is repeated on a new connection within the time limit of the call.
    ///
    /// The time limit of a call follows from this timeout. It is one command timeout for calls that
    /// send one request, and three for [`unlock`](crate::Lock::unlock). Calls that wait have
    /// [`give_up_after`](Self::give_up_after).
    ///
    /// Default: 1 second. Bounds: 1 ms to 1 hour.
    pub fn command_timeout(mut self, timeout: Duration) -> Self {
        self.options.command_timeout = timeout;
        self
    }

    /// How long [`lock`](crate::Lock::lock), and any other call that waits, goes on without any
    /// reply from Redis. Then it fails with [`Error::Unavailable`](crate::Error::Unavailable). To
    /// survive a failover, set it to more than the failover takes. While Redis replies, a call
    /// waits as long as it is told to.
    ///
    /// Default: ten times the [`command_timeout`](Self::command_timeout). Bounds: one command
    /// timeout to 24 hours.
    pub fn give_up_after(mut self, time: Duration) -> Self {
        self.options.give_up_after = Some(time);
        self
    }

    /// User and password for the servers that have the locks. `None` means Redis' default user.
    ///
    /// Default: the user and the password of the URLs. With sentinels there is no default, because
    /// the user and the password of the URLs are for the sentinels.
    pub fn credentials(mut self, username: Option<&str>, password: &str) -> Self {
        self.credentials = Credentials::of(username.map(Into::into), Some(password.into()));
        self
    }

    /// Sets the function that returns the user and the password for all servers that have locks. A
    /// client keeps its locks when these change.
    ///
    /// A thread of the client calls it when the client is [built](Self::build), before the
    /// [end](Credentials::until) of the last ones, and when a server refuses them, not more often
    /// than about once a second. Then the client logs in again on its open connections. Those that
    /// listen for releases keep their login.
    ///
    /// It may block, fail or panic: the last credentials stay in use, and a failure is logged. The
    /// next call begins 1 to 10 seconds later. The text of its error must contain no secret. No
    /// drop waits for it. A connection whose login is refused waits for the next call, up to 2
    /// seconds.
    ///
    /// Default: none. A provider replaces the user of the URL. It cannot be used with a password in
    /// the URL or with [`credentials`](Self::credentials).
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = redis_test::server::RedisServer::new();
    /// # let url = &format!("redis://{}", server.addr);
    /// # let file = tempfile::NamedTempFile::new()?;
    /// # std::fs::write(&file, "secret")?;
    /// use leasehold::{Credentials, LockClient};
    ///
    /// let client = LockClient::builder(url)
    ///     .credentials_provider(move || {
    ///         let password = std::fs::read_to_string(&file)?;
    ///         Ok(Credentials::user("default", password.trim_end()))
    ///     })
    ///     .build()?;
    /// client.reentrant_lock("order:pay").acquire()?.unlock()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn credentials_provider(
        mut self,
        provider: impl Fn() -> Result<Credentials, Cause> + Send + Sync + 'static,
    ) -> Self {
        self.provider = Some(Arc::new(provider));
        self
    }

    /// Requires that `replicas` replicas of the server confirm each acquired lock (`WAIT`). If
    /// fewer confirm it within `timeout`, or within three quarters of the rest of the time below if
    /// that is shorter, the client releases the lock and tries again, within the time that the call
    /// may wait for replies ([`give_up_after`](Self::give_up_after) for
    /// [`lock`](crate::Lock::lock)). Then the call fails with
    /// [`Error::TooFewReplicas`](crate::Error::TooFewReplicas), and that of a thread that waits
    /// behind this one in the same client may fail with
    /// [`Error::Unavailable`](crate::Error::Unavailable).
    /// [`Stats::unreplicated`](crate::Stats::unreplicated) counts the released locks.
    ///
    /// This makes it unlikely, but not impossible, that a failover loses a lock that was just
    /// acquired: a replica without the lock can still be promoted. Renewals need no confirmation.
    /// See [which deployment gives which promise](crate::guide::deployments).
    ///
    /// Default: none. Bounds: 1 to 100 replicas, and a timeout of 1 ms to 1 hour. The cost is a
    /// second copy of the request, one more command, and the round trip to the replicas for each
    /// acquire, and nothing for a nested one.
    pub fn min_replicas(mut self, replicas: u32, timeout: Duration) -> Self {
        self.options.min_replicas = Some((replicas, timeout));
        self
    }

    /// The prefix of the key and the channel of every lock. A `:` follows it, unless it ends with
    /// one. Clients that share locks must use the same namespace.
    ///
    /// Default: empty, so that the key is the lock's name. Bounds: at most 512 bytes.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.options.namespace = namespace.into();
        self
    }

    /// Whether the client names its connections: `leasehold:<client uuid>:<host>:<process id>`, by
    /// `CLIENT SETNAME`. The name appears in the `CLIENT LIST` of Redis, and shows which process
    /// has a lock, because the owner id of a lock begins with the same UUID. A character of the
    /// host that is no ASCII letter or digit, and none of `.-_`, becomes a `_`.
    ///
    /// The name is sent when a connection is opened, together with the log-in if there is one. A
    /// connection without a log-in takes a round trip longer to open.
    ///
    /// It needs the permission `+client|setname`. Without it, the locks work as before: the client
    /// ignores the refusal, and does not send the name on later connections. Redis keeps the
    /// refusal in its `ACL LOG`. If the connection is closed instead, as by some proxies, the
    /// client opens another one without the name, and sends no name for a minute.
    ///
    /// Default: true. Connections to sentinels have no name.
    ///
    /// ```
    /// # fn main() -> leasehold::Result<()> {
    /// use leasehold::LockClient;
    ///
    /// let client = LockClient::builder("redis://127.0.0.1:6379")
    ///     .name_connections(false)
    ///     .build()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn name_connections(mut self, names: bool) -> Self {
        self.options.name_connections = names;
        self
    }

    /// Sets the function that returns the label `lock` of the histograms `leasehold_wait_seconds`
    /// and `leasehold_hold_seconds` from the name of a lock. Needs the feature `metrics`.
    ///
    /// Return few different labels, and no ids: a recorder keeps a series for each of them, as long
    /// as the process runs.
    ///
    /// It is called once for each wait and each hold, on a thread of the program or on
    /// `leasehold-reporter`, and without a locked mutex. A panic in it is caught: the label is then
    /// empty.
    ///
    /// Default: none, and the histograms have no label.
    ///
    /// ```
    /// use leasehold::LockClient;
    ///
    /// let client = LockClient::builder("redis://127.0.0.1:6379")
    ///     .metric_label(|lock| match lock.split_once(':') {
    ///         Some((business, _id)) => business.to_owned(),
    ///         None => "other".to_owned(),
    ///     })
    ///     .build()?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    #[cfg(feature = "metrics")]
    pub fn metric_label(mut self, label: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        self.options.metric_label = crate::observe::MetricLabel::new(label);
        self
    }

    /// The certificate authorities to trust instead of those of the system, for URLs that begin
    /// with `rediss://`. `pem` contains their certificates in PEM, one after the other. One of them
    /// must have issued the server's certificate, which must be valid now, and for the URL's host.
    ///
    /// Default: the authorities of the system, which [`build`](Self::build) reads once. On Unix
    /// `SSL_CERT_FILE` and `SSL_CERT_DIR` replace them. Bounds: at least one certificate, all of
    /// them readable; only for `rediss://`. Needs the feature `tls`, which is on by default.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use leasehold::LockClient;
    ///
    /// let client = LockClient::builder("rediss://locks@redis.example:6379")
    ///     .ca_certificates(std::fs::read("/etc/redis/ca.pem")?)
    ///     .client_certificate(std::fs::read("locks.pem")?, std::fs::read("locks.key")?)
    ///     .build()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn ca_certificates(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.tls.ca_certificates = Some(pem.into());
        self
    }

    /// The certificate that the client sends to a server that requires one (`tls-auth-clients` of
    /// Redis). `chain_pem` contains it and then the intermediate certificates, in PEM. `key_pem`
    /// contains its private key, in PEM and not encrypted (PKCS #8, PKCS #1 or SEC 1).
    ///
    /// Default: none. Bounds: at least one certificate, and the key that belongs to the first; only
    /// for `rediss://`. Needs the feature `tls`. [`ca_certificates`](Self::ca_certificates) has an
    /// example.
    pub fn client_certificate(
        mut self,
        chain_pem: impl Into<Vec<u8>>,
        key_pem: impl Into<Vec<u8>>,
    ) -> Self {
        self.tls.client_certificate = Some((chain_pem.into(), key_pem.into()));
        self
    }
}
