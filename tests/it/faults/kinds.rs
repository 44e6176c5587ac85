//! The kinds of locks for which the same faults are tested. Fenced locks are reentrant locks here,
//! and locks of several names have tests of their own.

use crate::support::prelude::*;

/// Makes the lock with this name.
type Make = fn(&LockClient, &str) -> Box<dyn Lock>;

pub struct Kind {
    pub name: &'static str,
    pub lock: Make,
    /// The lock that another thread cannot have at the same time. Two readers can.
    pub rival: Make,
    /// The scripts by which it is acquired and released.
    pub acquire: &'static str,
    pub release: &'static str,
}

pub static KINDS: [Kind; 4] = [
    Kind {
        name: "reentrant",
        lock: |client, name| Box::new(client.reentrant_lock(name)),
        rival: |client, name| Box::new(client.reentrant_lock(name)),
        acquire: "acquire",
        release: "release",
    },
    Kind {
        name: "fair",
        lock: |client, name| Box::new(client.fair_lock(name)),
        rival: |client, name| Box::new(client.fair_lock(name)),
        acquire: "fair_acquire",
        release: "fair_release",
    },
    Kind {
        name: "write",
        lock: |client, name| Box::new(client.read_write_lock(name).write()),
        rival: |client, name| Box::new(client.read_write_lock(name).write()),
        acquire: "read_write_acquire",
        release: "read_write_release",
    },
    Kind {
        name: "read",
        lock: |client, name| Box::new(client.read_write_lock(name).read()),
        rival: |client, name| Box::new(client.read_write_lock(name).write()),
        acquire: "read_write_acquire",
        release: "read_write_release",
    },
];

/// The kind that another process passes as one word.
pub fn named(name: &str) -> &'static Kind {
    let kind = KINDS.iter().find(|kind| kind.name == name);
    kind.expect("the name of a kind")
}

/// Runs `work` for all kinds at the same time.
pub fn each(work: impl Fn(&'static Kind) + Sync) {
    thread::scope(|scope| {
        for kind in &KINDS {
            scope.spawn(|| work(kind));
        }
    });
}
