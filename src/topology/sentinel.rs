//! The master that the sentinels name, and the next one after a failover.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use redis::{ConnectionAddr, RedisResult};

use super::RouteError;
use super::single_flight::{Found, SingleFlight, ask_in_turn};
use crate::base::clock::Moment;
use crate::config::Config;
use crate::error::Error;
use crate::transport::hint::Role;
use crate::transport::node::{Entry, Node};
use crate::transport::server::{Server, Servers};

#[derive(Debug)]
pub(super) struct Sentinel {
    sentinels: Vec<Node>,
    service: Box<str>,
    /// Protects nothing but itself: whoever sees a new master has all that belongs to it.
    master: RwLock<Option<Arc<Server>>>,
    /// The sentinel to ask first. Each look begins with the next, so that none that is behind the
    /// times is believed twice in a row.
    first: AtomicUsize,
    single_flight: SingleFlight,
    /// For one sentinel.
    budget: Duration,
}

impl Sentinel {
    pub(super) fn new(
        sentinels: &[ConnectionAddr],
        service: &str,
        entry: Entry,
        config: &Config,
    ) -> Self {
        let entry = Arc::new(entry);
        let node = |address: &ConnectionAddr| Node::new(address.clone(), Arc::clone(&entry));
        Self {
            sentinels: sentinels.iter().map(node).collect(),
            service: service.into(),
            master: RwLock::new(None),
            first: AtomicUsize::new(0),
            single_flight: SingleFlight::default(),
            budget: config.connect_timeout.min(config.command_timeout),
        }
    }

    pub(super) fn master(&self) -> Option<Arc<Server>> {
        self.master.read().clone()
    }

    /// For messages.
    pub(super) fn name(&self) -> Arc<str> {
        let names: Vec<&str> = self.sentinels.iter().map(|node| &**node.name()).collect();
        format!(
            "master {:?} of the sentinels {}",
            self.service,
            names.join(", ")
        )
        .into()
    }

    /// Asks one sentinel after the other who the master is.
    pub(super) fn look(&self, servers: &Servers, deadline: Moment) -> Result<(), RouteError> {
        let Some(_turn) = self.single_flight.turn(deadline) else {
            return Ok(());
        };
        let mut candidates: Vec<&Node> = self.sentinels.iter().collect();
        let first = self.first.fetch_add(1, Ordering::Relaxed);
        candidates.rotate_left(first % self.sentinels.len());
        let found = ask_in_turn(
            &candidates,
            Role::Sentinel,
            self.budget,
            deadline,
            |sentinel, time| self.ask(sentinel, time),
        );
        match found? {
            Found::Reply(address) => {
                self.found(servers, address);
                Ok(())
            }
            Found::Unknown => Err(RouteError::Invalid(Error::Config {
                field: "master",
                value: format!("{:?}", self.service),
                rule: "it is a name that the sentinels monitor, as SENTINEL MASTERS lists them"
                    .into(),
            })),
        }
    }

    fn ask(&self, sentinel: &Node, time: Duration) -> RedisResult<Option<ConnectionAddr>> {
        let deadline = Moment::now().after(time);
        let mut connection = sentinel.open(time)?;
        let question = redis::cmd("SENTINEL")
            .arg("GET-MASTER-ADDR-BY-NAME")
            .arg(&*self.service)
            .get_packed_command();
        connection.set_deadline(deadline);
        connection.send(&question)?;
        let found: Option<(String, u16)> = redis::from_redis_value(connection.receive()?)?;
        Ok(found.map(|(host, port)| ConnectionAddr::Tcp(host, port)))
    }

    fn found(&self, servers: &Servers, address: ConnectionAddr) {
        let name = address.to_string();
        if let Some(master) = self.master().filter(|known| **known.name() == *name) {
            return master.health.confirm();
        }
        let master = servers.server(address);
        let demoted = self.master.write().replace(master);
        drop(demoted);
    }
}
