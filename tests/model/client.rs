//! A process with one thread: what it believes, what it asks, and its watchdog.

use std::hash::{Hash, Hasher};

use crate::redis::{Command, Names, Reply, Script};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Client {
    /// The name for the next lock; none: a fresh one.
    pub owner: Option<u8>,
    pub hold: Option<Hold>,
    /// The call that the thread is in.
    pub call: Option<Call>,
    /// The watchdog's exchange with Redis.
    pub dog: Option<Round>,
    /// Names under which the watchdog still has to release.
    pub withdrawals: Names,
    /// Where that is planted: what the watchdog goes on renewing.
    pub unforgotten: Names,
}

/// A hold that stands, or one that expired and is not unlocked yet. A hold of which Redis said
/// that it is gone has told its holder, and is no hold here any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hold {
    /// The name under which it stands in Redis; if that is not known, all that it may have.
    pub names: Names,
    pub levels: u8,
    /// Ticks by the local clock; 0: expired.
    pub left: u8,
    /// The name under which the watchdog tries to write the count that is in doubt.
    pub settling: Option<u8>,
    /// A change of its count was given up, and none was answered since. Only the promises look at it.
    pub gave_up: bool,
    /// For so many ticks the key has been gone because somebody deleted it. Only the promises look
    /// at it.
    pub deleted: Option<u8>,
}

impl Hold {
    /// What `check()` says.
    pub fn stands(&self) -> bool {
        self.left > 0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Op {
    Acquire,
    Nest,
    InnerUnlock,
    Unlock,
    /// The unlock of a hold that expired.
    ClearAway,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Call {
    pub op: Op,
    /// The copy whose reply is waited for.
    pub round: Round,
    /// An earlier copy got no answer.
    pub ambiguous: bool,
}

/// A command that was sent, while its sender waits for the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Round {
    pub command: Command,
    /// Ticks since it was sent, where that matters.
    pub age: u8,
    /// What the server said when it ran it.
    pub reply: Option<Reply>,
    /// The watchdog's: the hold that it is about has ended.
    pub stale: bool,
}

impl Round {
    pub fn new(command: Command) -> Self {
        Self {
            command,
            age: 0,
            reply: None,
            stale: false,
        }
    }
}

impl Round {
    /// All of it in 24 bits; never zero.
    fn bits(&self) -> u64 {
        let reply = self.reply.map_or(0, |reply| reply as u64 + 1);
        1 | self.command.bits() << 1
            | u64::from(self.age) << 19
            | reply << 21
            | u64::from(self.stale) << 23
    }
}

impl Hold {
    /// All of it in 21 bits; never zero.
    fn bits(&self) -> u64 {
        1 | u64::from(self.names.0) << 1
            | u64::from(self.levels) << 9
            | u64::from(self.left) << 11
            | u64::from(self.gave_up) << 13
            | self.deleted.map_or(0, |ticks| u64::from(ticks) + 1) << 14
            | self.settling.map_or(0, |number| u64::from(number) + 1) << 17
    }
}

/// Hashed often, and much faster as two numbers than field by field.
impl Hash for Client {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let call = self.call.map_or(0, |call| {
            call.round.bits() | (call.op as u64) << 24 | u64::from(call.ambiguous) << 27
        });
        hasher.write_u64(call | self.dog.map_or(0, |round| round.bits()) << 28);
        let owner = self.owner.map_or(0, |number| u64::from(number) + 1);
        hasher.write_u64(
            self.hold.map_or(0, |hold| hold.bits())
                | owner << 21
                | u64::from(self.withdrawals.0) << 25
                | u64::from(self.unforgotten.0) << 33,
        );
    }
}

impl Client {
    pub fn stands(&self) -> bool {
        self.hold.is_some_and(|hold| hold.stands())
    }

    /// The hold is over: what the watchdog hears of it from now on is ignored.
    pub fn end_hold(&mut self) {
        self.hold = None;
        if let Some(round) = &mut self.dog {
            round.stale = true;
        }
    }

    /// Nobody knows what count Redis has, and the thread is not writing it.
    pub fn is_in_doubt(&self) -> bool {
        self.call.is_none()
            && self
                .hold
                .is_some_and(|hold| hold.stands() && hold.names.are_uncertain())
    }

    /// A renewal of the hold is asked for, whether the hold expired meanwhile or not.
    pub fn is_being_renewed(&self) -> bool {
        self.dog
            .is_some_and(|round| !round.stale && round.command.script == Script::Renew)
    }

    /// What the watchdog asks is about a hold that stands no longer.
    pub fn asks_in_vain(&self) -> bool {
        self.dog.is_some_and(|round| round.stale) || self.hold.is_some_and(|hold| !hold.stands())
    }

    /// All names that anything but `owner` refers to.
    pub fn names_in_use(&self) -> Names {
        let rounds = self.call.map(|call| call.round).into_iter().chain(self.dog);
        rounds
            .map(|round| round.command.names.with(Names::of(round.command.to)))
            .chain(self.hold.map(|hold| hold.names))
            .fold(self.withdrawals.with(self.unforgotten), Names::with)
    }
}
