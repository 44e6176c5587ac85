//! A process with threads, at most one grant, and a watchdog.

use crate::redis::{Command, OwnerIds, Reply};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Client {
    pub threads: [Thread; 3],
    pub grant: Option<Grant>,
    /// The call that the thread with the ticket makes.
    pub call: Option<Call>,
    /// The renewal that the watchdog sent.
    pub renewal: Option<Renewal>,
    /// Owner ids under which the watchdog still has to release.
    pub orphans: OwnerIds,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Thread {
    /// It neither has nor wants the lock.
    #[default]
    Out,
    /// It waits in the queue.
    Queued,
    /// It has the ticket: it may acquire the lock in Redis, or it releases it there.
    Front,
    /// The grant was handed to it, and it has not noticed yet.
    Handed,
    /// It has a hold on the grant.
    Holding,
    /// Its hold was lost, and it has not unlocked yet.
    Lost,
}

impl Thread {
    /// True if the other threads of the client have to wait for this thread.
    pub fn has_ticket(self) -> bool {
        matches!(self, Self::Front | Self::Handed | Self::Holding)
    }
}

/// A grant that is not known to be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grant {
    pub id: u8,
    /// Ticks until the lease ends by the local clock. Never 0.
    pub left: u8,
    /// Ticks since the acquire was sent, at most a slice.
    pub age: u8,
    /// The next token, and how many are left.
    pub next_token: u8,
    pub tokens: u8,
    /// The levels of the hold.
    pub levels: u8,
    /// The number of ticks for which the grant has been idle: no thread has a hold on it.
    pub idle: Option<u8>,
    /// The number of ticks since another program deleted the key. Only the promises read this
    /// field.
    pub deleted: Option<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Call {
    /// The copy whose reply the thread waits for.
    pub command: Command,
    /// `Acquire`: ticks since it was sent.
    pub age: u8,
    /// The reply, once Redis has run the command.
    pub reply: Option<Reply>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Renewal {
    pub command: Command,
    /// Ticks since it was sent.
    pub age: u8,
    /// Redis has replied that the owner id has no grant.
    pub failed: bool,
    /// With `Planted::LossToFormerHolder`: the grant was handed over since.
    pub handed_over: bool,
}

impl Client {
    pub fn thread_in(&self, state: Thread) -> Option<usize> {
        self.threads.iter().position(|thread| *thread == state)
    }

    pub fn has(&self, state: Thread) -> bool {
        self.threads.contains(&state)
    }

    /// True if `check` succeeds in one of its threads.
    pub fn has_valid_hold(&self) -> bool {
        self.grant.is_some() && self.has(Thread::Holding)
    }

    pub fn ticket_is_free(&self) -> bool {
        !self.threads.iter().any(|thread| thread.has_ticket())
    }

    /// The first thread of the queue gets the ticket if no thread has it.
    pub fn pass_ticket(&mut self) {
        if let Some(thread) = self.thread_in(Thread::Queued)
            && self.ticket_is_free()
        {
            self.threads[thread] = Thread::Front;
        }
    }

    pub fn grant_has(&self, ids: OwnerIds) -> bool {
        self.grant.is_some_and(|grant| ids.has(grant.id))
    }

    /// True if a thread uses the grant, or may use it before its linger deadline.
    pub fn uses_grant(&self) -> bool {
        self.grant.is_some_and(|grant| grant.idle.is_some())
            || self.has(Thread::Handed)
            || self.has(Thread::Holding)
    }

    /// The grant is lost: its holder is notified, and the ticket passes on.
    pub fn end_grant(&mut self) {
        self.grant = None;
        self.lose_hold();
        self.pass_ticket();
    }

    pub fn lose_hold(&mut self) {
        for thread in &mut self.threads {
            match thread {
                Thread::Holding => *thread = Thread::Lost,
                Thread::Handed => *thread = Thread::Front,
                _ => {}
            }
        }
    }
}
