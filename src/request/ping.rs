//! The health check: one PING to each server that has locks, all at the same time.

use std::sync::Arc;

use redis::{RedisError, RedisResult};

use super::client::{RedisClient, reply_of};
use super::state::final_error;
use crate::base::clock::Moment;
use crate::error::{Cause, Error, Result};
use crate::topology::RouteError;
use crate::transport::link::{Outcome, Sent};
use crate::transport::links::Purpose;
use crate::transport::retry_action::RetryAction;
use crate::transport::server::Server;
use crate::transport::server_error::timeout_cause;

impl RedisClient {
    /// Sends a PING to every server that has locks, and waits for the replies. Takes at most one
    /// command timeout. Looks the servers up only if they are not known.
    pub(crate) fn ping(&self) -> Result<()> {
        let began = Moment::now();
        let until = began.after(self.command_timeout);
        let servers = self.topology.serving(until.left());
        let servers = servers.map_err(|error| self.route_error(error, began))?;
        let fail = |server: &Arc<Server>, error| self.ping_error(server, error, began);
        let mut sent = Vec::with_capacity(servers.len());
        for server in &servers {
            let one = self.send_ping(server, until);
            sent.push((server, one.map_err(|error| fail(server, error))?));
        }
        for (server, one) in sent {
            let pong = self.await_pong(server, one, until);
            pong.map_err(|error| fail(server, error))?;
        }
        Ok(())
    }

    fn send_ping(&self, server: &Arc<Server>, until: Moment) -> RedisResult<Sent> {
        let time = || self.connect_timeout.min(until.left());
        let link = server.links.link(&server.node, Purpose::Caller, 1, time);
        let link = link.map_err(|error| failed(server, error, false, Moment::now()))?;
        let ping = redis::cmd("PING").get_packed_command();
        Ok(link.send(1, Moment::now(), |out| out.command(&ping)))
    }

    /// Waits for the reply. If the connection had been cut while it was idle, or because of its
    /// name, sends another PING.
    fn await_pong(&self, server: &Arc<Server>, mut sent: Sent, until: Moment) -> RedisResult<()> {
        let mut outcome = sent.only_outcome(until, self.command_timeout);
        if matches!(outcome, Some(Outcome::Broken(_))) && sent.is_stale() {
            sent = self.send_ping(server, until)?;
            outcome = sent.only_outcome(until, self.command_timeout);
        }
        if let Some(Outcome::Replied(Ok(_), at)) = outcome {
            server.replied(at, at.since(sent.sent_at));
        }
        let established = sent.link.is_established();
        let fail = |error| failed(server, error, established, sent.sent_at);
        reply_of(outcome).map(drop).map_err(fail)
    }

    fn ping_error(&self, server: &Server, error: RedisError, began: Moment) -> Error {
        let cause: Cause = match error {
            error if error.is_timeout() => timeout_cause(&error).into(),
            error if RetryAction::on(&error).is_retryable() => error.into(),
            error => {
                return Error::Redis {
                    lock: String::new(),
                    node: server.name().as_ref().into(),
                    hint: self.topology.role().hint(&error),
                    cause: error.into(),
                };
            }
        };
        unavailable(server.name(), began, cause)
    }

    /// The error if no server is known that has locks.
    fn route_error(&self, error: RouteError, began: Moment) -> Error {
        let unavailable = |cause| unavailable(&self.topology.deployment(), began, cause);
        final_error("", error).unwrap_or_else(unavailable)
    }
}

/// Records that a server did not reply.
fn failed(server: &Server, error: RedisError, established: bool, since: Moment) -> RedisError {
    server.failed(&error, established, since);
    if !RetryAction::is_reply(&error) {
        server.unanswered(Moment::now());
    }
    error
}

fn unavailable(node: &str, began: Moment, cause: Cause) -> Error {
    Error::Unavailable {
        lock: String::new(),
        node: node.into(),
        waited: Moment::now().since(began),
        cause,
    }
}
