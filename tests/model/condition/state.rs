//! The state of the model, and what is checked: the library's protocol or a broken variant.

use super::redis::{Command, Owner, Redis, Waiter};

/// A rule that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// A thread releases the lock, and then puts its waiter into the queue.
    ReleasedFirst,
    /// Late copies of the first request are not followed by the end of the place.
    CopiesLeft,
    /// A second copy of a notification notifies another waiter.
    CopiesCount,
    /// The notification of a waiter that dies or gives up is dropped.
    NotPassedOn,
    /// A thread that cannot acquire the lock takes its notification.
    TakenOnFailure,
    /// After a wait whose time is over, the background takes the notification of its place.
    OrphansTake,
    /// A wait whose time is over reports that, whether it was notified or not.
    TimeBelieved,
    /// If the reply to the end of the place was lost, the second one is believed.
    GoneBelieved,
    /// A place is ended before the thread has the lock, and a notification after that is missed.
    EndedEarly,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Wait,
    NotifyOne,
    NotifyAll,
}

#[derive(Clone, Debug)]
pub struct Protocol {
    pub planted: Option<Planted>,
    /// For each thread: its client, and what it does, each time with the lock.
    pub threads: Vec<(usize, Vec<Op>)>,
    /// The number of requests without a reply, and of failures to acquire the lock again.
    pub failures: u8,
    pub deaths: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    Notified,
    Time,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Phase {
    /// It wants the lock for its next step, if there is one.
    #[default]
    Ready,
    Held(Owner),
    /// The request that begins a wait is under way.
    Beginning(Owner),
    /// It is in the queue, and still has the lock.
    InQueue(Owner),
    /// Only with [`Planted::ReleasedFirst`]: it has released the lock, and is not in the queue.
    Late(Owner),
    Waiting,
    /// It wants the lock again.
    Woken(Why),
    /// It has the lock again. The request that ends its place is under way.
    Ending(Owner, Why),
    /// It could not acquire the lock again. The request that ends its place is under way.
    Leaving,
    /// The request of a notification is under way.
    Notifying(Owner, u8),
    /// The step is done.
    Unlocking(Owner),
    Dead,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Thread {
    pub phase: Phase,
    /// The number of steps that are done.
    pub done: usize,
    /// The number of waits so far.
    pub waits: u8,
    /// A copy of the request under way has no reply.
    pub is_ambiguous: bool,
}

/// A request that may be executed at any time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LateCopy {
    pub command: Command,
    /// Executed right after it.
    pub behind: Option<Command>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    pub redis: Redis,
    pub threads: Vec<Thread>,
    pub late: Vec<LateCopy>,
    pub grants: u8,
    pub calls: u8,
    pub failures: u8,
    pub deaths: u8,
    pub broken: Option<&'static str>,
}

impl State {
    pub fn new(protocol: &Protocol) -> Self {
        Self {
            threads: vec![Thread::default(); protocol.threads.len()],
            failures: protocol.failures,
            deaths: protocol.deaths,
            ..Self::default()
        }
    }

    /// The present or last wait of a thread.
    pub fn waiter(&self, thread: usize) -> Waiter {
        let wait = self.threads[thread].waits;
        Waiter { thread, wait }
    }

    /// Whether the thread of this waiter is between the begin and the end of this wait.
    pub fn is_in_wait(&self, waiter: Waiter) -> bool {
        let in_wait = matches!(
            self.threads[waiter.thread].phase,
            Phase::Beginning(_)
                | Phase::InQueue(_)
                | Phase::Late(_)
                | Phase::Waiting
                | Phase::Woken(_)
                | Phase::Ending(..)
                | Phase::Leaving
        );
        in_wait && self.waiter(waiter.thread) == waiter
    }
}
