//! The primaries of a cluster, by slot: from CLUSTER SLOTS of one of its servers, corrected by
//! redirects.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use redis::{ConnectionAddr, RedisResult};

use super::route_error::{LookUpFailed, RouteError};
use super::single_flight::{Found, SingleFlight, ask_one_after_another};
use super::slots::{self, Range};
use crate::base::clock::Moment;
use crate::base::key::SLOTS;
use crate::config::Config;
use crate::script::Publish;
use crate::transport::hint::Role;
use crate::transport::node::Node;
use crate::transport::retry_action::RetryAction;
use crate::transport::server::{Server, Servers};

#[derive(Debug)]
pub(super) struct Cluster {
    /// The servers that are asked if no known server replies.
    seeds: Vec<Node>,
    /// Its lock protects this invariant: a server is in the map once, and so are its connections.
    map: RwLock<Map>,
    /// The server to ask first. Each look-up begins with the next one.
    first: AtomicUsize,
    single_flight: SingleFlight,
    /// The longest time for one server.
    timeout: Duration,
}

#[derive(Debug, Default)]
struct Map {
    servers: Vec<Arc<Server>>,
    /// The index of each slot's primary in `servers`; empty before the first look-up.
    owners: Vec<Option<u16>>,
}

impl Map {
    fn primary(&self, slot: u16) -> Option<&Arc<Server>> {
        let place = (*self.owners.get(usize::from(slot))?)?;
        self.servers.get(usize::from(place))
    }

    fn assign(&mut self, slot: u16, server: &Arc<Server>) {
        let place = self.servers.iter().position(|s| s.name() == server.name());
        let place = place.unwrap_or_else(|| {
            self.servers.push(Arc::clone(server));
            self.servers.len() - 1
        });
        self.owners.resize(usize::from(SLOTS), None);
        self.owners[usize::from(slot)] = u16::try_from(place).ok();
    }
}

impl Cluster {
    pub(super) fn new(seeds: &[ConnectionAddr], servers: &Servers, config: &Config) -> Self {
        let seed =
            |address: &ConnectionAddr| Node::new(address.clone(), Arc::clone(&servers.login));
        Self {
            seeds: seeds.iter().map(seed).collect(),
            map: RwLock::default(),
            first: AtomicUsize::new(0),
            single_flight: SingleFlight::default(),
            timeout: config.connect_timeout.min(config.command_timeout),
        }
    }

    /// The name in messages.
    pub(super) fn name(&self) -> Arc<str> {
        let names: Vec<&str> = self.seeds.iter().map(|node| &**node.name()).collect();
        format!("the cluster of {}", names.join(", ")).into()
    }

    pub(super) fn primary(&self, slot: u16) -> Option<Arc<Server>> {
        self.map.read().primary(slot).cloned()
    }

    /// All servers that have slots.
    pub(super) fn primaries(&self) -> Vec<Arc<Server>> {
        self.map.read().servers.clone()
    }

    /// The server with this address: the known one, or a new one.
    pub(super) fn server_at(&self, servers: &Servers, address: ConnectionAddr) -> Arc<Server> {
        let name = address.to_string();
        let map = self.map.read();
        let known = map.servers.iter().find(|server| **server.name() == *name);
        known.cloned().unwrap_or_else(|| servers.server(address))
    }

    /// Records the new primary of a slot.
    pub(super) fn moved(&self, slot: u16, to: &Arc<Server>) {
        self.map.write().assign(slot, to);
    }

    /// Asks one server after the other for the slots: first those that are known, then the seeds,
    /// and last those that did not reply last time.
    pub(super) fn look_up(&self, servers: &Servers, deadline: Moment) -> Result<(), RouteError> {
        let Some(_permit) = self.single_flight.acquire(deadline) else {
            return Ok(());
        };
        let all = self.map.read().servers.clone();
        let (unresponsive, mut known): (Vec<_>, Vec<_>) = all
            .iter()
            .partition(|server| server.health.is_unresponsive());
        let first = self.first.fetch_add(1, Ordering::Relaxed);
        let middle = first % known.len().max(1);
        known.rotate_left(middle);
        let mut seeds: Vec<&Node> = self.seeds.iter().collect();
        seeds.rotate_left(first % self.seeds.len());
        seeds.retain(|seed| {
            unresponsive
                .iter()
                .all(|server| server.name() != seed.name())
        });
        let known = known.into_iter().map(|server| &*server.node);
        let unresponsive = unresponsive.into_iter().map(|server| &*server.node);
        let mut candidates: Vec<&Node> = Vec::new();
        for node in known.chain(seeds).chain(unresponsive) {
            if candidates.iter().all(|named| named.name() != node.name()) {
                candidates.push(node);
            }
        }
        let mut source = None;
        let found = ask_one_after_another(
            &candidates,
            Role::OfCluster,
            self.timeout,
            deadline,
            |node, time| {
                source = Some(node.host().to_owned());
                ask(node, time)
            },
        );
        match (found?, source) {
            (Found::Reply((ranges, publish)), Some(host)) => {
                servers.login.set_publish(publish);
                self.replace_map(servers, &host, ranges);
                Ok(())
            }
            _ => Err(RouteError::Unavailable(LookUpFailed::new(
                "no slot of the cluster is assigned",
            ))),
        }
    }

    /// Replaces the slot map by that of the server on `host`. No primary in it is suspect any more.
    fn replace_map(&self, servers: &Servers, host: &str, ranges: Vec<Range>) {
        let mut map = Map::default();
        for range in ranges {
            let host = range.host.unwrap_or_else(|| host.into());
            let server = self.server_at(servers, ConnectionAddr::Tcp(host, range.port));
            server.health.confirm();
            for slot in range.first..=range.last {
                map.assign(slot, &server);
            }
        }
        let outdated = std::mem::replace(&mut *self.map.write(), map);
        drop(outdated);
    }
}

/// Asks a server for the slots, and whether it supports shard channels.
fn ask(node: &Node, time: Duration) -> RedisResult<Option<(Vec<Range>, Publish)>> {
    let deadline = Moment::now().after(time);
    let link = node.open(time)?;
    let mut commands = redis::pipe();
    commands.cmd("CLUSTER").arg("SLOTS");
    commands.cmd("PUBSUB").arg("SHARDNUMSUB");
    let packed = commands.get_packed_pipeline();
    let mut replies = link.ask((commands.len(), &packed), deadline, Duration::MAX);
    let (shards, slots) = (replies.pop(), replies.pop());
    let ranges = slots.map_or(Ok(Vec::new()), |slots| slots::ranges(slots?))?;
    let publish = match shards {
        Some(Ok(_)) => Publish::ToShard,
        Some(Err(error)) if !RetryAction::is_reply(&error) => return Err(error),
        _ => Publish::ToAll,
    };
    Ok((!ranges.is_empty()).then_some((ranges, publish)))
}
