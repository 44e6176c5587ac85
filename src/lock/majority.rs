//! One lock on several independent servers, of which a majority must agree.

use std::sync::Arc;
use std::time::Duration;

use redis::Value;

use super::LockGuard;
use super::handle::{Acquire, Handle};
use super::hold_requests;
use super::majority_acquire::MajorityAcquire;
use super::parts::{HeldPart, Needed, release_all, release_levels, slowest};
use crate::base::call_budget::CallBudget;
use crate::base::owner::OwnerId;
use crate::core::Core;
use crate::error::{Error, Result};
use crate::lease::{Lease, Terms};
use crate::local::{Hold, Written};
use crate::request::{Enough, Request, broadcast};
use crate::script::{self, Inspected, Verdict};

/// The lock of one name at each of several servers.
#[derive(Clone, Debug)]
pub(super) struct Majority {
    name: Arc<str>,
    /// In the order of their clients. The thread that has the ticket for the first one sends the
    /// requests of this process.
    pub(super) locks: Arc<[Handle]>,
}

impl Acquire for Majority {
    type Output = Vec<HeldPart>;

    /// The client with the longest command timeout. Fails if there are fewer than three servers, an
    /// even number, or one of them twice.
    fn check(&self) -> Result<&Arc<Core>> {
        let refused = |value, rule: &str| Error::Config {
            field: "clients",
            value,
            rule: rule.into(),
        };
        let servers = self.locks.len();
        let cores = || self.locks.iter().map(|lock| &lock.core);
        let (Some(core), true) = (slowest(cores()), servers >= 3 && servers % 2 == 1) else {
            let rule = "a majority needs an odd number of servers, at least three";
            return Err(refused(format!("{servers} servers"), rule));
        };
        for lock in self.locks.iter() {
            lock.key.check()?;
            lock.core.check_process(&self.name)?;
        }
        let names: Vec<Arc<str>> = self
            .locks
            .iter()
            .map(|lock| lock.core.redis.name(&lock.key))
            .collect();
        let duplicate = (1..servers).find(|&at| names[..at].contains(&names[at]));
        match duplicate {
            Some(at) => {
                let rule = "each server may occur only once";
                Err(refused(format!("{}, more than once", names[at]), rule))
            }
            None => Ok(core),
        }
    }

    fn acquire(&self, lease: Lease, budget: &CallBudget) -> Result<Option<Vec<HeldPart>>> {
        let terms = |lock: &Handle| lease.terms(lock.core.watchdog_lease);
        let terms: Vec<Terms> = self.locks.iter().map(terms).collect::<Result<_>>()?;
        budget.check_interrupt(&self.name)?;
        if self.holds().next().is_some() {
            return self.reenter(&terms, budget).map(Some);
        }
        MajorityAcquire::new(self, &terms, budget).run()
    }
}

impl Majority {
    pub(super) fn new(name: &str, mut locks: Vec<Handle>) -> Self {
        locks.sort_by_key(|lock| lock.core.id);
        Self {
            name: name.into(),
            locks: locks.into(),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The number of servers that must agree.
    pub(super) fn needed(&self) -> usize {
        self.locks.len() / 2 + 1
    }

    pub(super) fn guard(&self, held: Vec<HeldPart>) -> LockGuard {
        let needed = Needed::Majority(self.needed());
        LockGuard::new(Arc::clone(&self.name), held, needed)
    }

    /// The holds of this thread that it has not unlocked yet, lost or not, with their servers.
    fn holds(&self) -> impl Iterator<Item = (usize, Arc<Hold>)> {
        let locks = self.locks.iter().enumerate();
        locks.filter_map(|(at, lock)| Some((at, lock.hold()?)))
    }

    /// Adds a level to each of this thread's holds. If a server does not reply, the level counts in
    /// this process, and the watchdog writes the count. Fails if fewer than a majority confirm the
    /// level.
    fn reenter(&self, terms: &[Terms], budget: &CallBudget) -> Result<Vec<HeldPart>> {
        let holds: Vec<(usize, Arc<Hold>)> = self.holds().collect();
        if holds.len() < self.needed() {
            return Err(self.held_otherwise());
        }
        let (held, lost): (Vec<_>, Vec<_>) = holds
            .into_iter()
            .partition(|(_, hold)| hold.check().is_ok());
        if held.len() < self.needed() {
            return Err(self.lost(lost.iter().chain(&held).map(|(_, hold)| hold)));
        }
        let begun: Vec<OwnerId> = held.iter().map(|(_, hold)| hold.begin_count()).collect();
        let recount = |(at, hold): &(usize, Arc<Hold>), owner: &OwnerId| {
            let (key, count) = (&self.locks[*at].key, hold.count() + 1);
            script::recount(key, owner, count, terms[*at].millis)
        };
        let request = |(part, owner): (&(usize, Arc<Hold>), &OwnerId)| {
            let lock = &self.locks[part.0];
            Request {
                client: &lock.core.redis,
                lock: &lock.key,
                call: recount(part, owner),
            }
        };
        let requests: Vec<Request<'_>> = held.iter().zip(&begun).map(request).collect();
        let next_call = |index: usize| {
            let part = &held[index];
            Some(recount(part, &part.1.retry_count(&begun[index])))
        };
        let replies = broadcast(&requests, self.enough(is_done), next_call, budget);
        let (mut levels, mut confirmed, mut failure) = (Vec::new(), 0, None);
        for ((at, hold), reply) in held.iter().zip(replies) {
            let core = &self.locks[*at].core;
            let has_reply = reply.is_ok();
            let level = match hold_requests::recounted(core, hold, reply) {
                Ok(asked) => hold.push(terms[*at], asked).inspect(|_| confirmed += 1),
                Err(error) if has_reply => Err(error),
                Err(error) => {
                    failure.get_or_insert(error);
                    hold.end_count(Written::Unknown);
                    hold.push_unanswered(terms[*at])
                }
            };
            core.watchdog.reschedule(hold.id());
            if let Ok(level) = level {
                core.observer.counters.reentries.add(1);
                levels.push(HeldPart {
                    core: Arc::clone(core),
                    hold: Arc::clone(hold),
                    level,
                });
            }
        }
        if confirmed >= self.needed() {
            return Ok(levels);
        }
        let _ = release_all(&levels, Needed::Majority(levels.len()), budget);
        Err(failure.unwrap_or_else(|| self.lost(held.iter().map(|(_, hold)| hold))))
    }

    fn held_otherwise(&self) -> Error {
        Error::Config {
            field: "name",
            value: format!("{:?}", self.name),
            rule: "this thread holds it as a lock of one server; use one kind of lock per name"
                .into(),
        }
    }

    /// The error of a lock that too few of these holds still have.
    fn lost<'a>(&self, holds: impl Iterator<Item = &'a Arc<Hold>>) -> Error {
        let mut errors = holds.filter_map(|hold| hold.check().err());
        errors.next().unwrap_or_else(|| Error::NotHeld {
            lock: self.name().into(),
        })
    }

    fn enough(&self, is_good: fn(&Value) -> bool) -> Enough {
        Enough {
            needed: self.needed(),
            is_good,
        }
    }

    pub(super) fn unlock(&self) -> Result<()> {
        let budget = self.check()?.budget_to_unlock();
        let holds = self.locks.iter();
        let holds = holds.filter_map(|lock| Some((lock, lock.hold_to_unlock()?)));
        let holds: Vec<(&Handle, Arc<Hold>)> = holds.collect();
        if holds.len() < self.needed() {
            return Err(Error::NotHeld {
                lock: self.name().into(),
            });
        }
        // All parts of a level are added and removed together. A lost part lacks the levels that
        // were acquired after its loss. So it has fewer levels without a guard than the other parts
        // until these levels are unlocked.
        let newest = holds.iter().map(|(_, hold)| hold.unguarded()).max();
        let levels = holds
            .iter()
            .filter(|(_, hold)| Some(hold.unguarded()) == newest)
            .map(|(lock, hold)| (&lock.core, &**hold, None));
        let levels: Vec<_> = levels.collect();
        if levels.len() < self.needed() {
            return Err(self.held_otherwise());
        }
        let needed = Needed::Majority(self.needed());
        release_levels(levels.into_iter(), needed, &budget)
    }

    /// The median of `count` over the servers: a majority has at least this count.
    pub(super) fn hold_count(&self, count: fn(&Hold) -> u32) -> u32 {
        let counts = self.locks.iter().map(|lock| lock.hold_count(count));
        let mut counts: Vec<u32> = counts.collect();
        counts.sort_unstable();
        counts.get(counts.len() / 2).copied().unwrap_or(0)
    }

    pub(super) fn parts(&self) -> &[Handle] {
        &self.locks
    }

    pub(super) fn is_locked(&self) -> Result<bool> {
        Ok(self.remaining_lease()?.is_some())
    }

    pub(super) fn remaining_lease(&self) -> Result<Option<Duration>> {
        let budget = self.check()?.budget_for_a_reply();
        let requests: Vec<Request<'_>> = self
            .locks
            .iter()
            .map(|lock| Request {
                client: &lock.core.redis,
                lock: &lock.key,
                call: script::inspect(&lock.key),
            })
            .collect();
        let (mut lefts, mut failures) = (Vec::new(), Vec::new());
        let replies = broadcast(&requests, self.enough(|_| true), |_| None, &budget);
        for (lock, reply) in self.locks.iter().zip(replies) {
            let status = reply.map_err(|no_reply| no_reply.error).and_then(|reply| {
                let status = script::inspected(reply.reply);
                status.map_err(|error| lock.core.redis.refusal(&lock.key, error))
            });
            match status {
                Ok(status) => lefts.push(status.as_ref().map(Inspected::left)),
                Err(error) => failures.push(error),
            }
        }
        if lefts.len() < self.needed() {
            return Err(joined(&self.name, failures, &budget));
        }
        lefts.sort_unstable();
        // The longest time for which a majority of the servers has the lock.
        let needed = lefts.len().checked_sub(self.needed());
        Ok(needed.and_then(|at| lefts.get(at).copied().flatten()))
    }
}

fn is_done(reply: &Value) -> bool {
    matches!(script::verdict(reply), Ok(Verdict::Done))
}

/// One error for all `failures`: the first refusal, or else an error that names all servers without
/// a reply.
pub(super) fn joined(lock: &str, failures: Vec<Error>, budget: &CallBudget) -> Error {
    let (mut nodes, mut last) = (Vec::new(), None);
    for failure in failures {
        match failure {
            Error::Unavailable { node, cause, .. } => {
                nodes.push(node);
                last = Some(cause);
            }
            refusal => return refusal,
        }
    }
    Error::Unavailable {
        lock: lock.into(),
        node: nodes.join(", "),
        waited: budget.elapsed(),
        cause: last.unwrap_or_else(|| "no majority of the servers replied".into()),
    }
}
