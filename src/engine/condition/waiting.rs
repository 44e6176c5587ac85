//! The place of this thread in the queue of a condition, from its begin to its end.

use std::sync::Arc;
use std::time::Duration;

use super::lose;
use crate::base::call_budget::CallBudget;
use crate::base::clock::Moment;
use crate::base::key::LockKey;
use crate::base::owner::OwnerId;
use crate::core::Core;
use crate::engine::group::request_grant;
use crate::engine::parts::Part;
use crate::engine::wait::{Channel, Wait, polls, wait_until};
use crate::error::Result;
use crate::local::{Hold, Place, PlaceEnd};
use crate::protocol::{ConditionKeys, Ended, Intent, Verdict, ended, verdicts};
use crate::request::{LostCopies, NoReply};
use crate::script::Call;

/// How long a place lasts without a renewal: the lease of the client's locks, but within these
/// bounds. So a process that dies loses its place within seconds.
const SHORTEST_PLACE: Duration = Duration::from_secs(1);
const LONGEST_PLACE: Duration = Duration::from_secs(10);

/// Why a thread does not wait for a notification any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Woken {
    /// It was notified, or its place is gone: Redis or a message says so.
    Notified,
    /// Its place may be gone, because no renewal was confirmed in time.
    Unconfirmed,
    TimedOut,
    Interrupted,
}

/// How Redis knows a waiter.
pub(super) struct WaiterNames {
    keys: ConditionKeys,
    /// The lock, with the channel on which this client hears of notifications.
    key: LockKey,
    id: OwnerId,
    /// How long its place lasts without a renewal.
    lasts: Duration,
}

impl WaiterNames {
    pub(super) fn new(core: &Core, keys: ConditionKeys) -> Self {
        Self {
            key: keys.heard_by(&core.owner_prefix),
            id: OwnerId::new(&core.owner_prefix),
            lasts: core.watchdog_lease.clamp(SHORTEST_PLACE, LONGEST_PLACE),
            keys,
        }
    }

    /// The channel of the client. Messages name the waiter by a word.
    fn channel<'a>(&'a self, core: &'a Core) -> Channel<'a> {
        let word = self.id.as_str().split_once(':').map(|(_, number)| number);
        Channel {
            core,
            key: &self.key,
            word,
            in_line_since: None,
        }
    }

    /// Puts the waiter into the queue. Its thread has this hold. Returns a moment before the
    /// request was sent, and the copies that Redis may still execute.
    fn begin(&self, part: &Part, hold: &Hold) -> Result<(Moment, LostCopies)> {
        let redis = &part.core.redis;
        let call = self.keys.wait(hold.grant().owner(), &self.id, self.lasts);
        let request = redis.request(&part.key, call, &part.core.budget_to_unlock());
        let (error, lost_copies) = match request {
            Ok(reply) => match verdicts(&reply.reply, 1).as_deref() {
                Ok([Verdict::Lost(reason)]) => (lose(&part.core, hold, *reason), reply.lost_copies),
                Ok(_) => return Ok((reply.asked, reply.lost_copies)),
                Err(error) => (redis.refusal(&part.key, error.clone()), reply.lost_copies),
            },
            Err(NoReply { error, lost_copies }) => (error, lost_copies),
        };
        if lost_copies.is_ambiguous() {
            let end = self.keys.end(&self.id, Intent::Pass);
            lost_copies.compensate(&end);
            self.end_later(&part.core, end);
        }
        Err(error)
    }

    /// A place that the watchdog renews. `is_waiting` is false once its thread need not wait for a
    /// notification.
    fn watch(
        &self,
        core: &Core,
        is_waiting: bool,
        asked: Moment,
        budget: &CallBudget,
    ) -> Arc<Place> {
        let renewal = self.keys.renew(&self.id, self.lasts, is_waiting);
        let (key, unparker) = (self.key.clone(), budget.unparker().clone());
        let place = Arc::new(Place::new(key, renewal, self.lasts, asked, unparker));
        // After a shutdown no renewal is needed: the thread does not wait.
        let due = asked.after(self.lasts / 3);
        let _ = core
            .watchdog
            .watch(place.id(), Arc::clone(&place) as _, due);
        place
    }

    /// Lets the watchdog end the place by this call, until it has ended by itself.
    fn end_later(&self, core: &Core, end: Call) {
        let until = Moment::now().after(self.lasts);
        core.watchdog.release_orphan(self.key.clone(), end, until);
    }
}

/// A thread that waits on a condition.
pub(super) struct Waiting<'a> {
    core: &'a Core,
    names: &'a WaiterNames,
    budget: &'a CallBudget<'a>,
    wait: Wait<'a>,
    place: Arc<Place>,
    /// Copies of the first request that Redis may still execute.
    lost_copies: LostCopies,
    /// Redis or a message said that it need not wait: a request to end its place may take the
    /// notification, however late.
    is_notified: bool,
}

impl<'a> Waiting<'a> {
    /// Puts this thread into the queue. It holds the lock.
    pub(super) fn begin(
        part: &'a Part,
        names: &'a WaiterNames,
        hold: &Hold,
        budget: &'a CallBudget<'a>,
    ) -> Result<Self> {
        let core = &*part.core;
        let (asked, lost_copies) = names.begin(part, hold)?;
        let place = names.watch(core, true, asked, budget);
        let mut wait = Wait::new(budget, polls());
        // With a subscription before the release, no message is missed.
        wait.listen_if_live(names.channel(core));
        Ok(Self {
            core,
            names,
            budget,
            wait,
            place,
            lost_copies,
            is_notified: false,
        })
    }

    /// Sleeps until this thread need not wait for a notification any more. From then on, its place
    /// is kept until it has the lock.
    pub(super) fn sleep(&mut self) -> Woken {
        let woken = self.wait_for_notification();
        self.is_notified = woken == Woken::Notified;
        self.core.watchdog.forget(self.place.id());
        self.wait.stop_listening();
        let confirmed = self.place.confirmed();
        self.place = self.names.watch(self.core, false, confirmed, self.budget);
        woken
    }

    fn wait_for_notification(&mut self) -> Woken {
        let budget = self.budget;
        let channel = self.names.channel(self.core);
        // A subscription has begun or has ended, so a message may have been missed.
        let mut may_have_missed = false;
        let woken = wait_until(budget, channel.key.name(), || {
            let woken = self.woken();
            if woken.is_none() && std::mem::take(&mut may_have_missed) {
                self.confirm();
            } else if woken.is_none() {
                let is_live = self.wait.listen(&[channel]) > 0;
                may_have_missed = self.wait.sleep(is_live, Duration::MAX) || !is_live;
            }
            Ok(woken)
        });
        // A notification counts even if there is an interrupt, too.
        woken.unwrap_or_else(|_| self.woken().unwrap_or(Woken::Interrupted))
    }

    /// Why this thread need not wait; `None` if it has to.
    fn woken(&self) -> Option<Woken> {
        if self.budget.take_message() {
            return Some(Woken::Notified);
        }
        match self.place.end() {
            Some(PlaceEnd::Told) => Some(Woken::Notified),
            Some(PlaceEnd::Unconfirmed) => Some(Woken::Unconfirmed),
            None if self.budget.is_interrupted() => Some(Woken::Interrupted),
            None => self.budget.is_wait_over().then_some(Woken::TimedOut),
        }
    }

    /// Asks Redis whether this thread still has to wait.
    fn confirm(&self) {
        let core = self.core;
        let call = self.place.call().clone();
        let reply = request_grant(core, &self.names.key, call, &core.budget_for_a_reply());
        match reply.map(|reply| (reply.verdict, reply.asked)) {
            Ok((Verdict::Done { .. }, asked)) => {
                self.place.confirm(asked);
                core.watchdog.reschedule(self.place.id());
            }
            Ok((Verdict::Lost(_), _)) => self.place.told(),
            Err(_) => {}
        }
    }

    /// Ends the place. Returns what the waiter was; `None` without a reply. Then the place is ended
    /// in the background, when its thread does not wait any more. A notification of the meantime is
    /// passed on.
    pub(super) fn end(self, intent: Intent) -> Option<Ended> {
        let (core, names) = (self.core, self.names);
        core.watchdog.forget(self.place.id());
        let end = names.keys.end(&names.id, intent);
        let pass = names.keys.end(&names.id, Intent::Pass);
        let budget = core.budget_for_a_reply();
        let reply = core.redis.request(&names.key, end.clone(), &budget);
        let ended = reply.ok().and_then(|reply| ended(&reply.reply).ok());
        // A late copy makes a place whose thread does not wait.
        self.lost_copies.compensate(&pass);
        if ended.is_none() {
            names.end_later(core, if self.is_notified { end } else { pass });
        }
        ended
    }
}
