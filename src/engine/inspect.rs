//! Reads the state of a lock in Redis and changes it, whichever owner holds it.

use std::sync::Arc;
use std::time::Duration;

use redis::{RedisResult, Value};

use super::grant_request::Renewing;
use super::single_lock::SingleLock;
use crate::base::{List, LockKey, OwnerId};
use crate::core::Core;
use crate::error::Result;
use crate::local::{Grant, LockId};
use crate::protocol::{
    LOCKS, LockStatus, PermitsChange, change_permits, count_permits, inspected, permits_changed,
    permits_counted, verdict,
};
use crate::script::{self, Call};

impl SingleLock {
    pub(crate) fn is_locked(&self) -> Result<bool> {
        Ok(self.remaining()?.is_some())
    }

    /// For how long an owner has the lock.
    pub(crate) fn remaining(&self) -> Result<Option<Duration>> {
        let call = self.kind.inspect(&self.key);
        let status = request(&self.core, &self.key, call, inspected)?;
        Ok(status.lease_left())
    }

    /// Changes the number of permits of a semaphore. False if it exists and was not to be changed.
    pub(crate) fn change_permits(&self, change: PermitsChange) -> Result<bool> {
        let call = change_permits(&self.key, change);
        request(&self.core, &self.key, call, permits_changed)
    }

    /// Releases the permit with this id, also of another process. False if no permit has it.
    pub(crate) fn release_permit(&self, id: &OwnerId) -> Result<bool> {
        let call = self.kind.release(&self.key, id);
        let verdict = request(&self.core, &self.key, call, verdict)?;
        if verdict.has_called() {
            self.core.watchdog.called(&self.key);
        }
        Ok(verdict.is_done())
    }

    /// The number of available permits of a semaphore, and of leased ones.
    pub(crate) fn count_permits(&self) -> Result<(i64, i64)> {
        let call = count_permits(&self.key);
        request(&self.core, &self.key, call, permits_counted)
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
    if !verdict.is_done() {
        return Ok(false);
    }
    let ids = LockId::of_kinds(core.number, key.key(), LOCKS);
    let grants = ids.iter().map(|id| core.queue.current_grants(id));
    let grants: List<Arc<Grant>> = grants.flatten().collect();
    // Redis may have had another owner's hold, so the grants of this client are confirmed now. If
    // there is no reply, the watchdog confirms them later.
    let budget = core.budget_for_a_reply();
    for grant in grants {
        let renewal = grant.renewal(0, None);
        let renewing = Renewing {
            core,
            grant,
            renewal,
        };
        let _ = renewing.send(&budget);
    }
    Ok(true)
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
