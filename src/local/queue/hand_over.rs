//! What follows the last level of a hold: the grant goes to the next thread, stays idle in Redis,
//! or is released.
//!
//! A grant is handed over within its slice, and to a thread that wants a lease of the same kind.
//! Several grants are handed over whole or not at all. The slice counts from the reply that granted
//! the lock, so a client that is far from Redis can hand over, too.

use std::sync::Arc;
use std::time::Duration;

use super::{LocalQueue, LockId, Locks, Ticket, Waiter};
use crate::base::clock::Moment;
use crate::base::list::List;
use crate::lease::Terms;
use crate::local::grant::{Grant, Hold, Unlocked, Unlocks};

/// How long a grant may be idle: for how long the client lingers.
pub(crate) type Linger = Duration;

/// Why a thread that waits does not get the grant of one of its locks.
enum Obstacle {
    /// Another thread has the ticket, or gets it before.
    Taken,
    /// There is no grant, or not one for this thread.
    Unsuited,
}

/// A release that Redis confirmed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Released {
    /// A moment before the request was sent.
    pub(crate) asked: Moment,
    /// The number of other clients that received the message; `None` if there was no message.
    pub(crate) listeners: Option<u32>,
    /// A client that waits in the line of the lock was called.
    pub(crate) is_called: bool,
}

impl LocalQueue {
    /// Removes these levels of each of these holds.
    pub(crate) fn unlock(&self, levels: &[(&Arc<Hold>, Unlocks, Linger)]) -> List<Unlocked> {
        let now = Moment::now();
        for (hold, ..) in levels {
            // Ends a hold whose lease has run out, even if Redis still has the lock.
            let _ = hold.check_at(now);
        }
        self.change(|locks| {
            let pop = |&(hold, unlocks, _): &(&Arc<Hold>, Unlocks, Linger)| hold.pop(unlocks);
            let mut results: List<Unlocked> = levels.iter().map(pop).collect();
            let all = levels.iter().zip(&results);
            let last = all.filter(|(_, result)| **result == Unlocked::Last);
            locks.hand_over(last.map(|((hold, ..), _)| *hold));
            for (&(hold, _, linger), result) in levels.iter().zip(&mut results) {
                if *result == Unlocked::Last {
                    *result = locks.follow(hold, |locks| locks.linger(hold, linger, now));
                }
                if *result == Unlocked::Last {
                    hold.grant().end();
                }
            }
            results
        })
    }

    /// Removes holds that their thread has unlocked, and then passes their tickets on. A release is
    /// given if Redis released the lock, and the number of listeners is known.
    pub(crate) fn close(&self, holds: &[(&Arc<Hold>, Option<Released>)]) {
        self.change(|locks| {
            for &(hold, released) in holds {
                locks.close(hold, released);
            }
            locks.pass_on(holds.iter().map(|(hold, _)| &hold.lock), None);
        });
    }

    /// Continues `suspended` on the grant of `current`, a new hold of the same thread on the same
    /// lock, and puts it in the place of that hold.
    pub(crate) fn resume(&self, suspended: &Arc<Hold>, current: &Arc<Hold>) {
        let loss = self.change(|locks| {
            let removed = &mut locks.effects.removed;
            let loss = suspended.resume(current);
            let entry = locks.entries.entry(current.lock.clone()).or_default();
            // What follows a loss may know `current` only, and frees no ticket of `suspended`.
            let has_ticket = entry.has(current) && loss.is_none();
            removed.extend(entry.remove(current));
            if has_ticket {
                entry.ticket = Ticket::Holds(Arc::clone(suspended));
            } else {
                // The grant was lost a moment ago.
                entry.add_lost(Arc::clone(suspended), removed);
            }
            loss
        });
        if let Some(reason) = loss {
            suspended.notify_loss(reason);
            // What reports the loss may know `current` only.
            suspended.count_end(suspended.grant().counters());
        }
    }
}

impl Locks {
    /// Passes on holds that were handed over to a thread that does not use them. Without a thread
    /// that waits, the watchdog releases their grants, which are returned.
    pub(super) fn pass_on_or_make_idle(&mut self, holds: &[Arc<Hold>]) -> Vec<Arc<Grant>> {
        let has_ended =
            |hold: &&Arc<Hold>| hold.pop(Unlocks::Level(Hold::FIRST_LEVEL)) == Unlocked::Last;
        let ended: List<_> = holds.iter().filter(has_ended).collect();
        self.hand_over(ended.into_iter());
        let mut idle = Vec::new();
        for hold in holds {
            match self.follow(hold, |locks| locks.make_idle(hold, Moment::ZERO)) {
                Unlocked::Idle => idle.push(hold.grant()),
                // The grant was lost a moment ago.
                Unlocked::Last => self.remove(hold),
                _ => {}
            }
        }
        idle
    }

    /// What follows the last level of a hold, if its grant can be made idle by `make_idle`.
    fn follow(&mut self, hold: &Arc<Hold>, make_idle: impl FnOnce(&mut Self) -> bool) -> Unlocked {
        let grant = hold.grant();
        let entry = self.entries.get(&hold.lock);
        if grant.kind.is_shared && grant.is_held() {
            self.remove(hold);
            self.pass_on([&hold.lock], None);
            Unlocked::Shared
        } else if !grant.kind.is_exclusive {
            // It has no ticket that another thread could get.
            Unlocked::Last
        } else if !entry.is_some_and(|entry| entry.knows(hold)) {
            Unlocked::HandedOver
        } else if make_idle(self) {
            Unlocked::Idle
        } else {
            Unlocked::Last
        }
    }

    fn remove(&mut self, hold: &Arc<Hold>) {
        let entry = self.entries.get_mut(&hold.lock);
        let removed = entry.and_then(|entry| entry.remove(hold));
        self.effects.removed.extend(removed);
    }

    /// Removes a hold that its thread has unlocked. Records whether other clients listened when
    /// this one released the lock.
    fn close(&mut self, hold: &Arc<Hold>, released: Option<Released>) {
        let removed = &mut self.effects.removed;
        let is_exclusive = hold.grant().kind.is_exclusive;
        let entry = self.entries.entry(hold.lock.clone()).or_default();
        let is_current = entry.knows(hold);
        removed.extend(entry.remove(hold));
        if is_current && hold.loss_reason().is_some() && hold.levels() > 0 {
            // A wait on a condition has found the loss. Its thread unlocks the levels.
            entry.add_lost(Arc::clone(hold), removed);
        }
        if is_exclusive && !is_current {
            return;
        }
        if let Some(released) = released {
            let now = Moment::now();
            let times = (now, now.since(released.asked));
            let (others, holds) = (released.listeners, hold.grant().holds());
            if others > Some(0) || released.is_called || entry.yields.is_some() {
                let yields = entry.yields.get_or_insert_default();
                yields.released(times, others, released.is_called, holds);
            }
            self.sweep();
        }
    }

    /// Hands the grants of these ended holds over to the first threads that wait for them. A thread
    /// that waits for several locks gets all of them or none.
    fn hand_over<'a>(&mut self, ended: impl Iterator<Item = &'a Arc<Hold>>) {
        for hold in ended {
            if let Some((waiter, now)) = self.receiver_of(hold) {
                let wanted = &waiter.wanted;
                for (lock, &terms) in wanted.locks.iter().zip(&wanted.terms) {
                    self.give(lock, &waiter, terms, now);
                }
                self.assign(waiter);
            }
        }
    }

    /// The thread that can have this hold's grant now: the first one whose locks are all free or
    /// given back, if enough of their grants suit it.
    fn receiver_of(&self, hold: &Arc<Hold>) -> Option<(Arc<Waiter>, Moment)> {
        let entry = self.entries.get(&hold.lock)?;
        if entry.waiting.is_empty() || !entry.has(hold) || !entry.is_given_back() {
            return None;
        }
        // Now, because a thread may have had to wait for the mutex.
        let now = Moment::now();
        for waiter in entry.first_or_several() {
            let wanted = &waiter.wanted;
            let mut grants_to_spare = wanted.locks.len().saturating_sub(wanted.needed);
            let obstacle = waiter.obstacle(|at| {
                let entry = self.entries.get(&wanted.locks[at])?;
                if !entry.is_available() || !self.is_next(waiter, entry, now) {
                    return Some(Obstacle::Taken);
                }
                let suits = if let Some(hold) = entry.hold() {
                    let grant = hold.grant();
                    let is_of_kind = grant.kind == wanted.kind;
                    let has_turn = grant.has_turn(entry.slice(grant.holds()), now);
                    has_turn && is_of_kind && grant.is_transferable(wanted.terms[at], now)
                } else {
                    let is_spared = grants_to_spare > 0 && entry.idle.is_none();
                    grants_to_spare = grants_to_spare.saturating_sub(1);
                    is_spared
                };
                (!suits).then_some(Obstacle::Unsuited)
            });
            match obstacle {
                None => return Some((Arc::clone(waiter), now)),
                Some(Obstacle::Taken) => {}
                // The thread gets the tickets soon, and requests the locks.
                Some(Obstacle::Unsuited) => return None,
            }
        }
        None
    }

    /// Gives the ticket of a lock to a waiting thread, with the grant if there is one.
    fn give(&mut self, lock: &LockId, waiter: &Waiter, terms: Terms, now: Moment) {
        let Some(entry) = self.entries.get_mut(lock) else {
            return;
        };
        let grant = entry.hold().map(|hold| hold.grant());
        let hold = grant.and_then(|grant| grant.hand_over(waiter.who(), terms, now));
        let requests = Ticket::Requests {
            thread: waiter.thread,
            unanswered: None,
        };
        entry.ticket = hold.map_or(requests, Ticket::Holds);
    }

    /// Makes the grant of this ended hold idle, if no thread waits for its lock.
    fn linger(&mut self, hold: &Arc<Hold>, linger: Linger, now: Moment) -> bool {
        let Some(entry) = self.entries.get(&hold.lock).filter(|_| !linger.is_zero()) else {
            return false;
        };
        let grant = hold.grant();
        let longest = grant.slice(entry.slice(grant.holds())) + linger;
        let until = now.after(linger).min(grant.granted.replied.after(longest));
        // A fixed lease is never taken again.
        let is_last = entry.has(hold) && entry.readers.is_empty()
            || entry.ticket.is_free() && entry.readers.is_only(hold);
        let is_of_use = is_last && entry.waiting.is_empty() && grant.is_renewed() && until > now;
        is_of_use && self.make_idle(hold, until)
    }

    fn make_idle(&mut self, hold: &Arc<Hold>, until: Moment) -> bool {
        let grant = hold.grant();
        let is_idle = grant.make_idle(until);
        if is_idle && let Some(entry) = self.entries.get_mut(&hold.lock) {
            self.effects.removed.extend(entry.remove(hold));
            entry.idle = Some(grant);
        }
        is_idle
    }
}
