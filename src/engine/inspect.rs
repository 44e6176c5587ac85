//! Reads the state of a lock in Redis and changes it, whichever owner holds it.

use std::sync::Arc;
use std::time::Duration;

use redis::{RedisResult, Value};

use super::held::{Needed, reached};
use super::parts::{Part, Parts};
use super::renew::renew;
use crate::base::key::{Family, LockKey};
use crate::base::list::List;
use crate::core::Core;
use crate::error::Result;
use crate::local::{Grant, LockId};
use crate::protocol::{
    LockStatus, PermitsChange, change_permits, count_permits, inspected, permits_changed,
    permits_counted, verdict,
};
use crate::request::Request;
use crate::script::{self, Call};

impl Parts {
    pub(crate) fn is_locked(&self) -> Result<bool> {
        Ok(self.remaining_lease()?.is_some())
    }

    /// For how long enough parts are locked: of a majority, the longest time for which that many
    /// servers have the lock; of several names, the longest lease of any.
    pub(crate) fn remaining_lease(&self) -> Result<Option<Duration>> {
        let budget = self.check_open()?.budget_for_a_reply();
        let requests = self.list.iter().map(|part| {
            let call = part.kind.inspect(&part.key);
            Request::new(&part.core.redis, &part.key, call)
        });
        let requests: List<Request<'_>> = requests.collect();
        let replies = self.needed.request(&requests, |_| true, |_| None, &budget);
        let (mut lefts, mut failures) = (Vec::new(), Vec::new());
        for (request, reply) in requests.iter().zip(replies) {
            let status = reply
                .map_err(|no_reply| no_reply.error)
                .and_then(|reply| inspected(&reply.reply).map_err(|error| request.refusal(error)));
            match status {
                Ok(status) => lefts.push(status.lease_left()),
                Err(error) => failures.push(error),
            }
        }
        if lefts.len() < self.needed.of(self.list.len()) {
            return Err(self.joined(failures, &budget));
        }
        let reached_by = match self.needed {
            Needed::All => 1,
            Needed::Majority(needed) => needed,
        };
        Ok(reached(lefts, reached_by).flatten())
    }

    /// Changes the number of permits of a semaphore. False if it exists and was not to be changed.
    pub(crate) fn change_permits(&self, change: PermitsChange) -> Result<bool> {
        let Part { core, key, .. } = &self.list[0];
        request(core, key, change_permits(key, change), permits_changed)
    }

    /// The number of available permits of a semaphore, and of leased ones.
    pub(crate) fn count_permits(&self) -> Result<(i64, i64)> {
        let Part { core, key, .. } = &self.list[0];
        request(core, key, count_permits(key), permits_counted)
    }
}

/// Asks Redis which owner holds a lock.
pub(crate) fn inspect(core: &Core, key: &LockKey) -> Result<LockStatus> {
    request(core, key, script::inspect_any(key), inspected)
}

/// Frees a lock, whichever owner holds it. Returns false if no owner held it.
pub(crate) fn force_unlock(core: &Arc<Core>, key: &LockKey) -> Result<bool> {
    let verdict = request(core, key, script::force_unlock(key), verdict)?;
    if verdict.has_called() {
        core.watchdog.called(key);
    }
    let is_forced = verdict.is_done();
    let mut grants: List<Arc<Grant>> = List::new();
    if is_forced {
        for family in [Family::Lock, Family::FairLock, Family::ReadWriteLock] {
            let names = LockKey::of(family, &core.namespace, key.name());
            let id = LockId::new(core.number, &names);
            grants.extend(core.queue.current_grants(&id));
        }
    }
    // Redis may have had another owner's hold, so the grants of this client are confirmed now. If
    // there is no reply, the watchdog confirms them later.
    let to_confirm = grants.into_iter().map(|grant| {
        let renewal = grant.renewal(0, None);
        (core, grant, renewal)
    });
    let budget = core.budget_for_a_reply();
    let _ = renew(&to_confirm.collect::<List<_>>(), Needed::All, &budget);
    Ok(is_forced)
}

/// Sends a request about one lock, which is repeated if that is safe, and decodes the reply.
fn request<T>(
    core: &Core,
    key: &LockKey,
    call: Call,
    decode: fn(&Value) -> RedisResult<T>,
) -> Result<T> {
    core.check_open(key.name())?;
    key.check()?;
    core.redis
        .request_decoded(key, call, decode, &core.budget_for_a_reply())
}
