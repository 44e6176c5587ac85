//! One lock on several independent servers, of which a majority counts.

use std::sync::Arc;
use std::time::Duration;

use redis::Value;

use super::LockGuard;
use super::handle::{Handle, Take};
use super::held::{Held, Needed, release_all, release_levels, slowest};
use super::majority_acquire::MajorityAcquire;
use super::standing;
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
    /// In the order of their clients: whoever is first in line at the first of them asks for this process.
    pub(super) locks: Arc<[Handle]>,
}

impl Take for Majority {
    type Held = Vec<Held>;

    /// The client by whose time-outs a call is measured, if these servers can have a majority.
    fn check(&self) -> Result<&Arc<Core>> {
        let refused = |value, rule: &str| Error::Config {
            field: "clients",
            value,
            rule: rule.into(),
        };
        let servers = self.locks.len();
        let cores = || self.locks.iter().map(|lock| &lock.core);
        let (Some(core), true) = (slowest(cores()), servers >= 3 && servers % 2 == 1) else {
            let rule = "a majority needs an odd number of servers, three at least";
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
        let twice = (1..servers).find(|&at| names[..at].contains(&names[at]));
        match twice {
            Some(at) => {
                let rule = "each server counts once";
                Err(refused(format!("{}, more than once", names[at]), rule))
            }
            None => Ok(core),
        }
    }

    fn take(&self, lease: Lease, budget: &CallBudget) -> Result<Option<Vec<Held>>> {
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

    /// How many of the servers must agree.
    pub(super) fn needed(&self) -> usize {
        self.locks.len() / 2 + 1
    }

    pub(super) fn guard(&self, held: Vec<Held>) -> LockGuard {
        let needed = Needed::Majority(self.needed());
        LockGuard::new(Arc::clone(&self.name), held, needed)
    }

    /// What this thread has, lost or not, and has not unlocked; and where.
    fn holds(&self) -> impl Iterator<Item = (usize, Arc<Hold>)> {
        let locks = self.locks.iter().enumerate();
        locks.filter_map(|(at, lock)| Some((at, lock.hold()?)))
    }

    /// A further level wherever this thread holds the lock. Where nobody answers, the level counts here,
    /// and the watchdog writes it; the hold stands if a majority says so.
    fn reenter(&self, terms: &[Terms], budget: &CallBudget) -> Result<Vec<Held>> {
        let holds: Vec<(usize, Arc<Hold>)> = self.holds().collect();
        if holds.len() < self.needed() {
            return Err(self.held_otherwise());
        }
        let (standing, lost): (Vec<_>, Vec<_>) = holds
            .into_iter()
            .partition(|(_, hold)| hold.check().is_ok());
        if standing.len() < self.needed() {
            return Err(self.lost(lost.iter().chain(&standing).map(|(_, hold)| hold)));
        }
        let begun: Vec<OwnerId> = standing
            .iter()
            .map(|(_, hold)| hold.begin_count())
            .collect();
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
        let requests: Vec<Request<'_>> = standing.iter().zip(&begun).map(request).collect();
        let next_call = |index: usize| {
            let part = &standing[index];
            Some(recount(part, &part.1.retry_count(&begun[index])))
        };
        let replies = broadcast(&requests, self.enough(is_done), next_call, budget);
        let (mut held, mut confirmed, mut failure) = (Vec::new(), 0, None);
        for ((at, hold), reply) in standing.iter().zip(replies) {
            let core = &self.locks[*at].core;
            let is_reply = reply.is_ok();
            let level = match standing::recounted(core, hold, reply) {
                Ok(asked) => hold.push(terms[*at], asked).inspect(|_| confirmed += 1),
                Err(error) if is_reply => Err(error),
                Err(error) => {
                    failure.get_or_insert(error);
                    hold.end_count(Written::Unknown);
                    hold.push_unanswered(terms[*at])
                }
            };
            core.watchdog.reschedule(hold.id());
            if let Ok(level) = level {
                core.observer.counters.reentries.add(1);
                held.push(Held {
                    core: Arc::clone(core),
                    hold: Arc::clone(hold),
                    level,
                });
            }
        }
        if confirmed >= self.needed() {
            return Ok(held);
        }
        let _ = release_all(&held, Needed::Majority(held.len()), budget);
        Err(failure.unwrap_or_else(|| self.lost(standing.iter().map(|(_, hold)| hold))))
    }

    fn held_otherwise(&self) -> Error {
        Error::Config {
            field: "name",
            value: format!("{:?}", self.name),
            rule: "this thread holds it by a lock of one server; use one kind of lock for one name"
                .into(),
        }
    }

    /// The error of a hold that fewer servers have than are needed.
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
        // All parts of a level come and go together. A lost part lacks the levels that were taken
        // after its loss, so it has fewer levels without a guard than the others until these are
        // given back.
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

    /// The median of `count` over the servers, so a majority has at least that.
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
        let answers = broadcast(&requests, self.enough(|_| true), |_| None, &budget);
        for (lock, answer) in self.locks.iter().zip(answers) {
            let found = answer
                .map_err(|no_reply| no_reply.error)
                .and_then(|answer| {
                    let found = script::inspected(answer.reply);
                    found.map_err(|error| lock.core.redis.refusal(&lock.key, error))
                });
            match found {
                Ok(found) => lefts.push(found.as_ref().map(Inspected::left)),
                Err(error) => failures.push(error),
            }
        }
        if lefts.len() < self.needed() {
            return Err(joined(&self.name, failures, &budget));
        }
        lefts.sort_unstable();
        // A majority of the servers has it for so long, or longer.
        let needed = lefts.len().checked_sub(self.needed());
        Ok(needed.and_then(|at| lefts.get(at).copied().flatten()))
    }
}

fn is_done(reply: &Value) -> bool {
    matches!(script::verdict(reply), Ok(Verdict::Done))
}

/// What kept a majority from answering, as one error: a refusal, which means it, or else all servers that
/// gave no answer.
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
        cause: last.unwrap_or_else(|| "no majority of the servers answered".into()),
    }
}
