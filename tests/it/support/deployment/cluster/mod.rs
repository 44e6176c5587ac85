//! A cluster of three primaries, each with a replica.

mod migration;
mod table;

use std::ops::RangeInclusive;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use redis::Cmd;

use super::replication::Replication;
use super::{Options, Port, REPLICATION, SOON, Server, Shared};
use super::{eventually, eventually_some, is_redis_7, millis};
pub use migration::Migration;
use table::{Entry, Planned};

const HOST: &str = "127.0.0.1";
const SLOTS: [RangeInclusive<u16>; 3] = [0..=5460, 5461..=10922, 10923..=16383];

/// The node timeout, in milliseconds before scaling.
const NODE_TIMEOUT: u64 = 1_500;

/// The time after which Redis gives up a manual failover.
const GIVEN_UP: Duration = Duration::from_secs(5);

pub struct ClusterDeployment {
    nodes: Vec<Server>,
    ids: Vec<String>,
    _buses: Vec<Port>,
}

impl ClusterDeployment {
    /// Starts a cluster. When this returns, every node reports `cluster_state:ok` and every replica
    /// is online.
    ///
    /// Slots without a primary are refused, and the others are served.
    pub fn start() -> Self {
        Self::start_with(Options::default)
    }

    /// The shared cluster of this process, for tests that harm no server and move no slot.
    pub fn shared() -> Shared<Self> {
        static SHARED: LazyLock<ClusterDeployment> =
            LazyLock::new(|| ClusterDeployment::start_with(|| Options::default().everlasting()));
        Shared::of(&SHARED)
    }

    /// A primary refuses everything for two seconds after its start. A replica does not, even if it
    /// is promoted. So the future primaries start as replicas and take over, and then their
    /// replicas start.
    fn start_with(options: fn() -> Options) -> Self {
        let ports = (0..2 * SLOTS.len()).map(|_| Port::reserve_with_bus());
        let (ports, buses): (Vec<_>, Vec<_>) = ports.unzip();
        let planned: Vec<Planned> = ports.iter().zip(&buses).map(plan).collect();
        let (primaries, replicas) = planned.split_at(SLOTS.len());
        let before: Vec<_> = replicas.iter().zip(primaries).collect();
        let after: Vec<_> = primaries.iter().zip(replicas).collect();
        let mut starts: Vec<Options> = ports
            .into_iter()
            .zip(&planned)
            .enumerate()
            .map(|(index, (port, me))| {
                let shards = if index < SLOTS.len() { &before } else { &after };
                let file = table::file(me, shards, &SLOTS);
                node(options()).file("nodes.conf", file).port(port)
            })
            .collect();
        let later = starts.split_off(SLOTS.len());
        let mut nodes = Server::start_all(starts);
        // On a stalled machine a node notices that the primaries are missing, and serves a little
        // later.
        for node in &nodes {
            let decided = || is_ok(node) || misses_primaries(node);
            eventually("a node to find itself a replica", decided);
        }
        // Each primary gets its own epoch. Otherwise two primaries would resolve the collision
        // later, during a test: the one that takes a newer epoch claims all slots that it had at
        // that time, and a slot that has moved to another primary meanwhile is lost there, with its
        // keys.
        let mut newest = 0;
        for node in &nodes {
            eventually("a node to know the epoch before", || {
                epoch(node, "cluster_current_epoch") >= newest
            });
            node.ask::<()>(&cluster(&["FAILOVER", "TAKEOVER"]));
            newest = epoch(node, "cluster_my_epoch");
        }
        nodes.extend(Server::start_all(later));
        let cluster = Self {
            nodes,
            ids: planned.into_iter().map(|node| node.id).collect(),
            _buses: buses,
        };
        cluster.await_calm();
        cluster
    }

    /// The URLs of all nodes.
    pub fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(Server::url).collect()
    }

    pub fn nodes(&self) -> &[Server] {
        &self.nodes
    }

    /// The slot of a key. Considers `{..}`.
    pub fn slot_of(&self, key: &str) -> u16 {
        let mut up = self.nodes.iter().filter(|node| node.is_up());
        let node = up.next().expect("a node");
        node.ask(&cluster(&["KEYSLOT", key]))
    }

    /// The index of the [primary](Self::primaries) for each key, as long as no slot has moved.
    pub fn shards_of(&self, keys: &[String]) -> Vec<usize> {
        let mut slots = redis::pipe();
        for key in keys {
            slots.cmd("CLUSTER").arg("KEYSLOT").arg(key);
        }
        let mut up = self.nodes.iter().filter(|node| node.is_up());
        let mut node = up.next().expect("a node").connection();
        let slots: Vec<u16> = slots.query(&mut node).expect("the node replies");
        let shard = |slot| SLOTS.iter().position(|slots| slots.contains(&slot));
        let shards: Option<_> = slots.into_iter().map(shard).collect();
        shards.expect("every slot has a primary")
    }

    /// The primary of a slot. Waits until all nodes that are up agree. A killed primary remains
    /// until another takes its place.
    pub fn primary_of(&self, slot: u16) -> &Server {
        eventually_some("the nodes to agree", || self.agreed_primary(slot))
    }

    /// The replica of the primary of a slot.
    pub fn replica_of(&self, slot: u16) -> &Server {
        let primary = self.id(self.primary_of(slot));
        eventually_some("a replica", || {
            let table = self.tables()?.pop()?;
            let mut entries = table.into_iter();
            let replica = entries.find(|entry| entry.primary.as_deref() == Some(primary))?;
            self.node(&replica)
        })
    }

    /// All primaries that are up, as the nodes agree.
    pub fn primaries(&self) -> Vec<&Server> {
        let ours = SLOTS.map(|slots| self.primary_of(*slots.start()));
        ours.into_iter().filter(|node| node.is_up()).collect()
    }

    /// A primary that is up and does not have this slot.
    pub fn another_primary(&self, slot: u16) -> &Server {
        let owner = self.primary_of(slot).port();
        let mut others = self.primaries().into_iter();
        let other = others.find(|primary| primary.port() != owner);
        other.expect("another primary that is up")
    }

    /// Kills the primary of a slot and returns the node.
    pub fn kill_primary(&self, slot: u16) -> &Server {
        let primary = self.primary_of(slot);
        primary.kill();
        primary
    }

    /// Pauses the primary of a slot until [`Server::resume`] and returns the node.
    pub fn pause_primary(&self, slot: u16) -> &Server {
        let primary = self.primary_of(slot);
        primary.pause();
        primary
    }

    /// Waits until all nodes that are up agree on a new primary for the slot, and serve it. Returns
    /// the new primary.
    pub fn await_failover(&self, slot: u16) -> &Server {
        eventually_some("a failover", || {
            let primary = self.agreed_primary(slot)?;
            let mut up = self.nodes.iter().filter(|node| node.is_up());
            (primary.is_up() && up.all(is_ok)).then_some(primary)
        })
    }

    /// A manual failover: the replica replaces its primary without loss. Returns the new primary;
    /// the old one is its replica when this returns.
    pub fn fail_over(&self, slot: u16) -> &Server {
        let replica = self.replica_of(slot);
        let mut started: Option<Instant> = None;
        eventually("the replica to be the primary", || {
            // A node that won an election recently may not stand again for longer than Redis waits
            // for a manual failover.
            if started.is_none_or(|started| started.elapsed() > GIVEN_UP) {
                started = Some(Instant::now());
                let _: Option<()> = replica.try_ask(&cluster(&["FAILOVER"]));
            }
            let primary = self.agreed_primary(slot);
            primary.is_some_and(|primary| primary.port() == replica.port())
        });
        self.await_calm();
        replica
    }

    /// Begins to move a slot to another primary.
    pub fn begin_migration<'c>(&'c self, slot: u16, to: &'c Server) -> Migration<'c> {
        Migration::begin(self, slot, to)
    }

    /// Starts killed nodes and resumes paused ones. The cluster is healthy when this returns,
    /// though primaries and replicas may have changed roles.
    pub fn start_killed_again(&self) {
        for node in &self.nodes {
            node.bring_back();
        }
        self.await_calm();
    }

    /// Waits until all nodes that are up agree and serve their slots, and all replicas are online.
    pub fn await_calm(&self) {
        eventually("a healthy cluster", || {
            let Some(tables) = self.tables() else {
                return false;
            };
            tables.windows(2).all(|two| two[0] == two[1])
                && tables.iter().all(|table| self.is_well(table))
                && self.nodes.iter().filter(|node| node.is_up()).all(is_ok)
        });
    }

    /// Whether every replica in a table follows its primary, and all nodes that are up are
    /// reachable.
    fn is_well(&self, table: &[Entry]) -> bool {
        table.iter().all(|entry| {
            let Some(node) = self.node(entry).filter(|node| node.is_up()) else {
                return true;
            };
            let Some(said) = Replication::of(node) else {
                return false;
            };
            let followers = table.iter().filter(|other| {
                let follows = other.primary.as_ref() == Some(&entry.id);
                follows && self.node(other).is_some_and(Server::is_up)
            });
            let in_place = match &entry.primary {
                None => said.is_master() && said.online() == followers.count(),
                Some(primary) => {
                    let primary = self.ids.iter().position(|id| id == primary);
                    primary.is_some_and(|primary| said.follows(self.nodes[primary].port()))
                }
            };
            in_place && !entry.suspected
        })
    }

    /// The table of each node that is up; `None` if one of them does not reply.
    fn tables(&self) -> Option<Vec<Vec<Entry>>> {
        let up = self.nodes.iter().filter(|node| node.is_up());
        up.map(table::seen_by).collect()
    }

    fn agreed_primary(&self, slot: u16) -> Option<&Server> {
        let tables = self.tables()?;
        let mut owners = tables.iter().map(|table| {
            let owner = table.iter().find(|entry| entry.owns(slot))?;
            self.node(owner)
        });
        let first = owners.next()??;
        owners
            .all(|owner| owner.is_some_and(|owner| owner.port() == first.port()))
            .then_some(first)
    }

    fn node(&self, entry: &Entry) -> Option<&Server> {
        let index = self.ids.iter().position(|id| *id == entry.id)?;
        self.nodes.get(index)
    }

    fn id(&self, node: &Server) -> &str {
        let mut nodes = self.nodes.iter();
        let index = nodes.position(|other| other.port() == node.port());
        &self.ids[index.expect("a node of this cluster")]
    }
}

/// The configuration of a node, with an id that no other cluster uses.
fn plan((port, bus): (&Port, &Port)) -> Planned {
    Planned {
        id: std::iter::repeat_with(|| format!("{:08x}", fastrand::u32(..)))
            .take(5)
            .collect(),
        port: port.number(),
        bus: bus.number(),
    }
}

fn node(options: Options) -> Options {
    let timeout = millis(NODE_TIMEOUT).as_millis().to_string();
    let options = options.arguments(&REPLICATION).arguments(&[
        "--cluster-enabled",
        "yes",
        "--cluster-node-timeout",
        &timeout,
        "--cluster-require-full-coverage",
        "no",
        // A replica takes over however long it had no contact, and stays with its primary.
        "--cluster-replica-validity-factor",
        "0",
    ]);
    // Before Redis 7, a replica stays because its primary has not so many.
    options.arguments(if is_redis_7() {
        &["--cluster-allow-replica-migration", "no"]
    } else {
        &["--cluster-migration-barrier", "9"]
    })
}

/// An epoch of the cluster, or of the node itself, as the node reports it.
fn epoch(node: &Server, which: &str) -> u64 {
    let info: String = node.ask(&cluster(&["INFO"]));
    let line = |line: &str| {
        line.strip_prefix(which)?
            .strip_prefix(':')?
            .trim()
            .parse()
            .ok()
    };
    info.lines().find_map(line).expect("it has epochs")
}

fn is_ok(node: &Server) -> bool {
    info(node).is_some_and(|info| info.contains("cluster_state:ok"))
}

fn misses_primaries(node: &Server) -> bool {
    info(node).is_some_and(|info| !info.contains("cluster_slots_pfail:0"))
}

fn info(node: &Server) -> Option<String> {
    node.try_ask(&cluster(&["INFO"]))
}

fn cluster(arguments: &[&str]) -> Cmd {
    redis::cmd("CLUSTER").arg(arguments).clone()
}
