//! The kinds of locks.

use super::Clients;
use super::redis_key::Form;
use crate::support::prelude::*;

type Make = fn(&Clients, &str) -> Arc<dyn Lock>;

pub struct LockKind {
    /// What its keys look like.
    pub form: Form,
    /// The ends of the names of the locks in Redis that the lock consists of, in order.
    pub ends: &'static [&'static str],
    pub make: Make,
}

impl LockKind {
    const fn new(make: Make) -> Self {
        Self {
            form: Form::Owner,
            ends: &[""],
            make,
        }
    }

    const fn read_write(make: Make) -> Self {
        Self {
            form: Form::ReadWrite,
            ..Self::new(make)
        }
    }
}

pub const REENTRANT: LockKind = LockKind::new(|client, name| Arc::new(client.reentrant_lock(name)));
/// Without its token.
pub const FENCED: LockKind = LockKind::new(|client, name| Arc::new(client.fenced_lock(name)));
pub const FAIR: LockKind = LockKind::new(|client, name| Arc::new(client.fair_lock(name)));
pub const WRITE: LockKind =
    LockKind::read_write(|client, name| Arc::new(client.read_write_lock(name).write()));
/// What it excludes is tested in `read_write`.
pub const READ: LockKind =
    LockKind::read_write(|client, name| Arc::new(client.read_write_lock(name).read()));
pub const MULTI: LockKind = LockKind {
    ends: &["", ":too"],
    ..LockKind::new(|client, name| {
        let second = format!("{name}:too");
        Arc::new(client.multi_lock([&second, name]))
    })
};
pub const RED: LockKind = LockKind::new(|clients, name| Arc::new(RedLock::new(&clients.0, name)));
