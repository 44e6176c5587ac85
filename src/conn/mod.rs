//! Questions to Redis: asked once, or again until there is a clear answer or no time left.

mod advice;
mod pool;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use redis::{RedisError, Value};

pub(crate) use advice::Advice;
pub(crate) use wire::{Node, Wire};

use crate::clock::Moment;
use crate::config::Config;
use crate::error::{Cause, Error, Result};
use crate::key::LockKey;
use crate::patience::Patience;
use crate::script::Call;
use pool::{Pool, Slot};
use wire::Broken;

/// Pauses between attempts: none after the first failure, then growing.
const FIRST_PAUSE: Duration = Duration::from_millis(25);
const LONGEST_PAUSE: Duration = Duration::from_millis(400);

/// The way to Redis for the threads that call the client.
#[derive(Debug)]
pub(crate) struct Connections {
    node: Arc<Node>,
    pool: Pool,
    pool_timeout: Duration,
    connect_timeout: Duration,
    command_timeout: Duration,
}

/// A clear answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) reply: Value,
    /// Before the request was sent that this answers: leases count from here.
    pub(crate) asked: Moment,
    /// An earlier copy of the request was sent and got no answer. It may be done already, or be
    /// done later.
    pub(crate) repeated: bool,
}

/// No clear answer, for the reason that `error` tells.
#[derive(Debug)]
pub(crate) struct NoAnswer {
    pub(crate) error: Error,
    /// The connections on which a whole request went out and no reply came back. What is sent on
    /// them now is done after that request, if it is done at all.
    pub(crate) unanswered: Vec<Wire>,
    /// A request was sent and may be done.
    pub(crate) ambiguous: bool,
}

/// Requests of one question that were sent in vain so far.
#[derive(Debug, Default)]
struct InVain {
    ambiguous: bool,
    unanswered: Vec<Wire>,
}

impl Connections {
    pub(crate) fn new(config: &Config, node: Arc<Node>) -> Result<Self> {
        Ok(Self {
            node,
            pool: Pool::new(config)?,
            pool_timeout: config.pool_timeout,
            connect_timeout: config.connect_timeout,
            command_timeout: config.command_timeout,
        })
    }

    /// Runs `call` until Redis gives a clear answer, for as long as `patience` has for it.
    pub(crate) fn ask(
        &self,
        lock: &LockKey,
        call: &Call,
        patience: &Patience,
    ) -> Result<Answer, NoAnswer> {
        let answer_by = patience.answer_by();
        let mut in_vain = InVain::default();
        let mut pause = Duration::ZERO;
        loop {
            let asked = Moment::now();
            let cause: Cause = match self.attempt(call, answer_by, &mut in_vain) {
                Ok(reply) => {
                    return Ok(Answer {
                        reply,
                        asked,
                        repeated: in_vain.ambiguous,
                    });
                }
                Err(Failure::NoSlot(error)) => Box::new(error),
                Err(Failure::Redis(error)) => match Advice::on(&error) {
                    Advice::Reconnect | Advice::Wait => Box::new(error),
                    _ => return Err(in_vain.end(self.refusal(lock, error))),
                },
            };
            if patience.is_interrupted() {
                return Err(in_vain.end(Error::Interrupted {
                    lock: lock.name().into(),
                }));
            }
            if answer_by.is_past() {
                return Err(in_vain.end(Error::Unavailable {
                    lock: lock.name().into(),
                    node: self.node.name().into(),
                    waited: patience.waited(),
                    cause,
                }));
            }
            patience.pause(pause.min(answer_by.left()));
            pause = (pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
        }
    }

    /// The error of a reply that Redis should not have given.
    pub(crate) fn refusal(&self, lock: &LockKey, error: RedisError) -> Error {
        let (lock, node) = (lock.name().into(), self.node.name().into());
        match Advice::on(&error) {
            Advice::WrongType => Error::WrongType { lock, node },
            _ => Error::Redis {
                lock,
                node,
                cause: Box::new(error),
            },
        }
    }

    /// One attempt on one connection.
    fn attempt(
        &self,
        call: &Call,
        answer_by: Moment,
        in_vain: &mut InVain,
    ) -> Result<Value, Failure> {
        let (mut slot, mut wire) = self.checkout(answer_by)?;
        match wire.run(call) {
            Ok(reply) => {
                slot.put(wire);
                Ok(reply)
            }
            Err(Broken::Sending(error)) => {
                in_vain.ambiguous = true;
                Err(error.into())
            }
            Err(Broken::Receiving(error)) if error.is_io_error() => {
                in_vain.ambiguous = true;
                in_vain.unanswered.push(wire);
                Err(error.into())
            }
            Err(Broken::Receiving(error)) => {
                if Advice::on(&error).keeps_connection() {
                    slot.put(wire);
                }
                Err(error.into())
            }
        }
    }

    /// Publishes an empty hint, once and within `time`.
    pub(crate) fn publish(&self, channel: &str, time: Duration) -> Result<(), Failure> {
        let (mut slot, mut wire) = self.checkout(Moment::now().after(time))?;
        let hint = redis::cmd("PUBLISH")
            .arg(channel)
            .arg("")
            .get_packed_command();
        wire.send(&hint).and_then(|()| wire.receive())?;
        slot.put(wire);
        Ok(())
    }

    /// A connection whose reads and writes end by `answer_by`, and the slot to put it back into.
    fn checkout(&self, answer_by: Moment) -> Result<(Slot, Wire), Failure> {
        let mut slot = self
            .pool
            .slot(self.pool_timeout.min(answer_by.left()))
            .map_err(Failure::NoSlot)?;
        let mut wire = match slot.take() {
            Some(wire) => wire,
            None => self.node.open(self.connect_timeout.min(answer_by.left()))?,
        };
        wire.limit(self.command_timeout.min(answer_by.left()))?;
        Ok((slot, wire))
    }
}

impl InVain {
    fn end(self, error: Error) -> NoAnswer {
        NoAnswer {
            error,
            unanswered: self.unanswered,
            ambiguous: self.ambiguous,
        }
    }
}

/// Why one attempt gave no answer.
#[derive(Debug)]
pub(crate) enum Failure {
    NoSlot(r2d2::Error),
    Redis(RedisError),
}

impl From<RedisError> for Failure {
    fn from(error: RedisError) -> Self {
        Self::Redis(error)
    }
}
