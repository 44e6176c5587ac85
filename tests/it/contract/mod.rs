//! The contract of the kinds of locks.
//!
//! A scenario is a function of a [`Stage`]. `matrix.rs` makes tests of scenarios for a [`LockKind`]
//! in an environment.

#[macro_use]
mod matrix;

mod environments;
mod exclusion;
mod expiry;
mod guards;
mod hand_over;
mod interrupts;
mod kinds;
mod loss;
mod nesting;
mod operator;
mod redis_key;
mod reentrancy;
mod refusal;
mod renewal;
mod waiting;
mod wake_up_cost;

use std::ops::Deref;

use redis::Cmd;

pub use environments::*;
pub use kinds::*;
use redis_key::{Form, KeyView};

use crate::support::prelude::*;

/// A running environment.
pub struct Site {
    deployment: Box<dyn Deployment>,
    /// The builders of the clients of one process.
    builders: Vec<LockClientBuilder>,
    namespace: &'static str,
}

impl Site {
    fn new(builder: LockClientBuilder, deployment: impl Deployment + 'static) -> Self {
        Self::of_many(vec![builder], deployment)
    }

    fn of_many(builders: Vec<LockClientBuilder>, deployment: impl Deployment + 'static) -> Self {
        Self {
            deployment: Box::new(deployment),
            builders,
            namespace: "",
        }
    }

    fn in_namespace(mut self, namespace: &'static str) -> Self {
        let builders = self.builders.into_iter();
        self.builders = builders.map(|one| one.namespace(namespace)).collect();
        self.namespace = namespace;
        self
    }
}

/// The clients of one process: one, or one for each independent server. Dereferences to the first.
#[derive(Clone)]
pub struct Clients(Vec<LockClient>);

impl Deref for Clients {
    type Target = LockClient;

    fn deref(&self) -> &LockClient {
        &self.0[0]
    }
}

impl Clients {
    /// A number of the statistics that most of the clients have reached.
    pub fn counted(&self, number: fn(&leasehold::Stats) -> u64) -> u64 {
        let mut numbers: Vec<u64> = self.0.iter().map(|one| number(&one.stats())).collect();
        numbers.sort_unstable();
        numbers[numbers.len() / 2]
    }
}

/// A key of Redis, and the indexes of the servers that have it.
struct Key {
    name: String,
    indexes: Vec<usize>,
}

/// One lock in one environment, and its users.
pub struct Stage {
    site: Site,
    name: String,
    names: Vec<String>,
    keys: Vec<Key>,
    form: Form,
    make: fn(&Clients, &str) -> Arc<dyn Lock>,
}

impl Stage {
    pub fn of(kind: &LockKind, start: fn() -> Site, scenario: &str) -> Self {
        let (site, name) = (start(), unique(scenario));
        let names: Vec<String> = kind.ends.iter().map(|end| format!("{name}{end}")).collect();
        let key = |name| {
            let name = format!("{}{name}", site.namespace);
            let indexes = site.deployment.indexes_of(&name);
            Key { name, indexes }
        };
        Self {
            keys: names.iter().map(key).collect(),
            site,
            names,
            name,
            form: kind.form,
            make: kind.make,
        }
    }

    /// The name of the lock, or of the first lock that it consists of.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The name that the lock itself reports.
    pub fn whole_name(&self) -> String {
        self.names.join(", ")
    }

    /// The number of locks in Redis that it consists of.
    pub fn parts(&self) -> u64 {
        u64::try_from(self.names.len()).expect("a few")
    }

    /// A new client, as another process would have it.
    pub fn client(&self) -> Clients {
        self.client_with(|builder| builder)
    }

    pub fn client_with(&self, set: fn(LockClientBuilder) -> LockClientBuilder) -> Clients {
        let builders = self.site.builders.iter().cloned().map(set);
        let built = builders.map(|builder| builder.build().expect("the settings are valid"));
        Clients(built.collect())
    }

    /// The lock of this stage for this client.
    pub fn lock_of(&self, client: &Clients) -> Arc<dyn Lock> {
        (self.make)(client, &self.name)
    }

    /// The lock of this stage for a new client.
    pub fn lock(&self) -> Arc<dyn Lock> {
        self.lock_of(&self.client())
    }
}

/// The view of another program on Redis.
impl Stage {
    fn view_of<'a>(&'a self, key: &'a Key) -> KeyView<'a> {
        let deployment = &*self.site.deployment;
        KeyView {
            key: &key.name,
            form: self.form,
            deployment,
            servers: &key.indexes,
            needed: deployment.needed(),
        }
    }

    fn key_views(&self) -> impl Iterator<Item = KeyView<'_>> {
        self.keys.iter().map(|key| self.view_of(key))
    }

    /// The first lock that it consists of.
    fn first(&self) -> KeyView<'_> {
        self.view_of(&self.keys[0])
    }

    /// The server that has the lock, or the first lock that it consists of.
    pub fn server(&self) -> &Server {
        &self.site.deployment.servers()[self.keys[0].indexes[0]]
    }

    pub fn redis(&self) -> Connection {
        self.site.deployment.connection(self.keys[0].indexes[0])
    }

    /// Runs a command on every server that has the lock, or the first lock that it consists of.
    pub fn run_command(&self, command: &Cmd) {
        self.first().run_command(command);
    }

    /// The key of the lock, or of the first lock that it consists of.
    pub fn key(&self) -> &str {
        &self.keys[0].name
    }

    /// The holders of the lock and their counts.
    pub fn holders(&self) -> Vec<(String, u32)> {
        self.first().holders()
    }

    /// The hold count in Redis; 0 if no client holds the lock, `u32::MAX` if its parts have
    /// different counts. A nested level changes it only after a while.
    pub fn count(&self) -> u32 {
        let agree = |one: u32, other: u32| if one == other { one } else { u32::MAX };
        let counts = self.key_views().map(|view| view.count());
        counts.reduce(agree).expect("it has a part")
    }

    /// Waits until Redis has this hold count.
    #[track_caller]
    pub fn await_count(&self, count: u32) {
        eventually("the hold count in Redis", || self.count() == count);
    }

    /// What is left of the lease in Redis; `None` without a key.
    pub fn time_to_live(&self) -> Option<Duration> {
        let lefts = self.key_views().map(|view| view.time_to_live());
        lefts.min().expect("it has a part")
    }

    /// Deletes the lock without notice to its holder.
    pub fn delete(&self) {
        self.key_views().for_each(|view| view.delete());
    }

    /// Another owner takes the lock over, without notice to its holder.
    pub fn take_over(&self, owner: &str, lease: Duration) {
        self.key_views()
            .for_each(|view| view.take_over(owner, lease));
    }
}
