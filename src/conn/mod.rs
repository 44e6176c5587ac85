//! Questions to Redis: asked once, or again until there is a clear answer or no time left.

mod advice;
mod node;
mod pool;
mod server;
mod socket;
mod topology;
mod volley;
mod wire;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use redis::{RedisError, Value};

pub(crate) use advice::Advice;
pub(crate) use server::Server;
pub(crate) use topology::Topology;
pub(crate) use volley::Volley;
pub(crate) use wire::Wire;

use crate::clock::Moment;
use crate::config::Config;
use crate::error::{Cause, Error, Result};
use crate::key::LockKey;
use crate::owner;
use crate::patience::Patience;
use crate::script::Call;
use crate::tls::UNANSWERED;
use pool::Slot;
use topology::{Nowhere, Redirect};
use wire::Broken;

/// Pauses between attempts: none after the first failure, then growing.
const FIRST_PAUSE: Duration = Duration::from_millis(25);
const LONGEST_PAUSE: Duration = Duration::from_millis(400);

/// Servers that one attempt is sent on to. More are for a later one: a cluster that has not settled where
/// a slot is must not be asked without a pause.
const REDIRECTIONS: usize = 5;

/// The way to Redis for the threads that call the client.
#[derive(Debug)]
pub(crate) struct Connections {
    topology: Arc<Topology>,
    pool_timeout: Duration,
    connect_timeout: Duration,
    command_timeout: Duration,
}

/// Requests without a reply whose connections are kept; of more, only the last.
const KEPT: usize = 3;

/// What a request may take that nobody waits for: the system's buffer has room for it, or has not.
const FOLLOW_UP: Duration = Duration::from_millis(10);

/// A clear answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) reply: Value,
    /// Before the request was sent that this answers: leases count from here.
    pub(crate) asked: Moment,
    /// Earlier copies of the request.
    pub(crate) in_vain: InVain,
}

/// No clear answer, for the reason that `error` tells.
#[derive(Debug)]
pub(crate) struct NoAnswer {
    pub(crate) error: Error,
    pub(crate) in_vain: InVain,
}

/// Copies of a request that were sent and got no clear answer.
#[derive(Debug, Default)]
pub(crate) struct InVain {
    /// How many. Each may be done already, or be done later.
    copies: u32,
    /// Where a whole copy went out and nothing came back: the copy may be done at any time.
    unanswered: VecDeque<Wire>,
}

impl InVain {
    /// There is one.
    pub(crate) fn is_ambiguous(&self) -> bool {
        self.copies > 0
    }

    /// Sends `call` behind every unanswered copy. A server that has not read the copy yet does it
    /// when it reads on, however much later, and does this right after it.
    pub(crate) fn follow_up(self, call: &Call) {
        for mut wire in self.unanswered {
            wire.give(FOLLOW_UP);
            let _ = wire.send(&call.by_source(wire.publish()));
        }
    }

    fn sent_in_vain(&mut self, wire: Option<Wire>) {
        self.copies += 1;
        self.unanswered.extend(wire);
        if self.unanswered.len() > KEPT {
            self.unanswered.pop_front();
        }
    }
}

impl Connections {
    pub(crate) fn new(config: &Config, topology: Arc<Topology>) -> Self {
        Self {
            topology,
            pool_timeout: config.pool_timeout,
            connect_timeout: config.connect_timeout,
            command_timeout: config.command_timeout,
        }
    }

    /// Runs `call` until Redis gives a clear answer, for as long as `patience` has for it.
    ///
    /// The calling thread's owner name is retired if a copy of the call may still be under way: the
    /// copy may carry that name.
    pub(crate) fn ask(
        &self,
        lock: &LockKey,
        call: &Call,
        patience: &Patience,
    ) -> Result<Answer, NoAnswer> {
        self.ask_anew(lock, call, || None, patience)
    }

    /// As [`ask`](Self::ask), but whenever a copy may be under way, `anew` can put another call in place
    /// of the next copy.
    pub(crate) fn ask_anew(
        &self,
        lock: &LockKey,
        call: &Call,
        anew: impl FnMut() -> Option<Call>,
        patience: &Patience,
    ) -> Result<Answer, NoAnswer> {
        let mut in_vain = InVain::default();
        let result = self.ask_until_answered(lock, call, anew, patience, &mut in_vain);
        if in_vain.is_ambiguous() {
            owner::retire();
        }
        match result {
            Ok((reply, asked)) => Ok(Answer {
                reply,
                asked,
                in_vain,
            }),
            Err(error) => Err(NoAnswer { error, in_vain }),
        }
    }

    fn ask_until_answered(
        &self,
        lock: &LockKey,
        call: &Call,
        mut anew: impl FnMut() -> Option<Call>,
        patience: &Patience,
        in_vain: &mut InVain,
    ) -> Result<(Value, Moment)> {
        let answer_by = patience.answer_by();
        let mut pause = Duration::ZERO;
        let mut copies = 0;
        let mut newer = None;
        let mut cause: Option<Cause> = None;
        loop {
            let call = newer.as_ref().unwrap_or(call);
            match self.attempt(lock, call, answer_by, in_vain) {
                Ok(answer) => return Ok(answer),
                Err(Failure::Final(error)) => return Err(error),
                Err(Failure::NoServer(found)) => cause = Some(found),
                Err(Failure::NoSlot) => {
                    cause.get_or_insert_with(|| "all connections of the pool are in use".into());
                }
                // What Redis said before tells more than that it said nothing in the time left. And
                // what the system calls this says nothing: "resource temporarily unavailable".
                Err(Failure::Redis(error)) if error.is_timeout() => {
                    cause.get_or_insert_with(|| silence(&error).into());
                }
                Err(Failure::Redis(error)) => match Advice::on(&error) {
                    Advice::Reconnect | Advice::Wait | Advice::Crowded | Advice::Redirect => {
                        cause = Some(Box::new(error));
                    }
                    _ => return Err(self.refusal(lock, error)),
                },
            }
            patience.pause(pause.min(answer_by.left()));
            patience.check(lock.name())?;
            if answer_by.is_past() || (in_vain.is_ambiguous() && !call.is_repeatable()) {
                let cause = cause.unwrap_or_else(|| "no reply in time".into());
                return Err(self.unavailable(lock, patience, cause));
            }
            pause = (pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
            if in_vain.copies > copies {
                copies = in_vain.copies;
                newer = anew().or(newer);
            }
        }
    }

    /// The error of a call that ran out of time for an answer.
    pub(crate) fn unavailable(&self, lock: &LockKey, patience: &Patience, cause: Cause) -> Error {
        Error::Unavailable {
            lock: lock.name().into(),
            node: self.topology.name(lock).as_ref().into(),
            waited: patience.waited(),
            cause,
        }
    }

    /// The error of a reply that Redis should not have given.
    pub(crate) fn refusal(&self, lock: &LockKey, error: RedisError) -> Error {
        let node = self.topology.name(lock).as_ref().into();
        let lock = lock.name().into();
        match Advice::on(&error) {
            Advice::WrongType => Error::WrongType { lock, node },
            _ => Error::Redis {
                lock,
                node,
                cause: Box::new(error),
            },
        }
    }

    /// One attempt, on one connection to the server that has the lock; the reply, and when it was
    /// asked for.
    fn attempt(
        &self,
        lock: &LockKey,
        call: &Call,
        answer_by: Moment,
        in_vain: &mut InVain,
    ) -> Result<(Value, Moment), Failure> {
        let time = self.connect_timeout.min(answer_by.left());
        let mut to = Redirect {
            server: self.topology.server(lock, time)?,
            asking: false,
        };
        for _ in 0..REDIRECTIONS {
            let error = match self.attempt_at(&to, call, answer_by, in_vain) {
                Err(Failure::Redis(error)) if Advice::on(&error) == Advice::Redirect => error,
                result => return result,
            };
            to = match self.topology.redirect(lock, &to.server, &error) {
                Some(redirect) => redirect,
                // Of a cluster that was taken for one server.
                None => return Err(Failure::Final(self.refusal(lock, error))),
            };
        }
        Err(Failure::NoServer(
            "the servers of the cluster refer to one another".into(),
        ))
    }

    fn attempt_at(
        &self,
        to: &Redirect,
        call: &Call,
        answer_by: Moment,
        in_vain: &mut InVain,
    ) -> Result<(Value, Moment), Failure> {
        let (mut slot, mut wire) = self.checkout(&to.server, answer_by, call.is_repeatable())?;
        let asked = Moment::now();
        let time = || self.command_timeout.min(answer_by.left());
        let error = match wire.run(call, to.asking, time) {
            Ok(reply) => {
                slot.put(wire);
                return Ok((reply, asked));
            }
            Err(Broken::Receiving(error)) if Advice::is_reply(&error) => {
                if Advice::on(&error).keeps_connection() {
                    slot.put(wire);
                }
                error
            }
            Err(Broken::Receiving(error)) => {
                in_vain.sent_in_vain(Some(wire).filter(|wire| !wire.is_answered()));
                error
            }
            // What follows half a request would be taken for the rest of it.
            Err(Broken::Sending(error)) => {
                in_vain.sent_in_vain(None);
                error
            }
        };
        to.server.failed(&error);
        Err(Failure::Redis(error))
    }

    /// Publishes an empty hint at one server, once and within `time`.
    pub(crate) fn publish(
        &self,
        server: &Server,
        channel: &str,
        time: Duration,
    ) -> Result<(), Failure> {
        let answer_by = Moment::now().after(time);
        let (mut slot, mut wire) = self.checkout(server, answer_by, true)?;
        let hint = redis::cmd("PUBLISH")
            .arg(channel)
            .arg("")
            .get_packed_command();
        wire.give(self.command_timeout.min(answer_by.left()));
        wire.send(&hint).and_then(|()| wire.receive())?;
        slot.put(wire);
        Ok(())
    }

    /// A connection, and the slot to put it back into. One that was used before may turn out to be
    /// cut, which is no harm to a request that can be repeated.
    fn checkout<'a>(
        &self,
        server: &'a Server,
        answer_by: Moment,
        repeatable: bool,
    ) -> Result<(Slot<'a>, Wire), Failure> {
        let mut slot = server
            .pool
            .slot(self.pool_timeout.min(answer_by.left()))
            .map_err(|_| Failure::NoSlot)?;
        if let Some(wire) = slot.take().filter(|_| repeatable) {
            return Ok((slot, wire));
        }
        let opened = server.node.open(self.connect_timeout.min(answer_by.left()));
        let wire = opened.inspect_err(|error| server.failed(error))?;
        Ok((slot, wire))
    }
}

/// What a time-out was spent on.
fn silence(error: &RedisError) -> &'static str {
    if error.to_string() == UNANSWERED {
        UNANSWERED
    } else {
        "no reply in time"
    }
}

/// Why one attempt gave no answer.
#[derive(Debug)]
pub(crate) enum Failure {
    NoSlot,
    NoServer(Cause),
    Redis(RedisError),
    /// Asking again is in vain.
    Final(Error),
}

impl From<Nowhere> for Failure {
    fn from(nowhere: Nowhere) -> Self {
        match nowhere {
            Nowhere::Yet(cause) => Self::NoServer(cause),
            Nowhere::Ever(error) => Self::Final(error),
        }
    }
}

impl From<RedisError> for Failure {
    fn from(error: RedisError) -> Self {
        Self::Redis(error)
    }
}
