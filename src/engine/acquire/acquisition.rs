//! One call that requests a lock: its state, and its end.

use std::sync::Arc;

use super::begin::keep;
use crate::base::owner::OwnerId;
use crate::engine::ask::{Answer, Ask, may_arrive_later};
use crate::engine::held_lock::HeldLock;
use crate::engine::local_wait::give_up;
use crate::engine::lock_call::LockCall;
use crate::engine::single_lock::SingleLock;
use crate::engine::wait::{Wait, polls, repeat_until_done};
use crate::error::{Error, Result};
use crate::local::{Claim, Granted, Hold, Pause};
use crate::protocol::{AcquireOptions, Verdict, verdict};
use crate::request::{NoReply, Prepared, Reply, Request, request_once};
use crate::watchdog::LineWait;

/// One call that requests a lock, with the ticket.
pub(super) struct Acquisition<'a> {
    pub(super) call: LockCall<'a>,
    pub(super) claim: Claim,
    pub(super) wait: Wait<'a>,
    /// How this thread leaves the lock to other clients. Set if this client has released it while
    /// they listened.
    pub(super) pause: Option<Pause>,
    /// The number of holds that are expected to share the grant.
    pub(super) expected_holds: usize,
    /// The place of this client in the line of the lock, if it has a line.
    pub(super) place: Option<Arc<str>>,
    /// The thread waits for a permit, but its first request does not: it only leaves permits that
    /// are reserved for other clients.
    pub(super) spares_reserved: bool,
    /// While the client has a place in the line.
    pub(super) line_wait: Option<LineWait<'a>>,
    /// The number of threads of this process that waited for the lock before the first request that
    /// was refused, with this thread. That request may have taken a place in the line, and later
    /// threads came after it.
    pub(super) waiting: Option<usize>,
    /// The next request, which the subscriber thread may have sent already, and its owner id.
    pub(super) prepared: Option<(OwnerId, Arc<Prepared>)>,
    /// How often this thread slept in a queue without ranks, and without a subscription.
    pub(super) deaf_sleeps: u32,
    /// The exclusive hold of this thread, if it acquires a shared one of the same lock.
    pub(super) within: Option<&'a Hold>,
    /// Redis may know that this client waits: it has a place in a line or a queue.
    pub(super) is_known_to_wait: bool,
    /// The last request had no reply.
    pub(super) is_unanswered: bool,
    /// A refusal named this client as the owner, no release was known, and the thread asked again.
    pub(super) has_asked_again: bool,
    /// The log says that no release can end this wait.
    pub(super) is_logged: bool,
    /// Set if the last reply was a grant that replicas did not confirm: why.
    pub(super) unconfirmed: Option<Error>,
    /// The owner of the last grant that had ended when its reply arrived.
    pub(super) late: Option<OwnerId>,
}

/// The first request for a lock, and what it has brought, unless it was granted.
pub(super) struct First {
    pub(super) answer: Answer,
    /// The thread waits if the lock is held.
    pub(super) waits: bool,
    pub(super) traces: Traces,
}

/// What a request may leave in Redis whose reply does not tell.
#[derive(Clone, Copy)]
pub(super) struct Traces {
    /// It has no reply, and may be executed later.
    pub(super) is_unanswered: bool,
    /// A copy of it may have entered the line, so the client may be called.
    pub(super) may_be_called: bool,
}

/// How the rounds end.
pub(super) enum RoundEnd {
    Granted(Granted),
    WaitIsOver,
}

impl Traces {
    pub(super) fn of(result: &Result<Reply, NoReply>) -> Self {
        let is_unanswered = result.as_ref().is_err_and(may_arrive_later);
        let has_lost_copies = |reply: &Reply| reply.lost_copies.is_ambiguous();
        Self {
            is_unanswered,
            may_be_called: is_unanswered || result.as_ref().is_ok_and(has_lost_copies),
        }
    }
}

impl<'a> Acquisition<'a> {
    pub(super) fn new(call: LockCall<'a>, claim: Claim, within: Option<&'a Hold>) -> Self {
        let SingleLock {
            core, key, kind, ..
        } = call.lock;
        // A thread that has the lock does not wait for other clients.
        let has_line = kind.has_line && within.is_none();
        Self {
            place: has_line.then(|| core.place(key)),
            call,
            wait: Wait::new(call.budget, polls()),
            is_known_to_wait: claim.is_inherited,
            claim,
            pause: None,
            deaf_sleeps: 0,
            expected_holds: 1,
            waiting: None,
            prepared: None,
            spares_reserved: false,
            line_wait: None,
            within,
            is_unanswered: false,
            has_asked_again: false,
            is_logged: false,
            unconfirmed: None,
            late: None,
        }
    }

    /// Requests the lock until it is granted, or the budget ends. If this returns without it,
    /// nothing is left of the requests. `first` is the first request, if it is sent already.
    pub(super) fn run(mut self, first: Option<First>) -> Result<Option<HeldLock>> {
        let granted = self.acquire(first);
        let granted = granted.map_err(|error| match error {
            // The last reply says more.
            Error::Unavailable { .. } => self.unconfirmed.take().unwrap_or(error),
            error => error,
        });
        if let Ok(Some(granted)) = granted {
            return Ok(Some(self.keep(granted)));
        }
        self.take_back();
        self.give_up();
        granted.map(|_| None)
    }

    /// Requests the lock until it is granted, or the budget ends: then `None`. `first` is the first
    /// request, if it is sent already.
    pub(super) fn acquire(&mut self, mut first: Option<First>) -> Result<Option<Granted>> {
        let LockCall { lock, budget, .. } = self.call;
        if first.is_none() {
            let channel = lock.channel();
            self.wait.listen_if_live(match self.place {
                Some(_) => channel.except_calls(),
                None => channel,
            });
            self.pause_for_others();
        }
        let end = repeat_until_done(budget, lock.name(), || self.round(first.take()))?;
        Ok(match end {
            RoundEnd::Granted(granted) => Some(granted),
            RoundEnd::WaitIsOver => None,
        })
    }

    /// Begins the hold.
    pub(super) fn keep(mut self, granted: Granted) -> HeldLock {
        if let Some(wait) = self.line_wait.take() {
            wait.granted();
        }
        keep(self.call, self.claim, granted)
    }

    /// What the next request is for. The thread `waits` if the lock is held.
    pub(super) fn options(&self, waits: bool) -> AcquireOptions {
        let LockCall { lock, terms, .. } = self.call;
        AcquireOptions {
            holds: lock.holds_of_a_grant(terms, self.expected_holds),
            waits: waits || self.spares_reserved,
            place: self
                .place_in_line()
                .filter(|_| waits || self.is_known_to_wait),
            within: self.within.map(|hold| hold.grant().owner().clone()),
        }
    }

    /// The place of this client as it stands in the line.
    pub(super) fn place_in_line(&self) -> Option<Arc<str>> {
        let SingleLock { core, key, .. } = self.call.lock;
        let place = self.place.as_ref();
        place.map(|place| core.subscriber.in_line(key, place))
    }

    /// Takes the prepared request back, and undoes it if it was sent.
    pub(super) fn take_back(&mut self) {
        if let Some((owner, prepared)) = self.prepared.take() {
            let ask = Ask::of_owner(owner, self.call.lock, self.call.terms);
            ask.undo_lost_copies(prepared.abandon());
            self.is_known_to_wait = true;
        }
    }

    /// True if this thread may have the place of the client in the line, and another thread of the
    /// client wants the lock. The place stays for that thread.
    pub(super) fn leaves_place(&self) -> bool {
        self.is_known_to_wait && self.claim.is_wanted_by_others()
    }

    /// Tells Redis that this client does not wait any more, before the ticket is passed on, so that
    /// it cannot affect the wait of the next thread. But if another thread of the client wants the
    /// lock already, that thread gets the ticket at once, and the place stays for it.
    ///
    /// The request takes at most [`GRACE`](crate::base::call_budget::GRACE). It is not repeated:
    /// all waits of the client have the same place, and a late copy could end a later wait. A
    /// server that did not reply to the last request gets it in the background.
    fn give_up(&mut self) {
        if !self.is_known_to_wait {
            // Its last request has left the line.
            return;
        }
        if self.claim.pass_on_if_wanted() {
            return;
        }
        let SingleLock {
            core, key, kind, ..
        } = self.call.lock;
        let place = self.place_in_line();
        let Some(call) = (kind.give_up)(key, &core.owner_prefix, place.as_deref()) else {
            return;
        };
        if self.is_unanswered {
            // In the background, if this client was called and has not answered.
            if let Some(place) = place {
                core.leave_if_called(key, &place);
            }
            return;
        }
        let request = Request::new(&core.redis, key, call);
        let reply = request_once(&request, &self.call.budget.to_give_up());
        if reply.is_ok_and(|reply| verdict(&reply.reply).is_ok_and(Verdict::has_called)) {
            core.watchdog.called(key);
        }
    }

    /// Gives up before the first request.
    pub(super) fn abandon(mut self) {
        self.give_up();
        give_up(self.claim, self.call.lock);
    }
}
