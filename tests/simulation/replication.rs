//! What a master has sent to its replicas. A replica gets all keys after each command, a lag later.
//!
//! Copies of the keys and not commands: the effect of a script depends on who is subscribed.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use leasehold_simulation_world::time::MS;
use leasehold_simulation_world::{random, time};

use crate::server::Keyspace;

/// The number of a server in its deployment.
pub type ServerId = usize;

/// What a replica has after a number of commands.
#[derive(Clone, Debug, Default)]
struct Copy {
    commands: u64,
    keys: Rc<Keyspace>,
}

#[derive(Debug)]
struct Link {
    replica: ServerId,
    lag: u64,
    /// When each copy arrives, in this order.
    sent: VecDeque<(u64, Copy)>,
    has: Copy,
}

/// The links of a master to its replicas.
#[derive(Debug, Default)]
pub struct Replication {
    commands: u64,
    links: Vec<Link>,
    /// Nothing is sent any more.
    is_cut: bool,
    /// The longest lag, in milliseconds.
    longest: u64,
}

impl Replication {
    /// To replicas that have these keys already.
    pub fn to(
        replicas: impl IntoIterator<Item = ServerId>,
        keys: &Keyspace,
        longest: Duration,
    ) -> Self {
        let mut replication = Self {
            longest: u64::try_from(longest.as_millis()).unwrap_or(u64::MAX),
            ..Self::default()
        };
        for replica in replicas {
            replication.add(replica, keys);
        }
        replication
    }

    /// Adds a replica that has these keys already.
    pub fn add(&mut self, replica: ServerId, keys: &Keyspace) {
        let has = Copy {
            commands: self.commands,
            keys: Rc::new(keys.clone()),
        };
        self.links.push(Link {
            replica,
            lag: lag(self.longest),
            sent: VecDeque::new(),
            has,
        });
    }

    /// A command was executed, after which the master has these keys.
    pub fn send(&mut self, keys: &Keyspace) {
        self.commands += 1;
        if self.links.is_empty() || self.is_cut {
            return;
        }
        let copy = Copy {
            commands: self.commands,
            keys: Rc::new(keys.clone()),
        };
        for link in &mut self.links {
            link.arrive();
            if random::one_in(200) {
                link.lag = lag(self.longest);
            }
            let last = link.sent.back().map_or(0, |(at, _)| *at);
            let at = (time::now() + link.lag).max(last);
            link.sent.push_back((at, copy.clone()));
        }
    }

    /// The number of commands until now.
    pub fn commands(&self) -> u64 {
        self.commands
    }

    /// How many replicas have the effects of this many commands.
    pub fn confirmed(&mut self, commands: u64) -> usize {
        self.links.iter_mut().for_each(Link::arrive);
        let links = self.links.iter();
        links.filter(|link| link.has.commands >= commands).count()
    }

    /// The keys of a replica.
    pub fn keys_of(&mut self, replica: ServerId) -> Option<Rc<Keyspace>> {
        let link = self.links.iter_mut().find(|link| link.replica == replica)?;
        link.arrive();
        Some(Rc::clone(&link.has.keys))
    }

    /// Nothing more arrives.
    pub fn cut(&mut self) {
        self.is_cut = true;
        for link in &mut self.links {
            link.arrive();
            link.sent.clear();
        }
    }

    /// All that is under way arrives.
    pub fn flush(&mut self) {
        for link in &mut self.links {
            if let Some((_, copy)) = link.sent.pop_back() {
                link.has = copy;
            }
            link.sent.clear();
        }
    }
}

impl Link {
    /// Takes what has arrived by now.
    fn arrive(&mut self) {
        let now = time::now();
        while self.sent.front().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, copy)) = self.sent.pop_front() {
                self.has = copy;
            }
        }
    }
}

fn lag(longest: u64) -> u64 {
    let most = [0, 1, 10, longest][random::index(4)] * MS;
    random::between(0..=most)
}
