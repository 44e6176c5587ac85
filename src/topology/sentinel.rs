//! The master that the sentinels name, and the next one after a failover.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use redis::{ConnectionAddr, RedisResult};

use super::route_error::RouteError;
use super::single_flight::{Found, SingleFlight, ask_one_after_another};
use crate::base::clock::Moment;
use crate::config::Config;
use crate::error::Error;
use crate::transport::hint::Role;
use crate::transport::node::{Login, Node};
use crate::transport::server::{Server, Servers};

#[derive(Debug)]
pub(super) struct Sentinel {
    sentinels: Vec<Node>,
    service: Box<str>,
    /// Its lock protects only this value.
    master: RwLock<Option<Arc<Server>>>,
    /// The sentinel to ask first. Each look-up begins with the next one, so that a sentinel with
    /// outdated data is not asked first twice in a row.
    first: AtomicUsize,
    single_flight: SingleFlight,
    /// The longest time for one sentinel.
    timeout: Duration,
}

impl Sentinel {
    pub(super) fn new(
        sentinels: &[ConnectionAddr],
        service: &str,
        login: Login,
        config: &Config,
    ) -> Self {
        let login = Arc::new(login);
        let node = |address: &ConnectionAddr| Node::new(address.clone(), Arc::clone(&login));
        Self {
            sentinels: sentinels.iter().map(node).collect(),
            service: service.into(),
            master: RwLock::new(None),
            first: AtomicUsize::new(0),
            single_flight: SingleFlight::default(),
            timeout: config.connect_timeout.min(config.command_timeout),
        }
    }

    pub(super) fn master(&self) -> Option<Arc<Server>> {
        self.master.read().clone()
    }

    /// The name in messages.
    pub(super) fn name(&self) -> Arc<str> {
        let names: Vec<&str> = self.sentinels.iter().map(|node| &**node.name()).collect();
        format!(
            "master {:?} of the sentinels {}",
            self.service,
            names.join(", ")
        )
        .into()
    }

    /// Asks one sentinel after the other for the master.
    pub(super) fn look_up(&self, servers: &Servers, deadline: Moment) -> Result<(), RouteError> {
        let Some(_permit) = self.single_flight.acquire(deadline) else {
            return Ok(());
        };
        let mut candidates: Vec<&Node> = self.sentinels.iter().collect();
        let first = self.first.fetch_add(1, Ordering::Relaxed);
        candidates.rotate_left(first % self.sentinels.len());
        let found = ask_one_after_another(
            &candidates,
            Role::Sentinel,
            self.timeout,
            deadline,
            |sentinel, time| self.ask(sentinel, time),
        );
        match found? {
            Found::Reply(address) => {
                self.set_master(servers, address);
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
        let mut question = redis::cmd("SENTINEL");
        question.arg("GET-MASTER-ADDR-BY-NAME").arg(&*self.service);
        let reply = sentinel.open(time)?.ask_one(&question, deadline)?;
        let found: Option<(String, u16)> = redis::from_redis_value(reply)?;
        Ok(found.map(|(host, port)| ConnectionAddr::Tcp(host, port)))
    }

    fn set_master(&self, servers: &Servers, address: ConnectionAddr) {
        let name = address.to_string();
        if let Some(master) = self.master().filter(|known| **known.name() == *name) {
            return master.health.confirm();
        }
        let master = servers.server(address);
        let demoted = self.master.write().replace(master);
        drop(demoted);
    }
}
