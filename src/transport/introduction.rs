//! Names the connections of a client on their server (`CLIENT SETNAME`).
//!
//! The command is sent together with the first request on a connection, and its reply is received
//! before that to the request. So it costs no round trip.

use std::sync::atomic::{AtomicBool, Ordering};

use redis::{RedisError, RedisResult, Value};

use crate::transport::retry_action::RetryAction;

/// The name, and whether the user may use it.
#[derive(Debug)]
pub(crate) struct Introduction {
    packed: Vec<u8>,
    is_refused: AtomicBool,
}

impl Introduction {
    pub(crate) fn new(name: &str) -> Self {
        let mut command = redis::cmd("CLIENT");
        command.arg("SETNAME").arg(name);
        Self {
            packed: command.get_packed_command(),
            is_refused: AtomicBool::new(false),
        }
    }

    /// The command.
    pub(crate) fn packed(&self) -> &[u8] {
        &self.packed
    }

    /// True once the server has refused the name. It would refuse it again, and may log each
    /// refusal.
    pub(crate) fn is_refused(&self) -> bool {
        self.is_refused.load(Ordering::Relaxed)
    }

    /// Handles the reply to the command. A refusal of the name is no error. An error means that the
    /// server refuses the connection and closes it: it is the only reply that will arrive.
    pub(crate) fn received(&self, reply: Value) -> RedisResult<()> {
        let Err(error) = reply.extract_error() else {
            return Ok(());
        };
        if refuses_connection(&error) {
            return Err(error);
        }
        if RetryAction::on(&error) == RetryAction::Fail {
            self.is_refused.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// True for the replies that Redis sends when it accepts a connection, before it reads a request:
/// there are too many clients, or it is in protected mode.
fn refuses_connection(error: &RedisError) -> bool {
    RetryAction::on(error) == RetryAction::TooManyClients || error.code() == Some("DENIED")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(line: &str) -> (bool, bool) {
        let introduction = Introduction::new("leasehold:id:host:1");
        let reply = redis::parse_redis_value(format!("{line}\r\n").as_bytes()).unwrap();
        let is_ok = introduction.received(reply).is_ok();
        (is_ok, introduction.is_refused())
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
            assert_eq!(received(line), (true, is_refused), "{line}");
        }
    }

    #[test]
    fn a_refusal_of_the_connection_is_an_error() {
        for line in [
            "-ERR max number of clients reached",
            "-DENIED Redis is running in protected mode",
        ] {
            assert_eq!(received(line), (false, false), "{line}");
        }
    }
}
