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
                Thread::Idle => step(format_args!("{t} locks"), &|next| next.lock(t)),
                Thread::Holding { .. } => step(format_args!("{t} unlocks"), &|next| next.unlock(t)),
                Thread::Waiting(wait) if wait.reply.is_some() => {
                    step(format_args!("{t} gets its reply"), &|next| {
                        next.go_on(t, self)
                    });
                }
                Thread::Waiting(_) if state.unanswered > 0 => {
                    let name = format_args!("the deadline of {t} passes");
                    step(name, &|next| next.abandon(t, self));
                }
                Thread::Waiting(_) => {}
            }
        }
        if !state.link.sent.is_empty() {
            let name = format_args!("the server executes a request");
            step(name, &State::execute);
        }
        if state.can_read() {
            for replies in 1..=state.link.replies.len() {
                // Each is given to what awaits it.
                let name = format_args!("{replies} replies are read at once");
                step(name, &|next| next.read(replies, self));
            }
        }
        for at in 0..state.abandoned.len() {
            let name = format_args!("the client releases the abandoned copy {at}");
            step(name, &|next| next.settle(at, self));
        }
        if state.breaks > 0 && !state.link.awaited.is_empty() {
            step(format_args!("the link breaks"), &|next| {
                next.break_link(self)
            });
        }
        for at in 0..state.broken_links.len() {
            let name = format_args!("the server executes a request of the broken link {at}");
            step(name, &|next| next.execute_old(at));
        }
        step(format_args!("time passes"), &State::tick);
    }

    fn normalize(&self, state: &mut State) {
        state.normalize();
    }

    fn check(&self, state: &State, promises: &mut Promises) {
        promises::check(self, state, promises);
    }
}
