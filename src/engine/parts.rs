//! A lock: its parts, and how many of them are needed.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use super::held::{
    Needed, are_of_this_process, begin_calls, distinct, misused, reached, refused, slowest,
};
use super::wait::Channel;
use crate::base::call_budget::CallBudget;
use crate::base::key::LockKey;
use crate::base::list::List;
use crate::base::owner::{OwnerId, ThreadId};
use crate::core::Core;
use crate::error::{Error, Result};
use crate::lease::{Renewals, Terms};
use crate::local::{Entered, Hold, LockId};
use crate::observe::long_wait;
use crate::protocol::Kind;
use crate::watchdog::ActiveCall;

/// A name at one client: a whole lock, or the share of one name or one server in a lock of several.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) core: Arc<Core>,
    pub(crate) key: LockKey,
    pub(crate) kind: &'static Kind,
    pub(crate) id: LockId,
}

impl Part {
    pub(crate) fn new(core: Arc<Core>, name: &str, kind: &'static Kind) -> Self {
        let key = kind.names(&core.namespace, name, &core.owner_prefix);
        let id = LockId::new(core.number, &key);
        Self {
            core,
            key,
            kind,
            id,
        }
    }

    /// A new owner id for a grant of this part.
    pub(super) fn new_owner(&self) -> OwnerId {
        (self.kind.new_owner)(&self.core.owner_prefix)
    }

    /// The number of holds that may share a grant, of which this many are expected. A fixed lease
    /// is not handed over, and a client that lingers wants its next hold, too.
    pub(super) fn holds_of_a_grant(&self, terms: Terms, expected: usize) -> usize {
        match terms.renewals {
            Renewals::None => 1,
            _ => expected + usize::from(!self.core.linger.is_zero()),
        }
    }

    /// The hold of this thread that it has not unlocked yet, lost or not. The caller has checked
    /// the process.
    pub(super) fn hold(&self) -> Option<Arc<Hold>> {
        let who = (ThreadId::current(), self.kind.is_shared);
        self.core.queue.hold_of(&self.id, who)
    }

    /// True if a thread need not listen before its first request: it enters a line, or there is no
    /// subscription.
    pub(super) fn needs_no_listener(&self) -> bool {
        self.kind.has_line || !self.core.subscriber.is_live(&self.key, self.key.channel())
    }

    /// The channel that announces releases of the lock.
    pub(super) fn channel(&self) -> Channel<'_> {
        Channel::of(&self.core, &self.key)
    }

    /// The server that has the lock, if the client knows it, or else the deployment. No I/O.
    pub(crate) fn node(&self) -> Arc<str> {
        self.core.node(&self.key)
    }
}

/// A part that this thread does not hold, and the terms of its first level.
pub(super) type Missing<'a> = (&'a Part, Terms);

/// One call that acquires a lock.
#[derive(Clone, Copy)]
pub(super) struct LockCall<'a> {
    pub(super) parts: &'a Parts,
    /// The client whose timeouts set the deadlines of the call.
    pub(super) core: &'a Core,
    pub(super) budget: &'a CallBudget<'a>,
}

impl LockCall<'_> {
    /// Takes the tickets of the parts that this thread does not hold, if they are free.
    pub(super) fn enter_queue(&self) -> Entered {
        let locks = self.parts.list.iter().map(|part| &part.id);
        let who = (ThreadId::current(), self.parts.kind().is_shared);
        self.core.queue.enter(locks, who, self.budget.started())
    }
}

/// A lock of one part, of several names, or of one name at several servers.
#[derive(Clone)]
pub(crate) struct Parts {
    pub(super) name: Arc<str>,
    pub(super) list: Arc<[Part]>,
    pub(super) needed: Needed,
}

impl Parts {
    /// A lock of one name.
    pub(crate) fn one(part: Part) -> Self {
        Self {
            name: part.key.shared_name(),
            list: [part].into(),
            needed: Needed::All,
        }
    }

    /// A lock of several names: all are needed.
    pub(crate) fn all(mut list: Vec<Part>) -> Self {
        list.sort_by(|one, other| {
            let place = |part: &Part| (Arc::clone(&part.id.key), part.core.id);
            place(one).cmp(&place(other))
        });
        let names: Vec<&str> = list.iter().map(|part| part.key.name()).collect();
        Self {
            name: names.join(", ").into(),
            list: list.into(),
            needed: Needed::All,
        }
    }

    /// A lock of one name at several servers: more than half of them are needed.
    pub(crate) fn majority(name: &str, mut list: Vec<Part>) -> Self {
        list.sort_by_key(|part| part.core.id);
        Self {
            name: name.into(),
            needed: Needed::Majority(list.len() / 2 + 1),
            list: list.into(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn shared_name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    pub(crate) fn list(&self) -> &[Part] {
        &self.list
    }

    pub(crate) fn needed(&self) -> Needed {
        self.needed
    }

    /// The kind of lock. It is the same for all parts. The caller has checked that there is one.
    pub(super) fn kind(&self) -> &'static Kind {
        self.list[0].kind
    }

    /// The public type of the lock, for spans.
    pub(super) fn type_name(&self) -> &'static str {
        match (self.needed, &*self.list) {
            (Needed::Majority(_), _) => "redlock",
            (Needed::All, [part]) => part.kind.name,
            (Needed::All, _) => "multi",
        }
    }

    /// The client whose timeouts set the deadlines of a call. Fails if the lock is invalid, in a
    /// forked process, and after a shutdown.
    pub(super) fn check_open(&self) -> Result<&Arc<Core>> {
        let core = self.check_process()?;
        distinct(self.cores()).try_for_each(|core| core.check_not_shut_down(self.name()))?;
        Ok(core)
    }

    /// As [`check_open`](Self::check_open), but succeeds after a shutdown.
    pub(super) fn check_process(&self) -> Result<&Arc<Core>> {
        self.list.iter().try_for_each(|part| {
            part.core.check_process(self.name())?;
            part.key.check()
        })?;
        match (self.needed, &*self.list) {
            (Needed::All, [part]) => return Ok(&part.core),
            (Needed::All, _) => self.check_names()?,
            (Needed::Majority(_), _) => self.check_servers()?,
        }
        slowest(self.cores()).ok_or_else(|| {
            let rule = "at least one name is required";
            refused(self.name(), "names", "an empty list", rule)
        })
    }

    /// The parts are sorted by their names.
    fn check_names(&self) -> Result<()> {
        let twice = self.list.windows(2).find(|two| two[0].id == two[1].id);
        twice.map_or(Ok(()), |two| {
            let value = format_args!("{:?}, more than once", two[0].key.name());
            Err(refused(
                self.name(),
                "names",
                value,
                "each name may occur only once",
            ))
        })
    }

    fn check_servers(&self) -> Result<()> {
        let servers = self.list.len();
        if servers < 3 || servers.is_multiple_of(2) {
            let rule = "a majority needs an odd number of servers, at least three";
            return Err(refused(
                self.name(),
                "clients",
                format_args!("{servers} servers"),
                rule,
            ));
        }
        let mut names = self.list.iter().map(Part::node);
        let mut seen = HashSet::new();
        let twice = names.find(|name| !seen.insert(Arc::clone(name)));
        twice.map_or(Ok(()), |name| {
            let value = format_args!("{name}, more than once");
            Err(refused(
                self.name(),
                "clients",
                value,
                "each server may occur only once",
            ))
        })
    }

    /// The clients of the parts.
    fn cores(&self) -> impl Iterator<Item = &Arc<Core>> {
        self.list.iter().map(|part| &part.core)
    }

    /// The budget of a call that waits for this lock: it also ends when a client is shut down.
    pub(super) fn until_shutdown<'c>(&'c self, mut budget: CallBudget<'c>) -> CallBudget<'c> {
        distinct(self.cores()).for_each(|core| budget.end_at_shutdown(&core.shutdown));
        budget
    }

    /// The budget of a call that acquires this lock: as [`until_shutdown`](Self::until_shutdown),
    /// its wait is counted, and reported if it is long.
    pub(super) fn to_acquire<'c>(&'c self, budget: CallBudget<'c>) -> CallBudget<'c> {
        self.until_shutdown(budget)
            .counted(&self.list[0].core.observer.counters)
            .reporting(self.name(), long_wait)
    }

    pub(super) fn call<'a>(&'a self, core: &'a Core, budget: &'a CallBudget<'a>) -> LockCall<'a> {
        LockCall {
            parts: self,
            core,
            budget,
        }
    }

    /// Makes shutdowns of the clients wait for this call.
    pub(super) fn begin_calls(&self) -> List<ActiveCall<'_>> {
        begin_calls(self.cores())
    }

    /// The `count` of this thread's holds: the smallest one that is enough.
    pub(crate) fn hold_count(&self, count: fn(&Hold) -> u32) -> u32 {
        if !are_of_this_process(self.cores()) {
            return 0;
        }
        let count = |part: &Part| part.hold().map_or(0, |hold| count(&hold));
        let counts: Vec<u32> = self.list.iter().map(count).collect();
        reached(counts, self.needed.of(self.list.len())).unwrap_or(0)
    }

    /// The error of a thread that has no hold, or has one only by guards. The caller has checked
    /// the process.
    pub(super) fn not_held(&self) -> Error {
        let holds = self.list.iter().filter_map(Part::hold).count();
        Error::NotHeld {
            lock: self.name().into(),
            by_guard: holds >= self.needed.of(self.list.len()),
        }
    }

    /// One error for all `failures`: the first refusal, or else an error that names all servers
    /// without a reply.
    pub(super) fn joined(&self, mut failures: Vec<Error>, budget: &CallBudget) -> Error {
        if failures.len() == 1 && self.list.len() == 1 {
            return failures.remove(0);
        }
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
            cause: last.unwrap_or_else(|| "no majority of the servers replied".into()),
        }
    }

    /// The error if the thread holds the name of a majority as another kind of lock.
    pub(super) fn held_otherwise(&self) -> Error {
        let rule = "this thread holds it as a lock of one server; use one kind of lock per name";
        misused(self.name(), rule)
    }
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Parts").field(&self.name).finish()
    }
}
