//! Asks the sentinels or the servers of a cluster which servers have the locks.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use redis::{ConnectionAddr, Pipeline, RedisResult, Value};

use super::Topology;
use super::hint::hint;
use super::map::Map;
use super::route_error::{LookUpFailed, RouteError};
use super::slots::{self, SlotRange};
use crate::base::{List, Moment};
use crate::deployment::Deployment;
use crate::error::Error;
use crate::script::Publish;
use crate::transport::node::Node;
use crate::transport::retry_action::RetryAction;
use crate::transport::server::Server;
use crate::transport::server_error::ServerError;

/// Which servers have which slots, how releases are published there, and the host of the server
/// that replied.
type Reported<'a> = (Vec<SlotRange>, Publish, &'a str);

impl Topology {
    /// Asks which servers have the locks. If another thread does so already, waits for its result.
    pub(super) fn look_up(&self, deadline: Moment) -> Result<(), RouteError> {
        if matches!(self.deployment, Deployment::Single) {
            return Ok(());
        }
        let Some(_looking) = self.looking.try_lock() else {
            drop(self.looking.try_lock_for(deadline.left()));
            return Ok(());
        };
        let known = self.map.read().servers();
        let (ranges, publish, host) = match &self.deployment {
            Deployment::Sentinel { master } => self.look_up_master(master, deadline)?,
            Deployment::Single | Deployment::Cluster => self.look_up_slots(&known, deadline)?,
        };
        self.login.set_publish(publish);
        self.replace_map(host, ranges);
        Ok(())
    }

    /// Asks the sentinels for the master of this name.
    fn look_up_master(&self, name: &str, deadline: Moment) -> Result<Reported<'_>, RouteError> {
        let mut command = redis::pipe();
        command.cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME");
        command.arg(name);
        let ask = |node: &Node, until| {
            let reply = ask(node, &command, until)?.remove(0)?;
            let master = SlotRange::of_master(&reply)?;
            Ok(master.map(|master| (vec![master], Publish::ToAll)))
        };
        self.ask_each(&[], true, deadline, ask)?.ok_or_else(|| {
            let rule = "it is a name that the sentinels monitor, as SENTINEL MASTERS lists them";
            RouteError::Invalid(Error::config("master", format_args!("{name:?}"), rule))
        })
    }

    /// Asks the servers of the cluster for its slots: those that are `known`, and the given ones.
    fn look_up_slots<'a>(
        &'a self,
        known: &'a [Arc<Server>],
        deadline: Moment,
    ) -> Result<Reported<'a>, RouteError> {
        let mut commands = redis::pipe();
        commands.cmd("CLUSTER").arg("SLOTS");
        commands.cmd("PUBSUB").arg("SHARDNUMSUB");
        let ask = |node: &Node, until| {
            let mut replies = ask(node, &commands, until)?;
            let ranges = slots::ranges(&replies.remove(0)?)?;
            let publish = match replies.pop() {
                Some(Ok(_)) => Publish::ToShard,
                Some(Err(error)) if !RetryAction::is_reply(&error) => return Err(error),
                _ => Publish::ToAll,
            };
            Ok((!ranges.is_empty()).then_some((ranges, publish)))
        };
        self.ask_each(known, false, deadline, ask)?.ok_or_else(|| {
            let reason = "no slot of the cluster is assigned";
            RouteError::Unavailable(LookUpFailed::new(reason))
        })
    }

    /// Asks one server after the other until one of them knows which servers have the locks; `None`
    /// if all reply that they do not. Each has an equal share of the time, so that one that does
    /// not reply leaves time for the next.
    fn ask_each<'a>(
        &'a self,
        known: &'a [Arc<Server>],
        are_sentinels: bool,
        deadline: Moment,
        ask: impl Fn(&Node, Moment) -> RedisResult<Option<(Vec<SlotRange>, Publish)>>,
    ) -> Result<Option<Reported<'a>>, RouteError> {
        let candidates = self.candidates(known);
        let (mut failures, mut unknown) = (Vec::new(), 0);
        for (index, &node) in candidates.iter().enumerate() {
            if deadline.is_past() {
                break;
            }
            let time = deadline.share(candidates.len() - index).min(self.timeout);
            match ask(node, Moment::now().after(time)) {
                Ok(Some((ranges, publish))) => return Ok(Some((ranges, publish, node.host()))),
                Ok(None) => unknown += 1,
                Err(cause) => failures.push(ServerError {
                    node: Arc::clone(node.name()),
                    hint: hint(&self.deployment, are_sentinels, &cause),
                    cause,
                }),
            }
        }
        let is_refusal = |failure: &ServerError| !RetryAction::on(&failure.cause).is_retryable();
        if unknown == candidates.len() {
            return Ok(None);
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

    /// Replaces the map by that of the server on `host`. No server in it is suspect any more.
    fn replace_map(&self, host: &str, ranges: Vec<SlotRange>) {
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

/// Sends these commands on a new connection. The error of an unexpected reply does not show it: it
/// can be an echo of the log-in.
fn ask(node: &Node, commands: &Pipeline, until: Moment) -> RedisResult<List<RedisResult<Value>>> {
    let link = node.open(until.left())?;
    let packed = commands.get_packed_pipeline();
    Ok(link.ask((commands.len(), &packed), until, Duration::MAX))
}
