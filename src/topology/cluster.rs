//! The primaries of a cluster, by slot: as one of its servers tells, and as redirections correct it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use redis::{ConnectionAddr, RedisResult};

use super::single_flight::{Found, SingleFlight, ask_in_turn};
use super::slots::{self, Range};
use super::{LookUpFailed, RouteError};
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
    /// Where the servers are looked for when none that is known answers.
    seeds: Vec<Node>,
    /// Protects: a server is in the map once, so that its connections are.
    map: RwLock<Map>,
    /// The server to ask first; each look begins with the next.
    first: AtomicUsize,
    single_flight: SingleFlight,
    /// For one server.
    budget: Duration,
}

#[derive(Debug, Default)]
struct Map {
    servers: Vec<Arc<Server>>,
    /// The place of each slot's primary in `servers`; empty until the first look.
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
            |address: &ConnectionAddr| Node::new(address.clone(), Arc::clone(&servers.entry));
        Self {
            seeds: seeds.iter().map(seed).collect(),
            map: RwLock::default(),
            first: AtomicUsize::new(0),
            single_flight: SingleFlight::default(),
            budget: config.connect_timeout.min(config.command_timeout),
        }
    }

    /// For messages.
    pub(super) fn name(&self) -> Arc<str> {
        let names: Vec<&str> = self.seeds.iter().map(|node| &**node.name()).collect();
        format!("the cluster of {}", names.join(", ")).into()
    }

    pub(super) fn primary(&self, slot: u16) -> Option<Arc<Server>> {
        self.map.read().primary(slot).cloned()
    }

    /// All that have slots.
    pub(super) fn primaries(&self) -> Vec<Arc<Server>> {
        self.map.read().servers.clone()
    }

    /// The server of this address: the one that is known, or else a new one.
    pub(super) fn server_at(&self, servers: &Servers, address: ConnectionAddr) -> Arc<Server> {
        let name = address.to_string();
        let map = self.map.read();
        let known = map.servers.iter().find(|server| **server.name() == *name);
        known.cloned().unwrap_or_else(|| servers.server(address))
    }

    /// A slot has another primary.
    pub(super) fn moved(&self, slot: u16, to: &Arc<Server>) {
        self.map.write().assign(slot, to);
    }

    /// Asks one server after the other which slots they have: those that are known, then the seeds, and
    /// last those that did not answer last time.
    pub(super) fn look(&self, servers: &Servers, deadline: Moment) -> Result<(), RouteError> {
        let Some(_turn) = self.single_flight.turn(deadline) else {
            return Ok(());
        };
        let all = self.map.read().servers.clone();
        let (silent, mut known): (Vec<_>, Vec<_>) = all
            .iter()
            .partition(|server| server.health.is_unresponsive());
        let first = self.first.fetch_add(1, Ordering::Relaxed);
        let middle = first % known.len().max(1);
        known.rotate_left(middle);
        let mut seeds: Vec<&Node> = self.seeds.iter().collect();
        seeds.rotate_left(first % self.seeds.len());
        seeds.retain(|seed| silent.iter().all(|server| server.name() != seed.name()));
        let known = known.into_iter().map(|server| &server.node);
        let silent = silent.into_iter().map(|server| &server.node);
        let mut candidates: Vec<&Node> = Vec::new();
        for node in known.chain(seeds).chain(silent) {
            if candidates.iter().all(|named| named.name() != node.name()) {
                candidates.push(node);
            }
        }
        let mut teller = None;
        let found = ask_in_turn(
            &candidates,
            Role::OfCluster,
            self.budget,
            deadline,
            |node, time| {
                teller = Some(node.host().to_owned());
                ask(node, time)
            },
        );
        match (found?, teller) {
            (Found::Reply((ranges, publish)), Some(host)) => {
                servers.entry.announce(publish);
                self.found(servers, &host, ranges);
                Ok(())
            }
            _ => Err(RouteError::Unavailable(LookUpFailed::new(
                "no slot of the cluster is assigned",
            ))),
        }
    }

    /// The map as the server on `host` has it. It is news of all its primaries: none is in doubt.
    fn found(&self, servers: &Servers, host: &str, ranges: Vec<Range>) {
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

/// Which slots the servers have, and whether they know shard channels.
fn ask(node: &Node, time: Duration) -> RedisResult<Option<(Vec<Range>, Publish)>> {
    let deadline = Moment::now().after(time);
    let mut connection = node.open(time)?;
    let questions = redis::pipe()
        .cmd("CLUSTER")
        .arg("SLOTS")
        .cmd("PUBSUB")
        .arg("SHARDNUMSUB")
        .get_packed_pipeline();
    connection.set_deadline(deadline);
    connection.send(&questions)?;
    let ranges = slots::ranges(connection.receive()?)?;
    let publish = match connection.receive() {
        Ok(_) => Publish::ToShard,
        Err(error) if RetryAction::is_reply(&error) => Publish::ToAll,
        Err(error) => return Err(error),
    };
    Ok((!ranges.is_empty()).then_some((ranges, publish)))
}
