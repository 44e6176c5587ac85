//! The way to Redis for the threads that call the client: its settings, and the errors of its
//! calls.

use std::sync::Arc;
use std::time::Duration;

use redis::RedisError;

use crate::base::{CallBudget, ClientClock, LockKey, Moment};
use crate::config::Config;
use crate::error::{Error, SharedCause};
use crate::observe::Observer;
use crate::protocol::{self, OtherUse};
use crate::topology::Topology;
use crate::transport::health::Health;
use crate::transport::retry_action::RetryAction;
use crate::transport::server::report;

/// The way to Redis for the threads that call the client.
#[derive(Debug)]
pub(crate) struct RedisClient {
    pub(crate) topology: Arc<Topology>,
    pub(crate) connect_timeout: Duration,
    pub(crate) command_timeout: Duration,
    pub(crate) min_replicas: Option<(u32, Duration)>,
    /// Whether look-ups succeed, while no server of the deployment is known.
    look_ups: Health,
    pub(crate) clock: ClientClock,
    pub(super) observer: Arc<Observer>,
}

impl RedisClient {
    pub(crate) fn new(config: &Config, topology: Arc<Topology>, observer: Arc<Observer>) -> Self {
        Self {
            topology,
            connect_timeout: config.connect_timeout,
            command_timeout: config.command_timeout,
            min_replicas: config.min_replicas,
            look_ups: Health::default(),
            clock: config.clock.clone(),
            observer,
        }
    }

    /// Whether the server that has the lock did not reply to the last request.
    pub(crate) fn is_unresponsive(&self, lock: &LockKey) -> bool {
        self.health(lock, Health::is_unresponsive)
    }

    /// Whether the circuit breaker of the server that has the lock skips it now. If it does not,
    /// the caller sends a request.
    pub(crate) fn skips(&self, lock: &LockKey) -> bool {
        self.health(lock, Health::skips)
    }

    /// The health of the server that has the lock, or had it last.
    pub(super) fn health<T>(&self, lock: &LockKey, read: impl FnOnce(&Health) -> T) -> T {
        match self.topology.last_known(lock) {
            Some(server) => read(&server.health),
            None => read(&self.look_ups),
        }
    }

    /// Records that the server that has the lock, or a look-up of it, did not reply since this
    /// moment.
    pub(super) fn unanswered(&self, lock: &LockKey, since: Moment) {
        match self.topology.last_known(lock) {
            Some(server) => server.unanswered(since),
            None => report(self.look_ups.unanswered(since), &self.topology.deployment()),
        }
    }

    /// The error of a call that got no reply in its time.
    pub(crate) fn unavailable(
        &self,
        lock: &LockKey,
        budget: &CallBudget,
        cause: impl Into<SharedCause>,
    ) -> Error {
        Error::Unavailable {
            lock: lock.name().into(),
            node: self.topology.name_without_reply(lock),
            waited: budget.elapsed(),
            limit: budget.time_limit(),
            cause: cause.into(),
        }
    }

    /// The error of an error reply, or of a reply in an unexpected form.
    pub(crate) fn refusal(&self, lock: &LockKey, error: RedisError) -> Error {
        self.refusal_of_several(std::iter::once(lock), lock, error)
    }

    /// The error of an error reply to a request for several locks, the first of which is `first`.
    pub(crate) fn refusal_of_several<'k>(
        &self,
        locks: impl Iterator<Item = &'k LockKey> + Clone,
        first: &LockKey,
        error: RedisError,
    ) -> Error {
        let node = self.topology.name(first).as_ref().into();
        let wrong = match RetryAction::on(&error) {
            RetryAction::WrongType => protocol::other_use(locks, &error),
            _ => None,
        };
        match wrong {
            Some((lock, OtherUse::OtherKind(rule))) => {
                let rule = format!("{rule}; use one kind of lock for one name");
                Error::misused(lock.name(), rule)
            }
            Some((lock, OtherUse::OtherType(found))) => Error::WrongType {
                lock: lock.name().into(),
                node,
                found,
            },
            None => Error::Redis {
                lock: first.name().into(),
                node,
                hint: self.topology.hint(&error),
                cause: Arc::new(error),
            },
        }
    }
}
