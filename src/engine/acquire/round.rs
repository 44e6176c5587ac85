//! One request for a lock, its reply, and what follows.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::acquisition::{Acquisition, First, RoundEnd, Traces};
use super::line::LONGEST;
use crate::base::clock::Moment;
use crate::base::owner::OwnerId;
use crate::engine::ask::{Answer, Ask, Refusal};
use crate::engine::grant_request::release_unused;
use crate::engine::local_wait::no_reply;
use crate::engine::lock_call::LockCall;
use crate::engine::single_lock::SingleLock;
use crate::error::{Error, LostReason, Result};
use crate::observe::tell;
use crate::request::{Request, confirmed, request_one};

/// Bounds of the pauses while this client releases the lock.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// Logged once for each client.
const NO_LINE: &str = "Redis refuses the line of a lock, so each release wakes all waiting \
     clients; if the user lacks permissions, allow the keys leasehold_line:* and the commands \
     ZADD, ZCOUNT, ZRANGE, ZRANGEBYSCORE, ZRANK, ZREM and ZSCORE";

/// Logged once for each wait.
const NO_PERMITS: &str = "a thread waits for a permit, but the semaphore has no permits, \
     available or leased; set their number (set_permits): it was never set, or the key of the \
     leases was lost";

/// A lock that another owner holds.
pub(super) struct HeldByOther {
    /// What is left of the lease.
    pub(super) left: Duration,
    /// The number of clients before this one in the line; `None` if it is in no line.
    pub(super) rank: Option<u32>,
    /// The owner is a client of Redisson.
    is_foreign: bool,
    /// This client also listens to the channel for releases: clients of Redisson do not call those
    /// in the line.
    pub(super) listens: bool,
    /// For how long the lock is reserved for clients that were called and have not answered.
    pub(super) pending: Option<Duration>,
    /// A moment before the request was sent.
    pub(super) asked: Moment,
    /// Redis still has what it granted to this call too late.
    is_own: bool,
    /// The owner is this client: no thread has the lock, and it may be about to be released.
    is_of_client: bool,
}

impl Acquisition<'_> {
    /// Requests the lock once. Waits for the next round if it is refused: then `None`. `first` is
    /// the first request, if it is sent already.
    pub(super) fn round(&mut self, first: Option<First>) -> Result<Option<RoundEnd>> {
        let answer = match first {
            Some(first) => {
                self.is_known_to_wait |= first.waits;
                self.note_traces(first.traces);
                first.answer
            }
            None => {
                self.begin_round()?;
                self.request()
            }
        };
        let budget = self.call.budget;
        let is_over = budget.is_wait_over() || budget.reply_deadline().is_past();
        match answer {
            Answer::Granted(granted) => Ok(Some(RoundEnd::Granted(granted))),
            Answer::Failed(owner, error) => {
                self.after_failure(&owner, error, is_over)?;
                Ok(None)
            }
            Answer::TooLate(_) if is_over => Err(self.call.too_late_error()),
            Answer::TooLate(owner) => {
                self.late = Some(owner);
                Ok(None)
            }
            Answer::Refused(refusal) => self.after_refusal(refusal),
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
    fn request(&mut self) -> Answer {
        let LockCall {
            lock,
            terms,
            budget,
            ..
        } = self.call;
        let waits = !budget.is_wait_over() || self.leaves_place();
        let options = self.options(waits);
        self.is_known_to_wait |= options.waits;
        if self.place.is_some() {
            // This request answers the calls so far.
            budget.take_message();
        }
        if budget.is_wait_over() {
            // The one that was prepared would enter the line.
            self.prepared.take_if(|(_, request)| request.cancel());
        }
        let (owner, prepared) = self.prepared.take().unzip();
        let owner = owner.unwrap_or_else(|| lock.new_owner());
        let mut ask = Ask::of_owner(owner, lock, terms);
        let call = prepared.as_ref().map(|prepared| prepared.call().clone());
        let request = Request {
            prepared: prepared.as_deref(),
            ..ask.request(call.unwrap_or_else(|| ask.call(&options)))
        };
        let mut next_call = |_| Some(ask.next_copy(&options));
        let result = request_one(&request, &mut next_call, budget);
        let result = confirmed(result, &request, next_call, budget);
        drop(request);
        if prepared.is_some_and(|prepared| prepared.is_outdated()) {
            // The wake-up of that message has been taken. If the lock is refused, another request
            // follows at once.
            budget.unparker().unpark();
        }
        self.note_traces(Traces::of(&result));
        let answer = ask.end(result, self.waiting);
        if matches!(answer, Answer::Granted(_)) {
            // The grant has left the line.
            self.is_known_to_wait &= self.place.is_none();
        }
        answer
    }

    /// Notes what a request may have left in Redis.
    fn note_traces(&mut self, traces: Traces) {
        self.is_unanswered = traces.is_unanswered;
        if let Some(place) = &self.place
            && traces.may_be_called
        {
            // No thread may listen for the call.
            let SingleLock { core, key, .. } = self.call.lock;
            core.subscriber.expect_call(key, place);
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
        self.unconfirmed = Some(error);
        // The message of that release would end the pause.
        self.wait.stop_listening();
        self.wait.sleep(false, budget.reply_deadline().left());
        Ok(())
    }

    fn after_refusal(&mut self, refusal: Refusal) -> Result<Option<RoundEnd>> {
        let held = self.note_refusal(refusal);
        self.count_hold(&held);
        self.replied();
        self.unconfirmed = None;
        self.waiting.get_or_insert(self.expected_holds);
        if let Some(within) = self.within {
            // Nothing but the loss of that hold excludes this thread.
            within.lose(LostReason::Taken);
            return Err(within.loss_error(LostReason::Taken));
        }
        if !self.call.budget.is_wait_over() {
            self.await_release(&held);
            return Ok(None);
        }
        if held.is_own {
            return Err(self.call.too_late_error());
        }
        let has_asked_again = &mut self.has_asked_again;
        if !held.is_of_client || !self.call.awaits_own_release(has_asked_again) {
            return Ok(Some(RoundEnd::WaitIsOver));
        }
        let pause = self.call.budget.elapsed() / 4;
        let pause = pause.clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
        self.wait.sleep_deaf(Moment::now().after(pause));
        Ok(None)
    }

    /// Notes that Redis has replied: a sleep that follows is no time without a reply.
    fn replied(&self) {
        self.claim.replied();
        self.call.budget.set_unanswered_since(None);
    }

    /// Counts a hold of another client for the pause. If the pause begins in the line, each of N
    /// clients keeps it in one of N turns, so that the others do not get more holds than beside one
    /// client.
    fn count_hold(&mut self, held: &HeldByOther) {
        let Some(pause) = &mut self.pause else { return };
        if held.is_foreign {
            pause.holds = pause.holds.saturating_sub(1);
        }
        let clients_before = held.rank.unwrap_or_default().max(1);
        if std::mem::take(&mut pause.is_in_line) && fastrand::u32(0..=clients_before) > 0 {
            self.pause = None;
        }
    }

    /// Evaluates a refusal.
    fn note_refusal(&mut self, refusal: Refusal) -> HeldByOther {
        let (lock, kind) = (self.call.lock, self.call.lock.kind);
        let is_reserved = kind.has_ticket && refusal.is_reserved();
        let has_no_owner = refusal.millis.is_none() && !kind.has_ticket;
        let left = match is_reserved || has_no_owner {
            true => LONGEST,
            false => refusal.left(),
        };
        let (is_foreign, is_of_client) = (refusal.is_foreign(), refusal.is_of_client(lock));
        let Refusal {
            millis,
            owner,
            rank,
            listens,
            asked,
            ..
        } = refusal;
        // The client that was called may not answer.
        let reserved_for = millis.filter(|_| is_reserved);
        self.note_line(rank, has_no_owner);
        // A client of Redisson does not call the line. So the first two clients listen to its
        // release.
        let is_near = is_foreign && matches!(rank, Some(0 | 1));
        let held = HeldByOther {
            left,
            rank,
            is_foreign,
            listens: is_near || listens,
            pending: reserved_for.map(Duration::from_millis),
            asked,
            is_own: self.late.as_ref().map(OwnerId::as_str) == Some(&owner),
            is_of_client,
        };
        if is_foreign {
            self.claim.note_passed(Some(&owner));
        }
        self.call.budget.note_holder(owner);
        held
    }

    /// Notes whether the client is in the line now, and logs why no release may end the wait.
    fn note_line(&mut self, rank: Option<u32>, has_no_owner: bool) {
        let lock = self.call.lock;
        let waits = !self.call.budget.is_wait_over();
        if self.place.is_some() {
            self.is_known_to_wait = rank.is_some();
            let logged = &lock.core.logged_no_line;
            if rank.is_none() && waits && !logged.swap(true, Ordering::Relaxed) {
                log(lock, NO_LINE);
            }
        }
        if waits && has_no_owner && !std::mem::replace(&mut self.is_logged, true) {
            log(lock, NO_PERMITS);
        }
    }
}

/// Logs why no release may end the wait of a thread.
fn log(lock: &SingleLock, reason: &'static str) {
    let (name, node) = (lock.shared_name(), lock.node());
    tell(move || tracing::warn!(lock = &*name, node = &*node, "{reason}"));
}
