//! What is checked, and the possible steps.

use super::promises;
use super::state::{State, Thread};
use crate::check::{Model, Promises, Step};

/// What is checked, and how many failures occur.
#[derive(Clone, Debug)]
pub struct Bounds {
    pub planted: Option<Planted>,
    pub threads: usize,
    /// In ticks.
    pub lease: u8,
    /// The number of requests whose deadline passes before the reply.
    pub unanswered: u8,
    /// How often the link breaks.
    pub breaks: u8,
}

/// A rule that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// An abandoned request leaves the queue of what is awaited.
    EntryDropped,
    /// What a broken link awaited stays in the queue of the next one.
    QueueKept,
    /// A copy that is abandoned is not settled.
    NotSettled,
    /// A late reply that says "granted" settles its copy, as one that says "refused" does.
    LateGrantIgnored,
    /// The release of an abandoned copy is sent on another connection.
    ReleaseOvertakes,
    /// A release that got no reply because its link broke is not sent again.
    ReleaseNotRepeated,
    /// A thread that leaves at its deadline does not give the reading to another one.
    ReadingKept,
    /// The thread that reads does not wake the thread whose reply it has taken.
    NotWoken,
    /// A lease is measured from the reply.
    LeaseFromReply,
}

impl Bounds {
    pub fn has(&self, planted: Planted) -> bool {
        self.planted == Some(planted)
    }
}

impl Model for Bounds {
    type State = State;

    fn start(&self) -> State {
        State::new(self)
    }

    fn steps(&self, state: &State, step: &mut Step<'_, State>) {
        for (t, thread) in state.threads.iter().enumerate() {
            match thread {
                Thread::Idle => step(&("locks", t), &|next| next.lock(t)),
                Thread::Holding { .. } => step(&("unlocks", t), &|next| next.unlock(t)),
                Thread::Waiting(wait) if wait.reply.is_some() => {
                    step(&("gets its reply", t), &|next| next.go_on(t, self));
                }
                Thread::Waiting(_) if state.unanswered > 0 => {
                    step(&("deadline passes", t), &|next| next.abandon(t, self));
                }
                Thread::Waiting(_) => {}
            }
        }
        if !state.link.sent.is_empty() {
            step(&"runs", &State::execute);
        }
        if state.can_read() {
            for replies in 1..=state.link.replies.len() {
                // Each is given to what awaits it.
                step(&("reads replies", replies), &|next| {
                    next.read(replies, self);
                });
            }
        }
        for at in 0..state.abandoned.len() {
            step(&("releases abandoned", at), &|next| next.settle(at, self));
        }
        if state.breaks > 0 && !state.link.awaited.is_empty() {
            step(&"the link breaks", &|next| next.break_link(self));
        }
        for at in 0..state.broken_links.len() {
            step(&("runs of a broken link", at), &|next| next.execute_old(at));
        }
        step(&"time passes", &State::tick);
    }

    fn normalize(&self, state: &mut State) {
        state.normalize();
    }

    fn check(&self, state: &State, promises: &mut Promises) {
        promises::check(self, state, promises);
    }
}
