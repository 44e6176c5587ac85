//! The place of this thread in the queue of a condition, from its begin to its end.

use std::sync::Arc;
use std::time::Duration;

use super::lose;
use crate::base::backoff::Backoff;
use crate::base::call_budget::CallBudget;
use crate::base::clock::Moment;
use crate::base::key::LockKey;
use crate::base::owner::OwnerId;
use crate::core::Core;
use crate::engine::parts::Part;
use crate::error::Result;
use crate::local::{Hold, Place, PlaceEnd};
use crate::protocol::{ConditionKeys, Ended, Intent, Verdict, ended, verdicts};
use crate::request::{LostCopies, NoReply};
use crate::subscriber::Listener;

/// How long a place lasts without a renewal: the lease of the client's locks, but within these
/// bounds. So a process that dies loses its place within seconds.
const SHORTEST_PLACE: Duration = Duration::from_secs(1);
const LONGEST_PLACE: Duration = Duration::from_secs(10);

/// Pauses between requests while no subscription can announce a notification.
const FIRST_POLL: Duration = Duration::from_millis(20);
const LONGEST_POLL: Duration = Duration::from_secs(1);

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

/// A thread that waits on a condition.
pub(super) struct Waiting<'a> {
    core: &'a Arc<Core>,
    keys: ConditionKeys,
    budget: &'a CallBudget<'a>,
    /// The lock, with the channel on which this client hears of notifications.
    key: LockKey,
    id: OwnerId,
    lasts: Duration,
    place: Arc<Place>,
    /// Copies of the first request that Redis may still execute.
    lost_copies: LostCopies,
    listener: Option<Listener>,
    /// Redis or a message said that it need not wait: a request to end its place may take the
    /// notification, however late.
    is_notified: bool,
}

impl<'a> Waiting<'a> {
    /// Puts this thread into the queue. It holds the lock.
    pub(super) fn begin(
        part: &'a Part,
        keys: ConditionKeys,
        hold: &Hold,
        budget: &'a CallBudget<'a>,
    ) -> Result<Self> {
        let core = &part.core;
        let id = OwnerId::new(&core.owner_prefix);
        let lasts = core.watchdog_lease.clamp(SHORTEST_PLACE, LONGEST_PLACE);
        let call = keys.wait(hold.grant().owner(), &id, lasts);
        let request = core
            .redis
            .request(&part.key, call, &core.budget_to_unlock());
        let (begun, lost_copies) = match request {
            Ok(reply) => {
                let begun = match verdicts(&reply.reply, 1).as_deref() {
                    Ok([Verdict::Lost(reason)]) => Err(lose(part, hold, *reason)),
                    Ok(_) => Ok(reply.asked),
                    Err(error) => Err(core.redis.refusal(&part.key, error.clone())),
                };
                (begun, reply.lost_copies)
            }
            Err(NoReply { error, lost_copies }) => (Err(error), lost_copies),
        };
        let asked = match begun {
            Ok(asked) => asked,
            Err(error) => {
                if lost_copies.is_ambiguous() {
                    let end = keys.end(&id, Intent::Pass);
                    lost_copies.compensate(&end);
                    let until = Moment::now().after(lasts);
                    core.watchdog.release_orphan(part.key.clone(), end, until);
                }
                return Err(error);
            }
        };
        let key = keys.heard_by(&core.owner_prefix);
        let renewal = keys.renew(&id, lasts, true);
        let unparker = budget.unparker();
        let place = Place::new(key.clone(), renewal, lasts, asked, unparker.clone());
        let place = Arc::new(place);
        // After a shutdown no renewal is needed: this thread does not wait.
        let _ = core.watchdog.watch(place.id(), Arc::clone(&place) as _);
        let mut waiting = Self {
            core,
            keys,
            budget,
            key,
            id,
            lasts,
            place,
            lost_copies,
            listener: None,
            is_notified: false,
        };
        // With a subscription before the release, no message is missed.
        let (key, number) = (&waiting.key, waiting.number());
        waiting.listener = core.subscriber.listen_if_live(key, number, || unparker);
        Ok(waiting)
    }

    /// The word by which messages name this waiter.
    fn number(&self) -> Option<&str> {
        self.id.as_str().split_once(':').map(|(_, number)| number)
    }

    /// Listens for notifications. True if the channel is subscribed.
    fn listen(&mut self) -> bool {
        let subscriber = &self.core.subscriber;
        let is_in_place = |listener: &Listener| subscriber.is_in_place(listener, &self.key);
        if !self.listener.as_ref().is_some_and(is_in_place) {
            self.listener = None;
            let (unparker, left) = (self.budget.unparker(), self.budget.wait_left());
            let listener = subscriber.listen(&self.key, self.number(), unparker, left);
            self.listener = Some(listener);
        }
        self.listener.as_ref().is_some_and(Listener::is_live)
    }

    /// Sleeps until this thread need not wait for a notification any more. From then on, its place
    /// is kept until it has the lock.
    pub(super) fn sleep(&mut self) -> Woken {
        let woken = self.wait_for_notification();
        self.is_notified = woken == Woken::Notified;
        self.core.watchdog.forget(self.place.id());
        self.listener = None;
        let renewal = self.keys.renew(&self.id, self.lasts, false);
        let (confirmed, unparker) = (self.place.confirmed(), self.budget.unparker().clone());
        let place = Place::new(self.key.clone(), renewal, self.lasts, confirmed, unparker);
        self.place = Arc::new(place);
        let watchdog = &self.core.watchdog;
        let _ = watchdog.watch(self.place.id(), Arc::clone(&self.place) as _);
        woken
    }

    fn wait_for_notification(&mut self) -> Woken {
        let mut polls = Backoff::new(FIRST_POLL, LONGEST_POLL);
        loop {
            if self.budget.take_message() {
                return Woken::Notified;
            }
            if let Some(end) = self.place.end() {
                return match end {
                    PlaceEnd::Told => Woken::Notified,
                    PlaceEnd::Unconfirmed => Woken::Unconfirmed,
                };
            }
            if self.budget.is_interrupted() {
                return Woken::Interrupted;
            }
            if self.budget.is_wait_over() {
                return Woken::TimedOut;
            }
            let is_live = self.listen();
            let poll = polls.next();
            let pause = if is_live { Duration::MAX } else { poll };
            let is_woken = self.budget.wait(pause);
            let is_clear = self.place.is_over()
                || self.budget.has_message()
                || self.budget.is_interrupted()
                || self.budget.is_wait_over();
            if (is_woken || !is_live) && !is_clear {
                // A subscription has begun or has ended, so a message may have been missed.
                self.confirm();
            }
        }
    }

    /// Asks Redis whether this thread still has to wait.
    fn confirm(&self) {
        let core = self.core;
        let call = self.place.call().clone();
        let budget = core.budget_for_a_reply();
        let Ok(reply) = core.redis.request(&self.key, call, &budget) else {
            return;
        };
        match verdicts(&reply.reply, 1).as_deref() {
            Ok([Verdict::Done { .. }]) => {
                self.place.confirm(reply.asked);
                core.watchdog.reschedule(self.place.id());
            }
            Ok([Verdict::Lost(_)]) => self.place.told(),
            _ => {}
        }
    }

    /// Ends the place. Returns what the waiter was; `None` without a reply. Then the place is ended
    /// in the background, when its thread does not wait any more. A notification of the meantime is
    /// passed on.
    pub(super) fn end(self, intent: Intent) -> Option<Ended> {
        let core = self.core;
        core.watchdog.forget(self.place.id());
        let end = self.keys.end(&self.id, intent);
        let pass = self.keys.end(&self.id, Intent::Pass);
        let budget = core.budget_for_a_reply();
        let reply = core.redis.request(&self.key, end.clone(), &budget);
        let ended = reply.ok().and_then(|reply| ended(&reply.reply).ok());
        // A late copy makes a place whose thread does not wait.
        self.lost_copies.compensate(&pass);
        if ended.is_none() {
            let orphan = if self.is_notified { end } else { pass };
            let until = Moment::now().after(self.lasts);
            core.watchdog
                .release_orphan(self.key.clone(), orphan, until);
        }
        ended
    }
}
