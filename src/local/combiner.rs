//! Changes of one number by threads of one client, several of which are sent as one request. No
//! I/O.
//!
//! A thread sends its request at once while those of fewer than [`AT_ONCE`] threads are under way.
//! Otherwise it waits. When enough of these have ended, the first waiting thread sends one request
//! for itself and for those behind it that change the number by as much. So a thread never waits
//! for others to come, a few threads do not wait for each other, and many threads send few
//! requests.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use super::wait_queue::{Entrance, Queued, WaitQueue};
use super::yields::SLICE;
use crate::base::clock::Moment;
use crate::base::parker::Unparker;

/// The number of threads with requests under way from which on further threads wait. As many as a
/// client has links by default.
const AT_ONCE: u32 = 8;

/// The largest change of one request.
const LARGEST: u32 = i32::MAX as u32;

/// The changes of one kind by the threads of one client.
#[derive(Debug, Default)]
pub(crate) struct Combiner(Mutex<State>);

/// Its mutex protects: threads wait only while the batches have at least [`AT_ONCE`] threads. It is
/// locked before that of a member, and after that of the queue.
#[derive(Debug, Default)]
struct State {
    /// The number of threads of all batches.
    under_way: u32,
    waiting: VecDeque<Arc<Member>>,
    /// When Redis granted permits last.
    granted: Option<Moment>,
}

/// A thread that has waited.
#[derive(Debug)]
struct Member {
    permits: u32,
    unparker: Unparker,
    stage: Mutex<Stage>,
}

#[derive(Debug)]
enum Stage {
    Waits,
    /// The request of another thread contains its change.
    Sent,
    /// It sends a request for itself and for these.
    Leads(Vec<Arc<Member>>),
    Over(Outcome),
    Left,
}

/// What has become of the change of a thread that did not send it itself.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    Done,
    /// There are not enough permits. The thread has this number in the queue.
    Queued(u64),
    /// Redis has not executed it, and will not. The thread sends a request of its own.
    NotSent,
    /// There is no clear reply, for this reason. The watchdog repeats the request if the second is
    /// true.
    Unclear(Arc<str>, bool),
}

/// What a thread does next.
#[derive(Debug)]
pub(crate) enum Turn<'a> {
    Sends(Batch<'a>),
    Waits(Waiting<'a>),
    Over(Outcome),
}

/// A thread that waits. It is unparked when its turn changes.
#[derive(Debug)]
pub(crate) struct Waiting<'a> {
    combiner: &'a Combiner,
    member: Arc<Member>,
}

/// A request that one thread sends for itself and for others. The next batch begins when it is
/// dropped.
#[derive(Debug)]
pub(crate) struct Batch<'a> {
    combiner: &'a Combiner,
    /// What each of the threads wants.
    pub(crate) permits: u32,
    /// The number of the threads.
    pub(crate) threads: u32,
    /// Those of the others that wait for the outcome.
    others: VecDeque<Arc<Member>>,
    /// When Redis granted permits.
    granted: Option<Moment>,
}

impl Combiner {
    /// Begins a change by this many permits, at least one. The thread of `unparker` may have to
    /// wait.
    pub(crate) fn join<'u>(
        &self,
        permits: u32,
        unparker: impl FnOnce() -> &'u Unparker,
    ) -> Turn<'_> {
        let mut state = self.0.lock();
        if state.under_way < AT_ONCE {
            state.under_way += 1;
            return Turn::Sends(Batch::new(self, permits, Vec::new()));
        }
        let member = Arc::new(Member {
            permits,
            unparker: unparker().clone(),
            stage: Mutex::new(Stage::Waits),
        });
        state.waiting.push_back(Arc::clone(&member));
        Turn::Waits(Waiting {
            combiner: self,
            member,
        })
    }

    /// Does the change of the first waiting thread, if that is by this many permits, and if a slice
    /// has not passed since Redis granted permits.
    pub(crate) fn hand_over(&self, permits: u32) -> bool {
        let mut state = self.0.lock();
        let first = state.waiting.front();
        if first.is_none_or(|first| first.permits != permits) {
            return false;
        }
        let granted = state.granted;
        if granted.is_none_or(|granted| granted.after(SLICE).is_past()) {
            return false;
        }
        // A thread that leaves has removed itself before.
        let first = state.waiting.pop_front();
        first.is_some_and(|first| first.end(|| Outcome::Done))
    }

    /// A batch of this many threads has ended. Waiting threads begin the next ones.
    fn ended(&self, threads: u32, granted: Option<Moment>) {
        let mut state = self.0.lock();
        state.granted = state.granted.max(granted);
        state.under_way -= threads;
        while state.under_way < AT_ONCE
            && let Some(first) = state.waiting.pop_front()
        {
            let most = LARGEST / first.permits;
            let next = state.waiting.iter().take((most - 1) as usize);
            let next = next.take_while(|next| next.permits == first.permits);
            let count = next.count();
            let others: Vec<_> = state.waiting.drain(..count).collect();
            for other in &others {
                *other.stage.lock() = Stage::Sent;
            }
            state.under_way += threads_with(&others);
            *first.stage.lock() = Stage::Leads(others);
            first.unparker.unpark();
        }
    }
}

impl<'a> Waiting<'a> {
    pub(crate) fn turn(self) -> Turn<'a> {
        let mut stage = self.member.stage.lock();
        let turn = match &mut *stage {
            Stage::Leads(others) => {
                let others = std::mem::take(others);
                Turn::Sends(Batch::new(self.combiner, self.member.permits, others))
            }
            Stage::Over(outcome) => Turn::Over(outcome.clone()),
            Stage::Waits | Stage::Sent | Stage::Left => {
                drop(stage);
                return Turn::Waits(self);
            }
        };
        *stage = Stage::Left;
        drop(stage);
        turn
    }

    /// Waits no longer, if the turn of the thread has not come. If its change is sent, the thread
    /// leaves only if it `abandons` the change.
    pub(crate) fn leave(self, abandons: bool) -> Turn<'a> {
        let mut state = self.combiner.0.lock();
        let mut stage = self.member.stage.lock();
        match *stage {
            Stage::Waits => state.waiting.retain(|one| !Arc::ptr_eq(one, &self.member)),
            Stage::Sent if abandons => {}
            _ => {
                drop((stage, state));
                return self.turn();
            }
        }
        *stage = Stage::Left;
        Turn::Over(Outcome::NotSent)
    }
}

impl<'a> Batch<'a> {
    fn new(combiner: &'a Combiner, permits: u32, others: Vec<Arc<Member>>) -> Self {
        Self {
            combiner,
            permits,
            threads: threads_with(&others),
            others: others.into(),
            granted: None,
        }
    }

    /// Redis has granted permits.
    pub(crate) fn granted(&mut self) {
        self.granted = Some(Moment::now());
    }

    /// The changes of this many of the other threads are done. Those that have left are passed over.
    /// Returns for how many there is no thread.
    pub(crate) fn serve(&mut self, mut changes: u32) -> u32 {
        while changes > 0
            && let Some(other) = self.others.pop_front()
        {
            changes -= u32::from(other.end(|| Outcome::Done));
        }
        changes
    }

    /// The other threads that are not served have this outcome.
    pub(crate) fn end(mut self, outcome: &Outcome) {
        for other in self.others.drain(..) {
            other.end(|| outcome.clone());
        }
    }

    /// There are no permits for the thread of `sender`, which sent the request, and the others. It
    /// enters this queue, and then the threads of [`refuse_others`](Self::refuse_others).
    pub(crate) fn refuse<'q>(mut self, sender: &Unparker, queue: &'q WaitQueue) -> Queued<'q> {
        let mut entrance = queue.entrance();
        let number = entrance.enter(self.permits, sender);
        self.enter_others(&mut entrance);
        queue.queued(number)
    }

    /// There are no permits for the other threads that are not served. They enter this queue in the
    /// order in which they came, and then all that wait to send a request.
    pub(crate) fn refuse_others(mut self, queue: &WaitQueue) {
        if !self.others.is_empty() {
            self.enter_others(&mut queue.entrance());
        }
    }

    fn enter_others(&mut self, entrance: &mut Entrance<'_>) {
        let mut state = self.combiner.0.lock();
        for other in self.others.drain(..).chain(state.waiting.drain(..)) {
            other.end(|| Outcome::Queued(entrance.enter(other.permits, &other.unparker)));
        }
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        for other in self.others.drain(..) {
            let cause = "the thread that sent the request has ended";
            other.end(|| Outcome::Unclear(cause.into(), false));
        }
        self.combiner.ended(self.threads, self.granted);
    }
}

impl Member {
    /// False if the thread has left.
    fn end(&self, outcome: impl FnOnce() -> Outcome) -> bool {
        let mut stage = self.stage.lock();
        if matches!(*stage, Stage::Left) {
            return false;
        }
        *stage = Stage::Over(outcome());
        self.unparker.unpark();
        true
    }
}

/// The number of threads of a batch with these others.
fn threads_with(others: &[Arc<Member>]) -> u32 {
    u32::try_from(others.len() + 1).unwrap_or(LARGEST)
}

#[cfg(test)]
mod tests;
