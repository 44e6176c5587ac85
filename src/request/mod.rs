//! Questions to Redis: asked once, or again until there is a clear answer or no time left.

mod attempt;
mod batch;
mod batch_client;
mod fanout;
mod reply;
#[cfg(feature = "cli")]
mod talk;

use std::sync::Arc;
use std::time::Duration;

use redis::RedisError;

pub(crate) use batch::{Enough, Request, broadcast, request_batch};
pub(crate) use batch_client::BatchClient;
pub(crate) use reply::{LostCopies, NoReply, Reply, lost_copies};
#[cfg(feature = "cli")]
pub(crate) use talk::Talk;

use crate::base::call_budget::CallBudget;
use crate::base::key::LockKey;
use crate::base::owner;
use crate::config::Config;
use crate::error::{Cause, Error, Result};
use crate::script::{self, Call};
use crate::topology::Topology;
use crate::transport::retry_action::RetryAction;
use crate::transport::suspicion::Suspicion;
use crate::transport::tls::{HandshakeTimeout, is_caused_by};
use attempt::{Failure, Replied};

/// Pauses between attempts: none after the first failure, then growing.
const FIRST_PAUSE: Duration = Duration::from_millis(25);
const LONGEST_PAUSE: Duration = Duration::from_millis(400);

/// The way to Redis for the threads that call the client.
#[derive(Debug)]
pub(crate) struct RedisClient {
    topology: Arc<Topology>,
    pool_timeout: Duration,
    connect_timeout: Duration,
    command_timeout: Duration,
    min_replicas: Option<(u32, Duration)>,
    suspicion: Suspicion,
}

impl RedisClient {
    pub(crate) fn new(config: &Config, topology: Arc<Topology>) -> Self {
        Self {
            topology,
            pool_timeout: config.pool_timeout,
            connect_timeout: config.connect_timeout,
            command_timeout: config.command_timeout,
            min_replicas: config.min_replicas,
            suspicion: Suspicion::default(),
        }
    }

    /// Runs `call` until Redis gives a clear answer, for as long as `budget` has for it.
    ///
    /// The calling thread's owner name is retired if a copy of the call may still be under way: the
    /// copy may carry that name.
    pub(crate) fn ask(
        &self,
        lock: &LockKey,
        call: &Call,
        budget: &CallBudget,
    ) -> Result<Reply, NoReply> {
        self.request_with_retry(lock, call, || None, budget)
    }

    /// As [`ask`](Self::ask), but whenever a copy may be under way, `anew` can put another call in place
    /// of the next copy.
    pub(crate) fn request_with_retry(
        &self,
        lock: &LockKey,
        call: &Call,
        anew: impl FnMut() -> Option<Call>,
        budget: &CallBudget,
    ) -> Result<Reply, NoReply> {
        let mut lost_copies = LostCopies::default();
        let result = self.request_until_reply(lock, call, anew, budget, &mut lost_copies);
        if lost_copies.is_ambiguous() {
            owner::retire();
        }
        match result {
            Ok(replied) => Ok(Reply {
                reply: replied.reply,
                asked: replied.asked,
                unreplicated: replied.unreplicated,
                lost_copies,
            }),
            Err(error) => Err(NoReply { error, lost_copies }),
        }
    }

    fn request_until_reply(
        &self,
        lock: &LockKey,
        call: &Call,
        mut anew: impl FnMut() -> Option<Call>,
        budget: &CallBudget,
        lost_copies: &mut LostCopies,
    ) -> Result<Replied> {
        let reply_by = budget.reply_deadline();
        let mut pause = Duration::ZERO;
        let mut copies = 0;
        let mut newer = None;
        let mut cause: Option<Cause> = None;
        loop {
            let call = newer.as_ref().unwrap_or(call);
            match self.attempt(lock, call, reply_by, lost_copies) {
                Ok(answer) => return Ok(answer),
                Err(Failure::Final(error)) => return Err(error),
                Err(Failure::NoServer(found)) => cause = Some(found),
                Err(Failure::NoSlot) => {
                    cause.get_or_insert_with(|| "all client of the pool are in use".into());
                }
                // What Redis said before tells more than that it said nothing in the time left. And
                // what the system calls this says nothing: "resource temporarily unavailable".
                Err(Failure::Redis(error)) if error.is_timeout() => {
                    cause.get_or_insert_with(|| timeout_cause(&error).into());
                }
                Err(Failure::Redis(error)) if RetryAction::on(&error).asks_again() => {
                    cause = Some(Box::new(error));
                }
                Err(Failure::Redis(error)) => return Err(self.refusal(lock, error)),
            }
            budget.park(pause.min(reply_by.left()));
            budget.check_interrupt(lock.name())?;
            if reply_by.is_past() || (lost_copies.is_ambiguous() && !call.is_repeatable()) {
                let cause = cause.unwrap_or_else(|| "no reply in time".into());
                return Err(self.unavailable(lock, budget, cause));
            }
            pause = (pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
            if lost_copies.copies > copies {
                copies = lost_copies.copies;
                newer = anew().or(newer);
            }
        }
    }

    /// The server that has the lock, as far as is known: for messages, and to tell one from another.
    pub(crate) fn name(&self, lock: &LockKey) -> Arc<str> {
        self.topology.name(lock)
    }

    /// The addresses that the user gave, without credentials: for messages.
    pub(crate) fn deployment(&self) -> Arc<str> {
        self.topology.deployment()
    }

    /// Whether the last request that went to several had no answer here.
    pub(crate) fn is_suspect(&self) -> bool {
        self.suspicion.is_raised()
    }

    /// The error of a call that ran out of time for an answer.
    pub(crate) fn unavailable(&self, lock: &LockKey, budget: &CallBudget, cause: Cause) -> Error {
        Error::Unavailable {
            lock: lock.name().into(),
            node: self.topology.name(lock).as_ref().into(),
            waited: budget.elapsed(),
            cause,
        }
    }

    /// The error of a lock that too few replicas have.
    pub(crate) fn too_few_replicas(&self, lock: &LockKey, confirmed: u32) -> Error {
        Error::TooFewReplicas {
            lock: lock.name().into(),
            node: self.topology.name(lock).as_ref().into(),
            wanted: self.min_replicas.map_or(0, |(wanted, _)| wanted),
            confirmed,
        }
    }

    /// The error of a reply that Redis should not have given.
    pub(crate) fn refusal(&self, lock: &LockKey, error: RedisError) -> Error {
        let node = self.topology.name(lock).as_ref().into();
        match RetryAction::on(&error) {
            RetryAction::WrongType => Error::WrongType {
                lock: lock.name().into(),
                node,
                found: script::found(lock, &error),
            },
            _ => Error::Redis {
                lock: lock.name().into(),
                node,
                hint: self.topology.role().hint(&error),
                cause: error.into(),
            },
        }
    }
}

/// Why a request timed out.
fn timeout_cause(error: &RedisError) -> String {
    if is_caused_by::<HandshakeTimeout>(error) {
        HandshakeTimeout.to_string()
    } else {
        "no reply in time".into()
    }
}
