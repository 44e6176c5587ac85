//! The Redis server: what it has leased, the last token, and the scripts of `lua/`.
//!
//! A semaphore has K permits, and a lock is a semaphore with one, whose lease Redis itself ends.

use crate::protocol::{Planted, Protocol};

/// A set of owner ids of one client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerIds(pub u8);

impl OwnerIds {
    pub fn of(number: u8) -> Self {
        Self(1 << number)
    }

    pub fn has(self, number: u8) -> bool {
        self.0 & 1 << number != 0
    }

    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn numbers(self) -> impl Iterator<Item = u8> {
        (0..8).filter(move |number| self.has(*number))
    }
}

/// The lock while it is held, or a leased permit. A permit stays until it is released, or until an
/// acquire finds it expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lease {
    /// The client and the owner id that hold the lock.
    pub client: u8,
    pub id: u8,
    /// The number of levels that the last renewal wrote. Information only.
    pub count: u8,
    /// Ticks until it expires.
    pub left: u8,
    /// Ticks since Redis granted the lock, at most a slice. Only the promises read this field.
    pub age: u8,
    /// The number of ticks for which no client has used the grant, and no command that may extend
    /// it was under way. Only the promises read this field.
    pub unused: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Script {
    Acquire,
    Release,
    Renew,
}

/// A script call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Command {
    pub script: Script,
    pub client: u8,
    /// `Acquire`: the new owner id and those of older copies. Otherwise: the owner ids that the
    /// grant may have.
    pub ids: OwnerIds,
    /// `Acquire`: the new owner id.
    pub to: u8,
    /// `Acquire`: the number of tokens to reserve.
    pub tokens: u8,
    /// `Renew`: the number of levels.
    pub count: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reply {
    /// `Acquire`: with the first token of the block.
    Done(u8),
    /// No grant has one of the owner ids.
    NotHeld,
    /// `Acquire`: others hold the lock, or all permits.
    HeldByOther,
}

impl Command {
    pub fn new(script: Script, client: usize, ids: OwnerIds) -> Self {
        Self {
            script,
            client: client as u8,
            ids,
            to: 0,
            tokens: 0,
            count: 0,
        }
    }
}

impl Lease {
    fn new(command: &Command, id: u8, protocol: &Protocol) -> Self {
        Self {
            client: command.client,
            id,
            count: 1,
            left: protocol.lease,
            age: 0,
            unused: 0,
        }
    }

    pub fn is_of(&self, client: usize, ids: OwnerIds) -> bool {
        self.client as usize == client && ids.has(self.id)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Redis {
    /// The number of permits that are not leased.
    pub available: i8,
    pub leases: Vec<Lease>,
    pub last_token: u8,
}

impl Redis {
    /// True if a lease has one of these owner ids, expired or not.
    pub fn has(&self, client: usize, ids: OwnerIds) -> bool {
        self.leases.iter().any(|lease| lease.is_of(client, ids))
    }

    /// Leases that have expired become available.
    pub fn expire(&mut self) {
        let before = self.leases.len();
        self.leases.retain(|lease| lease.left > 0);
        self.available += (before - self.leases.len()) as i8;
    }

    /// Runs a script.
    pub fn run(&mut self, command: &Command, protocol: &Protocol) -> Reply {
        match command.script {
            Script::Acquire => self.acquire(command, protocol),
            Script::Release => self.release(command, protocol),
            Script::Renew => self.renew(command, protocol),
        }
    }

    fn acquire(&mut self, command: &Command, protocol: &Protocol) -> Reply {
        let granted = Lease::new(command, command.to, protocol);
        let is_copy = |lease: &&mut Lease| lease.is_of(command.client as usize, command.ids);
        let looks = !protocol.has(Planted::CopyTakesAnother);
        if let Some(lease) = self.leases.iter_mut().find(|lease| looks && is_copy(lease)) {
            *lease = granted;
        } else {
            let limit = u8::from(protocol.has(Planted::OtherClock));
            let expired = self.leases.iter().filter(|lease| lease.left <= limit);
            self.available += expired.count() as i8;
            if !protocol.has(Planted::ExpiredTwice) {
                self.leases.retain(|lease| lease.left > limit);
            }
            if self.available <= 0 {
                return Reply::HeldByOther;
            }
            self.available -= 1;
            self.leases.push(granted);
        }
        let first = self.last_token + 1;
        self.last_token += command.tokens;
        Reply::Done(first)
    }

    fn release(&mut self, command: &Command, protocol: &Protocol) -> Reply {
        let is_meant = |lease: &Lease| lease.is_of(command.client as usize, command.ids);
        let mut nested = self.leases.iter_mut().filter(|lease| lease.count > 1);
        if let Some(lease) = nested.find(|lease| is_meant(lease))
            && protocol.has(Planted::CountBelieved)
        {
            lease.count -= 1;
            return Reply::Done(0);
        }
        let is_checked = !protocol.has(Planted::ReleaseUnchecked);
        let before = self.leases.len();
        self.leases.retain(|lease| is_checked && !is_meant(lease));
        let released = before - self.leases.len();
        let added = released.max(usize::from(protocol.has(Planted::ReleaseUncounted)));
        self.available += added as i8;
        match added {
            0 => Reply::NotHeld,
            _ => Reply::Done(0),
        }
    }

    fn renew(&mut self, command: &Command, protocol: &Protocol) -> Reply {
        let is_meant = |lease: &&mut Lease| {
            protocol.has(Planted::RenewUnchecked)
                || lease.is_of(command.client as usize, command.ids)
                    && (lease.left > 0 || protocol.has(Planted::ExpiredRenewed))
        };
        match self.leases.iter_mut().find(is_meant) {
            Some(lease) => (lease.left, lease.count) = (protocol.lease, command.count),
            None if protocol.has(Planted::RenewalLeases) => {
                let id = command.ids.numbers().next().unwrap_or_default();
                self.leases.push(Lease::new(command, id, protocol));
            }
            None => return Reply::NotHeld,
        }
        Reply::Done(0)
    }
}
