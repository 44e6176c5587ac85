//! One request for a lock, its reply, and what follows.

use std::ops::ControlFlow::{self, Break, Continue};
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::acquisition::Acquisition;
use crate::base::{Moment, OwnerId};
use crate::engine::ask::{Ask, NotGranted};
use crate::engine::grant_request::release_unused;
use crate::engine::local_wait::no_reply;
use crate::engine::lock_call::LockCall;
use crate::engine::single_lock::SingleLock;
use crate::error::{Error, LostReason, Result};
use crate::local::Granted;
use crate::observe::tell;
use crate::protocol::Refusal;

/// Bounds of the pauses while this client releases the lock.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// Logged once for each client.
const NO_LINE: &str = "Redis refuses the line of a lock, so each release wakes all waiting \
     clients; if the user lacks permissions, allow the keys leasehold_line:* and the commands \
     ZADD, ZRANGE, ZRANK, ZREM and ZSCORE, and for semaphores ZCOUNT and ZRANGEBYSCORE";

/// Logged once for each wait.
const NO_PERMITS: &str = "a thread waits for a permit, but the semaphore has no permits, \
     available or leased; set their number (set_permits): it was never set, or the key of the \
     leases was lost";

impl Acquisition<'_> {
    /// Requests the lock once. Breaks with the grant, or with `None` when the wait is over. If the
    /// lock is refused before, waits for the next round. `first` is what the first request has
    /// brought, if one is sent already.
    pub(super) fn round(
        &mut self,
        first: Option<NotGranted>,
    ) -> Result<ControlFlow<Option<Granted>>> {
        let result = match first {
            Some(first) => Err(first),
            None => {
                self.begin_round()?;
                self.request()
            }
        };
        let budget = self.call.budget;
        let is_over = budget.is_wait_over() || budget.reply_deadline().is_past();
        match result {
            Ok(granted) => Ok(Break(Some(granted))),
            Err(NotGranted::Failed(owner, error)) => {
                self.after_failure(&owner, error, is_over)?;
                Ok(Continue(()))
            }
            Err(NotGranted::TooLate(_)) if is_over => Err(self.call.too_late_error()),
            Err(NotGranted::TooLate(owner)) => {
                self.earlier.late = Some(owner);
                Ok(Continue(()))
            }
            Err(NotGranted::Refused(refusal)) => self.after_refusal(refusal),
        }
    }

    /// Begins a round. Fails if there was no reply for too long.
    fn begin_round(&mut self) -> Result<()> {
        let (since, expected_holds) = self.claim.begin_request();
        self.expected_holds = expected_holds;
        let budget = self.call.budget;
        // Within its own hold, the thread waits only for replies.
        let since = self.within.map_or(since, |_| self.call.begun);
        budget.set_unanswered_since(Some(since));
        let SingleLock { core, key, .. } = self.call.lock;
        match budget.reply_deadline().is_past() {
            true => Err(no_reply(core, key, budget)),
            false => Ok(()),
        }
    }

    /// Sends the request, and evaluates the reply.
    fn request(&mut self) -> Result<Granted, NotGranted> {
        let LockCall {
            lock,
            terms,
            budget,
            ..
        } = self.call;
        let waits = !budget.is_wait_over() || self.line.is_for_others(&self.claim);
        let options = self.options(waits);
        if self.line.has_place() {
            // This request answers the calls so far.
            budget.take_message();
        }
        if budget.is_wait_over() {
            // The one that was prepared would enter the line.
            self.prepared.take_if(|(_, request)| request.cancel());
        }
        let (ask, prepared) = self.prepared.take().unzip();
        let mut ask = ask.unwrap_or_else(|| Ask::new(lock, terms));
        let result = ask.send(&options, prepared.as_deref(), self.earlier.waiting, budget);
        if prepared.is_some_and(|prepared| prepared.is_outdated()) {
            // The wake-up of that message has been taken. If the lock is refused, another request
            // follows at once.
            budget.unparker().unpark();
        }
        self.note_traces(&ask, options.waits);
        result
    }

    /// Notes what a request may have left in Redis that was sent, and that `waits` if the lock is
    /// held.
    pub(super) fn note_traces(&mut self, ask: &Ask<'_>, waits: bool) {
        self.line.is_known |= waits;
        self.line.is_unanswered = ask.is_unanswered;
        if ask.may_be_called {
            // No thread may listen for the call.
            self.line.expect_call();
        }
    }

    /// Pauses after a grant to this owner that replicas did not confirm. Fails if the wait is over,
    /// or if another request would fail, too.
    fn after_failure(&mut self, owner: &OwnerId, error: Error, is_over: bool) -> Result<()> {
        let LockCall { lock, budget, .. } = self.call;
        let SingleLock {
            core, key, kind, ..
        } = lock;
        if matches!(error, Error::TooFewReplicas { .. }) {
            // Before the next request, which would find the lock held. The server replies.
            let lease_ends = self.call.lease_ends();
            let cleanup = budget.remaining(core.command_timeout);
            release_unused(core, key, kind.release(key, owner), lease_ends, &cleanup);
        }
        if is_over || !error.is_transient() {
            return Err(error);
        }
        self.earlier.unconfirmed = Some(error);
        // The message of that release would end the pause.
        self.wait.stop_listening();
        self.wait.sleep(false, budget.reply_deadline().left());
        Ok(())
    }

    fn after_refusal(&mut self, mut refusal: Refusal) -> Result<ControlFlow<Option<Granted>>> {
        let lock = self.call.lock;
        let is_foreign = refusal.is_foreign();
        // A client of Redisson does not call the line. So the first two clients listen to its
        // release.
        refusal.standing.listens |= is_foreign && matches!(refusal.standing.rank, Some(0 | 1));
        self.line.refused(refusal.standing);
        self.log_endless_wait(&refusal);
        if is_foreign {
            self.claim.note_passed(Some(&refusal.owner));
        }
        self.call.budget.note_holder(refusal.owner.clone());
        self.count_hold(&refusal);
        self.replied();
        self.earlier.unconfirmed = None;
        let holds = u32::try_from(self.expected_holds).unwrap_or(u32::MAX);
        self.earlier.waiting.get_or_insert(holds);
        if let Some(within) = self.within {
            // Nothing but the loss of that hold excludes this thread.
            within.lose(LostReason::Taken);
            return Err(within.loss_error(LostReason::Taken));
        }
        if !self.call.budget.is_wait_over() {
            self.await_release(&refusal);
            return Ok(Continue(()));
        }
        if self.earlier.late.as_ref().map(OwnerId::as_str) == Some(&refusal.owner) {
            // Redis still has what it granted to this call too late.
            return Err(self.call.too_late_error());
        }
        let has_asked_again = &mut self.earlier.has_asked_again;
        if !refusal.is_of_client(lock) || !self.call.awaits_own_release(has_asked_again) {
            return Ok(Break(None));
        }
        let pause = self.call.budget.elapsed() / 4;
        let pause = pause.clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
        self.wait.sleep_deaf(Moment::now().after(pause));
        Ok(Continue(()))
    }

    /// Notes that Redis has replied: a sleep that follows is no time without a reply.
    fn replied(&self) {
        self.claim.replied();
        self.call.budget.set_unanswered_since(None);
    }

    /// Counts a hold of another client for the pause. If the pause begins in the line, each of N
    /// clients keeps it in one of N turns, so that the others do not get more holds than beside one
    /// client.
    fn count_hold(&mut self, refusal: &Refusal) {
        let Some(pause) = &mut self.pause else { return };
        if refusal.is_foreign() {
            pause.holds = pause.holds.saturating_sub(1);
        }
        let clients_before = refusal.standing.rank.unwrap_or_default().max(1);
        if std::mem::take(&mut pause.is_in_line) && fastrand::u32(0..=clients_before) > 0 {
            self.pause = None;
        }
    }

    /// Logs why no release may end the wait.
    fn log_endless_wait(&mut self, refusal: &Refusal) {
        let lock = self.call.lock;
        if self.call.budget.is_wait_over() {
            return;
        }
        let logged = &lock.core.logged_no_line;
        let is_in_no_line = self.line.has_place() && refusal.standing.rank.is_none();
        if is_in_no_line && !logged.swap(true, Ordering::Relaxed) {
            log(lock, NO_LINE);
        }
        let is_logged = &mut self.earlier.is_logged;
        if refusal.has_no_permits(lock) && !std::mem::replace(is_logged, true) {
            log(lock, NO_PERMITS);
        }
    }
}

/// Logs why no release may end the wait of a thread.
fn log(lock: &SingleLock, reason: &'static str) {
    let (name, node) = (lock.shared_name(), lock.node());
    tell(move || tracing::warn!(lock = &*name, node = &*node, "{reason}"));
}
