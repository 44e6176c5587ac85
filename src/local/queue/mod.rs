//! The local queue: decides which thread of this process may use a lock.
//!
//! The thread with the ticket of a lock sends the requests, and keeps the ticket while it holds the
//! lock. The other threads wait in the queue, first come first served, without I/O. A thread that
//! unlocks can hand its grant over to the next one. All clients of the process share one queue, so
//! that a thread can take the tickets of locks of several clients under one mutex.
//!
//! | file | duty |
//! |---|---|
//! | `entry` | what the queue knows of one lock |
//! | `readers` | the holds on one lock that do not exclude each other |
//! | `passing` | which waiting thread is the next, and which threads may pass it |
//! | `waiter` | a thread that waits for tickets |
//! | `claim` | the tickets of a thread, and what came with them |
//! | `pauses` | when a thread with tickets leaves the locks to other clients |
//! | `hand_over` | what follows the last level: hand-over, an idle grant, or a release |
//! | `waiting` | how threads wait for tickets |

mod claim;
mod entry;
mod hand_over;
mod passing;
mod pauses;
mod readers;
#[cfg(test)]
mod tests;
mod waiter;
mod waiting;

use std::sync::{Arc, OnceLock};

pub(crate) use claim::{CameWith, Claim};
use foldhash::HashMap;
pub(crate) use hand_over::Released;
pub(crate) use waiter::{Waiter, Wanted};

use claim::ClaimState;
use entry::{Entry, Ticket, Unanswered};

use super::grant::{Grant, Granted, Hold, Losses};
use super::{LocalQueue, LockId};
use crate::base::clock::Moment;
use crate::base::key::LockKey;
use crate::base::list::List;
use crate::base::owner::ThreadId;
use crate::base::process::PerProcess;
use crate::error::LostReason;
use crate::observe::Observer;
use crate::protocol::Kind;

/// What the mutex of the local queue protects.
#[derive(Debug, Default)]
pub(super) struct Locks {
    entries: HashMap<LockId, Entry>,
    /// The number of entries at which the next sweep runs.
    sweep_at: usize,
    effects: Effects,
}

/// What follows a [change](LocalQueue::change) of the queue, without its mutex.
#[derive(Debug, Default)]
struct Effects {
    /// These threads are woken.
    woken: Vec<Arc<Waiter>>,
    /// These holds are dropped. That may call code of the application.
    removed: List<Arc<Hold>>,
}

/// There is no sweep before there are this many entries.
const FEW: usize = 256;

/// The state of some locks in this process, as a thread finds it that wants them.
#[derive(Debug)]
pub(crate) struct Entered {
    /// For each lock: the hold of this thread that it has not unlocked yet, lost or not.
    pub(crate) own: List<Option<Arc<Hold>>>,
    /// If the thread wants to read: its hold as a writer, and the other way round. Lost or not.
    pub(crate) other: Option<Arc<Hold>>,
    /// The tickets of the other locks; `None` if another thread has one of them, or if there are no
    /// others.
    pub(crate) claim: Option<Claim>,
}

/// The queue that all clients of a process share.
static SHARED: OnceLock<PerProcess<Arc<LocalQueue>>> = OnceLock::new();

impl LocalQueue {
    /// The queue of this process.
    pub(crate) fn shared() -> Arc<Self> {
        Arc::clone(SHARED.get_or_init(PerProcess::default).get())
    }

    /// Changes the queue under its mutex. After that, wakes the threads for which something has
    /// changed, and drops the holds that were removed.
    fn change<R>(&self, change: impl FnOnce(&mut Locks) -> R) -> R {
        let mut locks = self.0.lock();
        let result = change(&mut locks);
        if locks.effects.woken.is_empty() && locks.effects.removed.is_empty() {
            return result;
        }
        let Effects { woken, removed } = std::mem::take(&mut locks.effects);
        drop(locks);
        woken.iter().for_each(|waiter| waiter.wake());
        drop(removed);
        result
    }

    /// Takes the tickets of the locks that this thread does not hold, if all are free and it passes
    /// no waiting thread that has to go first. A thread that wants a shared hold of a lock that it
    /// holds exclusively needs no ticket besides its own.
    pub(crate) fn enter<'a>(
        self: &Arc<Self>,
        locks: impl Iterator<Item = &'a LockId>,
        (thread, is_shared): (ThreadId, bool),
        now: Moment,
    ) -> Entered {
        let mut guard = self.0.lock();
        let mut own = List::new();
        let mut wanted: List<LockId> = List::new();
        let mut other = None;
        let mut are_free = true;
        for lock in locks {
            let entry = guard.entries.get(lock);
            let hold = entry.and_then(|entry| entry.hold_of((thread, is_shared)));
            if hold.is_none() {
                are_free &= entry.is_none_or(|entry| {
                    entry.has_ticket_for(is_shared) && guard.may_pass(thread, &entry.waiting, now)
                });
                wanted.push(lock.clone());
                other = other.or_else(|| entry?.hold_of((thread, !is_shared)));
            }
            own.push(hold.cloned());
        }
        let other = other.cloned();
        if other.is_some() && is_shared {
            // It uses the ticket of the exclusive hold.
            let mut claim = Claim::new(self, wanted, thread, true);
            claim.state = ClaimState::Kept;
            let claim = Some(claim);
            return Entered { own, other, claim };
        }
        let claim = (are_free && !wanted.is_empty()).then(|| {
            let mut claim = Claim::new(self, wanted, thread, is_shared);
            claim.is_alone = true;
            for at in 0..claim.locks.len() {
                let entry = guard.take(&claim.locks[at], thread, Unanswered::since(now));
                claim.note(entry);
            }
            claim
        });
        Entered { own, other, claim }
    }

    /// Begins the first hold on a new grant, for a thread with this id.
    pub(crate) fn begin_hold(
        self: &Arc<Self>,
        lock: (LockId, LockKey, &'static Kind),
        granted: Granted,
        observer: &Arc<Observer>,
        thread: ThreadId,
    ) -> Arc<Hold> {
        let queue = Arc::downgrade(self);
        Grant::new(lock, granted, queue, Arc::clone(observer)).first_hold(thread)
    }

    /// The shared or exclusive hold of this thread that it has not unlocked yet, lost or not.
    pub(crate) fn hold_of(&self, lock: &LockId, who: (ThreadId, bool)) -> Option<Arc<Hold>> {
        let locks = self.0.lock();
        locks.entries.get(lock)?.hold_of(who).cloned()
    }

    /// True if a thread requests the lock from Redis, or waits for it.
    pub(crate) fn is_requested(&self, lock: &LockId) -> bool {
        let locks = self.0.lock();
        let entry = locks.entries.get(lock);
        entry.is_some_and(|entry| matches!(entry.ticket, Ticket::Requests { .. }))
    }

    /// The grants of the threads that hold the lock, and the idle one.
    pub(crate) fn current_grants(&self, lock: &LockId) -> List<Arc<Grant>> {
        let locks = self.0.lock();
        let entries = locks.entries.get(lock).into_iter();
        let grants = entries.flat_map(|entry| {
            let holds = entry.holds().map(|hold| hold.grant());
            holds.chain(entry.idle.clone())
        });
        let mut grants: List<Arc<Grant>> = grants.collect();
        grants.sort_unstable_by_key(|grant| grant.id());
        grants.dedup_by_key(|grant| grant.id());
        grants
    }

    /// Forgets the locks of a client whose last handle was dropped. Returns the holds that end, of
    /// threads that never unlocked them.
    pub(crate) fn remove_client(&self, client: u64) -> List<Arc<Hold>> {
        let mut locks = self.0.lock();
        let entries = locks.entries.extract_if(|lock, _| lock.client == client);
        let entries: Vec<_> = entries.collect();
        drop(locks);
        let holds = entries.iter().flat_map(|(_, entry)| entry.holds());
        holds.cloned().collect()
    }

    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.0.lock().entries.is_empty()
    }
}

impl Locks {
    /// Gives a free ticket to a thread.
    fn take(&mut self, lock: &LockId, thread: ThreadId, unanswered: Unanswered) -> &Entry {
        let entry = self.entries.entry(lock.clone()).or_default();
        let unanswered = Some(unanswered);
        entry.ticket = Ticket::Requests { thread, unanswered };
        entry
    }

    /// Gives the free tickets of these locks to the first threads that can have them, and forgets
    /// unused entries. Each thread inherits `unanswered`.
    fn pass_on<'a>(
        &mut self,
        locks: impl IntoIterator<Item = &'a LockId>,
        unanswered: Option<Unanswered>,
    ) {
        for lock in locks {
            while let Some(waiter) = self.next_for(lock) {
                if self.join(lock, &waiter) {
                    continue;
                }
                let unanswered = unanswered.unwrap_or_else(|| Unanswered::since(Moment::now()));
                for lock in &waiter.wanted.locks {
                    self.take(lock, waiter.thread, unanswered);
                }
                self.assign(waiter);
            }
            self.forget_unused(lock);
        }
    }

    /// Wakes a waiting thread, which has what it waits for.
    fn assign(&mut self, waiter: Arc<Waiter>) {
        self.dequeue(&waiter);
        waiter.assign();
        self.effects.woken.push(waiter);
    }

    /// Removes a waiting thread from the queues.
    fn dequeue(&mut self, waiter: &Arc<Waiter>) {
        for lock in &waiter.wanted.locks {
            if let Some(entry) = self.entries.get_mut(lock) {
                entry.waiting.retain(|other| !Arc::ptr_eq(other, waiter));
                entry
                    .await_reply
                    .retain(|other| !Arc::ptr_eq(other, waiter));
            }
        }
    }

    /// Forgets the entries that only know of other clients, or of threads that have ended. A sweep
    /// runs each time the number of entries has doubled.
    fn sweep(&mut self) {
        if self.entries.len() > self.sweep_at.max(FEW) {
            let removed = &mut self.effects.removed;
            self.entries.retain(|_, entry| {
                entry.remove_ended(removed);
                entry.is_needed()
            });
            self.sweep_at = self.entries.len() * 2;
        }
    }

    fn forget_unused(&mut self, lock: &LockId) {
        if self.entries.get(lock).is_some_and(Entry::is_unused) {
            self.entries.remove(lock);
        }
    }
}

/// What grants call.
impl LocalQueue {
    /// Passes the ticket of a lost grant on. The holds that are lost are kept until their threads
    /// unlock them.
    pub(super) fn lost(&self, grant: &Grant, lost: &Losses) {
        self.change(|locks| {
            let lock = &grant.lock;
            let Some(entry) = locks.entries.get_mut(lock) else {
                return;
            };
            entry.idle.take_if(|idle| idle.id() == grant.id());
            let removed = &mut locks.effects.removed;
            for (hold, _) in lost {
                match entry.remove(hold) {
                    Some(hold) if hold.is_taken() => entry.add_lost(hold, removed),
                    // It was handed over to a thread that does not have it yet.
                    handed_over => removed.extend(handed_over),
                }
            }
            locks.pass_on([lock], None);
            locks.sweep();
        });
    }

    /// Ends an idle grant, if no thread has taken it meanwhile.
    pub(super) fn end_idle(&self, grant: &Grant) -> bool {
        let mut locks = self.0.lock();
        let lock = &grant.lock;
        if let Some(entry) = locks.entries.get_mut(lock) {
            entry.idle.take_if(|idle| idle.id() == grant.id());
        }
        locks.forget_unused(lock);
        // A shared grant may be idle beside a newer one. Then no thread can take it again.
        grant.end()
    }

    /// Ends a grant as lost because its client is shut down. The caller
    /// [notifies](Grant::notify_holders) its holders. `None` if it has ended.
    pub(super) fn shut_down(&self, grant: &Grant) -> Option<Losses> {
        // Under this mutex no thread is about to hand the grant over, which then would not be
        // released.
        let _locks = self.0.lock();
        grant.end_as_lost(LostReason::ShutDown)
    }
}
