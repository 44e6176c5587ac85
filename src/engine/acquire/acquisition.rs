//! One call that requests a lock: its state, and its end.

use std::sync::Arc;

use super::begin::keep;
use crate::base::OwnerId;
use crate::engine::ask::{Ask, NotGranted};
use crate::engine::held_lock::HeldLock;
use crate::engine::line::InLine;
use crate::engine::local_wait::give_up;
use crate::engine::lock_call::LockCall;
use crate::engine::single_lock::SingleLock;
use crate::engine::wait::{Wait, polls, repeat_until_done};
use crate::error::{Error, Result};
use crate::local::{Claim, Granted, Hold, Pause};
use crate::protocol::{AcquireOptions, Verdict, verdict};
use crate::request::{Prepared, Request, request_once};

/// One call that requests a lock, with the ticket.
///
/// | fields | what they say | set by |
/// |---|---|---|
/// | `call`, `within`, `spares_reserved` | what the call wants | `new`, `at_once` |
/// | `claim`, `expected_holds` | which threads of the client want it, too | `begin_round`, `prepare` |
/// | `line` | where the client stands in the line | each round |
/// | `pause`, `wait` | what the thread waits for | `pause_for_others`, `await_release` |
/// | `prepared` | the next request, made in advance | `await_release`; taken by `request` |
/// | `earlier` | what earlier rounds have brought | the end of each round |
pub(super) struct Acquisition<'a> {
    pub(super) call: LockCall<'a>,
    /// The exclusive hold of this thread, if it acquires a shared one of the same lock.
    pub(super) within: Option<&'a Hold>,
    /// The thread waits for a permit, but its first request does not: it only leaves permits that
    /// are reserved for other clients.
    spares_reserved: bool,
    pub(super) claim: Claim,
    /// The number of holds that are expected to share the grant.
    pub(super) expected_holds: usize,
    pub(super) line: InLine<'a>,
    /// How this thread leaves the lock to other clients. Set if this client has released it while
    /// they listened.
    pub(super) pause: Option<Pause>,
    pub(super) wait: Wait<'a>,
    /// The next request, which the subscriber thread may have sent already.
    pub(super) prepared: Option<(Ask<'a>, Arc<Prepared>)>,
    pub(super) earlier: Earlier,
}

/// What the earlier rounds of a call have brought.
#[derive(Default)]
pub(super) struct Earlier {
    /// The number of threads of this process that waited for the lock before the first request that
    /// was refused, with this thread. That request may have taken a place in the line, and later
    /// threads came after it.
    pub(super) waiting: Option<u32>,
    /// The owner of the last grant that had ended when its reply arrived.
    pub(super) late: Option<OwnerId>,
    /// Set if the last reply was a grant that replicas did not confirm: why.
    pub(super) unconfirmed: Option<Error>,
    /// A refusal named this client as the owner, no release was known, and the thread asked again.
    pub(super) has_asked_again: bool,
    /// The log says that no release can end this wait.
    pub(super) is_logged: bool,
}

impl<'a> Acquisition<'a> {
    pub(super) fn new(call: LockCall<'a>, claim: Claim, within: Option<&'a Hold>) -> Self {
        let SingleLock {
            core, key, kind, ..
        } = call.lock;
        // A thread that has the lock does not wait for other clients.
        let has_line = kind.has_line && within.is_none();
        let place = has_line.then(|| core.place(key));
        let line = InLine::new(core, key, place, claim.is_inherited);
        Self::of(call, claim, within, line)
    }

    fn of(call: LockCall<'a>, claim: Claim, within: Option<&'a Hold>, line: InLine<'a>) -> Self {
        Self {
            call,
            within,
            spares_reserved: false,
            line,
            claim,
            expected_holds: 1,
            pause: None,
            wait: Wait::new(call.budget, polls()),
            prepared: None,
            earlier: Earlier::default(),
        }
    }

    /// A request for a permit without a ticket, which stands in no line. It leaves the permits that
    /// are reserved for other clients if it `spares_reserved`.
    pub(super) fn at_once(call: LockCall<'a>, claim: Claim, spares_reserved: bool) -> Self {
        let SingleLock { core, key, .. } = call.lock;
        let line = InLine::new(core, key, None, false);
        Self {
            spares_reserved,
            ..Self::of(call, claim, None, line)
        }
    }

    /// Requests the lock until it is granted, or the budget ends. If this returns without it,
    /// nothing is left of the requests. `first` is what the first request has brought, if one is
    /// sent already.
    pub(super) fn run(mut self, first: Option<NotGranted>) -> Result<Option<HeldLock>> {
        let granted = self.acquire(first);
        let granted = granted.map_err(|error| match error {
            // The last reply says more.
            Error::Unavailable { .. } => self.earlier.unconfirmed.take().unwrap_or(error),
            error => error,
        });
        if let Ok(Some(granted)) = granted {
            return Ok(Some(self.keep(granted)));
        }
        self.take_back();
        self.give_up();
        granted.map(|_| None)
    }

    /// Requests the lock until it is granted, or the budget ends: then `None`. `first` is what the
    /// first request has brought, if one is sent already.
    pub(super) fn acquire(&mut self, mut first: Option<NotGranted>) -> Result<Option<Granted>> {
        let LockCall { lock, budget, .. } = self.call;
        if first.is_none() {
            let channel = lock.channel();
            self.wait.listen_if_live(match self.line.has_place() {
                true => channel.except_calls(),
                false => channel,
            });
            self.pause_for_others();
        }
        repeat_until_done(budget, lock.name(), || self.round(first.take()))
    }

    /// Begins the hold.
    pub(super) fn keep(self, granted: Granted) -> HeldLock {
        self.line.granted();
        keep(self.call, self.claim, granted)
    }

    /// What the next request is for. The thread `waits` if the lock is held.
    pub(super) fn options(&self, waits: bool) -> AcquireOptions {
        let LockCall { lock, terms, .. } = self.call;
        AcquireOptions {
            holds: lock.holds_of_a_grant(terms, self.expected_holds),
            waits: waits || self.spares_reserved,
            place: self.line.place().filter(|_| waits || self.line.is_known),
            within: self.within.map(|hold| hold.grant().owner().clone()),
            total: lock.total,
            adopts: false,
        }
    }

    /// Takes the prepared request back, and undoes it if it was sent.
    pub(super) fn take_back(&mut self) {
        if let Some((ask, prepared)) = self.prepared.take() {
            ask.undo_lost_copies(prepared.abandon());
            self.line.is_known = true;
        }
    }

    /// Tells Redis that this client does not wait any more, before the ticket is passed on, so that
    /// it cannot affect the wait of the next thread. But if another thread of the client wants the
    /// lock already, that thread gets the ticket at once, and the place stays for it.
    ///
    /// The request takes at most [`GRACE`](crate::base::call_budget::GRACE). It is not repeated:
    /// all waits of the client have the same place, and a late copy could end a later wait. A
    /// server that did not reply to the last request gets it in the background.
    fn give_up(&mut self) {
        if !self.line.is_known {
            // Its last request has left the line.
            return;
        }
        if self.claim.pass_on_if_wanted() {
            return;
        }
        let SingleLock {
            core, key, kind, ..
        } = self.call.lock;
        let place = self.line.place();
        let Some(call) = (kind.give_up)(key, &core.owner_prefix, place.as_deref()) else {
            return;
        };
        if self.line.is_unanswered {
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
