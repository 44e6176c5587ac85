//! Asks the sentinels or the servers of a cluster which servers have the locks.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use redis::{ConnectionAddr, RedisResult};

use super::map::Map;
use super::route_error::{LookUpFailed, RouteError};
use super::slots::{self, Range};
use super::{Kind, Topology};
use crate::base::clock::Moment;
use crate::error::Error;
use crate::script::Publish;
use crate::transport::hint::Role;
use crate::transport::node::Node;
use crate::transport::retry_action::RetryAction;
use crate::transport::server::Server;
use crate::transport::server_error::ServerError;

/// Which servers have which slots, and how releases are published there.
type Found = (Vec<Range>, Publish);

impl Topology {
    /// Asks one server after the other until one of them knows which servers have the locks. Each
    /// has an equal share of the time, so that one that does not reply leaves time for the next.
    /// If another thread does so already, waits for its result.
    pub(super) fn look_up(&self, deadline: Moment) -> Result<(), RouteError> {
        if matches!(self.kind, Kind::One) {
            return Ok(());
        }
        let Some(_looking) = self.looking.try_lock() else {
            drop(self.looking.try_lock_for(deadline.left()));
            return Ok(());
        };
        let known = match self.kind {
            Kind::Cluster => self.map.read().servers(),
            Kind::One | Kind::Sentinel(_) => Vec::new(),
        };
        let candidates = self.candidates(&known);
        let (mut failures, mut unknown) = (Vec::new(), 0);
        for (index, &node) in candidates.iter().enumerate() {
            let left = deadline.left();
            if left.is_zero() {
                break;
            }
            let untried = u32::try_from(candidates.len() - index).unwrap_or(u32::MAX);
            match self.ask(node, (left / untried).min(self.timeout)) {
                Ok(Some((ranges, publish))) => {
                    self.login.set_publish(publish);
                    self.replace_map(node.host(), ranges);
                    return Ok(());
                }
                Ok(None) => unknown += 1,
                Err(error) => failures.push(ServerError::new(node.name(), error, self.asked())),
            }
        }
        let is_refusal = |failure: &ServerError| !RetryAction::on(&failure.cause).is_retryable();
        if unknown == candidates.len() {
            return Err(self.unknown());
        }
        if failures.len() == candidates.len() && failures.iter().all(is_refusal) {
            return Err(RouteError::Refused(failures.swap_remove(0)));
        }
        Err(RouteError::Unavailable(LookUpFailed {
            reason: "no server reported where the locks are",
            errors: failures,
        }))
    }

    /// The servers to ask: first those that are known, then the given ones, and last those that did
    /// not reply last time. Each look-up begins with the next one, so that a server with outdated
    /// data is not asked first twice in a row.
    fn candidates<'a>(&'a self, known: &'a [Arc<Server>]) -> Vec<&'a Node> {
        let first = self.first.fetch_add(1, Ordering::Relaxed);
        let (silent, mut known): (Vec<_>, Vec<_>) = known
            .iter()
            .partition(|server| server.health.is_unresponsive());
        let middle = first % known.len().max(1);
        known.rotate_left(middle);
        let mut seeds: Vec<&Node> = self.seeds.iter().collect();
        seeds.rotate_left(first % self.seeds.len());
        seeds.retain(|seed| silent.iter().all(|server| server.name() != seed.name()));
        let nodes = |servers: Vec<&'a Arc<Server>>| servers.into_iter().map(|one| &*one.node);
        let mut candidates: Vec<&Node> = Vec::new();
        for node in nodes(known).chain(seeds).chain(nodes(silent)) {
            if candidates.iter().all(|named| named.name() != node.name()) {
                candidates.push(node);
            }
        }
        candidates
    }

    /// The role of the servers that are asked.
    fn asked(&self) -> Role {
        match self.kind {
            Kind::Sentinel(_) => Role::Sentinel,
            Kind::One | Kind::Cluster => Role::OfCluster,
        }
    }

    /// All servers replied, and none knows a server that has locks.
    fn unknown(&self) -> RouteError {
        match &self.kind {
            Kind::Sentinel(service) => {
                let rule =
                    "it is a name that the sentinels monitor, as SENTINEL MASTERS lists them";
                RouteError::Invalid(Error::config("master", format_args!("{service:?}"), rule))
            }
            Kind::One | Kind::Cluster => {
                let reason = "no slot of the cluster is assigned";
                RouteError::Unavailable(LookUpFailed::new(reason))
            }
        }
    }

    /// Asks one server. The error of an unexpected reply does not show it: it can be an echo of the
    /// log-in.
    fn ask(&self, node: &Node, time: Duration) -> RedisResult<Option<Found>> {
        let deadline = Moment::now().after(time);
        let link = node.open(time)?;
        let mut commands = redis::pipe();
        match &self.kind {
            Kind::Sentinel(service) => {
                let command = commands.cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME");
                command.arg(&**service);
            }
            Kind::One | Kind::Cluster => {
                commands.cmd("CLUSTER").arg("SLOTS");
                commands.cmd("PUBSUB").arg("SHARDNUMSUB");
            }
        }
        let packed = commands.get_packed_pipeline();
        let mut replies = link.ask((commands.len(), &packed), deadline, Duration::MAX);
        let found = replies.remove(0)?;
        if let Kind::Sentinel(_) = self.kind {
            let master = Range::of_master(&found)?;
            return Ok(master.map(|master| (vec![master], Publish::ToAll)));
        }
        let ranges = slots::ranges(&found)?;
        let publish = match replies.pop() {
            Some(Ok(_)) => Publish::ToShard,
            Some(Err(error)) if !RetryAction::is_reply(&error) => return Err(error),
            _ => Publish::ToAll,
        };
        Ok((!ranges.is_empty()).then_some((ranges, publish)))
    }

    /// Replaces the map by that of the server on `host`. No server in it is suspect any more.
    fn replace_map(&self, host: &str, ranges: Vec<Range>) {
        let mut known = self.map.write();
        let mut map = Map::default();
        for range in ranges {
            let host = range.host.unwrap_or_else(|| host.into());
            let address = ConnectionAddr::Tcp(host, range.port);
            let named = map.named(&address.to_string()).cloned();
            let server = named.unwrap_or_else(|| self.server_at(&known, address));
            server.health.confirm();
            map.assign(range.first, range.last, server);
        }
        let outdated = std::mem::replace(&mut *known, map);
        drop(known);
        drop(outdated);
    }

    /// The server with this address: that of the map, or a new one.
    pub(super) fn server_at(&self, map: &Map, address: ConnectionAddr) -> Arc<Server> {
        let known = map.named(&address.to_string()).cloned();
        known.unwrap_or_else(|| Server::new(address, &self.login))
    }
}
