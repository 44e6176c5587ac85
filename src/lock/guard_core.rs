//! What the guards of locks and of permits have in common.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use redis::{ConnectionLike, ErrorKind, FromRedisValue, Pipeline, RedisResult, Value};

use super::debug::{Short, state_of};
use crate::base::{CallBudget, Subscription};
use crate::composite::{Held, Quorum};
use crate::core::Core;
use crate::engine::HeldLock;
use crate::error::{Error, LostReason, Result};
use crate::lease::whole_millis;
use crate::observe::tell;
use crate::protocol::commands;

/// One level of a lock, or a permit. Dropping it releases it, and logs an error. The drop of an
/// owned hold leaves the request to the watchdog.
pub(crate) struct GuardCore {
    name: Arc<str>,
    held: Held,
    token: Option<u64>,
    /// Made by the first call of `lost` on a guard of several locks.
    quorum: OnceLock<Arc<Quorum>>,
    is_released: bool,
}

impl GuardCore {
    pub(super) fn new(name: Arc<str>, held: Held) -> Self {
        let token = match &held {
            Held::One(level) => level.hold.token(),
            Held::Several { .. } => None,
        };
        Self {
            name,
            held,
            token,
            quorum: OnceLock::new(),
            is_released: false,
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The fencing token; `None` of a lock without tokens, and of several locks.
    pub(super) fn token(&self) -> Option<u64> {
        self.token
    }

    pub(super) fn check(&self) -> Result<()> {
        self.held.check()
    }

    pub(super) fn is_lost(&self) -> bool {
        matches!(self.check(), Err(Error::Lost { .. }))
    }

    pub(super) fn lost(&self) -> Subscription<LostReason> {
        self.held.subscribe_to_loss(&self.quorum)
    }

    pub(super) fn remaining(&self) -> Duration {
        // A lease that has run out ends the hold.
        let _ = self.check();
        self.held.left()
    }

    pub(super) fn extend(&self, duration: Duration) -> Result<()> {
        self.extend_to(self.millis("duration", duration)?)
    }

    /// An argument of a method of the guard, in milliseconds.
    fn millis(&self, argument: &'static str, value: Duration) -> Result<u64> {
        let invalid = |rule| Error::argument(argument, format_args!("{value:?}"), rule);
        whole_millis(value).map_err(|rule| invalid(rule).concerning(self.name()))
    }

    pub(super) fn confirm(&self) -> Result<()> {
        self.extend_to(0)
    }

    /// Extends the lease so that at least this much of it is left.
    fn extend_to(&self, millis: u64) -> Result<()> {
        let budget = self.held.budget(Core::budget_for_a_reply);
        self.held.extend(millis, &budget)
    }

    pub(super) fn query<T: FromRedisValue>(&self, pipeline: &Pipeline) -> Result<T> {
        let commands = commands(pipeline).map_err(|error| error.concerning(self.name()))?;
        let budget = self.held.budget(Core::budget_for_a_reply);
        let mut replies = Replies(self.held.query(&commands, &budget)?);
        let value = pipeline.query(&mut replies);
        value.map_err(|error| self.held.query_error(Arc::new(error), true))
    }

    pub(super) fn unlock(mut self) -> Result<()> {
        self.release_within(Core::budget_to_unlock)
    }

    pub(super) fn unlock_after(self, time: Duration) -> Result<()> {
        self.keep_after_unlock(time)?;
        self.unlock()
    }

    pub(super) fn unlock_at_least(self, time: Duration) -> Result<()> {
        self.keep_at_least(time)?;
        self.unlock()
    }

    /// Makes the unlock leave the lock in Redis for `time`.
    pub(crate) fn keep_after_unlock(&self, time: Duration) -> Result<()> {
        if time.is_zero() {
            return Ok(());
        }
        let millis = self.millis("time", time)?;
        for level in self.held.levels() {
            level.check_can_be_kept()?;
        }
        for level in self.held.levels() {
            level.hold.keep_in_redis(millis);
        }
        Ok(())
    }

    /// Makes the unlock leave the lock in Redis until `time` has passed since its first level.
    pub(crate) fn keep_at_least(&self, time: Duration) -> Result<()> {
        let levels = self.held.levels().iter();
        levels.clone().try_for_each(HeldLock::check_process)?;
        let held_for = levels.map(|level| level.hold.held_for()).min();
        match time.saturating_sub(held_for.unwrap_or_default()) {
            Duration::ZERO => Ok(()),
            rest => self.keep_after_unlock(rest.max(Duration::from_millis(1))),
        }
    }

    /// Ends the hold here, and leaves it in Redis for the client that adopts it by this token.
    pub(super) fn into_token(mut self) -> Result<String> {
        let Held::One(level) = &self.held else {
            let rule = "several locks have no token; give one lock away";
            return Err(Error::unsuited(self.name(), rule));
        };
        let level = level.clone();
        self.is_released = true;
        level.give_away().map(|token| token.text())
    }

    fn release_within(&mut self, budget: fn(&Core) -> CallBudget<'static>) -> Result<()> {
        self.is_released = true;
        self.held.release(|| self.held.budget(budget))
    }

    /// The `Debug` output of a guard, with one more field if there is one. No I/O.
    pub(super) fn show(
        &self,
        f: &mut fmt::Formatter<'_>,
        guard: &str,
        more: Option<(&str, &dyn fmt::Debug)>,
    ) -> fmt::Result {
        let mut shown = f.debug_struct(guard);
        shown.field("name", &Short(&self.name));
        if let Some(token) = &self.token {
            shown.field("token", token);
        }
        if let Some((field, value)) = more {
            shown.field(field, value);
        }
        let state = state_of(&self.held.check_unchanged());
        shown
            .field("state", &format_args!("{state}"))
            .field("remaining", &format_args!("{:.1?}", self.held.left()))
            .finish()
    }
}

impl Drop for GuardCore {
    fn drop(&mut self) {
        // In a forked child, a mutex may stay locked indefinitely.
        if self.is_released || !self.held.is_of_this_process() {
            return;
        }
        let released = match self.held.is_owned() {
            true => self.held.release_dropped(),
            false => self.release_within(Core::budget_for_a_reply),
        };
        if let Err(error) = released {
            tell(move || {
                tracing::warn!(%error, "a guard was dropped, but what it holds was not released");
            });
        }
    }
}

/// The replies of the commands of a pipeline, which reads them as from a connection.
struct Replies(Vec<Value>);

impl ConnectionLike for Replies {
    fn req_packed_command(&mut self, _: &[u8]) -> RedisResult<Value> {
        Err((ErrorKind::Client, "one reply, not those of a pipeline").into())
    }

    fn req_packed_commands(
        &mut self,
        _: &[u8],
        skipped: usize,
        _: usize,
    ) -> RedisResult<Vec<Value>> {
        let replies = std::mem::take(&mut self.0);
        // The reply to EXEC follows skipped ones.
        Ok(match skipped {
            0 => replies,
            _ => vec![Value::Array(replies)],
        })
    }

    fn get_db(&self) -> i64 {
        0
    }

    fn check_connection(&mut self) -> bool {
        true
    }

    fn is_open(&self) -> bool {
        true
    }
}
