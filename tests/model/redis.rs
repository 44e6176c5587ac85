//! The server: one key, and the scripts of `lua/` on it.

use crate::protocol::{Planted, Protocol};

/// In ticks. The least for which a renewal makes a difference.
pub const LEASE: u8 = 2;

/// Numbers of owner names of one client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Names(pub u8);

impl Names {
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

    /// More than one.
    pub fn are_uncertain(self) -> bool {
        self.0.count_ones() > 1
    }

    pub fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// The lock, while somebody has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Whose process, and under which of its names.
    pub client: u8,
    pub number: u8,
    pub count: u8,
    /// Ticks until it expires.
    pub left: u8,
    /// For so many ticks nobody has believed to hold it, and no command was under way that may
    /// still extend it. Only the promises look at it.
    pub unheld: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Script {
    Acquire,
    Recount,
    /// `recount.lua` with a new name: as `Recount`, but the hold goes on under that one.
    Move,
    Release,
    Renew,
}

/// A script call, as it goes over the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Command {
    pub script: Script,
    pub client: u8,
    /// The names that the hold may have, and `to`.
    pub names: Names,
    /// `Acquire`, `Move`: the name from now on.
    pub to: u8,
    /// `Recount`, `Move`: the count from now on.
    pub count: u8,
    /// Whether it brings what is left up to a whole lease.
    pub lease: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reply {
    Done,
    /// Not yours.
    Lost,
    /// `Acquire`: somebody else's.
    Held,
}

impl Command {
    /// All of it in 18 bits.
    pub fn bits(&self) -> u64 {
        u64::from(self.names.0)
            | u64::from(self.to) << 8
            | u64::from(self.count) << 11
            | u64::from(self.client) << 13
            | u64::from(self.lease) << 14
            | (self.script as u64) << 15
    }
}

impl Key {
    /// All of it in 11 bits.
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

    pub fn is_of(&self, client: u8, names: Names) -> bool {
        self.client == client && names.has(self.number)
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
            Script::Recount if command.lease && protocol.has(Planted::NestedTakesAnew) => {
                *slot = Some(Key::taken(command, command.count));
                Reply::Done
            }
            _ => Reply::Lost,
        };
    };
    if !key.is_of(command.client, command.names) {
        if command.script == Script::Release && protocol.has(Planted::ReleaseUnchecked) {
            *slot = None;
        }
        return if command.script == Script::Acquire {
            Reply::Held
        } else {
            Reply::Lost
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
        // An earlier copy of this very request has done it, and more may have been done since.
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
