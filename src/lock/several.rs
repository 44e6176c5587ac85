//! The way to all of several locks at once, or to none.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use super::acquire_batch::{NotGranted, acquire_batch};
use super::handle::{Handle, Take};
use super::held::{Held, Needed, release_all, release_levels, slowest};
use super::{LockGuard, standing};
use crate::base::backoff::jitter;
use crate::base::call_budget::CallBudget;
use crate::base::clock::Moment;
use crate::core::Core;
use crate::error::{Error, Result};
use crate::lease::{Lease, Renewals, drift};
use crate::local::Hold;
use crate::request::{Request, request_batch};
use crate::script::{self, Inspected};

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

    /// Takes all of them; `None` if the budget ends before.
    fn take(&self, lease: Lease, budget: &CallBudget) -> Result<Option<Vec<Held>>> {
        budget.share_grace();
        let mut order: Vec<&Handle> = self.locks.iter().collect();
        // Since when their leases have not lasted until all were had.
        let mut lost = None;
        loop {
            match self.take_in(&order, lease, budget) {
                Ok(Round::Taken(held)) => return Ok(Some(held)),
                // Begins with the one that was not to be had: while it is waited for, nothing is held.
                Ok(Round::Refused(at)) => {
                    order.rotate_left(at);
                    lost = None;
                }
                Ok(Round::Lost) => {
                    budget.set_unanswered_since(Some(*lost.get_or_insert_with(Moment::now)));
                    if budget.reply_deadline().is_past() {
                        let cause = "the leases of the first are over before all are taken";
                        let first = order[0];
                        let redis = &first.core.redis;
                        return Err(redis.unavailable(&first.key, budget, cause.into()));
                    }
                }
                Err(Error::Interrupted { .. }) => {
                    return Err(Error::Interrupted {
                        lock: self.name().into(),
                    });
                }
                Err(error) => return Err(error),
            }
            if budget.is_wait_over() {
                return Ok(None);
            }
            budget.wait(PAUSE);
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
        LockGuard::new(Arc::clone(&self.name), held, Needed::All)
    }

    /// Takes the locks in this order. Neighbours of one client are asked for in one pipeline. A
    /// lock that others hold is waited for alone, while those before it are held. If not all are
    /// taken, what was taken is given back.
    fn take_in(&self, order: &[&Handle], lease: Lease, budget: &CallBudget) -> Result<Round> {
        let mut taken = Taken::new(budget);
        let mut in_time = Moment::NEVER;
        let mut not_granted: Option<NotGranted> = None;
        while let Some(&lock) = order.get(taken.held.len()) {
            let at = taken.held.len();
            if not_granted
                .as_ref()
                .is_none_or(|not_granted| !not_granted.is_unanswered)
            {
                // What the last one met says nothing about this one.
                budget.set_unanswered_since(None);
            }
            let until = in_time.min(self.yield_by(at));
            let hurried =
                (until < Moment::NEVER).then(|| budget.capped_at(until, lock.core.command_timeout));
            let limit = hurried.as_ref().unwrap_or(budget);
            let attempted = match not_granted.take() {
                Some(not_granted) => not_granted.acquire(lock, lease, limit),
                None => acquire_batch(of_one_client(&order[at..]), lease, limit),
            };
            let attempted = match attempted {
                // The whole call may have more time for an answer than one who holds others has.
                Err(Error::Unavailable { .. } | Error::TooFewReplicas { .. })
                    if hurried.is_some() && !budget.is_wait_over() =>
                {
                    return Ok(Round::Refused(at));
                }
                attempted => attempted?,
            };
            // A lock that is refused behind granted ones is asked for once more, even without a
            // wait: another call may have it and give it back, because it lacks one of these.
            let ends = attempted.not_granted.is_none() || limit.is_wait_over();
            if attempted.held.is_empty() && ends {
                return Ok(Round::Refused(at));
            }
            for held in attempted.held {
                in_time = in_time.min(half_time(&held, lease));
                taken.held.push(held);
            }
            not_granted = attempted.not_granted;
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
        Moment::now().after(jitter(SLICE))
    }

    pub(super) fn unlock(&self) -> Result<()> {
        let budget = self.check()?.budget_to_unlock();
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
        release_levels(levels, Needed::All, &budget)
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
        let budget = self.check()?.budget_for_a_reply();
        let mut requests = Vec::with_capacity(self.locks.len());
        for Handle { core, key, .. } in self.locks.iter() {
            core.check_process(key.name())?;
            requests.push(Request {
                client: &core.redis,
                lock: key,
                call: script::inspect(key),
            });
        }
        let mut longest = None;
        let answers = request_batch(&requests, |_| None, budget.reply_deadline(), &budget);
        for (question, answer) in requests.iter().zip(answers) {
            let answer = answer.map_err(|no_reply| no_reply.error)?;
            let found = script::inspected(answer.reply)
                .map_err(|error| question.client.refusal(question.lock, error))?;
            longest = longest.max(found.as_ref().map(Inspected::left));
        }
        Ok(longest)
    }
}

/// The first of these locks, and those behind it that are of the same client.
fn of_one_client<'a, 'l>(locks: &'a [&'l Handle]) -> &'a [&'l Handle] {
    let is_of_first = |lock: &&Handle| Arc::ptr_eq(&lock.core, &locks[0].core);
    let others = locks.iter().position(|lock| !is_of_first(lock));
    &locks[..others.unwrap_or(locks.len())]
}

/// When half of a lease that ends by itself is over: if other locks are still waited for then, too
/// little of it would be left.
fn half_time(held: &Held, lease: Lease) -> Moment {
    match lease.terms(held.core.watchdog_lease) {
        Ok(terms) if terms.renewals != Renewals::Unlimited => {
            let left = held.hold.left().unwrap_or_default();
            Moment::now().after(left.saturating_sub(Duration::from_millis(terms.millis) / 2))
        }
        _ => Moment::NEVER,
    }
}

/// What was taken on the way to all of them. It is given back when this is dropped.
struct Taken<'p> {
    held: Vec<Held>,
    /// That of the call.
    budget: &'p CallBudget,
}

impl<'p> Taken<'p> {
    fn new(budget: &'p CallBudget) -> Self {
        Self {
            held: Vec::new(),
            budget,
        }
    }

    /// What is left of the call's time.
    fn rest(&self) -> CallBudget {
        let slowest = slowest(self.held.iter().map(|held| &held.core));
        let time = slowest.map(|core| core.command_timeout);
        self.budget.remaining(time.unwrap_or_default())
    }

    /// Makes sure that what was taken before others were waited for still stands, and brings its lease up
    /// to its whole length; false if one is lost.
    fn renew(&self, lease: Lease) -> Result<bool> {
        let mut old = Vec::new();
        for held in &self.held {
            let millis = lease.terms(held.core.watchdog_lease)?.millis;
            let whole = Duration::from_millis(millis);
            // Counted from before the request that took it, like the lease itself.
            let used = (whole - drift(whole)).saturating_sub(held.hold.left().unwrap_or_default());
            if used > LONG_AGO.min(whole / 8) {
                old.push((held, whole));
            }
        }
        if !old.is_empty() {
            match standing::extend_all(&old, Needed::All, &self.rest()) {
                Err(Error::Lost { .. }) => return Ok(false),
                extended => extended?,
            }
        }
        Ok(self.held.iter().all(|held| held.hold.check().is_ok()))
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if !self.held.is_empty() {
            // What gets no reply in the rest of the call is released in the background.
            let _ = release_all(&self.held, Needed::All, &self.rest());
        }
    }
}
