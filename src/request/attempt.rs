//! One attempt at an answer: on one connection, to the server that has the lock.

use std::sync::Arc;
use std::time::Duration;

use redis::{RedisError, RedisResult, Value};

use super::RedisClient;
use super::reply::LostCopies;
use crate::base::call_budget::GRACE;
use crate::base::clock::Moment;
use crate::base::key::LockKey;
use crate::error::{Cause, Error};
use crate::script::Call;
use crate::topology::{Redirect, RouteError};
use crate::transport::connection::{Broken, Connection};
use crate::transport::pool::Slot;
use crate::transport::retry_action::RetryAction;
use crate::transport::server::Server;

/// Servers that one attempt is sent on to. More are for a later one: a cluster that has not settled where
/// a slot is must not be asked without a pause.
pub(super) const REDIRECTIONS: usize = 5;

/// What a hint may take that nobody waits for.
const HINT_TIMEOUT: Duration = Duration::from_millis(250);

/// How long a caller that cannot open a connection waits until another caller puts one back.
const RETURN_TIMEOUT: Duration = Duration::from_millis(100);

/// What one attempt brought.
#[derive(Debug)]
pub(super) struct Replied {
    pub(super) reply: Value,
    /// Before it was asked for.
    pub(super) asked: Moment,
    pub(super) unreplicated: Option<u32>,
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

impl Failure {
    pub(super) fn route_error(lock: &LockKey, route_error: RouteError) -> Self {
        match route_error {
            RouteError::Yet(cause) => Self::NoServer(cause),
            RouteError::Refused { node, cause, hint } => Self::Final(Error::Redis {
                lock: lock.name().into(),
                node: node.as_ref().into(),
                cause,
                hint,
            }),
            RouteError::Ever(error) => Self::Final(error),
        }
    }
}

impl From<RedisError> for Failure {
    fn from(error: RedisError) -> Self {
        Self::Redis(error)
    }
}

impl RedisClient {
    /// One attempt, on one connection to the server that has the lock.
    pub(super) fn attempt(
        &self,
        lock: &LockKey,
        call: &Call,
        reply_by: Moment,
        lost_copies: &mut LostCopies,
    ) -> Result<Replied, Failure> {
        let time = self.connect_timeout.min(reply_by.left());
        let server = self.topology.server(lock, time);
        let mut to = Redirect {
            server: server.map_err(|route_error| Failure::route_error(lock, route_error))?,
            asking: false,
        };
        let mut sent_on_by: Option<Arc<Server>> = None;
        for _ in 0..REDIRECTIONS {
            let error = match self.attempt_at(&to, call, reply_by, lost_copies) {
                Err(Failure::Redis(error)) if RetryAction::on(&error) == RetryAction::Redirect => {
                    error
                }
                result => {
                    if let (Ok(replied), Some(from)) = (&result, &sent_on_by)
                        && to.asking
                        && call.has_released(&replied.reply)
                    {
                        self.announce_at(from, lock, reply_by);
                    }
                    return result;
                }
            };
            to = match self.topology.redirect(lock, &to.server, &error) {
                Some(redirect) => {
                    sent_on_by = Some(to.server);
                    redirect
                }
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
        reply_by: Moment,
        lost_copies: &mut LostCopies,
    ) -> Result<Replied, Failure> {
        let (mut slot, mut connection) =
            self.checkout(&to.server, reply_by, call.is_repeatable())?;
        let asked = Moment::now();
        let time = || self.command_timeout.min(reply_by.left());
        let result = connection.run(call, to.asking, time);
        let established = connection.is_established();
        let error = match result {
            Ok(reply) => {
                to.server.answered();
                let replicated = match self.min_replicas {
                    Some(wanted) if call.has_taken(&reply) => {
                        self.replicate(&mut connection, wanted, reply_by)
                    }
                    _ => Ok(None),
                };
                match replicated {
                    Ok(unreplicated) => {
                        slot.put(connection);
                        lost_copies.goes_to(&to.server);
                        return Ok(Replied {
                            reply,
                            asked,
                            unreplicated,
                        });
                    }
                    // Taken it is, but whether that is worth anything nobody knows.
                    Err(error) => {
                        lost_copies.lost(&to.server, None);
                        error
                    }
                }
            }
            Err(Broken::Receiving(error)) if RetryAction::is_reply(&error) => {
                if RetryAction::on(&error).keeps_connection() {
                    slot.put(connection);
                }
                error
            }
            Err(Broken::Receiving(error)) => {
                let unanswered = Some(connection).filter(|connection| !connection.is_answered());
                lost_copies.lost(&to.server, unanswered.map(Into::into));
                error
            }
            // What follows half a request would be taken for the rest of it.
            Err(Broken::Sending(error) | Broken::OutOfStep(error)) => {
                lost_copies.lost(&to.server, None);
                error
            }
        };
        to.server.failed(&error, established);
        Err(Failure::Redis(error))
    }

    /// How many replicas have what was just written, if they are too few.
    pub(super) fn replicate(
        &self,
        connection: &mut Connection,
        (wanted, budget): (u32, Duration),
        reply_by: Moment,
    ) -> RedisResult<Option<u32>> {
        let left = reply_by.left();
        let budget = budget.min(left);
        // The reply to a WAIT that ends with the time of the call is on its way then.
        let reply = self.command_timeout.min((left - budget).max(GRACE));
        let confirmed = connection.replicate(wanted, budget, reply)?;
        Ok((confirmed < wanted).then_some(confirmed))
    }

    /// Announces a release at the server from which the lock is migrating, because waiting threads
    /// may still listen there.
    pub(super) fn announce_at(&self, from: &Server, lock: &LockKey, reply_by: Moment) {
        let time = HINT_TIMEOUT.min(reply_by.left());
        let command = from.node.publish().command();
        let _ = self.publish(from, command, lock.channel(), "0", time);
    }

    /// Publishes a hint by this command at the server, once and within `time`.
    pub(crate) fn publish(
        &self,
        server: &Server,
        command: &str,
        channel: &str,
        text: &str,
        time: Duration,
    ) -> Result<(), Failure> {
        let reply_by = Moment::now().after(time);
        let (mut slot, mut connection) = self.checkout(server, reply_by, true)?;
        let hint = redis::cmd(command)
            .arg(channel)
            .arg(text)
            .get_packed_command();
        connection.set_time_limit(self.command_timeout.min(reply_by.left()));
        connection.send(&hint).and_then(|()| connection.receive())?;
        slot.put(connection);
        Ok(())
    }

    /// A connection, and the slot to put it back into. A repeatable request takes an open
    /// connection if there is one: if that is cut, the request is sent again. Any other request
    /// opens a connection, and takes an open one only if that fails.
    fn checkout<'a>(
        &self,
        server: &'a Server,
        reply_by: Moment,
        repeatable: bool,
    ) -> Result<(Slot<'a>, Connection), Failure> {
        let mut slot = server
            .pool
            .slot(self.pool_timeout.min(reply_by.left()))
            .map_err(|_| Failure::NoSlot)?;
        if repeatable && let Some(connection) = slot.take() {
            return Ok((slot, connection));
        }
        // Until the new connection is put back, an open one stays in the slot.
        let opened = server.node.open(self.connect_timeout.min(reply_by.left()));
        let connection = opened.or_else(|error| {
            server.failed(&error, false);
            let time = RETURN_TIMEOUT.min(reply_by.left());
            slot.another(time).ok_or(error)
        })?;
        Ok((slot, connection))
    }
}
