//! A process with one thread and a watchdog.

use std::hash::{Hash, Hasher};

use crate::redis::{Command, OwnerIds, Reply, Script};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Client {
    /// The owner id for the next acquire. `None`: a fresh one.
    pub owner: Option<u8>,
    pub hold: Option<Hold>,
    /// The call that the thread makes.
    pub call: Option<Call>,
    /// The request that the watchdog sent.
    pub watchdog: Option<Request>,
    /// Owner ids under which the watchdog still has to release.
    pub orphans: OwnerIds,
    /// With `Planted::RenewedAfterRelease`: the ids that the watchdog still renews after the
    /// release.
    pub still_renewed: OwnerIds,
}

/// A hold that is valid, or one that expired and is not unlocked yet. A hold that Redis reported as
/// lost is removed from the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hold {
    /// The owner ids under which Redis may have the hold.
    pub ids: OwnerIds,
    pub levels: u8,
    /// Ticks by the local clock. 0: expired.
    pub left: u8,
    /// The owner id under which the watchdog writes the unknown count.
    pub recount_to: Option<u8>,
    /// A call that changes the count was abandoned, and no later one was answered. Only the
    /// promises read this field.
    pub gave_up: bool,
    /// The number of ticks since another program deleted the key. Only the promises read this
    /// field.
    pub deleted: Option<u8>,
}

impl Hold {
    /// The result of `check()`.
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
    ReleaseExpired,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Call {
    pub op: Op,
    /// The copy that the thread waits for.
    pub request: Request,
    /// An earlier copy got no reply.
    pub ambiguous: bool,
}

/// A command that was sent, and whose sender waits for the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Request {
    pub command: Command,
    /// Ticks since it was sent, if the command grants a lease.
    pub age: u8,
    /// The reply, once the server has run the command.
    pub reply: Option<Reply>,
    /// For a request of the watchdog: its hold has ended.
    pub stale: bool,
}

impl Request {
    pub fn new(command: Command) -> Self {
        Self {
            command,
            age: 0,
            reply: None,
            stale: false,
        }
    }
}

impl Request {
    /// Packs all fields into 24 bits. Never zero.
    fn bits(&self) -> u64 {
        let reply = self.reply.map_or(0, |reply| reply as u64 + 1);
        1 | self.command.bits() << 1
            | u64::from(self.age) << 19
            | reply << 21
            | u64::from(self.stale) << 23
    }
}

impl Hold {
    /// Packs all fields into 21 bits. Never zero.
    fn bits(&self) -> u64 {
        1 | u64::from(self.ids.0) << 1
            | u64::from(self.levels) << 9
            | u64::from(self.left) << 11
            | u64::from(self.gave_up) << 13
            | self.deleted.map_or(0, |ticks| u64::from(ticks) + 1) << 14
            | self.recount_to.map_or(0, |number| u64::from(number) + 1) << 17
    }
}

/// Two numbers hash much faster than the single fields.
impl Hash for Client {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let call = self.call.map_or(0, |call| {
            call.request.bits() | (call.op as u64) << 24 | u64::from(call.ambiguous) << 27
        });
        hasher.write_u64(call | self.watchdog.map_or(0, |request| request.bits()) << 28);
        let owner = self.owner.map_or(0, |number| u64::from(number) + 1);
        hasher.write_u64(
            self.hold.map_or(0, |hold| hold.bits())
                | owner << 21
                | u64::from(self.orphans.0) << 25
                | u64::from(self.still_renewed.0) << 33,
        );
    }
}

impl Client {
    pub fn stands(&self) -> bool {
        self.hold.is_some_and(|hold| hold.stands())
    }

    /// Ends the hold. The watchdog ignores replies about it from now on.
    pub fn end_hold(&mut self) {
        self.hold = None;
        if let Some(request) = &mut self.watchdog {
            request.stale = true;
        }
    }

    /// True if the count in Redis is unknown and the thread is not writing it.
    pub fn count_is_unknown(&self) -> bool {
        self.call.is_none()
            && self
                .hold
                .is_some_and(|hold| hold.stands() && hold.ids.are_several())
    }

    /// True if a renewal of the hold is under way, even if the hold has expired.
    pub fn is_being_renewed(&self) -> bool {
        self.watchdog
            .is_some_and(|request| !request.stale && request.command.script == Script::Renew)
    }

    /// True if the watchdog's request is about a hold that is no longer valid.
    pub fn watchdog_is_stale(&self) -> bool {
        self.watchdog.is_some_and(|request| request.stale)
            || self.hold.is_some_and(|hold| !hold.stands())
    }

    /// All owner ids in use, except the one in `owner`.
    pub fn ids_in_use(&self) -> OwnerIds {
        let requests = self
            .call
            .map(|call| call.request)
            .into_iter()
            .chain(self.watchdog);
        requests
            .map(|request| request.command.ids.with(OwnerIds::of(request.command.to)))
            .chain(self.hold.map(|hold| hold.ids))
            .fold(self.orphans.with(self.still_renewed), OwnerIds::with)
    }
}
