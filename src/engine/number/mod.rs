//! Kinds without a holder, whose key is a number. Redis executes each change at most once, although
//! replies are lost and requests repeated.
//!
//! | file | duty |
//! |---|---|
//! | `mod` | the number; requests that Redis executes at most once |
//! | `calls` | takes and adds permits; counts a latch down, and waits until it is zero |
//! | `waiting` | waits for permits |
//!
//! A script records the number and the reply of a request on its lane (`lua/shared/once.lua`), and
//! does nothing if it finds this number or a larger one. A request is repeated for at most a
//! minute, and a record lives for two. Permits of a call without a clear reply are given back by a
//! further request, which the watchdog repeats for a minute, too. Then the lane stays unused for
//! two minutes, because a newer record would hide that of the request.

mod calls;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use redis::{RedisResult, Value};

use crate::base::lanes::RequestId;
use crate::base::{CallBudget, Family, Interrupt, LockKey, Moment};
use crate::core::Core;
use crate::error::{Cause, Error, Result};
use crate::local::LockId;
use crate::protocol::{AcquireOptions, Change, NumberKey, RequestCopy, number, records};
use crate::request::{LostCopies, NoReply, Prepared, Reply, Request, confirmed, request_one};
use crate::script::Call;
use crate::transport::retry_action::RetryAction;

/// For how long a request is repeated, by its caller and then by the watchdog. Redis keeps its
/// record for twice as long, so a copy that arrives late finds it. An undo is repeated for as long
/// again. Its last copies may find no record, and then the permits stay taken.
const REPEATED: Duration = Duration::from_secs(60);

/// For how long Redis keeps a record: `RECORDED` in `lua/shared/once.lua`.
const RECORDED: Duration = Duration::from_secs(120);

/// A number in Redis that clients change: the free permits of a semaphore, or the count of a latch.
#[derive(Clone)]
pub(crate) struct Number {
    core: Arc<Core>,
    key: LockKey,
    /// The key of this client's records about the number.
    records: Arc<str>,
    /// Identifies the number in the local queue.
    id: LockId,
}

/// A clear reply to a request that Redis executes at most once.
struct Answered<T> {
    value: T,
    /// If a copy was lost, this may be the reply to that copy.
    reply: Reply,
}

/// The next request of a waiting thread, which the subscriber thread sends when a message arrives.
struct NextRequest<'a> {
    id: RequestId<'a>,
    request: Arc<Prepared>,
}

/// What becomes of a request without a clear reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OnUnclear {
    /// It takes permits, which are given back.
    Undo,
    /// It is repeated in the background.
    Repeat,
    /// It is cancelled, unless Redis has executed it.
    Cancel,
}

/// True if the server refused the log-in on a new connection.
fn is_log_in_refused(error: &Error) -> bool {
    let refuses = RetryAction::refuses_log_in;
    matches!(error, Error::Redis { cause, .. } if cause.downcast_ref().is_some_and(refuses))
}

impl Number {
    pub(crate) fn new(core: Arc<Core>, family: Family, name: &str) -> Self {
        let key = LockKey::of(family, &core.namespace, name);
        Self {
            records: records(&key, &core.owner_prefix).into(),
            id: LockId::new(core.number, &key),
            key,
            core,
        }
    }

    pub(crate) fn name(&self) -> &str {
        self.key.name()
    }

    /// The server that has the number, if the client knows it, or else the deployment. No I/O.
    pub(crate) fn node(&self) -> Arc<str> {
        self.core.node(&self.key)
    }

    pub(crate) fn is_of_this_process(&self) -> bool {
        self.core.is_same_process()
    }

    /// Fails if the name is invalid, in a forked process, and after a shutdown.
    fn check_open(&self) -> Result<&Core> {
        let core = self.check_process()?;
        core.check_not_shut_down(self.name())?;
        Ok(core)
    }

    /// As [`check_open`](Self::check_open), but succeeds after a shutdown: for what other processes
    /// may wait for.
    fn check_process(&self) -> Result<&Core> {
        self.core.check_process(self.name())?;
        self.key.check()?;
        Ok(&self.core)
    }

    /// The budget of a call that waits. Fails like [`check_open`](Self::check_open).
    fn budget_to_wait<'c>(
        &'c self,
        wait: Option<Duration>,
        interrupt: Option<&'c Interrupt>,
    ) -> Result<CallBudget<'c>> {
        let core = self.check_open()?;
        let mut budget = core.budget_to_wait(wait, interrupt);
        budget.end_at_shutdown(&core.shutdown);
        Ok(budget.counted(&core.observer.counters))
    }

    fn key(&self) -> NumberKey<'_> {
        NumberKey {
            key: &self.key,
            records: &self.records,
        }
    }

    /// Reads the number; 0 without a key.
    fn read<T: TryFrom<i64>>(&self, budget: &CallBudget) -> Result<T> {
        let redis = &self.core.redis;
        redis.request_decoded(&self.key, self.key().read(), number, budget)
    }

    /// Changes the number. Returns the reply. Only what is repeated succeeds after a shutdown.
    fn change<T: TryFrom<i64>>(&self, change: Change, on_unclear: OnUnclear) -> Result<T> {
        let budget = self.check_process()?.budget_to_unlock();
        let call = |copy: RequestCopy<'_>| self.key().change(copy, change);
        let changed = self.request_once(None, call, number, on_unclear, &budget)?;
        Ok(changed.value)
    }

    /// Sets the number if there is none. Returns whether it is set.
    fn set(&self, change: Change) -> Result<bool> {
        let set: i64 = self.change(change, OnUnclear::Cancel)?;
        Ok(set == 1)
    }

    /// Sends a request that Redis executes at most once, until there is a clear reply or the budget
    /// ends. The first one is `next`, if that is set.
    fn request_once<'a, T>(
        &'a self,
        mut next: Option<NextRequest<'a>>,
        call: impl Fn(RequestCopy<'_>) -> Call,
        decode: impl Fn(&Value) -> RedisResult<T>,
        on_unclear: OnUnclear,
        budget: &CallBudget,
    ) -> Result<Answered<T>> {
        // Before the check, so that a shutdown sees either this call or its error.
        let _call = self.core.watchdog.delay_shutdown();
        // Other processes may wait for what is repeated.
        if on_unclear != OnUnclear::Repeat {
            self.core.check_not_shut_down(self.name())?;
        }
        loop {
            let next = next.take();
            let answered = self.try_request_once(next, &call, &decode, on_unclear, budget)?;
            if let Some(answered) = answered {
                return Ok(answered);
            }
        }
    }

    /// Sends one request and its copies, for at most [`REPEATED`].
    ///
    /// | the request | `Undo` | `Repeat` | `Cancel` |
    /// |---|---|---|---|
    /// | has a clear reply | returned | returned | returned |
    /// | may have been executed | undone later; error, or `None` | repeated later; error | cancelled later; error |
    /// | was not executed: no server was reached | error, or `None` | repeated later; error | error, or `None` |
    /// | was not executed: refused | error | error; repeated later if the log-in was refused | error |
    ///
    /// Later: by the watchdog. `None` instead of the error: only the time of this request is over,
    /// and the call has time for another one.
    fn try_request_once<'a, T>(
        &'a self,
        next: Option<NextRequest<'a>>,
        call: &impl Fn(RequestCopy<'_>) -> Call,
        decode: &impl Fn(&Value) -> RedisResult<T>,
        on_unclear: OnUnclear,
        budget: &CallBudget,
    ) -> Result<Option<Answered<T>>> {
        let (deadline, limit) = (budget.reply_deadline(), Moment::now().after(REPEATED));
        let (id_of_next, prepared) = next.map(|next| (next.id, next.request)).unzip();
        let request_id = id_of_next.unwrap_or_else(|| self.core.lanes.next());
        let id = &request_id;
        let copy = |is_repeated| call(RequestCopy { id, is_repeated });
        // `unclear`: the lost copies of a request that may have been executed.
        let (error, unclear) = match self.send(copy, prepared.as_deref(), limit, budget) {
            Ok(reply) => match decode(&reply.reply) {
                Ok(value) => return Ok(Some(Answered { value, reply })),
                // Redis executed the request, but it is not known what that did.
                Err(error) => {
                    let error = self.core.redis.refusal(&self.key, error);
                    (error, Some(reply.lost_copies))
                }
            },
            Err(NoReply { error, lost_copies }) => {
                let is_unclear = lost_copies.is_ambiguous();
                (*error, is_unclear.then_some(lost_copies))
            }
        };
        let is_late = matches!(error, Error::Unavailable { .. });
        match (on_unclear, unclear) {
            // What was never sent is repeated, too: the caller need not know the difference. So is
            // what a new connection could not send, because its password was changed meanwhile.
            (OnUnclear::Repeat, unclear)
                if unclear.is_some() || is_late || is_log_in_refused(&error) =>
            {
                let repeated = copy(true);
                let is_repeated = self.later(request_id, repeated, limit);
                return Err(self.unclear(error, budget).of_release(is_repeated, true));
            }
            (OnUnclear::Cancel, Some(lost_copies)) => {
                self.undo_later(request_id, false, lost_copies);
                return Err(self.unclear(error, budget));
            }
            (OnUnclear::Undo, Some(lost_copies)) => {
                self.undo_later(request_id, true, lost_copies);
            }
            _ => {}
        }
        let has_time = is_late && deadline > limit;
        if has_time { Ok(None) } else { Err(error) }
    }

    /// Sends one request and its copies, until there is a reply or this moment.
    fn send(
        &self,
        copy: impl Fn(bool) -> Call,
        prepared: Option<&Prepared>,
        until: Moment,
        budget: &CallBudget,
    ) -> Result<Reply, NoReply> {
        let request = Request {
            prepared,
            until,
            ..Request::new(&self.core.redis, &self.key, copy(false))
        };
        let next_call = |_| Some(copy(true));
        let result = request_one(&request, next_call, budget);
        let result = confirmed(result, &request, next_call, budget);
        if prepared.is_some_and(Prepared::is_outdated) {
            // The wake-up of a later message has been taken.
            budget.unparker().unpark();
        }
        result
    }

    /// The error of a request that Redis may have executed, although it refused the last copy.
    fn unclear(&self, error: Error, budget: &CallBudget) -> Error {
        let cause = match error {
            Error::Unavailable { .. } => return error,
            Error::Redis { cause, .. } => cause,
            other => Cause::from(other.to_string()).into(),
        };
        self.core.redis.unavailable(&self.key, budget, cause)
    }

    /// Makes the next request of a thread in the line, which takes permits.
    fn prepare(&self, permits: u32, place: Option<Arc<str>>) -> NextRequest<'_> {
        let id = self.core.lanes.next();
        let copy = RequestCopy {
            id: &id,
            is_repeated: false,
        };
        let options = AcquireOptions {
            place,
            waits: true,
            ..AcquireOptions::default()
        };
        let call = self.key().take(copy, permits, &options);
        let request = Prepared::new(&self.core.redis, &self.key, call);
        NextRequest { id, request }
    }

    /// Takes back a request for permits that the subscriber thread may have sent.
    fn take_back(&self, next: NextRequest<'_>) {
        let lost_copies = next.request.abandon();
        if lost_copies.is_ambiguous() {
            self.undo_later(next.id, true, lost_copies);
        }
    }

    /// Undoes in the background a request that Redis may or may not have executed.
    fn undo_later(&self, id: RequestId<'_>, gives_back: bool, lost_copies: LostCopies) {
        let undo = self.key().undo(&id, gives_back);
        // First on the links of the copies, where it is executed right after them.
        lost_copies.compensate(&undo);
        self.later(id, undo, Moment::now().after(REPEATED));
    }

    /// Makes the watchdog repeat this call about a request. False if the watchdog has ended.
    fn later(&self, id: RequestId<'_>, call: Call, until: Moment) -> bool {
        let watchdog = &self.core.watchdog;
        let is_repeated = watchdog.release_orphan(self.key.clone(), call, until);
        // A newer request of the lane would replace the record by which a late copy does nothing.
        id.retire(RECORDED);
        is_repeated
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script;

    #[test]
    fn a_record_is_kept_for_longer_than_its_request_is_repeated() {
        assert_eq!(
            RECORDED,
            Duration::from_millis(script::constant("RECORDED"))
        );
        assert_eq!(RECORDED, REPEATED * 2);
    }
}
