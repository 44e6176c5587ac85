//! Which server has a lock. Only this module and the settings (`config/`) know how Redis is
//! deployed. The modules after this one ask it for servers, and whether there are slots.
//!
//! After a failure that can mean that another server has the locks, the next thread that needs one
//! looks the servers up, and others wait for its result. If the look-up gets no reply, the last
//! known server stays in use, unless an established connection to it broke or it replied that it
//! cannot serve.

mod hint;
mod look_up;
mod map;
mod route_error;
mod slots;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use redis::{ConnectionAddr, RedisError, ServerErrorKind};

use crate::base::{LockKey, Moment};
use crate::config::Config;
use crate::deployment::Deployment;
use crate::error::{Hint, Result};
use crate::transport::credentials::CredentialSource;
use crate::transport::node::{Limits, Login, Node};
use crate::transport::server::Server;
use map::Map;
pub use route_error::{LookUpFailed, RouteError};

/// How long after a failed look-up none is made if the known servers may be used.
const PAUSE: Duration = Duration::from_millis(500);

/// The servers of a deployment, as far as they are known, and how to find them.
#[derive(Debug)]
pub(crate) struct Topology {
    deployment: Deployment,
    /// How the servers that have locks are connected to.
    login: Arc<Login>,
    /// The servers that the user named: the only one, the sentinels, or some of a cluster.
    seeds: Vec<Node>,
    /// Its lock protects this invariant: a server is in the map once, and so are its connections.
    map: RwLock<Map>,
    /// The server to ask first in the next look-up.
    first: AtomicUsize,
    /// Locked by the thread that looks up the servers.
    looking: Mutex<()>,
    /// When servers that may be used are looked up again.
    look_up_after: Mutex<Moment>,
    /// The longest time for one server.
    timeout: Duration,
}

/// Another server to which a request is sent.
#[derive(Clone, Debug)]
pub(crate) struct Redirect {
    pub(crate) server: Arc<Server>,
    /// Only this request, with ASKING before it, because the slot is migrating.
    pub(crate) asking: bool,
}

impl Topology {
    /// `credentials` and `name`: of the connections to the servers that have locks.
    pub(crate) fn new(config: &Config, credentials: CredentialSource, name: Option<&str>) -> Self {
        let limits = Limits {
            connections: config.connections as usize,
            replica_connections: config.replica_connections,
            connect_timeout: config.connect_timeout,
            command_timeout: config.command_timeout,
        };
        let login = |account, name, master_only| {
            let tls = config.tls.clone();
            Arc::new(Login::new(account, tls, limits, name, master_only))
        };
        let is_sentinel = matches!(config.deployment, Deployment::Sentinel { .. });
        let own = login((credentials, config.database), name, is_sentinel);
        let of_seeds = match is_sentinel {
            true => {
                let credentials = config.sentinel_credentials.clone();
                login((CredentialSource::Fixed(credentials), 0), None, false)
            }
            false => Arc::clone(&own),
        };
        let seeds = config.seeds.iter().cloned();
        let seeds = seeds.map(|address| Node::new(address, Arc::clone(&of_seeds)));
        let map = match config.deployment {
            Deployment::Single => Map::of_one(Server::new(config.seeds[0].clone(), &own)),
            _ => Map::default(),
        };
        Self {
            deployment: config.deployment.clone(),
            seeds: seeds.collect(),
            login: own,
            map: RwLock::new(map),
            first: AtomicUsize::new(0),
            looking: Mutex::new(()),
            look_up_after: Mutex::default(),
            timeout: config.connect_timeout.min(config.command_timeout),
        }
    }

    /// The server that has the lock, as far as is known, without I/O. `None` if the server is
    /// suspect.
    pub(crate) fn known(&self, key: &LockKey) -> Option<Arc<Server>> {
        let server = self.last_known(key)?;
        self.is_valid(&server).then_some(server)
    }

    /// Whether the server has its locks, as far as is known. The only one always has.
    fn is_valid(&self, server: &Server) -> bool {
        matches!(self.deployment, Deployment::Single) || !server.health.is_suspect()
    }

    /// The server that has the lock, as far as is known, even if it is suspect. No I/O.
    pub(crate) fn last_known(&self, key: &LockKey) -> Option<Arc<Server>> {
        self.map.read().server(key.slot()).cloned()
    }

    /// True if each key and shard channel has a slot.
    pub(crate) fn has_slots(&self) -> bool {
        matches!(self.deployment, Deployment::Cluster)
    }

    /// Fails for a lock that no server of the deployment can have.
    pub(crate) fn check(&self, key: &LockKey) -> Result<()> {
        match self.has_slots() {
            true => key.check_one_slot(),
            false => Ok(()),
        }
    }

    /// The server that has the lock. If it is not known, looks it up within `time`.
    pub(crate) fn server(&self, key: &LockKey, time: Duration) -> Result<Arc<Server>, RouteError> {
        self.check(key).map_err(RouteError::Invalid)?;
        let known = || self.last_known(key).into_iter().collect();
        let mut found = self.find(known, "no server is known that has it", time)?;
        Ok(found.swap_remove(0))
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
        let unknown = "no server is known that has locks";
        self.find(|| self.last_known_servers(), unknown, time)
    }

    /// The servers that are `known`. Looks them up if there are none or one is suspect. They stay
    /// in use if that fails: a process that cannot open a connection cannot look up servers
    /// either, but its open connections may work. So a look-up that has failed is not repeated for
    /// a while, and takes at most half of the time.
    fn find(
        &self,
        known: impl Fn() -> Vec<Arc<Server>>,
        unknown: &'static str,
        time: Duration,
    ) -> Result<Vec<Arc<Server>>, RouteError> {
        let servers = known();
        if !servers.is_empty() && servers.iter().all(|server| self.is_valid(server)) {
            return Ok(servers);
        }
        let may_be_used = !servers.is_empty() && servers.iter().all(|server| server.may_be_used());
        if may_be_used && !self.look_up_after.lock().is_past() {
            return Ok(servers);
        }
        let time = if may_be_used { time / 2 } else { time };
        let found = match self.look_up(Moment::now().after(time)) {
            Err(RouteError::Unavailable(_) | RouteError::Refused(_)) if may_be_used => {
                *self.look_up_after.lock() = Moment::now().after(PAUSE);
                servers
            }
            Err(error) => return Err(error),
            Ok(()) => known(),
        };
        match found.is_empty() {
            true => Err(RouteError::Unavailable(LookUpFailed::new(unknown))),
            false => Ok(found),
        }
    }

    /// Every server that has locks, as far as is known, even if it is suspect. No I/O.
    pub(crate) fn last_known_servers(&self) -> Vec<Arc<Server>> {
        self.map.read().servers()
    }

    /// The server that a MOVED or ASK reply about the lock names.
    pub(crate) fn redirect(
        &self,
        key: &LockKey,
        from: &Server,
        error: &RedisError,
    ) -> Option<Redirect> {
        if !self.has_slots() {
            return None;
        }
        let (address, _) = error.redirect_node()?;
        let (host, port) = address.rsplit_once(':')?;
        // Without a host it is the host of the server that sent the reply.
        let host = if host.is_empty() {
            from.node.host()
        } else {
            host
        };
        let address = ConnectionAddr::Tcp(host.into(), port.parse().ok()?);
        let mut map = self.map.write();
        let server = self.server_at(&map, address);
        let asking = error.kind() == redis::ErrorKind::Server(ServerErrorKind::Ask);
        if !asking {
            server.health.confirm();
            map.assign(key.slot(), key.slot(), Arc::clone(&server));
        }
        Some(Redirect { server, asking })
    }

    /// Locks with the same number may share a request.
    pub(crate) fn batch(&self, key: &LockKey) -> u16 {
        if self.has_slots() { key.slot() } else { 0 }
    }

    /// What to change after this error reply of a server that has locks, if the reply says so.
    pub(crate) fn hint(&self, error: &RedisError) -> Option<Box<Hint>> {
        hint::hint(&self.deployment, false, error)
    }

    /// The server that has the lock or had it last, or else the deployment: for messages.
    pub(crate) fn name(&self, key: &LockKey) -> Arc<str> {
        self.last_known(key)
            .map_or_else(|| self.deployment(), |server| Arc::clone(server.name()))
    }

    /// As [`name`](Self::name), for the error of a call without a reply. Says where the address is
    /// from if the user did not give it, and no connection to it was ever opened.
    pub(crate) fn name_without_reply(&self, key: &LockKey) -> String {
        let name = self.name(key);
        let is_given = self.seeds.iter().any(|seed| *seed.name() == name);
        let server = self.last_known(key);
        match server.is_some_and(|server| !is_given && !server.node.was_reached()) {
            true => format!("{name} (announced for {})", self.deployment()),
            false => name.as_ref().into(),
        }
    }

    /// The addresses that the user gave, without credentials: for messages.
    pub(crate) fn deployment(&self) -> Arc<str> {
        let names: Vec<&str> = self.seeds.iter().map(|node| &**node.name()).collect();
        let names = names.join(", ");
        match &self.deployment {
            Deployment::Single => names.into(),
            Deployment::Sentinel { master } => {
                format!("master {master:?} of the sentinels {names}").into()
            }
            Deployment::Cluster => format!("the cluster of {names}").into(),
        }
    }
}
