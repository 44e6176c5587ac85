//! A thread that waits in the local queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use super::LockId;
use crate::base::clock::Moment;
use crate::base::list::List;
use crate::base::owner::{Liveness, ThreadId};
use crate::base::parker::Unparker;
use crate::lease::Terms;
use crate::protocol::Kind;

/// A thread that waits for the tickets of some locks.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(super) thread: ThreadId,
    liveness: Liveness,
    pub(super) wanted: Wanted,
    /// Since when the thread waits.
    since: Moment,
    /// Tests decide when the thread keeps its place, because no time passes in them.
    #[cfg(test)]
    pub(crate) keeps_place: AtomicBool,
    unparker: Unparker,
    /// The thread has the tickets. Set under the queue's mutex.
    is_assigned: AtomicBool,
    /// The index of the lock that was not available last. Used under the queue's mutex.
    obstacle: AtomicUsize,
    /// How often one of the locks was looked at.
    #[cfg(test)]
    pub(super) looks: AtomicUsize,
}

/// Bounds of the period in which a thread that waits for several locks keeps its place once.
const SHORTEST_PERIOD: Duration = Duration::from_millis(64);
const LONGEST_PERIOD: Duration = Duration::from_millis(4096);

/// What a thread wants: locks that it does not hold yet.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) locks: List<LockId>,
    /// For each lock.
    pub(crate) terms: List<Terms>,
    /// How many of the locks are needed.
    pub(crate) needed: usize,
    /// The kind of lock.
    pub(crate) kind: &'static Kind,
    /// The holds do not exclude other shared ones.
    pub(crate) is_shared: bool,
}

impl Waiter {
    /// The calling thread, which has this id. The queue wakes it by `unparker`.
    pub(crate) fn new(wanted: Wanted, thread: ThreadId, unparker: &Unparker) -> Arc<Self> {
        Arc::new(Self {
            thread,
            liveness: Liveness::of_this_thread(),
            wanted,
            since: Moment::now(),
            #[cfg(test)]
            keeps_place: AtomicBool::new(false),
            unparker: unparker.clone(),
            is_assigned: AtomicBool::new(false),
            obstacle: AtomicUsize::new(0),
            #[cfg(test)]
            looks: AtomicUsize::new(0),
        })
    }

    pub(super) fn who(&self) -> (ThreadId, Liveness) {
        (self.thread, self.liveness.clone())
    }

    /// True if the thread waits for several locks, so that other threads may pass it.
    pub(super) fn wants_several(&self) -> bool {
        self.wanted.locks.len() > 1
    }

    /// True if a thread that could pass this one has to wait behind it [now](keeps_place).
    pub(super) fn keeps_place(&self, now: Moment) -> bool {
        #[cfg(test)]
        let keeps_place = |_, _| self.keeps_place.load(Ordering::Relaxed);
        keeps_place(self.since, now)
    }

    /// How long the thread may sleep. If it wants several locks, it has to
    /// [look](super::LocalQueue::look_again) at the end of each period for threads that can pass
    /// it from then on.
    pub(crate) fn longest_sleep(&self, now: Moment) -> Duration {
        if self.wants_several() {
            now.left_of(period(self.since, now))
        } else {
            Duration::MAX
        }
    }

    /// The first reason why one of the locks is not available, if `reason` tells that of the lock
    /// with an index. The search begins at the lock that was not available last. So it is short
    /// while that has not changed, however many locks there are.
    pub(super) fn obstacle<R>(&self, mut reason: impl FnMut(usize) -> Option<R>) -> Option<R> {
        let (first, all) = (
            self.obstacle.load(Ordering::Relaxed),
            self.wanted.locks.len(),
        );
        (first..all).chain(0..first).find_map(|at| {
            self.obstacle.store(at, Ordering::Relaxed);
            #[cfg(test)]
            self.looks.fetch_add(1, Ordering::Relaxed);
            reason(at)
        })
    }

    pub(super) fn assign(&self) {
        self.is_assigned.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_assigned(&self) -> bool {
        self.is_assigned.load(Ordering::Relaxed)
    }

    pub(super) fn wake(&self) {
        self.unparker.unpark();
    }
}

/// True if a thread that waits for several locks since `since` keeps its place: in the last quarter
/// of each [period], after a wait of at least one. So it gets its locks although each of them
/// always has a holder or another waiting thread.
fn keeps_place(since: Moment, now: Moment) -> bool {
    let period = period(since, now);
    now.since(since) >= period && now.left_of(period) <= period / 4
}

/// The longer a thread has waited, the longer is its period, because the others may have long
/// holds. Each period consists of four shorter ones, so all threads keep their places at the same
/// time, which ends after 1.4 seconds. A period becomes longer only where another one ends.
fn period(since: Moment, now: Moment) -> Duration {
    let waited = last_end_of_a_period(now).since(since);
    let mut period = SHORTEST_PERIOD;
    while period < LONGEST_PERIOD && period * 4 <= waited {
        period *= 4;
    }
    period
}

/// When the last of all periods ended. No thread ceases to keep its place between two of these
/// moments.
pub(super) fn last_end_of_a_period(now: Moment) -> Moment {
    now.before(SHORTEST_PERIOD - now.left_of(SHORTEST_PERIOD))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(millis: u64) -> Moment {
        Moment::ZERO.after(Duration::from_millis(millis))
    }

    #[test]
    fn a_thread_keeps_its_place_for_longer_the_longer_it_waits() {
        for (since, now, expected) in [
            (100, 127, false), // It has just begun to wait.
            (0, 111, false),
            (0, 112, true),
            (0, 127, true),
            (0, 128, false),
            (0, 447, false), // Its period is 256 ms from now on.
            (0, 448, true),
            (0, 3 * 4096 - 1025, false),
            (0, 3 * 4096 - 1024, true),
        ] {
            assert_eq!(keeps_place(at(since), at(now)), expected, "{since} {now}");
        }
    }

    #[test]
    fn a_thread_ceases_to_keep_its_place_only_at_the_end_of_a_period() {
        for since in 0..64 {
            let keeps_place = |now| keeps_place(at(since), at(now));
            for now in since + 1..since + 5000 {
                if keeps_place(now - 1) && !keeps_place(now) {
                    assert_eq!(last_end_of_a_period(at(now)), at(now), "{since} {now}");
                }
            }
        }
    }

    proptest! {
        /// However long several threads have waited, they do not keep their places in turn.
        #[test]
        fn the_threads_keep_their_places_at_the_same_time(
            waits in prop::collection::vec(0..20_000_u64, 1..8),
            start in 0..100_000_u64,
        ) {
            let is_free = |moment: u64| {
                let now = at(100_000 + start + moment);
                waits.iter().all(|&wait| !keeps_place(at(100_000 + start - wait), now))
            };
            prop_assert!((0..1366).any(is_free));
        }
    }
}
