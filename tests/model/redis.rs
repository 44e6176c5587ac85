//! The Redis server: the key of the lock, its last token, and the scripts of `lua/`.

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

/// The key of the lock while it is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
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
    /// `Acquire`: another owner holds the lock.
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

impl Key {
    pub fn is_of(&self, client: usize, ids: OwnerIds) -> bool {
        self.client as usize == client && ids.has(self.id)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Redis {
    pub key: Option<Key>,
    pub last_token: u8,
}

impl Redis {
    pub fn key_is_of(&self, client: usize, ids: OwnerIds) -> bool {
        self.key.is_some_and(|key| key.is_of(client, ids))
    }

    /// Runs a script.
    pub fn run(&mut self, command: &Command, protocol: &Protocol) -> Reply {
        let is_owner = self.key_is_of(command.client as usize, command.ids);
        match (command.script, &mut self.key) {
            (Script::Acquire, Some(_)) if !is_owner => Reply::HeldByOther,
            (Script::Acquire, _) => self.grant(command, protocol.lease),
            (Script::Release, Some(key))
                if is_owner && key.count > 1 && protocol.has(Planted::CountBelieved) =>
            {
                key.count -= 1;
                Reply::Done(0)
            }
            (Script::Release, Some(_)) if is_owner || protocol.has(Planted::ReleaseUnchecked) => {
                self.key = None;
                Reply::Done(0)
            }
            (Script::Renew, Some(key)) if is_owner || protocol.has(Planted::RenewUnchecked) => {
                key.left = protocol.lease;
                key.count = command.count;
                Reply::Done(0)
            }
            _ => Reply::NotHeld,
        }
    }

    fn grant(&mut self, command: &Command, lease: u8) -> Reply {
        self.key = Some(Key {
            client: command.client,
            id: command.to,
            count: 1,
            left: lease,
            age: 0,
            unused: 0,
        });
        let first = self.last_token + 1;
        self.last_token += command.tokens;
        Reply::Done(first)
    }
}
