//! What is checked, and the possible steps.

use stateright::{Model, Property};

use super::promises;
use super::state::{State, Thread};

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

/// The number is the index of a thread, of an abandoned copy, or of a broken link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Tick,
    Lock(usize),
    Unlock(usize),
    /// The server executes the oldest request of the link.
    Execute,
    /// This number of replies is read at once, and each is given to what awaits it.
    Read(usize),
    /// A thread continues with the reply that another one has read for it.
    Continue(usize),
    /// The deadline of a thread passes.
    Abandon(usize),
    /// The client sends a release for an abandoned copy.
    Settle(usize),
    Break,
    /// The server executes what it had received on a broken link.
    ExecuteOld(usize),
}

impl Model for Bounds {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(self)]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        for (t, thread) in state.threads.iter().enumerate() {
            match thread {
                Thread::Idle => steps.push(Step::Lock(t)),
                Thread::Holding { .. } => steps.push(Step::Unlock(t)),
                Thread::Waiting(wait) if wait.reply.is_some() => steps.push(Step::Continue(t)),
                Thread::Waiting(_) if state.unanswered > 0 => steps.push(Step::Abandon(t)),
                Thread::Waiting(_) => {}
            }
        }
        if !state.link.sent.is_empty() {
            steps.push(Step::Execute);
        }
        if state.can_read() {
            steps.extend((1..=state.link.replies.len()).map(Step::Read));
        }
        steps.extend((0..state.abandoned.len()).map(Step::Settle));
        if state.breaks > 0 && !state.link.awaited.is_empty() {
            steps.push(Step::Break);
        }
        steps.extend((0..state.broken_links.len()).map(Step::ExecuteOld));
        steps.push(Step::Tick);
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        match step {
            Step::Tick => next.tick(),
            Step::Lock(t) => next.lock(t),
            Step::Unlock(t) => next.unlock(t),
            Step::Execute => next.execute(),
            Step::Read(replies) => next.read(replies, self),
            Step::Continue(t) => next.go_on(t, self),
            Step::Abandon(t) => next.abandon(t, self),
            Step::Settle(at) => next.settle(at, self),
            Step::Break => next.break_link(self),
            Step::ExecuteOld(at) => next.execute_old(at),
        }
        next.normalize();
        (next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        promises::all()
    }
}
