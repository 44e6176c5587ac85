//! Commands to servers, about no lock: the health check, and messages that only save time.

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, RedisError, RedisResult, Value};

use super::attempt::Attempt;
use super::client::RedisClient;
use super::state::{Request, RequestState, final_error};
use crate::base::clock::Moment;
use crate::base::key::LockKey;
use crate::base::list::List;
use crate::error::{Cause, Error, Result};
use crate::script::Call;
use crate::transport::links::Purpose;
use crate::transport::retry_action::RetryAction;
use crate::transport::server::Server;
use crate::transport::server_error::timeout_cause;

/// The longest time for a message that only saves other threads time.
const HINT_TIMEOUT: Duration = Duration::from_millis(250);

impl RedisClient {
    /// Sends a command to each of these servers, to all before the first reply is read, and waits
    /// for the replies until this moment. `blames`: a server that does not reply by then is
    /// unresponsive.
    fn command(
        &self,
        servers: &[Arc<Server>],
        command: &Cmd,
        until: Moment,
        blames: bool,
    ) -> List<RedisResult<Value>> {
        let no_lock = LockKey::new("", "");
        let request = Request::new(self, &no_lock, Call::of_command(command));
        let states = servers
            .iter()
            .map(|server| RequestState::to(&request, server));
        let mut states: List<RequestState<'_>> = states.collect();
        let mut next_call = |_| None;
        let mut attempt = Attempt::new(&mut states, None, Purpose::Caller, until, &mut next_call);
        attempt.blames = blames;
        attempt.run();
        let states = states.into_iter();
        states.map(|state| state.into_replied().0).collect()
    }

    /// Publishes a message by this command at the server, within `time` and shortly. It saves
    /// other threads time. The health of the server does not depend on a reply in this time.
    pub(crate) fn publish(
        &self,
        server: &Arc<Server>,
        (command, channel, text): (&str, &str, &str),
        time: Duration,
    ) -> RedisResult<()> {
        let until = Moment::now().after(HINT_TIMEOUT.min(time));
        let mut message = redis::cmd(command);
        message.arg(channel).arg(text);
        let replies = self.command(std::slice::from_ref(server), &message, until, false);
        replies.into_iter().try_for_each(|reply| reply.map(drop))
    }

    /// Sends a PING to every server that has locks, and waits for the replies. Takes at most one
    /// command timeout. Looks the servers up only if they are not known.
    pub(crate) fn ping(&self) -> Result<()> {
        let began = Moment::now();
        let until = began.after(self.command_timeout);
        let unavailable = |node: &str, cause| Error::Unavailable {
            lock: String::new(),
            node: node.into(),
            waited: Moment::now().since(began),
            cause,
        };
        let servers = self.topology.serving(until.left()).map_err(|error| {
            let unavailable = |cause| unavailable(&self.topology.deployment(), cause);
            final_error("", error).unwrap_or_else(unavailable)
        })?;
        let pongs = self.command(&servers, &redis::cmd("PING"), until, true);
        let fail = |server: &Server, error: RedisError| {
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
            unavailable(server.name(), cause)
        };
        let mut pongs = servers.iter().zip(pongs);
        pongs.try_for_each(|(server, pong)| pong.map(drop).map_err(|error| fail(server, error)))
    }
}
