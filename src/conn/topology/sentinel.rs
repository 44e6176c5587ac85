//! The master that the sentinels name, and the next one after a failover.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use redis::{ConnectionAddr, RedisResult};

use super::Nowhere;
use super::lookout::Lookout;
use crate::clock::Moment;
use crate::config::Config;
use crate::conn::advice::Advice;
use crate::conn::hint::Role;
use crate::conn::node::{Entry, Node};
use crate::conn::server::{Server, Servers};
use crate::error::Error;

#[derive(Debug)]
pub(super) struct Sentinel {
    sentinels: Vec<Node>,
    service: Box<str>,
    /// Protects nothing but itself: whoever sees a new master has all that belongs to it.
    master: RwLock<Option<Arc<Server>>>,
    /// The sentinel to ask first. Each look begins with the next, so that none that is behind the
    /// times is believed twice in a row.
    first: AtomicUsize,
    lookout: Lookout,
    /// For one sentinel.
    patience: Duration,
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
            lookout: Lookout::default(),
            patience: config.connect_timeout.min(config.command_timeout),
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
    pub(super) fn look(&self, servers: &Servers, deadline: Moment) -> Result<(), Nowhere> {
        let Some(_turn) = self.lookout.turn(deadline) else {
            return Ok(());
        };
        let first = self.first.fetch_add(1, Ordering::Relaxed);
        let mut unknown = false;
        let mut refused = None;
        let mut failures = String::new();
        for place in 0..self.sentinels.len() {
            let sentinel = &self.sentinels[(first + place) % self.sentinels.len()];
            let time = deadline.left().min(self.patience);
            if time.is_zero() {
                break;
            }
            match self.ask(sentinel, time) {
                Ok(Some(address)) => {
                    self.found(servers, address);
                    return Ok(());
                }
                Ok(None) => unknown = true,
                Err(error) if Advice::on(&error).is_final() => {
                    refused.get_or_insert_with(|| Nowhere::Refused {
                        node: Arc::clone(sentinel.name()),
                        cause: Role::Sentinel.explain(error),
                    });
                }
                Err(error) => {
                    let _ = write!(failures, "; {}: {error}", sentinel.name());
                }
            }
        }
        if unknown {
            return Err(Nowhere::Ever(Error::Config {
                field: "master",
                value: format!("{:?}", self.service),
                rule: "it is a name that the sentinels monitor, as SENTINEL MASTERS lists them"
                    .into(),
            }));
        }
        Err(refused
            .unwrap_or_else(|| Nowhere::Yet(format!("no sentinel answered{failures}").into())))
    }

    fn ask(&self, sentinel: &Node, time: Duration) -> RedisResult<Option<ConnectionAddr>> {
        let deadline = Moment::now().after(time);
        let mut wire = sentinel.open(time)?;
        let question = redis::cmd("SENTINEL")
            .arg("GET-MASTER-ADDR-BY-NAME")
            .arg(&*self.service)
            .get_packed_command();
        wire.give(deadline.left());
        wire.send(&question)?;
        let found: Option<(String, u16)> = redis::from_redis_value(wire.receive()?)?;
        Ok(found.map(|(host, port)| sentinel.beside(host, port)))
    }

    fn found(&self, servers: &Servers, address: ConnectionAddr) {
        let name = address.to_string();
        if let Some(master) = self.master().filter(|known| **known.name() == *name) {
            return master.trust();
        }
        let master = servers.server(address);
        let demoted = self.master.write().replace(master);
        drop(demoted);
    }
}
