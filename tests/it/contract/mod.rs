//! What every kind of lock does in every environment, written once.
//!
//! A scenario is a function of a [`Stage`]. `matrix.rs` makes a test of each scenario for each
//! [`Subject`] in each [`Environment`], and fails if one is missing.

#[macro_use]
mod matrix;

mod economy;
mod environments;
mod exclusion;
mod expiry;
mod guards;
mod interrupts;
mod loss;
mod nesting;
mod operator;
mod reentrancy;
mod refusal;
mod renewal;
mod subjects;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use leasehold::{Lock, LockClient, LockClientBuilder};
use redis::Connection;

use crate::support::server::Server;
use crate::support::unique;

use environments::Deployment;
pub use environments::{Cluster, Namespaced, OneServer, Replicated, Sentinel, Tls, UnixSocket};
pub use subjects::{Fenced, Multi, Reentrant, Wrapped};

/// What makes a lock.
pub trait Subject {
    fn make(client: &LockClient, name: &str) -> Arc<dyn Lock>;

    /// What the lock of this name is made of, in order.
    fn names(name: &str) -> Vec<String> {
        vec![name.to_owned()]
    }
}

/// Where the locks are.
pub trait Environment {
    fn start() -> Site;
}

/// An environment that runs.
pub struct Site {
    deployment: Box<dyn Deployment>,
    /// Of its clients.
    builder: LockClientBuilder,
    namespace: &'static str,
}

impl Site {
    fn new(builder: LockClientBuilder, deployment: impl Deployment + 'static) -> Self {
        Self {
            deployment: Box::new(deployment),
            builder,
            namespace: "",
        }
    }

    fn in_namespace(self, namespace: &'static str) -> Self {
        Self {
            builder: self.builder.namespace(namespace),
            namespace,
            ..self
        }
    }
}

/// A key of Redis, and the place of the server that has it.
struct Key {
    name: String,
    home: usize,
}

/// One lock's name in one environment, and who uses it.
pub struct Stage {
    site: Site,
    name: String,
    names: Vec<String>,
    keys: Vec<Key>,
    make: fn(&LockClient, &str) -> Arc<dyn Lock>,
}

/// How a scenario looks at Redis: what another program would see there.
impl Stage {
    pub fn of<S: Subject, E: Environment>(scenario: &str) -> Self {
        let (site, name) = (E::start(), unique(scenario));
        let names = S::names(&name);
        let key = |name| {
            let name = format!("{}{name}", site.namespace);
            let home = site.deployment.home_of(&name);
            Key { name, home }
        };
        Self {
            keys: names.iter().map(key).collect(),
            site,
            names,
            name,
            make: S::make,
        }
    }

    /// Of the lock, or of the first of those that it is made of.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// As the lock itself has it.
    pub fn whole_name(&self) -> String {
        self.names.join(", ")
    }

    /// How many locks of Redis it is.
    pub fn parts(&self) -> u64 {
        u64::try_from(self.names.len()).expect("a few")
    }

    /// That has the lock, or the first of those that it is made of.
    pub fn server(&self) -> &Server {
        self.home_of(&self.keys[0])
    }

    fn home_of(&self, key: &Key) -> &Server {
        &self.site.deployment.servers()[key.home]
    }

    pub fn redis(&self) -> Connection {
        self.server().connection()
    }

    pub fn builder(&self) -> LockClientBuilder {
        self.site.builder.clone()
    }

    /// A client of its own, as another process would be.
    pub fn client(&self) -> LockClient {
        self.builder().build().expect("the settings are good")
    }

    /// The stage's lock, from this client.
    pub fn lock_of(&self, client: &LockClient) -> Arc<dyn Lock> {
        (self.make)(client, &self.name)
    }

    /// The stage's lock, from a client of its own.
    pub fn lock(&self) -> Arc<dyn Lock> {
        self.lock_of(&self.client())
    }

    /// Of the lock, or of the first of those that it is made of.
    pub fn key(&self) -> &str {
        &self.keys[0].name
    }

    /// Who holds the lock, and how many times.
    pub fn holders(&self) -> Vec<(String, u32)> {
        self.holders_of(&self.keys[0])
    }

    fn holders_of(&self, key: &Key) -> Vec<(String, u32)> {
        self.home_of(key).ask(redis::cmd("HGETALL").arg(&key.name))
    }

    /// How many times the lock is held; 0 if nobody holds it, and no number at all while its parts are
    /// held differently often.
    pub fn count(&self) -> u32 {
        let count = |key| self.holders_of(key).iter().map(|(_, count)| count).sum();
        let agree = |one: u32, other: u32| if one == other { one } else { u32::MAX };
        let counts = self.keys.iter().map(count);
        counts.reduce(agree).expect("it has a part")
    }

    /// What Redis leaves of the lease; `None` without a key.
    pub fn time_to_live(&self) -> Option<Duration> {
        let lefts = self.keys.iter().map(|key| {
            let pttl = redis::cmd("PTTL").arg(&key.name).clone();
            let millis: i64 = self.home_of(key).ask(&pttl);
            assert_ne!(millis, -1, "a lock without a time to live");
            u64::try_from(millis).ok().map(Duration::from_millis)
        });
        lefts.min().expect("it has a part")
    }

    /// Behind the holder's back.
    pub fn delete(&self) {
        for key in &self.keys {
            let delete = redis::cmd("DEL").arg(&key.name).clone();
            self.home_of(key).ask::<()>(&delete);
        }
    }

    /// A hold as a foreign client makes it.
    pub fn hold_as(&self, owner: &str, lease: Duration) {
        for key in &self.keys {
            let mut pipe = redis::pipe();
            pipe.atomic();
            pipe.cmd("HSET").arg(&key.name).arg(owner).arg(1);
            let lease = u64::try_from(lease.as_millis()).expect("a lease");
            pipe.cmd("PEXPIRE").arg(&key.name).arg(lease);
            let mut home = self.home_of(key).connection();
            pipe.exec(&mut home).expect("the server answers");
        }
    }

    /// Somebody else has the lock, without a word to its holder.
    pub fn take_over(&self, owner: &str, lease: Duration) {
        self.delete();
        self.hold_as(owner, lease);
    }
}
