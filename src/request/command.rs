//! The health check, which is about no lock.

use std::sync::Arc;

use redis::RedisError;

use super::attempt::Attempt;
use super::client::RedisClient;
use super::state::{Request, RequestState, final_error};
use crate::base::{List, LockKey, Moment};
use crate::error::{Cause, Error, Result, TimeLimit};
use crate::script::Call;
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
        let unavailable = |node: &str, cause: Cause| Error::Unavailable {
            lock: String::new(),
            node: node.into(),
            waited: Moment::now().since(began),
            limit: until.is_past().then_some(TimeLimit::Command),
            cause: cause.into(),
        };
        let servers = self.topology.serving(until.left()).map_err(|error| {
            let unavailable = |cause| unavailable(&self.topology.deployment(), cause);
            final_error("", error).unwrap_or_else(unavailable)
        })?;
        let no_lock = LockKey::new("", "");
        let ping = Request::new(self, &no_lock, Call::of_command(&redis::cmd("PING")));
        let states = servers.iter().map(|server| RequestState::to(&ping, server));
        let mut states: List<RequestState<'_>> = states.collect();
        Attempt::new(&mut states, Purpose::Caller, until, &mut |_| None).run(List::new());
        let fail = |server: &Server, error: RedisError| {
            let cause: Cause = match error {
                error if error.is_timeout() => timeout_cause(&error).into(),
                error if RetryAction::on(&error).is_retryable() => error.into(),
                error => {
                    return Error::Redis {
                        lock: String::new(),
                        node: server.name().as_ref().into(),
                        hint: self.topology.hint(&error),
                        cause: Arc::new(error),
                    };
                }
            };
            unavailable(server.name(), cause)
        };
        servers.iter().zip(states).try_for_each(|(server, state)| {
            let (pong, _) = state.into_replied();
            pong.map(drop).map_err(|error| fail(server, error))
        })
    }
}
