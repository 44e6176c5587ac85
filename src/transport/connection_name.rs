//! Names the connections of a client on their server (`CLIENT SETNAME`).
//!
//! The command is sent together with the first request on a connection, and its reply is received
//! before that to the request. So it costs no round trip.

use std::time::Duration;

use parking_lot::Mutex;
use redis::{RedisError, RedisResult, Value};

use crate::base::clock::Moment;
use crate::transport::retry_action::RetryAction;

/// How long no name is sent after a connection was closed before the reply to it. Some proxies
/// close a connection on which they receive a command that they do not know.
const PAUSE: Duration = Duration::from_secs(60);

/// The name of connections, and until when it is not sent.
#[derive(Debug)]
pub(crate) struct ConnectionName {
    packed: Vec<u8>,
    paused_until: Mutex<Moment>,
}

impl ConnectionName {
    pub(crate) fn new(name: &str) -> Self {
        let mut command = redis::cmd("CLIENT");
        command.arg("SETNAME").arg(name);
        Self {
            packed: command.get_packed_command(),
            paused_until: Mutex::new(Moment::ZERO),
        }
    }

    /// The command.
    pub(crate) fn packed(&self) -> &[u8] {
        &self.packed
    }

    /// True if the next connection gets no name: the server has refused it, and may log each
    /// refusal, or a connection was closed before the reply to it.
    pub(crate) fn is_paused(&self) -> bool {
        !self.paused_until.lock().is_past()
    }

    /// Handles the reply to the command. A refusal of the name is no error.
    pub(crate) fn received(&self, reply: RedisResult<Value>) {
        let is_refused = |error| RetryAction::on(&error) == RetryAction::Fail;
        if reply.is_err_and(is_refused) {
            *self.paused_until.lock() = Moment::NEVER;
        }
    }

    /// Handles a connection that failed before the reply to the command. If it was closed, the next
    /// ones have no name for a while: not for good, because the server may have stopped.
    pub(crate) fn not_received(&self, failure: &RedisError) {
        if failure.is_connection_dropped() {
            let mut until = self.paused_until.lock();
            *until = Moment::now().after(PAUSE).max(*until);
        }
    }
}

/// True for the replies that Redis sends when it accepts a connection, before it reads a request:
/// there are too many clients, or it is in protected mode.
pub(crate) fn refuses_connection(error: &RedisError) -> bool {
    RetryAction::on(error) == RetryAction::TooManyClients || error.code() == Some("DENIED")
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;
    use crate::transport::tests::refusal;

    fn received(line: &str) -> bool {
        let name = ConnectionName::new("leasehold:id:host:1");
        let reply = redis::parse_redis_value(format!("{line}\r\n").as_bytes()).unwrap();
        name.received(reply.extract_error());
        name.is_paused()
    }

    #[test]
    fn a_refusal_of_the_name_is_no_error() {
        for (line, is_refused) in [
            ("+OK", false),
            (
                "-NOPERM this user has no permissions to run the 'client|setname' command",
                true,
            ),
            ("-ERR unknown command 'CLIENT'", true),
            // The request gets the same reply.
            ("-NOAUTH Authentication required.", false),
            ("-BUSY Redis is busy running a script", false),
        ] {
            assert_eq!(received(line), is_refused, "{line}");
        }
    }

    #[test]
    fn a_refusal_of_the_connection_is_told_from_one_of_the_name() {
        for (line, is_refused) in [
            ("ERR max number of clients reached", true),
            ("DENIED Redis is running in protected mode", true),
            ("ERR unknown command 'CLIENT'", false),
        ] {
            assert_eq!(refuses_connection(&refusal(line)), is_refused, "{line}");
        }
    }

    #[test]
    fn a_closed_connection_delays_the_name_and_does_not_undo_a_refusal() {
        let name = ConnectionName::new("leasehold:id:host:1");
        for (failure, is_refused) in [
            (ErrorKind::WouldBlock, false),
            (ErrorKind::ConnectionReset, true),
        ] {
            name.not_received(&std::io::Error::from(failure).into());
            assert_eq!(name.is_paused(), is_refused, "{failure}");
        }
        *name.paused_until.lock() = Moment::now();
        assert!(!name.is_paused());
        *name.paused_until.lock() = Moment::NEVER;
        name.not_received(&std::io::Error::from(ErrorKind::UnexpectedEof).into());
        assert_eq!(*name.paused_until.lock(), Moment::NEVER);
    }
}
