//! Locks of several names, and locks of one name at a majority of several servers: a layer above
//! single locks.
//!
//! | file | duty |
//! |---|---|
//! | `mod` | a composite: its locks, how many are needed, whether that is valid; its calls |
//! | `acquire` | the calls that acquire, with their spans |
//! | `held` | what a call has acquired, of one lock or of several: checks, extends, releases |
//! | `needed` | how many locks are needed; requests about several locks, and their results |
//! | `grouped` | requests about several grants: those of one client and slot share a request |
//! | `query` | commands that are executed only while all locks are held |
//! | `levels` | the levels of a thread that holds some of the locks already |
//! | `quorum` | several holds that count as one while enough of them are held |
//! | `several` | acquires all of several names |
//! | `together` | one attempt at several names, all or none |
//! | `majority` | acquires a majority of several servers |
//! | `seats` | the locks that a call acquires, and what it has of each; one round of a majority |

mod acquire;
mod grouped;
mod held;
mod levels;
mod majority;
mod needed;
mod query;
mod quorum;
mod seats;
mod several;
mod together;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use crate::base::{CallBudget, HolderId, Moment};
use crate::core::Core;
use crate::engine::{HeldLock, LockCall, SingleLock};
use crate::error::{Cause, Error, Result};
use crate::lease::Terms;
use crate::local::{Hold, Unlocks};
use crate::protocol::inspected;
use crate::request::Request;
use crate::watchdog::ActiveCall;
use needed::{Needed, are_of_this_process, distinct, reached, slowest};

pub(crate) use held::Held;
pub(crate) use quorum::Quorum;

/// A lock of several names, or of one name at several servers.
#[derive(Clone)]
pub(crate) struct Composite {
    name: Arc<str>,
    locks: Arc<[SingleLock]>,
    needed: Needed,
}

/// A lock that this thread does not hold, and the terms of its first level.
#[derive(Clone, Copy)]
struct Missing<'a> {
    lock: &'a SingleLock,
    terms: Terms,
}

/// One call that acquires a composite.
#[derive(Clone, Copy)]
struct CompositeCall<'a> {
    composite: &'a Composite,
    /// The client whose timeouts set the deadlines of the call.
    core: &'a Core,
    budget: &'a CallBudget<'a>,
}

impl<'a> CompositeCall<'a> {
    /// The part of the call that acquires one of the `missing` locks.
    fn part(self, missing: &'a [Missing<'a>], at: usize) -> LockCall<'a> {
        LockCall {
            lock: missing[at].lock,
            terms: missing[at].terms,
            budget: self.budget,
            // A server that has not replied so far may be that of this lock.
            begun: self.budget.unanswered_since().unwrap_or_else(Moment::now),
            also: &self.composite.locks,
        }
    }
}

impl Composite {
    /// A lock of several names: all are needed.
    pub(crate) fn all(locks: Vec<SingleLock>) -> Self {
        let locks = in_order(locks);
        let names: Vec<&str> = locks.iter().map(SingleLock::name).collect();
        Self {
            name: names.join(", ").into(),
            locks,
            needed: Needed::All,
        }
    }

    /// A lock of one name at several servers: more than half of them are needed.
    pub(crate) fn majority(name: &str, locks: Vec<SingleLock>) -> Self {
        Self {
            name: name.into(),
            needed: Needed::Majority(locks.len() / 2 + 1),
            locks: in_order(locks),
        }
    }

    /// This lock for a hold of a new guard.
    pub(crate) fn owned(&self) -> Self {
        let guard = HolderId::new_guard();
        let locks = self.locks.iter().map(|lock| lock.for_guard(guard));
        Self {
            locks: locks.collect(),
            ..self.clone()
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn shared_name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    /// The servers of the locks, for `Debug`.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = Arc<str>> {
        self.locks.iter().map(SingleLock::node)
    }

    /// The public type of the lock, for spans.
    fn type_name(&self) -> &'static str {
        match self.needed {
            Needed::Majority(_) => "redlock",
            Needed::All => "multi",
        }
    }

    /// The number of needed locks.
    fn count_needed(&self) -> usize {
        self.needed.of(self.locks.len())
    }

    /// The client whose timeouts set the deadlines of a call. Fails if the lock is invalid, and in
    /// a forked process.
    fn check_process(&self) -> Result<&Arc<Core>> {
        self.locks.iter().try_for_each(SingleLock::check_process)?;
        match self.needed {
            Needed::All => self.check_names()?,
            Needed::Majority(_) => self.check_servers()?,
        }
        slowest(self.cores()).ok_or_else(|| {
            let rule = "at least one name is required";
            Error::argument("names", "an empty list", rule).concerning(self.name())
        })
    }

    /// The locks are sorted by their names.
    fn check_names(&self) -> Result<()> {
        let twice = self.locks.windows(2).find(|two| two[0].id == two[1].id);
        twice.map_or(Ok(()), |two| {
            let value = format_args!("{:?}, more than once", two[0].name());
            let rule = "each name may occur only once";
            Err(Error::argument("names", value, rule).concerning(self.name()))
        })
    }

    fn check_servers(&self) -> Result<()> {
        let servers = self.locks.len();
        if servers < 3 || servers.is_multiple_of(2) {
            let rule = "a majority needs an odd number of servers, at least three";
            let value = format_args!("{servers} servers");
            return Err(Error::argument("clients", value, rule).concerning(self.name()));
        }
        let mut seen = HashSet::new();
        let twice = self.nodes().find(|node| !seen.insert(Arc::clone(node)));
        twice.map_or(Ok(()), |node| {
            let value = format_args!("{node}, more than once");
            let rule = "each server may occur only once";
            Err(Error::argument("clients", value, rule).concerning(self.name()))
        })
    }

    /// The clients of the locks.
    fn cores(&self) -> impl Iterator<Item = &Arc<Core>> {
        self.locks.iter().map(|lock| &lock.core)
    }

    /// Unlocks the newest level of this thread that has no guard.
    pub(crate) fn unlock(&self) -> Result<()> {
        let core = self.check_process()?;
        // The holds that have a level without a guard, lost or not.
        let holds = self.locks.iter().filter_map(|lock| {
            let hold = lock.hold().filter(|hold| hold.unguarded() > 0)?;
            Some((&lock.core, hold))
        });
        let mut holds: Vec<(&Arc<Core>, Arc<Hold>)> = holds.collect();
        // If one of the needed locks has no level to unlock, none is unlocked.
        if holds.len() < self.count_needed() {
            return Err(self.not_held());
        }
        if let Needed::Majority(needed) = self.needed {
            // All locks of a level are added and removed together. A lost one lacks the levels that
            // were acquired after its loss. So it has fewer levels without a guard than the others
            // until these levels are unlocked.
            let newest = holds.iter().map(|(_, hold)| hold.unguarded()).max();
            holds.retain(|(_, hold)| Some(hold.unguarded()) == newest);
            if holds.len() < needed {
                return Err(self.held_otherwise());
            }
        }
        let holds: Vec<_> = holds.iter().map(|(core, hold)| (*core, hold)).collect();
        let budget = || core.budget_to_unlock();
        held::release(&holds, |_| Unlocks::Newest, self.needed, budget)
    }

    /// The `count` of this thread's holds: the smallest one that is enough.
    pub(crate) fn hold_count(&self, count: fn(&Hold) -> u32) -> u32 {
        if !are_of_this_process(self.cores()) {
            return 0;
        }
        let count = |lock: &SingleLock| lock.hold().map_or(0, |hold| count(&hold));
        let counts: Vec<u32> = self.locks.iter().map(count).collect();
        reached(counts, self.count_needed()).unwrap_or(0)
    }

    pub(crate) fn is_locked(&self) -> Result<bool> {
        Ok(self.remaining()?.is_some())
    }

    /// For how long enough locks are held by any owner: of a majority, the longest time for which
    /// that many servers have the lock; of several names, the longest lease of any.
    pub(crate) fn remaining(&self) -> Result<Option<Duration>> {
        let core = self.check_process()?;
        distinct(self.cores()).try_for_each(|core| core.check_not_shut_down(self.name()))?;
        let budget = core.budget_for_a_reply();
        let requests = self.locks.iter().map(|lock| {
            let call = lock.kind.inspect(&lock.key);
            Request::new(&lock.core.redis, &lock.key, call)
        });
        let requests: Vec<Request<'_>> = requests.collect();
        let replies = self.needed.request(&requests, |_| true, |_| None, &budget);
        let (mut lefts, mut failures) = (Vec::new(), Vec::new());
        for (request, reply) in requests.iter().zip(replies) {
            let status = reply
                .map_err(|no_reply| *no_reply.error)
                .and_then(|reply| inspected(&reply.reply).map_err(|error| request.refusal(error)));
            match status {
                Ok(status) => lefts.push(status.lease_left()),
                Err(error) => failures.push(error),
            }
        }
        if lefts.len() < self.count_needed() {
            return Err(self.joined(failures, &budget));
        }
        let reached_by = match self.needed {
            Needed::All => 1,
            Needed::Majority(needed) => needed,
        };
        Ok(reached(lefts, reached_by).flatten())
    }

    /// The error of a thread that has too few holds, or has them only by guards. The caller has
    /// checked the process.
    fn not_held(&self) -> Error {
        let holds = self.locks.iter().filter_map(SingleLock::hold).count();
        Error::not_held(self.name(), holds >= self.count_needed())
    }

    /// The error if the thread holds the name of a majority as another kind of lock.
    fn held_otherwise(&self) -> Error {
        let rule = "this thread holds it as a lock of one server; use one kind of lock per name";
        Error::misused(self.name(), rule)
    }

    /// One error for all `failures`: the first refusal, or else an error that names all servers
    /// without a reply.
    fn joined(&self, failures: Vec<Error>, budget: &CallBudget) -> Error {
        let (mut nodes, mut last) = (Vec::new(), None);
        for failure in failures {
            match failure {
                Error::Unavailable { node, cause, .. } => {
                    if !nodes.contains(&node) {
                        nodes.push(node);
                    }
                    last = Some(cause);
                }
                refusal => return refusal,
            }
        }
        Error::Unavailable {
            lock: self.name().into(),
            node: nodes.join(", "),
            waited: budget.elapsed(),
            limit: budget.time_limit(),
            cause: last.unwrap_or_else(|| Cause::from("no majority of the servers replied").into()),
        }
    }
}

/// The order in which all calls of this process take the tickets of the locks.
fn in_order(mut locks: Vec<SingleLock>) -> Arc<[SingleLock]> {
    locks.sort_by(|one, other| one.id.cmp(&other.id));
    locks.into()
}

impl CompositeCall<'_> {
    /// Makes shutdowns of the clients wait for this call.
    fn begin(&self) -> Vec<ActiveCall<'_>> {
        let cores = distinct(self.composite.cores());
        cores.map(|core| core.watchdog.delay_shutdown()).collect()
    }

    /// Releases levels that the call does not keep, in the rest of its time. The errors are those
    /// of locks that are lost, or that are released in the background.
    fn release(&self, levels: Vec<HeldLock>) {
        let _ = Held::all(levels).release(|| self.budget.remaining(self.core.command_timeout));
    }
}
