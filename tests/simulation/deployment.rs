//! The servers of a world, and which of them have the locks.

use std::cell::{RefCell, RefMut};
use std::fmt;
use std::net::SocketAddr;
use std::rc::Rc;
use std::str::FromStr;
use std::time::Duration;

use leasehold::{LockClient, LockClientBuilder};
use leasehold_simulation_world::random;

use crate::args::Args;
use crate::redis_server::RedisServer;
use crate::remains;
use crate::replication::{Replication, ServerId};
use crate::sentinel::{self, Sentinel};
use crate::server::Keyspace;
use crate::slots::{Slots, slot_of};

/// How long a client waits until the replicas confirm a lock.
const REPLICATED: Duration = Duration::from_millis(50);

/// How Redis is deployed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    One,
    /// A master with this many replicas.
    Sentinel(usize),
    /// As [`Sentinel`](Self::Sentinel). All replicas confirm each lock.
    MinReplicas(usize),
    /// Three masters, each with a replica.
    Cluster,
    /// Servers that do not know each other.
    Independent(usize),
}

impl Layout {
    /// The longest delay of the replication. Without faults, replicas confirm locks in time.
    pub fn longest_lag(self) -> Duration {
        match self {
            Self::MinReplicas(_) => REPLICATED / 2,
            _ => Duration::from_millis(400),
        }
    }

    /// A master and its replicas, or a cluster.
    pub fn any() -> Self {
        let replicas = 1 + random::index(2);
        match random::index(3) {
            0 => Self::Sentinel(replicas),
            1 => Self::MinReplicas(replicas),
            _ => Self::Cluster,
        }
    }
}

/// The servers of a scenario.
pub struct Deployment {
    pub layout: Layout,
    servers: Vec<Rc<RefCell<RedisServer>>>,
    pub groups: Vec<Group>,
    pub sentinels: Vec<Rc<RefCell<Sentinel>>>,
    /// The slots of a cluster.
    pub slots: Option<Rc<RefCell<Slots>>>,
}

/// A master and its replicas.
pub struct Group {
    pub members: Vec<ServerId>,
    pub master: ServerId,
    pub failed: Option<Failed>,
    /// When all will have learned which server is the master.
    pub announced: u64,
}

/// A master that has failed, and has not come back.
#[derive(Clone)]
pub struct Failed {
    pub server: ServerId,
    /// Its connections work: it is cut off from its replicas and the sentinels only.
    pub is_reachable: bool,
    /// When it failed: its replicas get nothing more.
    pub apart: u64,
    /// When it failed, or when another server took its place while it was reachable.
    pub since: u64,
    /// Its keys when it failed.
    pub keys: Keyspace,
}

/// How a client finds the servers.
#[derive(Clone, Debug)]
pub struct Reach {
    layout: Layout,
    pub addresses: Vec<SocketAddr>,
    urls: Vec<String>,
}

impl Deployment {
    /// Starts the servers. The clocks of a group gain as many nanoseconds in each second: a
    /// replica has the times of its master.
    pub fn start(layout: Layout, drift: impl Fn() -> i64) -> Self {
        let (masters, replicas, sentinels) = match layout {
            Layout::One => (1, 0, 0),
            Layout::Sentinel(replicas) | Layout::MinReplicas(replicas) => (1, replicas, 3),
            Layout::Cluster => (3, 1, 0),
            Layout::Independent(servers) => (servers, 0, 0),
        };
        let drifts: Vec<i64> = (0..masters).map(|_| drift()).collect();
        let servers: Vec<_> = (0..masters * (1 + replicas))
            .map(|number| RedisServer::start(address(number), drifts[number % masters]))
            .collect();
        let groups = (0..masters).map(|master| Group {
            members: (master..servers.len()).step_by(masters).collect(),
            master,
            failed: None,
            announced: 0,
        });
        let sentinels =
            (0..sentinels).map(|number| Sentinel::start(address_of_sentinel(number), address(0)));
        let slots = (layout == Layout::Cluster)
            .then(|| Rc::new(RefCell::new(Slots::of((0..masters).map(address).collect()))));
        let mut deployment = Self {
            layout,
            groups: groups.collect(),
            servers,
            sentinels: sentinels.collect(),
            slots,
        };
        for group in 0..deployment.groups.len() {
            if let Some(slots) = &deployment.slots {
                for id in &deployment.groups[group].members {
                    deployment.server(*id).join(group, Rc::clone(slots));
                }
            }
            deployment.lead(group, deployment.groups[group].master);
        }
        deployment
    }

    /// Makes this server the master of the others in the group that work.
    pub fn lead(&mut self, group: usize, master: ServerId) {
        self.groups[group].master = master;
        let Group {
            members, failed, ..
        } = &self.groups[group];
        let failed = failed.as_ref().map(|failed| failed.server);
        let replicas = members.iter().copied();
        let replicas = replicas.filter(|id| *id != master && Some(*id) != failed);
        let replicas: Vec<ServerId> = replicas.collect();
        let address = self.address(master);
        for id in &replicas {
            self.server(*id).master = Some(address);
        }
        let mut server = self.server(master);
        let keys = server.keys();
        server.master = None;
        server.replication = Replication::to(replicas, &keys, self.layout.longest_lag());
    }

    pub fn handle(&self, id: ServerId) -> Rc<RefCell<RedisServer>> {
        Rc::clone(&self.servers[id])
    }

    pub fn handles(&self) -> Vec<Rc<RefCell<RedisServer>>> {
        self.servers.clone()
    }

    pub fn server(&self, id: ServerId) -> RefMut<'_, RedisServer> {
        self.servers[id].borrow_mut()
    }

    pub fn address(&self, id: ServerId) -> SocketAddr {
        self.servers[id].borrow().address
    }

    /// One of the servers, if they are independent.
    pub fn any_independent(&self) -> Option<ServerId> {
        match self.layout {
            Layout::Independent(servers) => Some(random::index(servers)),
            _ => None,
        }
    }

    /// The group that has the lock.
    pub fn group_of(&self, lock: u32) -> usize {
        let slot = slot_of(Args::key(lock).as_bytes());
        self.slots
            .as_ref()
            .map_or(0, |slots| slots.borrow().owner(slot))
    }

    /// The server that has the lock.
    pub fn server_of(&self, lock: u32) -> RefMut<'_, RedisServer> {
        self.server(self.groups[self.group_of(lock)].master)
    }

    /// True if one server has all keys of the lock, and no replica takes its place: the slot does
    /// not move, and the master works.
    pub fn has_all_of(&self, lock: u32) -> bool {
        self.moving().is_none() && self.groups[self.group_of(lock)].failed.is_none()
    }

    /// All Redis servers.
    pub fn servers(&self) -> impl Iterator<Item = RefMut<'_, RedisServer>> {
        self.servers.iter().map(|server| server.borrow_mut())
    }

    /// The replies of the masters to [`remains::SCRIPT`].
    pub fn remains(&self) -> Vec<String> {
        let masters = self.groups.iter().map(|group| self.server(group.master));
        let query =
            |mut server: RefMut<'_, RedisServer>| server.query(&["EVAL", remains::SCRIPT, "0"]);
        masters.map(query).collect()
    }

    /// Executes the requests that were held back.
    pub fn deliver(&self) {
        for mut server in self.servers() {
            server.deliver();
        }
    }

    /// The addresses of all servers, also of those without locks.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let servers = self.servers.iter().map(|server| server.borrow().address);
        let sentinels = (0..self.sentinels.len()).map(address_of_sentinel);
        servers.chain(sentinels).collect()
    }

    /// How clients find it.
    pub fn reach(&self) -> Reach {
        let addresses: Vec<SocketAddr> = match self.layout {
            Layout::One => vec![address(0)],
            Layout::Sentinel(_) | Layout::MinReplicas(_) => {
                (0..self.sentinels.len()).map(address_of_sentinel).collect()
            }
            Layout::Cluster | Layout::Independent(_) => {
                (0..self.servers.len()).map(address).collect()
            }
        };
        let urls = addresses.iter().map(|address| format!("redis://{address}"));
        Reach {
            layout: self.layout,
            urls: urls.collect(),
            addresses,
        }
    }
}

impl Reach {
    /// The builders of the clients: one for each server that is independent.
    pub fn builders(&self) -> Vec<LockClientBuilder> {
        match self.layout {
            Layout::Independent(_) => {
                let urls = self.urls.iter();
                urls.map(|url| LockClient::builder(&**url)).collect()
            }
            _ => vec![self.builder()],
        }
    }

    /// The builder of the client; of independent servers, that for the first one.
    pub fn builder(&self) -> LockClientBuilder {
        let of_sentinels = || LockClient::builder_sentinel(self.urls.clone(), sentinel::MASTER);
        match self.layout {
            Layout::One | Layout::Independent(_) => LockClient::builder(&*self.urls[0]),
            Layout::Sentinel(_) => of_sentinels(),
            Layout::MinReplicas(replicas) => {
                of_sentinels().min_replicas(replicas as u32, REPLICATED)
            }
            Layout::Cluster => LockClient::builder_cluster(self.urls.clone()),
        }
    }
}

fn address(number: ServerId) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1 + number as u8], 6379))
}

fn address_of_sentinel(number: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 2, 1 + number as u8], 26379))
}

impl FromStr for Layout {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, number) = text.split_once('=').unwrap_or((text, "1"));
        let number = number
            .parse()
            .ok()
            .filter(|number| (1..=9).contains(number));
        match (name, number) {
            ("one", _) => Ok(Self::One),
            ("sentinel", Some(replicas)) => Ok(Self::Sentinel(replicas)),
            ("min-replicas", Some(replicas)) => Ok(Self::MinReplicas(replicas)),
            ("cluster", _) => Ok(Self::Cluster),
            ("independent", Some(servers)) => Ok(Self::Independent(servers)),
            _ => {
                Err("one, sentinel=REPLICAS, min-replicas=REPLICAS, cluster or independent=SERVERS")
            }
        }
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One => f.write_str("one"),
            Self::Sentinel(replicas) => write!(f, "sentinel={replicas}"),
            Self::Cluster => f.write_str("cluster"),
            Self::Independent(servers) => write!(f, "independent={servers}"),
            Self::MinReplicas(replicas) => write!(f, "min-replicas={replicas}"),
        }
    }
}
