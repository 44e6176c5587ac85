//! Which server has a lock. Only this module knows how Redis is deployed.
//!
//! After a failure that can mean that another server has the locks, the next thread that needs one
//! looks the servers up, and others wait for its result. If the look-up gets no reply, the last
//! known server stays in use, unless an established connection to it broke or it replied that it
//! cannot serve.

mod cluster;
mod route_error;
mod sentinel;
mod single_flight;
mod slots;

use std::sync::Arc;
use std::time::Duration;

use redis::{ConnectionAddr, RedisError, ServerErrorKind};

use crate::base::clock::Moment;
use crate::base::key::LockKey;
use crate::config::Config;
use crate::deployment::Deployment;
use crate::error::Result;
use crate::transport::health::Health;
use crate::transport::hint::Role;
use crate::transport::limits::Limits;
use crate::transport::node::Login;
use crate::transport::server::{Server, Servers};
use cluster::Cluster;
pub use route_error::{LookUpFailed, RouteError};
use sentinel::Sentinel;

/// The ways in which Redis is deployed.
#[derive(Debug)]
enum Kind {
    One(Arc<Server>),
    Sentinel(Sentinel),
    Cluster(Cluster),
}

/// The servers of a deployment, as far as they are known, and how to find them.
#[derive(Debug)]
pub(crate) struct Topology {
    kind: Kind,
    /// How the servers that have locks are connected to.
    servers: Servers,
}

/// Another server to which a request is sent.
#[derive(Clone, Debug)]
pub(crate) struct Redirect {
    pub(crate) server: Arc<Server>,
    /// Only this request, with ASKING before it, because the slot is migrating.
    pub(crate) asking: bool,
}

impl Topology {
    /// `name`: of the connections to the servers that have locks.
    pub(crate) fn new(config: &Config, name: Option<&str>) -> Result<Self> {
        let mut login = Login::new(&config.credentials, config.tls.clone());
        if let Some(name) = name {
            login = login.with_name(name);
        }
        let servers = |login| -> Result<Servers> {
            Ok(Servers {
                login: Arc::new(login),
                limits: Limits {
                    connections: config.connections as usize,
                    pool_size: config.pool_size,
                    connect_timeout: config.connect_timeout,
                    command_timeout: config.command_timeout,
                },
            })
        };
        let (kind, servers) = match &config.deployment {
            Deployment::One(address) => {
                let servers = servers(login)?;
                (Kind::One(servers.server(address.clone())), servers)
            }
            Deployment::Sentinel {
                sentinels,
                service,
                credentials,
            } => {
                let there = Login::new(credentials, config.tls.clone());
                let sentinel = Sentinel::new(sentinels, service, there, config);
                (Kind::Sentinel(sentinel), servers(login.masters_only())?)
            }
            Deployment::Cluster(seeds) => {
                let servers = servers(login)?;
                let cluster = Cluster::new(seeds, &servers, config);
                (Kind::Cluster(cluster), servers)
            }
        };
        Ok(Self { kind, servers })
    }

    /// The server that has the lock, as far as is known, without I/O. `None` if the server is
    /// suspect.
    pub(crate) fn known(&self, key: &LockKey) -> Option<Arc<Server>> {
        let server = self.last_known(key)?;
        let one = matches!(self.kind, Kind::One(_));
        (one || !server.health.is_suspect()).then_some(server)
    }

    /// The server that has the lock, as far as is known, even if it is suspect. No I/O.
    pub(crate) fn last_known(&self, key: &LockKey) -> Option<Arc<Server>> {
        match &self.kind {
            Kind::One(server) => Some(Arc::clone(server)),
            Kind::Sentinel(sentinel) => sentinel.master(),
            Kind::Cluster(cluster) => cluster.primary(key.slot()),
        }
    }

    /// True if each key and shard channel has a slot.
    pub(crate) fn has_slots(&self) -> bool {
        matches!(self.kind, Kind::Cluster(_))
    }

    /// Fails for a lock that no server of the deployment can have.
    pub(crate) fn check(&self, key: &LockKey) -> Result<()> {
        match self.kind {
            Kind::Cluster(_) => key.check_one_slot(),
            Kind::One(_) | Kind::Sentinel(_) => Ok(()),
        }
    }

    /// The server that has the lock. If it is not known, looks it up within `time`.
    pub(crate) fn server(&self, key: &LockKey, time: Duration) -> Result<Arc<Server>, RouteError> {
        self.check(key).map_err(RouteError::Invalid)?;
        if let Some(server) = self.known(key) {
            return Ok(server);
        }
        let deadline = Moment::now().after(time);
        let found = self.look_up(deadline);
        // A process that cannot open a connection cannot look up servers either, but its open
        // connections may work.
        let usable = self
            .last_known(key)
            .filter(|server| server.health.may_be_used());
        if let (Err(RouteError::Unavailable(_)), Some(server)) = (&found, usable)
            && !deadline.is_past()
        {
            return Ok(server);
        }
        found?;
        let unknown = || LookUpFailed::new("no server is known that has it");
        self.last_known(key)
            .ok_or_else(|| RouteError::Unavailable(unknown()))
    }

    /// Every server that has locks, after a new look-up.
    pub(crate) fn servers(&self, time: Duration) -> Result<Vec<Arc<Server>>, RouteError> {
        let deadline = Moment::now().after(time);
        self.look_up(deadline)?;
        Ok(self.last_known_servers())
    }

    /// Every server that has locks. Looks them up within `time` if one of them is not known or
    /// suspect.
    pub(crate) fn serving(&self, time: Duration) -> Result<Vec<Arc<Server>>, RouteError> {
        let known = self.last_known_servers();
        let are_all = |is: fn(&Health) -> bool| {
            !known.is_empty() && known.iter().all(|server| is(&server.health))
        };
        if matches!(self.kind, Kind::One(_)) || are_all(|health| !health.is_suspect()) {
            return Ok(known);
        }
        let deadline = Moment::now().after(time);
        match self.look_up(deadline) {
            // As for a lock: the open connections may work.
            Err(RouteError::Unavailable(_))
                if are_all(Health::may_be_used) && !deadline.is_past() =>
            {
                Ok(known)
            }
            Err(error) => Err(error),
            Ok(()) => {
                let found = self.last_known_servers();
                let unknown = || LookUpFailed::new("no server is known that has locks");
                match found.is_empty() {
                    true => Err(RouteError::Unavailable(unknown())),
                    false => Ok(found),
                }
            }
        }
    }

    /// Asks the sentinels or the cluster which servers have the locks.
    fn look_up(&self, deadline: Moment) -> Result<(), RouteError> {
        match &self.kind {
            Kind::One(_) => Ok(()),
            Kind::Sentinel(sentinel) => sentinel.look_up(&self.servers, deadline),
            Kind::Cluster(cluster) => cluster.look_up(&self.servers, deadline),
        }
    }

    /// Every server that has locks, as far as is known, even if it is suspect. No I/O.
    pub(crate) fn last_known_servers(&self) -> Vec<Arc<Server>> {
        match &self.kind {
            Kind::One(server) => vec![Arc::clone(server)],
            Kind::Sentinel(sentinel) => sentinel.master().into_iter().collect(),
            Kind::Cluster(cluster) => cluster.primaries(),
        }
    }

    /// The server that a MOVED or ASK reply about the lock names.
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
        // Without a host it is the host of the server that sent the reply.
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

    /// Locks with the same number may share a request.
    pub(crate) fn batch(&self, key: &LockKey) -> u16 {
        match self.kind {
            Kind::One(_) | Kind::Sentinel(_) => 0,
            Kind::Cluster(_) => key.slot(),
        }
    }

    /// The role of the servers that have locks.
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
