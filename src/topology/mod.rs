//! Which server has a lock. Nobody above this module asks how Redis is deployed.

mod cluster;
mod sentinel;
mod single_flight;
mod slots;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::{ConnectionAddr, RedisError, ServerErrorKind};

use crate::base::clock::Moment;
use crate::base::key::LockKey;
use crate::config::Config;
use crate::deployment::Deployment;
use crate::error::{Error, Result};
use crate::transport::hint::Role;
use crate::transport::node::Entry;
use crate::transport::pool::Pools;
use crate::transport::server::{Server, Servers};
use crate::transport::server_error::ServerError;
use cluster::Cluster;
use sentinel::Sentinel;
pub use single_flight::LookUpFailed;

/// The ways in which Redis is deployed.
#[derive(Debug)]
enum Kind {
    One(Arc<Server>),
    Sentinel(Sentinel),
    Cluster(Cluster),
}

/// Knows the servers, and finds them again.
#[derive(Debug)]
pub(crate) struct Topology {
    kind: Kind,
    /// Of all servers that locks are on.
    servers: Servers,
}

/// The client does not know which server has a lock.
#[derive(Debug)]
#[non_exhaustive]
pub enum RouteError {
    /// No server told. A later look-up can succeed.
    Unavailable(LookUpFailed),
    /// All servers that were asked refused to tell, and will again. This is the error of one of them.
    Refused(ServerError),
    /// [`Error::Config`]: no server can have a lock of this name, or the deployment does not exist as
    /// it was set. [`Error::Forked`] in a process that was forked from the client's.
    Invalid(Error),
}

/// Another server is to be asked.
#[derive(Clone, Debug)]
pub(crate) struct Redirect {
    pub(crate) server: Arc<Server>,
    /// This once, because the lock is on its way to it.
    pub(crate) asking: bool,
}

impl Topology {
    pub(crate) fn new(config: &Config) -> Result<Self> {
        let entry = Entry::new(&config.credentials, config.tls.clone());
        let servers = |entry| -> Result<Servers> {
            Ok(Servers {
                entry: Arc::new(entry),
                pools: Pools::new(config.pool_size, config.pool_timeout)?,
            })
        };
        let (kind, servers) = match &config.deployment {
            Deployment::One(address) => {
                let servers = servers(entry)?;
                (Kind::One(servers.server(address.clone())), servers)
            }
            Deployment::Sentinel {
                sentinels,
                service,
                credentials,
            } => {
                let there = Entry::new(credentials, config.tls.clone());
                let sentinel = Sentinel::new(sentinels, service, there, config);
                (Kind::Sentinel(sentinel), servers(entry.masters_only())?)
            }
            Deployment::Cluster(seeds) => {
                let servers = servers(entry)?;
                let cluster = Cluster::new(seeds, &servers, config);
                (Kind::Cluster(cluster), servers)
            }
        };
        Ok(Self { kind, servers })
    }

    /// The server that has the lock, as far as is known: asks nobody. `None` if there is a doubt.
    pub(crate) fn known(&self, key: &LockKey) -> Option<Arc<Server>> {
        let server = self.last_known(key)?;
        let one = matches!(self.kind, Kind::One(_));
        (one || !server.health.is_suspect()).then_some(server)
    }

    /// As [`known`](Self::known), in doubt or not.
    pub(crate) fn last_known(&self, key: &LockKey) -> Option<Arc<Server>> {
        match &self.kind {
            Kind::One(server) => Some(Arc::clone(server)),
            Kind::Sentinel(sentinel) => sentinel.master(),
            Kind::Cluster(cluster) => cluster.primary(key.slot()),
        }
    }

    /// Fails for a lock that no server of the deployment can have.
    pub(crate) fn check(&self, key: &LockKey) -> Result<()> {
        match self.kind {
            Kind::Cluster(_) => key.check_one_slot(),
            Kind::One(_) | Kind::Sentinel(_) => Ok(()),
        }
    }

    /// The server that has the lock; looked for where that is not known, within `time`.
    pub(crate) fn server(&self, key: &LockKey, time: Duration) -> Result<Arc<Server>, RouteError> {
        self.check(key).map_err(RouteError::Invalid)?;
        if let Some(server) = self.known(key) {
            return Ok(server);
        }
        let deadline = Moment::now().after(time);
        let looked = match &self.kind {
            Kind::One(server) => return Ok(Arc::clone(server)),
            Kind::Sentinel(sentinel) => sentinel.look(&self.servers, deadline),
            Kind::Cluster(cluster) => cluster.look(&self.servers, deadline),
        };
        // A process that cannot open a connection cannot look for servers either.
        let usable = self
            .last_known(key)
            .filter(|server| server.health.may_be_used());
        if let (Err(RouteError::Unavailable(_)), Some(server)) = (&looked, usable)
            && !deadline.is_past()
        {
            return Ok(server);
        }
        looked?;
        let unknown = || LookUpFailed::new("no server is known that has it");
        self.last_known(key)
            .ok_or_else(|| RouteError::Unavailable(unknown()))
    }

    /// Every server that has locks, after a new look-up.
    pub(crate) fn servers(&self, time: Duration) -> Result<Vec<Arc<Server>>, RouteError> {
        let deadline = Moment::now().after(time);
        Ok(match &self.kind {
            Kind::One(server) => vec![Arc::clone(server)],
            Kind::Sentinel(sentinel) => {
                sentinel.look(&self.servers, deadline)?;
                sentinel.master().into_iter().collect()
            }
            Kind::Cluster(cluster) => {
                cluster.look(&self.servers, deadline)?;
                cluster.primaries()
            }
        })
    }

    /// Where `error`, which a server gave as its reply about the lock, says that the lock is.
    pub(crate) fn redirect(
        &self,
        key: &LockKey,
        from: &Server,
        error: &RedisError,
    ) -> Option<Redirect> {
        let Kind::Cluster(cluster) = &self.kind else {
            return None;
        };
        let (address, _) = error.redirect_node()?;
        let (host, port) = address.rsplit_once(':')?;
        // No host: that of the server that says so.
        let host = if host.is_empty() {
            from.node.host()
        } else {
            host
        };
        let address = ConnectionAddr::Tcp(host.into(), port.parse().ok()?);
        let server = cluster.server_at(&self.servers, address);
        let asking = error.kind() == redis::ErrorKind::Server(ServerErrorKind::Ask);
        if !asking {
            server.health.confirm();
            cluster.moved(key.slot(), &server);
        }
        Some(Redirect { server, asking })
    }

    /// Locks of one number can be asked about in one request.
    pub(crate) fn batch(&self, key: &LockKey) -> u16 {
        match self.kind {
            Kind::One(_) | Kind::Sentinel(_) => 0,
            Kind::Cluster(_) => key.slot(),
        }
    }

    /// What the servers that locks are on are taken for.
    pub(crate) fn role(&self) -> Role {
        match self.kind {
            Kind::One(_) => Role::Alone,
            Kind::Sentinel(_) => Role::Master,
            Kind::Cluster(_) => Role::OfCluster,
        }
    }

    /// The server that has the lock or had it last, or else the deployment: for messages.
    pub(crate) fn name(&self, key: &LockKey) -> Arc<str> {
        self.last_known(key)
            .map_or_else(|| self.deployment(), |server| Arc::clone(server.name()))
    }

    /// The addresses that the user gave, without credentials: for messages.
    pub(crate) fn deployment(&self) -> Arc<str> {
        match &self.kind {
            Kind::One(server) => Arc::clone(server.name()),
            Kind::Sentinel(sentinel) => sentinel.name(),
            Kind::Cluster(cluster) => cluster.name(),
        }
    }
}

impl fmt::Display for RouteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable(failed) => failed.fmt(f),
            Self::Refused(error) => error.fmt(f),
            Self::Invalid(error) => error.fmt(f),
        }
    }
}

/// Without a source: the text contains that of the cause.
impl std::error::Error for RouteError {}
