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
mod owned;
mod query;
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
use redis_key::KeyView;

use crate::support::connect;
use crate::support::prelude::*;

/// Returns the URLs of the servers that have a key.
type Homes = Box<dyn Fn(&str) -> Vec<String> + Sync>;

/// A running environment.
pub struct Site {
    homes: Homes,
    /// The builders of the clients of one process.
    builders: Vec<LockClientBuilder>,
    namespace: &'static str,
}

impl Site {
    fn new(
        builder: LockClientBuilder,
        homes: impl Fn(&str) -> Vec<String> + Sync + 'static,
    ) -> Self {
        Self::of_many(vec![builder], homes)
    }

    fn of_many(
        builders: Vec<LockClientBuilder>,
        homes: impl Fn(&str) -> Vec<String> + Sync + 'static,
    ) -> Self {
        Self {
            homes: Box::new(homes),
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

/// One lock in one environment, and its users.
pub struct Stage {
    site: Site,
    name: String,
    names: Vec<String>,
    keys: Vec<KeyView>,
    make: fn(&Clients, &str) -> Arc<dyn Lock>,
}

impl Stage {
    pub fn of(kind: &LockKind, start: fn() -> Site, scenario: &str) -> Self {
        let (site, name) = (start(), unique(scenario));
        let names: Vec<String> = kind.ends.iter().map(|end| format!("{name}{end}")).collect();
        let key = |name| {
            let key = format!("{}{name}", site.namespace);
            KeyView {
                homes: (site.homes)(&key),
                key,
                form: kind.form,
                needed: site.builders.len() / 2 + 1,
            }
        };
        Self {
            keys: names.iter().map(key).collect(),
            site,
            names,
            name,
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
    /// The server that has the lock, or the first lock that it consists of.
    pub fn server(&self) -> &str {
        &self.keys[0].homes[0]
    }

    pub fn redis(&self) -> Connection {
        connect(self.server())
    }

    /// Runs a command on every server that has the lock, or the first lock that it consists of.
    pub fn run_command(&self, command: &Cmd) {
        self.keys[0].run_command(command);
    }

    /// The key of the lock, or of the first lock that it consists of.
    pub fn key(&self) -> &str {
        &self.keys[0].key
    }

    /// The holders of the lock and their counts.
    pub fn holders(&self) -> Vec<(String, u32)> {
        self.keys[0].holders()
    }

    /// The hold count in Redis; 0 if no client holds the lock, `u32::MAX` if its parts have
    /// different counts. A nested level changes it only after a while.
    pub fn count(&self) -> u32 {
        let agree = |one: u32, other: u32| if one == other { one } else { u32::MAX };
        let counts = self.keys.iter().map(KeyView::count);
        counts.reduce(agree).expect("it has a part")
    }

    /// Waits until Redis has this hold count.
    #[track_caller]
    pub fn await_count(&self, count: u32) {
        eventually("the hold count in Redis", || self.count() == count);
    }

    /// What is left of the lease in Redis; `None` without a key.
    pub fn time_to_live(&self) -> Option<Duration> {
        let lefts = self.keys.iter().map(KeyView::time_to_live);
        lefts.min().expect("it has a part")
    }

    /// Deletes the lock without notice to its holder.
    pub fn delete(&self) {
        self.keys.iter().for_each(KeyView::delete);
    }

    /// Another owner takes the lock over, without notice to its holder.
    pub fn take_over(&self, owner: &str, lease: Duration) {
        self.keys.iter().for_each(|key| key.take_over(owner, lease));
    }
}
