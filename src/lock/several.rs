//! Acquires several locks together: all of them or none.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use super::acquire_batch::{NotGranted, acquire_batch};
use super::handle::{Acquire, Handle};
use super::parts::{HeldPart, Needed, release_all, release_levels, slowest};
use super::{LockGuard, hold_requests};
use crate::base::backoff::jitter;
use crate::base::call_budget::CallBudget;
use crate::base::clock::Moment;
use crate::core::Core;
use crate::error::{Error, Result};
use crate::lease::{Lease, Renewals, drift};
use crate::local::Hold;
use crate::request::{Request, request_batch};
use crate::script::{self, Inspected};

/// The longest wait for a lock while other locks are held, if other programs may acquire the same
/// locks in another order. The time is random: half of this to one and a half times this.
const SLICE: Duration = Duration::from_secs(1);

/// A lock that was acquired longer ago than this, or than an eighth of its lease, is renewed before
/// the call returns: it may be lost, and a part of its lease is over.
const MAX_AGE: Duration = Duration::from_millis(100);

/// The pause between two rounds.
const PAUSE: Duration = Duration::from_millis(10);

/// Locks that are acquired together.
#[derive(Clone, Debug)]
pub(super) struct Several {
    name: Arc<str>,
    /// In the order in which all programs acquire them, so that no two clients wait for each other.
    locks: Arc<[Handle]>,
}

/// The result of one round, which tries to acquire the locks in one order.
enum RoundOutcome {
    Acquired(Vec<HeldPart>),
    /// The lock at this index was not granted in time.
    Refused(usize),
    /// One lock was lost during the wait for another one.
    Lost,
}

impl Acquire for Several {
    type Output = Vec<HeldPart>;

    /// The client with the longest command timeout. Fails if a name is invalid or named twice, or
    /// if there is no name.
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
                return Err(refused(value, "each name may occur only once"));
            }
        }
        let cores = self.locks.iter().map(|lock| &lock.core);
        slowest(cores)
            .ok_or_else(|| refused("an empty list".into(), "at least one name is required"))
    }

    /// Acquires all of them; `None` if the budget ends first.
    fn acquire(&self, lease: Lease, budget: &CallBudget) -> Result<Option<Vec<HeldPart>>> {
        budget.share_grace();
        let mut order: Vec<&Handle> = self.locks.iter().collect();
        // Since when every round has lost a lock before it had all of them.
        let mut lost_since = None;
        loop {
            match self.run_round(&order, lease, budget) {
                Ok(RoundOutcome::Acquired(held)) => return Ok(Some(held)),
                // The next round begins with this lock, so that no other lock is held meanwhile.
                Ok(RoundOutcome::Refused(at)) => {
                    order.rotate_left(at);
                    lost_since = None;
                }
                Ok(RoundOutcome::Lost) => {
                    budget.set_unanswered_since(Some(*lost_since.get_or_insert_with(Moment::now)));
                    if budget.reply_deadline().is_past() {
                        let cause = "the first leases ended before all locks were acquired";
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

    pub(super) fn guard(&self, held: Vec<HeldPart>) -> LockGuard {
        LockGuard::new(Arc::clone(&self.name), held, Needed::All)
    }

    /// Acquires the locks in this order. Consecutive locks of one client are requested together. If
    /// another owner holds a lock, the thread waits for that lock alone and holds those before it.
    /// If not all are acquired, those that were acquired are released.
    fn run_round(
        &self,
        order: &[&Handle],
        lease: Lease,
        budget: &CallBudget,
    ) -> Result<RoundOutcome> {
        let mut acquired = Acquired::new(budget);
        let mut until_half = Moment::NEVER;
        let mut not_granted: Option<NotGranted> = None;
        while let Some(&lock) = order.get(acquired.held.len()) {
            let at = acquired.held.len();
            if not_granted
                .as_ref()
                .is_none_or(|not_granted| !not_granted.is_unanswered)
            {
                // The time without a reply for the previous lock does not count for this one.
                budget.set_unanswered_since(None);
            }
            let until = until_half.min(self.yield_by(at));
            let capped =
                (until < Moment::NEVER).then(|| budget.capped_at(until, lock.core.command_timeout));
            let limit = capped.as_ref().unwrap_or(budget);
            let outcome = match not_granted.take() {
                Some(not_granted) => not_granted.acquire(lock, lease, limit),
                None => acquire_batch(of_one_client(&order[at..]), lease, limit),
            };
            let outcome = match outcome {
                // Only the cap is reached: the whole call may have more time for a reply.
                Err(Error::Unavailable { .. } | Error::TooFewReplicas { .. })
                    if capped.is_some() && !budget.is_wait_over() =>
                {
                    return Ok(RoundOutcome::Refused(at));
                }
                outcome => outcome?,
            };
            // A lock that is refused after granted ones is requested once more, even without a
            // wait: another call may hold it and release it, because it lacks one of these.
            let ends = outcome.not_granted.is_none() || limit.is_wait_over();
            if outcome.held.is_empty() && ends {
                return Ok(RoundOutcome::Refused(at));
            }
            for held in outcome.held {
                until_half = until_half.min(half_of_lease(&held, lease));
                acquired.held.push(held);
            }
            not_granted = outcome.not_granted;
        }
        if !acquired.renew(lease)? {
            return Ok(RoundOutcome::Lost);
        }
        Ok(RoundOutcome::Acquired(std::mem::take(&mut acquired.held)))
    }

    /// Until when to wait for the next lock while `held` locks are held. All programs acquire the
    /// locks of one client in the same order, so there is no limit for these.
    fn yield_by(&self, held: usize) -> Moment {
        let one_client = self
            .locks
            .windows(2)
            .all(|two| Arc::ptr_eq(&two[0].core, &two[1].core));
        if held == 0 || one_client {
            return Moment::NEVER;
        }
        // Random, so that two clients that wait for each other do not always yield together.
        Moment::now().after(jitter(SLICE))
    }

    pub(super) fn unlock(&self) -> Result<()> {
        let budget = self.check()?.budget_to_unlock();
        let holds = self
            .locks
            .iter()
            .map(|lock| Some((&lock.core, lock.hold_to_unlock()?)));
        // If one of the locks has no level to unlock, none is unlocked.
        let holds: Option<Vec<_>> = holds.collect();
        let holds = holds.ok_or_else(|| Error::NotHeld {
            lock: self.name().into(),
        })?;
        let levels = holds.iter().map(|(core, hold)| (*core, &**hold, None));
        release_levels(levels, Needed::All, &budget)
    }

    /// The smallest `count` of all locks.
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
        let replies = request_batch(&requests, |_| None, budget.reply_deadline(), &budget);
        for (request, reply) in requests.iter().zip(replies) {
            let reply = reply.map_err(|no_reply| no_reply.error)?;
            let status = script::inspected(reply.reply)
                .map_err(|error| request.client.refusal(request.lock, error))?;
            longest = longest.max(status.as_ref().map(Inspected::left));
        }
        Ok(longest)
    }
}

/// The first lock, and the locks after it that belong to the same client.
fn of_one_client<'a, 'l>(locks: &'a [&'l Handle]) -> &'a [&'l Handle] {
    let is_of_first = |lock: &&Handle| Arc::ptr_eq(&lock.core, &locks[0].core);
    let others = locks.iter().position(|lock| !is_of_first(lock));
    &locks[..others.unwrap_or(locks.len())]
}

/// When half of the lease is over, if it is not renewed without limit. A wait for other locks ends
/// then, because too little of the lease would be left.
fn half_of_lease(held: &HeldPart, lease: Lease) -> Moment {
    match lease.terms(held.core.watchdog_lease) {
        Ok(terms) if terms.renewals != Renewals::Unlimited => {
            let left = held.hold.left().unwrap_or_default();
            Moment::now().after(left.saturating_sub(Duration::from_millis(terms.millis) / 2))
        }
        _ => Moment::NEVER,
    }
}

/// The locks that a round has acquired. They are released when this is dropped.
struct Acquired<'p> {
    held: Vec<HeldPart>,
    /// The budget of the call.
    budget: &'p CallBudget,
}

impl<'p> Acquired<'p> {
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

    /// Renews the locks that were acquired before a wait for others, so that each has its whole
    /// lease; false if one is lost.
    fn renew(&self, lease: Lease) -> Result<bool> {
        let mut old = Vec::new();
        for held in &self.held {
            let millis = lease.terms(held.core.watchdog_lease)?.millis;
            let whole = Duration::from_millis(millis);
            // Like the lease, this counts from before the request was sent.
            let used = (whole - drift(whole)).saturating_sub(held.hold.left().unwrap_or_default());
            if used > MAX_AGE.min(whole / 8) {
                old.push((held, whole));
            }
        }
        if !old.is_empty() {
            match hold_requests::extend_all(&old, Needed::All, &self.rest()) {
                Err(Error::Lost { .. }) => return Ok(false),
                extended => extended?,
            }
        }
        Ok(self.held.iter().all(|held| held.hold.check().is_ok()))
    }
}

impl Drop for Acquired<'_> {
    fn drop(&mut self) {
        if !self.held.is_empty() {
            // What gets no reply in the rest of the call's time is released in the background.
            let _ = release_all(&self.held, Needed::All, &self.rest());
        }
    }
}
