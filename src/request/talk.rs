//! Questions about a whole server, not about one lock of it.

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Pipeline, RedisError, RedisResult, Value};

use super::client::RedisClient;
use super::state::timeout_cause;
use crate::base::clock::Moment;
use crate::base::key::LockKey;
use crate::error::Hint;
use crate::script::Publish;
use crate::topology::{Redirect, RouteError};
use crate::transport::connection::Connection;
use crate::transport::retry_action::RetryAction;
use crate::transport::server::Server;

/// A connection of its own to one server. After an error that is no reply it is out of step: drop it.
#[derive(Debug)]
pub(crate) struct Talk {
    connection: Connection,
    /// For each reply.
    budget: Duration,
}

impl RedisClient {
    /// Every server that locks are on, in the order of its name.
    pub(crate) fn servers(&self) -> Result<Vec<Arc<Server>>, RouteError> {
        let mut servers = self.topology.servers(self.connect_timeout)?;
        servers.sort_by(|a, b| a.name().cmp(b.name()));
        Ok(servers)
    }

    /// The server that has this lock.
    pub(crate) fn home(&self, lock: &LockKey) -> Result<Arc<Server>, RouteError> {
        self.topology.server(lock, self.connect_timeout)
    }

    /// Where a reply of the server `from` about the lock says that it is; `None` if it says no such thing.
    pub(crate) fn redirect(
        &self,
        lock: &LockKey,
        from: &Server,
        error: &RedisError,
    ) -> Option<Redirect> {
        self.topology.redirect(lock, from, error)
    }

    /// The failure of a talk, for people, and what to change, if the reply says so.
    pub(crate) fn complaint(
        &self,
        server: &Server,
        error: &RedisError,
    ) -> (String, Option<Box<Hint>>) {
        let node = server.name();
        if error.is_timeout() {
            return (format!("Redis at {node}: {}", timeout_cause(error)), None);
        }
        let verb = if RetryAction::is_reply(error) {
            "refused"
        } else {
            "failed"
        };
        let text = format!("Redis at {node} {verb}: {error}");
        (text, self.topology.role().hint(error))
    }

    pub(crate) fn talk(&self, server: &Server) -> RedisResult<Talk> {
        Ok(Talk {
            connection: server.node.open(self.connect_timeout)?,
            budget: self.command_timeout,
        })
    }
}

impl Talk {
    /// Whether releases are announced to the shard of a cluster.
    pub(crate) fn is_sharded(&self) -> bool {
        self.connection.publish() == Publish::ToShard
    }

    /// The reply; an error reply is an error.
    pub(crate) fn ask(&mut self, command: &Cmd) -> RedisResult<Value> {
        self.connection
            .set_deadline(Moment::now().after(self.budget));
        self.connection.send(&command.get_packed_command())?;
        self.connection.receive()
    }

    /// The replies, one for each command. Error replies are among them.
    pub(crate) fn ask_all(&mut self, commands: &Pipeline) -> RedisResult<Vec<RedisResult<Value>>> {
        self.connection
            .set_deadline(Moment::now().after(self.budget));
        self.connection.send(&commands.get_packed_pipeline())?;
        let mut replies = Vec::with_capacity(commands.len());
        for _ in 0..commands.len() {
            self.connection
                .set_deadline(Moment::now().after(self.budget));
            match self.connection.receive() {
                Err(error) if !RetryAction::is_reply(&error) => return Err(error),
                reply => replies.push(reply),
            }
        }
        Ok(replies)
    }
}
