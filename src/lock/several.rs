//! The way to all of several locks at once, or to none.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use super::acquire::acquire;
use super::handle::{Handle, Take};
use super::held::{Held, release_all, release_levels, slowest};
use super::{LockGuard, standing};
use crate::clock::Moment;
use crate::core::Core;
use crate::error::{Error, Result};
use crate::lease::{Lease, Renewals};
use crate::local::Hold;
use crate::patience::{Patience, by_chance};

/// The longest that one waits for a lock while it keeps others from those that it has already, where
/// other programs may take the same ones in another order. Between half of it and one and a half.
const SLICE: Duration = Duration::from_secs(1);

/// What was taken longer ago, or an eighth of its lease ago, is asked after before the whole is had: it may
/// be lost, and its lease is partly used up.
const LONG_AGO: Duration = Duration::from_millis(100);

/// Between two rounds.
const PAUSE: Duration = Duration::from_millis(10);

/// Locks that are taken together.
#[derive(Clone, Debug)]
pub(super) struct Several {
    name: Arc<str>,
    /// In the order in which every program takes them, as far as it can know: so nobody waits for
    /// somebody who waits for him.
    locks: Arc<[Handle]>,
}

/// What came of trying to take them one after another.
enum Round {
    Taken(Vec<Held>),
    /// This one was not to be had in time.
    Refused(usize),
    /// One of them was lost while another was waited for.
    Lost,
}

impl Take for Several {
    type Held = Vec<Held>;

    /// The client by whose time-outs a call is measured, if these locks can be taken together.
    fn check(&self) -> Result<&Arc<Core>> {
        let refused = |value, rule: &str| Error::Config {
            field: "names",
            value,
            rule: rule.into(),
        };
        let mut seen = HashSet::new();
        for lock in self.locks.iter() {
            lock.key.check()?;
            let place = (lock.key.key(), lock.core.id);
            if !seen.insert(place) {
                let value = format!("{:?}, more than once", lock.name());
                return Err(refused(value, "each of several locks is named once"));
            }
        }
        let cores = self.locks.iter().map(|lock| &lock.core);
        slowest(cores).ok_or_else(|| refused("an empty list".into(), "it has one name at least"))
    }

    /// Takes all of them; `None` if the patience ends before.
    fn take(&self, lease: Lease, patience: &Patience) -> Result<Option<Vec<Held>>> {
        let mut order: Vec<&Handle> = self.locks.iter().collect();
        // Since when their leases have not lasted until all were had.
        let mut lost = None;
        loop {
            match self.take_in(&order, lease, patience) {
                Ok(Round::Taken(held)) => return Ok(Some(held)),
                // Begins with the one that was not to be had: while it is waited for, nothing is held.
                Ok(Round::Refused(at)) => {
                    order.rotate_left(at);
                    lost = None;
                }
                Ok(Round::Lost) => {
                    patience.silent_since(Some(*lost.get_or_insert_with(Moment::now)));
                    if patience.answer_by().is_past() {
                        let cause = "the leases of the first are over before all are taken";
                        let first = order[0];
                        let connections = &first.core.connections;
                        return Err(connections.unavailable(&first.key, patience, cause.into()));
                    }
                }
                Err(Error::Interrupted { .. }) => {
                    return Err(Error::Interrupted {
                        lock: self.name().into(),
                    });
                }
                Err(error) => return Err(error),
            }
            if patience.is_over() {
                return Ok(None);
            }
            patience.sleep(PAUSE);
        }
    }
}

impl Several {
    pub(super) fn new(mut locks: Vec<Handle>) -> Self {
        locks.sort_by(|one, other| {
            let place = |lock: &Handle| (Arc::clone(lock.key.key()), lock.core.id);
            place(one).cmp(&place(other))
        });
        let names: Vec<&str> = locks.iter().map(Handle::name).collect();
        Self {
            name: names.join(", ").into(),
            locks: locks.into(),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn guard(&self, held: Vec<Held>) -> LockGuard {
        let all = held.len();
        LockGuard::new(Arc::clone(&self.name), held, all)
    }

    /// Takes them one after another. Whatever way this ends without all of them, what was taken is
    /// given back.
    fn take_in(&self, order: &[&Handle], lease: Lease, patience: &Patience) -> Result<Round> {
        let mut taken = Taken::default();
        let mut in_time = Moment::NEVER;
        for (at, lock) in order.iter().enumerate() {
            // What the last one met says nothing about this one.
            patience.silent_since(None);
            let until = in_time.min(self.yield_by(at));
            let hurried =
                (until < Moment::NEVER).then(|| patience.until(until, lock.core.command_timeout));
            match acquire(lock, lease, hurried.as_ref().unwrap_or(patience)) {
                Ok(Some(held)) => {
                    in_time = in_time.min(half_time(&held, lease)?);
                    taken.push(held);
                }
                Ok(None) => return Ok(Round::Refused(at)),
                // The whole call may have more time for an answer than one who holds others has.
                Err(Error::Unavailable { .. } | Error::TooFewReplicas { .. })
                    if hurried.is_some() && !patience.is_over() =>
                {
                    return Ok(Round::Refused(at));
                }
                Err(error) => return Err(error),
            }
        }
        if !taken.renew(lease)? {
            return Ok(Round::Lost);
        }
        Ok(Round::Taken(std::mem::take(&mut taken.held)))
    }

    /// Until when one may wait for the next lock with so many in hand. Locks of one client are taken
    /// in one order by everybody.
    fn yield_by(&self, in_hand: usize) -> Moment {
        let one_client = self
            .locks
            .windows(2)
            .all(|two| Arc::ptr_eq(&two[0].core, &two[1].core));
        if in_hand == 0 || one_client {
            return Moment::NEVER;
        }
        // By chance, so that two who wait for each other do not give way at the same moment, for ever.
        Moment::now().after(by_chance(SLICE))
    }

    pub(super) fn unlock(&self) -> Result<()> {
        let patience = self.check()?.patience_to_unlock();
        let holds = self
            .locks
            .iter()
            .map(|lock| Some((&lock.core, lock.hold_to_unlock()?)));
        // If one of the locks has nothing to give back, none is given back.
        let holds: Option<Vec<_>> = holds.collect();
        let holds = holds.ok_or_else(|| Error::NotHeld {
            lock: self.name().into(),
        })?;
        let levels = holds.iter().map(|(core, hold)| (*core, &**hold, None));
        release_levels(levels, holds.len(), &patience)
    }

    /// The least of `count` of what this thread holds.
    pub(super) fn hold_count(&self, count: fn(&Hold) -> u32) -> u32 {
        let counts = self.locks.iter().map(|lock| lock.hold_count(count));
        counts.min().unwrap_or(0)
    }

    pub(super) fn parts(&self) -> &[Handle] {
        &self.locks
    }

    pub(super) fn is_locked(&self) -> Result<bool> {
        Ok(self.remaining_lease()?.is_some())
    }

    pub(super) fn remaining_lease(&self) -> Result<Option<Duration>> {
        self.check()?;
        let mut longest = None;
        for lock in self.locks.iter() {
            longest = longest.max(lock.remaining_lease()?);
        }
        Ok(longest)
    }
}

/// When half of a lease that is not renewed for ever is over: whoever still waits for other locks then
/// would have this one for too short a time, or not at all.
fn half_time(held: &Held, lease: Lease) -> Result<Moment> {
    let terms = lease.terms(held.core.watchdog_lease)?;
    Ok(match terms.renewals {
        Renewals::Unlimited => Moment::NEVER,
        _ => Moment::now().after(Duration::from_millis(terms.millis) / 2),
    })
}

/// What was taken on the way to all of them. Dropped, it is given back.
#[derive(Default)]
struct Taken {
    held: Vec<Held>,
    /// When each of them was.
    since: Vec<Moment>,
}

impl Taken {
    fn push(&mut self, held: Held) {
        self.held.push(held);
        self.since.push(Moment::now());
    }

    /// Makes sure that what was taken before others were waited for still stands, and brings its lease up
    /// to its whole length; false if one is lost.
    fn renew(&self, lease: Lease) -> Result<bool> {
        for (Held { core, hold, .. }, since) in self.held.iter().zip(&self.since) {
            let millis = lease.terms(core.watchdog_lease)?.millis;
            let whole = Duration::from_millis(millis);
            if !since.after(LONG_AGO.min(whole / 8)).is_past() {
                continue;
            }
            match standing::extend(core, hold, whole, &core.patience_for_an_answer()) {
                Err(Error::Lost { .. }) => return Ok(false),
                extended => extended?,
            }
        }
        Ok(self.held.iter().all(|held| held.hold.check().is_ok()))
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if let Some(core) = slowest(self.held.iter().map(|held| &held.core)) {
            // What gets no answer is released in the background.
            let patience = core.patience_for_an_answer();
            let _ = release_all(&self.held, self.held.len(), &patience);
        }
    }
}
