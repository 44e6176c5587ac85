//! The Redis server: one key, and the scripts of `lua/`.

use crate::protocol::{Planted, Protocol};

/// In ticks. The smallest lease for which renewals make a difference.
pub const LEASE: u8 = 2;

/// A set of owner ids of one client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
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

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// True if there is more than one.
    pub fn are_several(self) -> bool {
        self.0.count_ones() > 1
    }

    pub fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// The key of the lock while it is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The client and the owner id that hold the lock.
    pub client: u8,
    pub number: u8,
    pub count: u8,
    /// Ticks until it expires.
    pub left: u8,
    /// The number of ticks for which no client has believed to hold the lock and no command that
    /// may extend it was under way. Only the promises read this field.
    pub unheld: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Script {
    Acquire,
    Recount,
    /// `recount.lua` with a new owner id: writes the count and moves the hold to that id.
    Move,
    Release,
    Renew,
}

/// A script call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Command {
    pub script: Script,
    pub client: u8,
    /// The owner ids that the hold may have, and `to`.
    pub ids: OwnerIds,
    /// `Acquire`, `Move`: the new owner id.
    pub to: u8,
    /// `Recount`, `Move`: the new count.
    pub count: u8,
    /// Whether the command extends the remaining time to a whole lease.
    pub lease: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reply {
    Done,
    /// The caller does not hold the lock.
    NotHeld,
    /// `Acquire`: another owner holds the lock.
    HeldByOther,
}

impl Command {
    /// Packs all fields into 18 bits.
    pub fn bits(&self) -> u64 {
        u64::from(self.ids.0)
            | u64::from(self.to) << 8
            | u64::from(self.count) << 11
            | u64::from(self.client) << 13
            | u64::from(self.lease) << 14
            | (self.script as u64) << 15
    }
}

impl Key {
    /// Packs all fields into 11 bits.
    pub fn bits(&self) -> u64 {
        u64::from(self.number)
            | u64::from(self.count) << 3
            | u64::from(self.left) << 5
            | u64::from(self.unheld) << 8
            | u64::from(self.client) << 10
    }

    fn taken(command: &Command, count: u8) -> Self {
        Self {
            client: command.client,
            number: command.to,
            count,
            left: LEASE,
            unheld: 0,
        }
    }

    pub fn is_of(&self, client: u8, ids: OwnerIds) -> bool {
        self.client == client && ids.has(self.number)
    }
}

/// Runs a script.
pub fn run(slot: &mut Option<Key>, command: &Command, protocol: &Protocol) -> Reply {
    let Some(key) = slot else {
        return match command.script {
            Script::Acquire => {
                *slot = Some(Key::taken(command, 1));
                Reply::Done
            }
            Script::Recount if command.lease && protocol.has(Planted::NestedAcquiresAgain) => {
                *slot = Some(Key::taken(command, command.count));
                Reply::Done
            }
            _ => Reply::NotHeld,
        };
    };
    if !key.is_of(command.client, command.ids) {
        if command.script == Script::Release && protocol.has(Planted::ReleaseUnchecked) {
            *slot = None;
        }
        return if command.script == Script::Acquire {
            Reply::HeldByOther
        } else {
            Reply::NotHeld
        };
    }
    match command.script {
        Script::Acquire => key.number = command.to,
        Script::Renew => {}
        Script::Recount | Script::Move if protocol.has(Planted::RelativeCounts) => {
            key.count = match (command.lease, key.count) {
                (true, count) => (count + 1).min(3),
                (false, count) => count.max(2) - 1,
            };
            if command.script == Script::Move {
                key.number = command.to;
            }
        }
        Script::Recount => key.count = command.count,
        // An earlier copy of the same request has written the count, and a later request may have
        // changed it since.
        Script::Move if key.number == command.to && !protocol.has(Planted::CountWrittenAgain) => {}
        Script::Move => (key.number, key.count) = (command.to, command.count),
        Script::Release => {
            *slot = None;
            return Reply::Done;
        }
    }
    if command.lease {
        key.left = LEASE;
    }
    Reply::Done
}
