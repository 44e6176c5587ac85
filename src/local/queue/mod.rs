//! The local queue: decides which thread of this process may use a lock.
//!
//! The thread with the ticket of a lock sends the requests, and keeps the ticket while it holds the
//! lock. The other threads wait in the queue, first come first served, without I/O. A thread that
//! unlocks can hand its grant over to the next one.
//!
//! Mutexes are locked in one order: the watchdog's or the queue's, then that of a grant, then that
//! of a hold. No thread locks those of the watchdog and of the queue together.
//!
//! | file | duty |
//! |---|---|
//! | `entry` | what the queue knows of one lock |
//! | `readers` | the holds on one lock without the ticket: shared ones, and an adopted one |
//! | `waiter` | a thread that waits for the ticket |
//! | `claim` | the ticket of a thread, and what came with it |
//! | `pauses` | when a thread with the ticket leaves the lock to other clients |
//! | `hand_over` | what follows the last level: hand-over, an idle grant, or a release |
//! | `waiting` | how threads wait for the ticket |

mod claim;
mod entry;
mod hand_over;
mod pauses;
mod readers;
#[cfg(test)]
mod tests;
mod waiter;
mod waiting;

use std::sync::{Arc, OnceLock};

pub(crate) use claim::{CameWith, Claim};
use foldhash::HashMap;
use parking_lot::Mutex;
pub(crate) use waiter::{Waiter, Wanted};
pub(crate) use waiting::TicketState;

use entry::{Entry, Ticket};

use super::LockId;
use super::grant::{Grant, GrantQueue, Granted, Hold, Losses};
use crate::base::{HolderId, List, LockKey, Moment, PerProcess};
use crate::error::LostReason;
use crate::observe::Observer;
use crate::protocol::{Kind, Verdict};

/// All locks that threads of this process hold or wait for.
///
/// Invariants that its mutex protects:
///
/// * A lock has at most one ticket. No thread gets it for an exclusive hold while others have
///   shared holds, or a guard has an adopted one.
/// * Each exclusive hold of a lock has the ticket, except an adopted one: that was granted without
///   it, beside a thread that may have the ticket and request the lock. Redis refuses that thread.
/// * Threads that wait for a lock get its ticket in their order.
/// * A ticket that is passed on goes to the next thread directly. No other thread sees it free.
/// * A reply wakes the threads that wait for that reply.
#[derive(Debug, Default)]
pub(crate) struct LocalQueue(Mutex<Locks>);

/// What the mutex of the local queue protects.
#[derive(Debug, Default)]
struct Locks {
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

/// The state of a lock in this process, as a thread finds it that wants it.
#[derive(Debug)]
pub(crate) struct Entered {
    /// The hold of this thread that it has not unlocked yet, lost or not.
    pub(crate) own: Option<Arc<Hold>>,
    /// If the thread wants to read: its hold as a writer, and the other way round. Lost or not.
    pub(crate) other: Option<Arc<Hold>>,
    /// The ticket; `None` if another thread has it, or if the thread has a hold.
    pub(crate) claim: Option<Claim>,
}

/// The queue that all clients of a process share.
static SHARED: OnceLock<PerProcess<Arc<LocalQueue>>> = OnceLock::new();

impl LocalQueue {
    /// The queue of this process.
    pub(crate) fn shared() -> Arc<Self> {
        Arc::clone(SHARED.get_or_init(PerProcess::default).get())
    }

    /// Reads the queue under its mutex.
    fn read<R>(&self, read: impl FnOnce(&Locks) -> R) -> R {
        read(&self.0.lock())
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

    /// Takes the ticket of a lock that this thread does not hold, if it is free and no thread waits
    /// for it. A thread that wants a shared hold of a lock that it holds exclusively needs no
    /// ticket besides its own.
    pub(crate) fn enter(
        self: &Arc<Self>,
        lock: &LockId,
        holder: HolderId,
        is_shared: bool,
        now: Moment,
    ) -> Entered {
        self.change(|locks| {
            let entry = locks.entries.get(lock);
            let own = entry.and_then(|entry| entry.hold_of(holder, is_shared).cloned());
            if own.is_some() {
                return Entered {
                    own,
                    other: None,
                    claim: None,
                };
            }
            let other = entry.and_then(|entry| entry.hold_of(holder, !is_shared).cloned());
            let claim = || Claim::new(self, lock.clone(), holder, is_shared);
            let claim = if other.is_some() && is_shared {
                // It uses the ticket of the exclusive hold.
                Some(claim().kept())
            } else if entry.is_none_or(|entry| entry.is_open_to(is_shared)) {
                let mut claim = claim();
                claim.is_alone = true;
                claim.note(locks.give_ticket(lock, holder, now));
                Some(claim)
            } else {
                None
            };
            Entered { own, other, claim }
        })
    }

    /// Begins the first hold on a new grant, for a thread with this id.
    pub(crate) fn begin_hold(
        self: &Arc<Self>,
        lock: LockId,
        key: LockKey,
        kind: &'static Kind,
        granted: Granted,
        observer: &Arc<Observer>,
        holder: HolderId,
    ) -> Arc<Hold> {
        let queue = Arc::downgrade(self);
        let grant = Grant::new(lock, key, kind, granted, queue, Arc::clone(observer));
        grant.first_hold(holder)
    }

    /// The shared or exclusive hold of this thread that it has not unlocked yet, lost or not.
    pub(crate) fn hold_of(
        &self,
        lock: &LockId,
        holder: HolderId,
        is_shared: bool,
    ) -> Option<Arc<Hold>> {
        self.read(|locks| {
            let entry = locks.entries.get(lock)?;
            entry.hold_of(holder, is_shared).cloned()
        })
    }

    /// True if a thread requests the lock from Redis, or waits for it.
    pub(crate) fn is_requested(&self, lock: &LockId) -> bool {
        self.read(|locks| {
            let entry = locks.entries.get(lock);
            entry.is_some_and(|entry| matches!(entry.ticket, Ticket::Requests { .. }))
        })
    }

    /// The grants of the threads that hold the lock, and the idle one.
    pub(crate) fn current_grants(&self, lock: &LockId) -> List<Arc<Grant>> {
        let mut grants: List<Arc<Grant>> = self.read(|locks| {
            let entries = locks.entries.get(lock).into_iter();
            let grants = entries.flat_map(|entry| {
                let holds = entry.holds().map(|hold| hold.grant());
                holds.chain(entry.idle.clone())
            });
            grants.collect()
        });
        grants.sort_unstable_by_key(|grant| grant.id());
        grants.dedup_by_key(|grant| grant.id());
        grants
    }

    /// Forgets the locks of a client whose last handle was dropped. Returns the holds that end, of
    /// threads that never unlocked them.
    pub(crate) fn remove_client(&self, client: u64) -> List<Arc<Hold>> {
        let entries: Vec<_> = self.change(|locks| {
            let entries = locks.entries.extract_if(|lock, _| lock.client == client);
            entries.collect()
        });
        let holds = entries.iter().flat_map(|(_, entry)| entry.holds());
        holds.cloned().collect()
    }

    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.read(|locks| locks.entries.is_empty())
    }
}

impl Locks {
    /// Gives a free ticket to a thread.
    fn give_ticket(&mut self, lock: &LockId, holder: HolderId, since: Moment) -> &Entry {
        let entry = self.entries.entry(lock.clone()).or_default();
        let unanswered_since = Some(since);
        entry.ticket = Ticket::Requests {
            holder,
            unanswered_since,
        };
        entry
    }

    /// Gives the free ticket of a lock to the first thread that waits for it, lets those readers
    /// join that may, and forgets an unused entry. The thread inherits `unanswered_since`.
    fn pass_on(&mut self, lock: &LockId, unanswered_since: Option<Moment>) {
        while let Some(waiter) = self.next_for(lock) {
            if self.join(lock, &waiter) {
                continue;
            }
            let since = unanswered_since.unwrap_or_else(Moment::now);
            self.give_ticket(lock, waiter.holder, since);
            self.assign(waiter);
        }
        self.forget_unused(lock);
    }

    /// The first thread that waits for this lock, if it can have the ticket.
    fn next_for(&self, lock: &LockId) -> Option<Arc<Waiter>> {
        let entry = self.entries.get(lock)?;
        let first = entry.waiting.front()?;
        let is_free = entry.has_ticket_for(first.wanted.kind.is_shared);
        is_free.then(|| Arc::clone(first))
    }

    /// Wakes a waiting thread, which has what it waits for.
    fn assign(&mut self, waiter: Arc<Waiter>) {
        self.dequeue(&waiter);
        waiter.assign();
        self.effects.woken.push(waiter);
    }

    /// Removes a waiting thread from the queue.
    fn dequeue(&mut self, waiter: &Arc<Waiter>) {
        if let Some(entry) = self.entries.get_mut(&waiter.wanted.lock) {
            let is_other = |other: &Arc<Waiter>| !Arc::ptr_eq(other, waiter);
            entry.waiting.retain(is_other);
            entry.await_reply.retain(is_other);
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
impl GrantQueue for LocalQueue {
    fn lost(&self, grant: &Grant, lost: &Losses) {
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
            locks.pass_on(lock, None);
            locks.sweep();
        });
    }

    fn end_idle(&self, grant: &Grant) -> bool {
        self.change(|locks| {
            let lock = &grant.lock;
            if let Some(entry) = locks.entries.get_mut(lock) {
                entry.idle.take_if(|idle| idle.id() == grant.id());
            }
            locks.forget_unused(lock);
            // A shared grant may be idle beside a newer one. Then no thread can take it again.
            grant.end()
        })
    }

    fn released(&self, grant: &Grant, verdict: Verdict) {
        self.change(|locks| locks.released(grant, verdict));
    }

    fn shut_down(&self, grant: &Grant) -> Option<Losses> {
        // Under this mutex no thread is about to hand the grant over, which then would not be
        // released.
        self.read(|_locks| grant.end_as_lost(LostReason::ShutDown))
    }
}
