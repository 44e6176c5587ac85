//! The health check: one PING to each server that has locks, all at the same time.

use std::sync::Arc;

use redis::{RedisError, RedisResult};

use super::client::RedisClient;
use super::state::Failure;
use crate::base::clock::Moment;
use crate::error::{Cause, Error, Result};
use crate::topology::RouteError;
use crate::transport::connection::Connection;
use crate::transport::pool::Slot;
use crate::transport::retry_action::RetryAction;
use crate::transport::server::Server;
use crate::transport::server_error::timeout_cause;

/// A PING that was sent.
struct Sent<'a> {
    server: &'a Arc<Server>,
    slot: Slot,
    connection: Box<Connection>,
    /// The connection had been idle, or its name is not confirmed: if it was cut, that says nothing of
    /// the server.
    may_repeat: bool,
    at: Moment,
}

/// Why a server did not reply.
enum Refused {
    NoSlot,
    Redis(RedisError),
}

impl RedisClient {
    /// Sends a PING to every server that has locks, and waits for the replies. Takes at most one
    /// command timeout. Looks the servers up only if they are not known.
    pub(crate) fn ping(&self) -> Result<()> {
        let began = Moment::now();
        let until = began.after(self.command_timeout);
        let servers = self.topology.serving(until.left());
        let servers = servers.map_err(|error| self.route_error(error, began))?;
        let fail = |server: &Arc<Server>, refused| self.ping_error(server, refused, began);
        let mut sent = Vec::with_capacity(servers.len());
        for server in &servers {
            let one = self.send_ping(server, until, true);
            sent.push(one.map_err(|refused| fail(server, refused))?);
        }
        for one in sent {
            let server = one.server;
            self.await_pong(one, until)
                .map_err(|refused| fail(server, refused))?;
        }
        Ok(())
    }

    /// Sends a PING on an idle connection if there is one and it `may_reuse` it, or else on a new
    /// one.
    fn send_ping<'a>(
        &self,
        server: &'a Arc<Server>,
        until: Moment,
        may_reuse: bool,
    ) -> Result<Sent<'a>, Refused> {
        let slot = server.pool.slot(|| self.pool_timeout.min(until.left()));
        let mut slot = slot.map_err(|_| Refused::NoSlot)?;
        let ping = redis::cmd("PING").get_packed_command();
        if let Some(mut idle) = slot.take().filter(|_| may_reuse) {
            idle.set_deadline(until);
            if idle.send(&ping).is_ok() {
                return Ok(Sent {
                    server,
                    slot,
                    connection: idle,
                    may_repeat: true,
                    at: Moment::now(),
                });
            }
        }
        let connection = server.node.open(self.connect_timeout.min(until.left()));
        let mut connection = Box::new(connection.map_err(|error| failed(server, error, false))?);
        connection.set_deadline(until);
        let at = Moment::now();
        connection
            .send(&ping)
            .map_err(|error| failed(server, error, connection.is_established()))?;
        Ok(Sent {
            server,
            slot,
            may_repeat: may_reuse && connection.awaits_name(),
            connection,
            at,
        })
    }

    /// Waits for the reply. If the connection had been cut while it was idle, or because of its
    /// name, sends another PING on a new one.
    fn await_pong(&self, sent: Sent<'_>, until: Moment) -> Result<(), Refused> {
        let Sent {
            server,
            mut slot,
            mut connection,
            may_repeat,
            at,
        } = sent;
        connection.set_deadline(until);
        let reply: RedisResult<_> = connection.receive();
        match reply {
            Ok(_) => {
                let replied = connection.used();
                server.replied(replied, replied.since(at));
                slot.put(connection);
                Ok(())
            }
            Err(error) if may_repeat && !error.is_timeout() && !RetryAction::is_reply(&error) => {
                drop(slot);
                let again = self.send_ping(server, until, false)?;
                self.await_pong(again, until)
            }
            Err(error) => {
                let established = connection.is_established();
                if RetryAction::on(&error).keeps_connection() {
                    slot.put(connection);
                }
                Err(failed(server, error, established))
            }
        }
    }

    fn ping_error(&self, server: &Server, refused: Refused, began: Moment) -> Error {
        let cause: Cause = match refused {
            Refused::NoSlot => "all connections of the pool are in use".into(),
            Refused::Redis(error) if error.is_timeout() => timeout_cause(&error).into(),
            Refused::Redis(error) if RetryAction::on(&error).is_retryable() => error.into(),
            Refused::Redis(error) => {
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
        match Failure::of_route("", error) {
            Failure::Final(error) => error,
            Failure::NoServer(cause) => unavailable(&self.deployment(), began, cause),
            Failure::NoSlot | Failure::Redis(_) => {
                unavailable(&self.deployment(), began, "no server is known".into())
            }
        }
    }
}

/// Records that a server did not reply.
fn failed(server: &Server, error: RedisError, established: bool) -> Refused {
    server.failed(&error, established);
    if !RetryAction::is_reply(&error) {
        server.unanswered(Moment::now());
    }
    Refused::Redis(error)
}

fn unavailable(node: &str, began: Moment, cause: Cause) -> Error {
    Error::Unavailable {
        lock: String::new(),
        node: node.into(),
        waited: Moment::now().since(began),
        cause,
    }
}
