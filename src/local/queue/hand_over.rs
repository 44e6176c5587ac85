//! What follows the last level of a hold: the grant goes to the next thread, stays idle in Redis,
//! or is released.
//!
//! A grant is handed over within its slice, and to a thread that wants a lease of the same kind.
//! The slice counts from the reply that granted the lock, so a client that is far from Redis can
//! hand over, too.

use std::sync::Arc;
use std::time::Duration;

use super::{LocalQueue, LockId, Locks, Ticket};
use crate::base::Moment;
use crate::local::grant::{Grant, GrantQueue, Hold, Unlocked, Unlocks};
use crate::protocol::Verdict;

impl LocalQueue {
    /// Removes these levels of a hold. Its grant may then be idle for the time that the client
    /// lingers.
    pub(crate) fn unlock(&self, hold: &Arc<Hold>, unlocks: Unlocks, linger: Duration) -> Unlocked {
        self.unlock_or_idle(hold, unlocks, |locks, now| locks.linger(hold, linger, now))
    }

    /// Removes the level of an owned hold whose guard was dropped. If no thread waits for the
    /// grant, the watchdog releases it at once, or a thread that wants the lock before that.
    pub(crate) fn unlock_dropped(&self, hold: &Arc<Hold>, linger: Duration) -> Unlocked {
        let level = Unlocks::Level(Hold::FIRST_LEVEL);
        self.unlock_or_idle(hold, level, |locks, now| {
            locks.linger(hold, linger, now) || locks.make_idle(hold, Moment::ZERO)
        })
    }

    /// Removes these levels of a hold. Without a level, its grant goes to the next thread, or is
    /// idle if `make_idle` makes it so, or has to be released in Redis.
    fn unlock_or_idle(
        &self,
        hold: &Arc<Hold>,
        unlocks: Unlocks,
        make_idle: impl FnOnce(&mut Locks, Moment) -> bool,
    ) -> Unlocked {
        let now = Moment::now();
        // Ends a hold whose lease has run out, even if Redis still has the lock.
        let _ = hold.check_at(now);
        self.change(|locks| {
            let mut unlocked = hold.pop(unlocks);
            if unlocked == Unlocked::Last {
                locks.hand_over(hold);
                unlocked = locks.follow(hold, |locks| make_idle(locks, now));
            }
            match unlocked {
                // A thread may wait that the grant does not suit.
                Unlocked::Idle => locks.pass_on(&hold.lock, None),
                Unlocked::Last => {
                    hold.grant().end();
                }
                _ => {}
            }
            unlocked
        })
    }

    /// The locks that the thread wants to which this hold's grant is handed over next, if its only
    /// level is unlocked now. Empty if it is not handed over.
    pub(crate) fn next_wants(&self, hold: &Arc<Hold>) -> Vec<LockId> {
        let next = self.read(|locks| {
            let entry = locks.entries.get(&hold.lock)?;
            let wanted = &entry.waiting.front()?.wanted;
            let grant = hold.grant();
            let has_turn = grant.has_turn(entry.slice(grant.holds()), Moment::now());
            let is_handed_over = has_turn && hold.levels() == 1 && grant.kind == wanted.kind;
            is_handed_over.then(|| wanted.also.clone())
        });
        next.unwrap_or_default()
    }

    /// Ends the grant that is idle after this hold. False if a thread has taken it, or if it has
    /// ended.
    pub(crate) fn end_idle_after(&self, hold: &Hold) -> bool {
        self.end_idle(&hold.grant())
    }

    /// Removes a hold that its thread has unlocked, and then passes its ticket on. A release is
    /// given if Redis released the lock, and the number of listeners is known.
    pub(crate) fn close(&self, hold: &Arc<Hold>, released: Option<Verdict>) {
        self.change(|locks| {
            locks.close(hold, released);
            locks.pass_on(&hold.lock, None);
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
            let has_ticket = entry.is_ticket_of(current) && loss.is_none();
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
    /// Passes on a hold that was handed over to a thread that does not use it. Without a thread
    /// that waits, the watchdog releases its grant, which is returned.
    pub(super) fn pass_on_or_make_idle(&mut self, hold: &Arc<Hold>) -> Option<Arc<Grant>> {
        if hold.pop(Unlocks::Level(Hold::FIRST_LEVEL)) == Unlocked::Last {
            self.hand_over(hold);
        }
        match self.follow(hold, |locks| locks.make_idle(hold, Moment::ZERO)) {
            Unlocked::Idle => return Some(hold.grant()),
            // The grant was lost a moment ago.
            Unlocked::Last => self.remove(hold),
            _ => {}
        }
        None
    }

    /// What follows the last level of a hold, if its grant can be made idle by `make_idle`.
    fn follow(&mut self, hold: &Arc<Hold>, make_idle: impl FnOnce(&mut Self) -> bool) -> Unlocked {
        let grant = hold.grant();
        let entry = self.entries.get(&hold.lock);
        if grant.kind.is_shared && grant.is_held() {
            self.remove(hold);
            self.pass_on(&hold.lock, None);
            Unlocked::Shared
        } else if !grant.kind.has_ticket {
            // It has no ticket that another thread could get.
            Unlocked::Last
        } else if !entry.is_some_and(|entry| entry.is_current(hold)) {
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

    /// Removes a hold that its thread has unlocked.
    fn close(&mut self, hold: &Arc<Hold>, released: Option<Verdict>) {
        let removed = &mut self.effects.removed;
        let grant = hold.grant();
        let entry = self.entries.entry(hold.lock.clone()).or_default();
        let is_current = entry.is_current(hold);
        removed.extend(entry.remove(hold));
        if is_current && hold.loss_reason().is_some() && hold.levels() > 0 {
            // A wait on a condition has found the loss. Its thread unlocks the levels.
            entry.add_lost(Arc::clone(hold), removed);
        }
        if grant.kind.has_ticket && !is_current {
            return;
        }
        if let Some(verdict) = released {
            self.released(&grant, verdict);
        }
    }

    /// Records whether other clients listened when this one released the lock in Redis.
    pub(super) fn released(&mut self, grant: &Grant, verdict: Verdict) {
        let Verdict::Done {
            listeners,
            is_called,
        } = verdict
        else {
            return;
        };
        let entry = self.entries.get(&grant.lock);
        let has_yields = entry.is_some_and(|entry| entry.yields.is_some());
        if listeners > Some(0) || is_called || has_yields {
            let entry = self.entries.entry(grant.lock.clone()).or_default();
            let yields = entry.yields.get_or_insert_default();
            yields.released(Moment::now(), listeners, is_called, grant.holds());
        }
        self.sweep();
        self.forget_unused(&grant.lock);
    }

    /// Hands the grant of this ended hold over to the first thread that waits for it, if it suits
    /// that thread.
    fn hand_over(&mut self, hold: &Arc<Hold>) {
        let Some(entry) = self.entries.get_mut(&hold.lock) else {
            return;
        };
        if !entry.is_ticket_of(hold) || !entry.has_just_ended() {
            return;
        }
        let Some(waiter) = entry.waiting.front().map(Arc::clone) else {
            return;
        };
        let (grant, wanted) = (hold.grant(), &waiter.wanted);
        // Now, because a thread may have had to wait for the mutex.
        let now = Moment::now();
        let has_turn = grant.has_turn(entry.slice(grant.holds()), now);
        let suits = grant.kind == wanted.kind && grant.is_transferable(wanted.terms, now);
        if !has_turn || !suits {
            // The thread gets the ticket soon, and requests the lock.
            return;
        }
        let liveness = waiter.liveness.clone();
        entry.ticket = match grant.next_hold(waiter.holder, liveness, wanted.terms, now) {
            Some(hold) => Ticket::Holds(hold),
            // The grant was lost a moment ago.
            None => Ticket::Requests {
                holder: waiter.holder,
                unanswered_since: None,
            },
        };
        self.assign(waiter);
    }

    /// Makes the grant of this ended hold idle, if no thread waits for its lock.
    fn linger(&mut self, hold: &Arc<Hold>, linger: Duration, now: Moment) -> bool {
        if linger.is_zero() {
            return false;
        }
        let Some(entry) = self.entries.get(&hold.lock) else {
            return false;
        };
        let grant = hold.grant();
        let longest = grant.slice(entry.slice(grant.holds())) + linger;
        let until = now.after(linger).min(grant.granted.replied.after(longest));
        // A fixed lease is never taken again.
        let is_last = entry.is_ticket_of(hold) && entry.readers.is_empty()
            || entry.ticket.is_free() && entry.readers.is_only(hold);
        let is_of_use = is_last
            && entry.waiting.is_empty()
            && grant.is_renewed()
            && !grant.is_adopted()
            && until > now;
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
