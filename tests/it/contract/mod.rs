//! What every kind of lock does in every environment, written once.
//!
//! A scenario is a function of a [`Stage`]. `matrix.rs` makes a test of each scenario for each
//! [`Subject`] in each [`Environment`], and fails if one is missing.

#[macro_use]
mod matrix;

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
use crate::support::{builder, unique};

pub use environments::{Namespaced, OneServer, Tls, UnixSocket};
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
    server: Server,
    url: String,
    namespace: &'static str,
    /// Whom its clients trust; none without TLS.
    authority: Option<&'static str>,
}

/// One lock's name in one environment, and who uses it.
pub struct Stage {
    site: Site,
    name: String,
    names: Vec<String>,
    make: fn(&LockClient, &str) -> Arc<dyn Lock>,
}

/// How a scenario looks at Redis: what another program would see there.
impl Stage {
    pub fn of<S: Subject, E: Environment>(scenario: &str) -> Self {
        let name = unique(scenario);
        Self {
            site: E::start(),
            names: S::names(&name),
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

    pub fn server(&self) -> &Server {
        &self.site.server
    }

    pub fn redis(&self) -> Connection {
        self.site.server.connection()
    }

    pub fn builder(&self) -> LockClientBuilder {
        let builder = builder(&self.site.url).namespace(self.site.namespace);
        match self.site.authority {
            Some(authority) => builder.ca_certificates(authority),
            None => builder,
        }
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
    pub fn key(&self) -> String {
        self.keys().swap_remove(0)
    }

    fn keys(&self) -> Vec<String> {
        let key = |name| format!("{}{name}", self.site.namespace);
        self.names.iter().map(key).collect()
    }

    /// Who holds the lock, and how many times.
    pub fn holders(&self) -> Vec<(String, u32)> {
        self.server().ask(redis::cmd("HGETALL").arg(self.key()))
    }

    /// How many times the lock is held; 0 if nobody holds it, and no number at all while its parts are
    /// held differently often.
    pub fn count(&self) -> u32 {
        let counts = self.keys().into_iter().map(|key| {
            let holders: Vec<(String, u32)> = self.server().ask(redis::cmd("HGETALL").arg(key));
            holders.iter().map(|(_, count)| count).sum()
        });
        let agree = |one: u32, other: u32| if one == other { one } else { u32::MAX };
        counts.reduce(agree).expect("it has a part")
    }

    /// What Redis leaves of the lease; `None` without a key.
    pub fn time_to_live(&self) -> Option<Duration> {
        let lefts = self.keys().into_iter().map(|key| {
            let millis: i64 = self.server().ask(redis::cmd("PTTL").arg(key));
            assert_ne!(millis, -1, "a lock without a time to live");
            u64::try_from(millis).ok().map(Duration::from_millis)
        });
        lefts.min().expect("it has a part")
    }

    /// Behind the holder's back.
    pub fn delete(&self) {
        self.server().ask::<()>(redis::cmd("DEL").arg(self.keys()));
    }

    /// A hold as a foreign client makes it.
    pub fn hold_as(&self, owner: &str, lease: Duration) {
        let mut pipe = redis::pipe();
        pipe.atomic();
        for key in self.keys() {
            pipe.cmd("HSET").arg(&key).arg(owner).arg(1);
            let lease = u64::try_from(lease.as_millis()).expect("a lease");
            pipe.cmd("PEXPIRE").arg(&key).arg(lease);
        }
        pipe.exec(&mut self.redis()).expect("the server answers");
    }

    /// Somebody else has the lock, without a word to its holder.
    pub fn take_over(&self, owner: &str, lease: Duration) {
        self.delete();
        self.hold_as(owner, lease);
    }
}
