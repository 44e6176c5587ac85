//! From what the user sets to what the client may rely on.

use std::fmt;
use std::time::Duration;

use crate::deployment::{Deployment, Urls};
use crate::error::{Error, Result};
use crate::lease::SHORTEST_RENEWED;
use crate::transport::node::Credentials;
use crate::transport::tls::{self, Tls};

/// The bounds of all time-outs.
pub(crate) const SHORTEST_TIMEOUT: Duration = Duration::from_millis(1);
pub(crate) const LONGEST_TIMEOUT: Duration = Duration::from_secs(3600);

/// Settings of a [`LockClient`](crate::LockClient); made by
/// [`LockClient::builder`](crate::LockClient::builder),
/// [`builder_sentinel`](crate::LockClient::builder_sentinel) and
/// [`builder_cluster`](crate::LockClient::builder_cluster).
///
/// All bounds are checked in [`build`](Self::build). `Debug` shows the settings without the URL,
/// which may hold a password, and without certificates and keys.
#[derive(Clone)]
pub struct LockClientBuilder {
    urls: Urls,
    credentials: Option<(Option<String>, String)>,
    watchdog_lease: Duration,
    pool_size: u32,
    pool_timeout: Duration,
    connect_timeout: Duration,
    command_timeout: Duration,
    namespace: String,
    min_replicas: Option<(u32, Duration)>,
    tls: tls::Settings,
}

impl LockClientBuilder {
    pub(crate) fn new(urls: Urls) -> Self {
        Self {
            urls,
            credentials: None,
            watchdog_lease: Duration::from_secs(30),
            pool_size: 10,
            pool_timeout: Duration::from_secs(2),
            connect_timeout: Duration::from_secs(2),
            command_timeout: Duration::from_secs(1),
            namespace: String::new(),
            min_replicas: None,
            tls: tls::Settings::default(),
        }
    }

    /// The lease of locks that the watchdog renews ([`Lease::RENEWED`](crate::Lease::RENEWED)), and
    /// so the longest time that a process that dies keeps its locks.
    ///
    /// Default: 30 seconds. Bounds: 10 ms to 2^53 ms. Renewed when a little more than a third is left.
    #[must_use]
    pub fn watchdog_lease(mut self, lease: Duration) -> Self {
        self.watchdog_lease = lease;
        self
    }

    /// The most connections that calls of this client use at once. Waiting for a lock uses none, so
    /// this need not follow the number of threads.
    ///
    /// Default: 10. Bounds: 1 to 1,000. RedisClient are opened when first needed.
    #[must_use]
    pub fn pool_size(mut self, connections: u32) -> Self {
        self.pool_size = connections;
        self
    }

    /// The longest wait for a free connection of the pool, within the time of the call.
    ///
    /// Default: 2 seconds. Bounds: 1 ms to 1 hour.
    #[must_use]
    pub fn pool_timeout(mut self, timeout: Duration) -> Self {
        self.pool_timeout = timeout;
        self
    }

    /// The longest time for opening one connection, log-in included, within the time of the call.
    /// The look-up of a host name is the system's, and its time-out is, too.
    ///
    /// Default: 2 seconds. Bounds: 1 ms to 1 hour.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// The longest time for one command: each write, and each wait for a reply. A command that gets
    /// no reply is repeated on a fresh connection while the time of the call lasts.
    ///
    /// The time of a call follows from it: one command time-out for calls that ask once, three for
    /// [`unlock`](crate::Lock::unlock), and ten without any answer for [`lock`](crate::Lock::lock).
    ///
    /// Default: 1 second. Bounds: 1 ms to 1 hour.
    #[must_use]
    pub fn command_timeout(mut self, timeout: Duration) -> Self {
        self.command_timeout = timeout;
        self
    }

    /// The user (`None`: the default user) and the password for the servers that locks are on.
    ///
    /// Default: those of the URLs; behind sentinels none, because the URLs' are for the sentinels.
    #[must_use]
    pub fn credentials(mut self, username: Option<&str>, password: &str) -> Self {
        self.credentials = Some((username.map(Into::into), password.into()));
        self
    }

    /// A lock counts as taken only when `replicas` of the server's replicas have it (`WAIT`). If fewer
    /// say so within `timeout`, it is given back, and tried again while the time of the call lasts (that for
    /// answers: ten command time-outs for [`lock`](crate::Lock::lock)); then the call fails with
    /// [`Error::TooFewReplicas`](crate::Error::TooFewReplicas). Each one that is given back counts as
    /// [`Stats::unreplicated`](crate::Stats::unreplicated).
    ///
    /// This makes it unlikely that a failover loses a lock that was just taken, not impossible: a replica
    /// without the lock can still be the one that is promoted. Renewals are not waited for. See
    /// [which deployment gives which promise](crate#which-deployment-which-promise).
    ///
    /// Default: none. Bounds: 1 to 100 replicas, 1 ms to 1 hour. Costs one more command and the way to the
    /// replicas for each lock that is taken, none for a nested acquire.
    #[must_use]
    pub fn min_replicas(mut self, replicas: u32, timeout: Duration) -> Self {
        self.min_replicas = Some((replicas, timeout));
        self
    }

    /// What goes before every lock's name in its key and channel, with a `:` between (unless it
    /// ends in one). Clients that share locks must use the same.
    ///
    /// Default: empty, the name is the key. Bounds: at most 512 bytes.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// Whom to trust when the URL begins with `rediss://`: the certificates of authorities, in PEM, one
    /// after the other. They take the place of the system's. The server's certificate must come from one of
    /// them, be valid now, and be for the URL's host.
    ///
    /// Default: the authorities of the system; on Unix `SSL_CERT_FILE` and `SSL_CERT_DIR` name others. Read
    /// once, in [`build`](Self::build). Bounds: at least one certificate, and none that is damaged; only
    /// for `rediss://`. Needs the feature `tls`, which is on by default.
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
    #[must_use]
    pub fn ca_certificates(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.tls.ca_certificates = Some(pem.into());
        self
    }

    /// What the client shows to a server that asks for a certificate (Redis: `tls-auth-clients`): its
    /// certificate and those between it and the authority, in this order and in PEM, and its private
    /// key, in PEM and not encrypted (PKCS #8, PKCS #1 or SEC 1).
    ///
    /// Default: none. Bounds: at least one certificate, and the key of the first; only for `rediss://`. An
    /// example is at [`ca_certificates`](Self::ca_certificates).
    #[must_use]
    pub fn client_certificate(
        mut self,
        chain_pem: impl Into<Vec<u8>>,
        key_pem: impl Into<Vec<u8>>,
    ) -> Self {
        self.tls.client_certificate = Some((chain_pem.into(), key_pem.into()));
        self
    }

    /// All rules, in one place.
    pub(crate) fn validate(self) -> Result<Config> {
        let within = |field, value: Duration, low: Duration, high: Duration| {
            if (low..=high).contains(&value) {
                return Ok(());
            }
            Err(Error::Config {
                field,
                value: format!("{value:?}"),
                rule: format!("it is at least {low:?} and at most {high:?}"),
            })
        };
        let (shortest, longest) = (SHORTEST_TIMEOUT, LONGEST_TIMEOUT);
        within("pool_timeout", self.pool_timeout, shortest, longest)?;
        within("connect_timeout", self.connect_timeout, shortest, longest)?;
        within("command_timeout", self.command_timeout, shortest, longest)?;
        within(
            "watchdog_lease",
            self.watchdog_lease,
            SHORTEST_RENEWED,
            Duration::from_millis(1 << 53),
        )?;
        if let Some((replicas, timeout)) = self.min_replicas {
            within("min_replicas' timeout", timeout, shortest, longest)?;
            if !(1..=100).contains(&replicas) {
                return Err(Error::Config {
                    field: "min_replicas",
                    value: replicas.to_string(),
                    rule: "it is at least 1 and at most 100".into(),
                });
            }
        }
        if !(1..=1000).contains(&self.pool_size) {
            return Err(Error::Config {
                field: "pool_size",
                value: self.pool_size.to_string(),
                rule: "it is at least 1 and at most 1000".into(),
            });
        }
        if self.namespace.len() > 512 {
            return Err(Error::Config {
                field: "namespace",
                value: format!("{} bytes long", self.namespace.len()),
                rule: "it has at most 512 bytes".into(),
            });
        }
        let (deployment, credentials, tls) = self.urls.resolve(self.credentials, &self.tls)?;
        Ok(Config {
            deployment,
            credentials,
            tls,
            watchdog_lease: self.watchdog_lease,
            pool_size: self.pool_size,
            pool_timeout: self.pool_timeout,
            connect_timeout: self.connect_timeout,
            command_timeout: self.command_timeout,
            namespace: self.namespace,
            min_replicas: self.min_replicas,
        })
    }
}

impl fmt::Debug for LockClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockClientBuilder")
            .field("watchdog_lease", &self.watchdog_lease)
            .field("pool_size", &self.pool_size)
            .field("pool_timeout", &self.pool_timeout)
            .field("connect_timeout", &self.connect_timeout)
            .field("command_timeout", &self.command_timeout)
            .field("namespace", &self.namespace)
            .field("min_replicas", &self.min_replicas)
            .finish_non_exhaustive()
    }
}

/// Settings that keep all rules.
#[derive(Clone)]
pub(crate) struct Config {
    pub(crate) deployment: Deployment,
    /// Of the servers that locks are on.
    pub(crate) credentials: Credentials,
    /// None for connections without TLS.
    pub(crate) tls: Option<Tls>,
    pub(crate) watchdog_lease: Duration,
    pub(crate) pool_size: u32,
    pub(crate) pool_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) command_timeout: Duration,
    pub(crate) namespace: String,
    /// How many replicas must have a lock, and how long each attempt waits for them.
    pub(crate) min_replicas: Option<(u32, Duration)>,
}
