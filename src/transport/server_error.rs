//! The failure of a request to one server, and what to change.

use std::fmt;
use std::sync::Arc;

use redis::RedisError;

use super::retry_action::RetryAction;
use super::tls::{HandshakeTimeout, is_caused_by};
use crate::error::Hint;

/// A server gave no reply, or replied with an error.
///
/// The text names the server and contains the cause and the hint. It contains no password.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerError {
    /// The address of the server.
    pub node: Arc<str>,
    /// The error reply, or the failure of the connection.
    pub cause: RedisError,
    /// What to change, if that follows from the cause.
    pub hint: Option<Box<Hint>>,
}

impl ServerError {
    /// Returns true if the server, or a proxy before it, replied. Returns false if the connection
    /// failed or no reply came in time; the connection cannot be used again then.
    #[must_use]
    pub fn is_reply(&self) -> bool {
        RetryAction::is_reply(&self.cause)
    }

    /// Returns true if the same request can succeed later without any change: the server could not
    /// be reached, did not reply in time, or is not ready. An error reply that Redis does not have
    /// counts as that of a proxy that did not reach the server.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        RetryAction::on(&self.cause).is_retryable()
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { node, cause, hint } = self;
        if cause.is_timeout() {
            write!(f, "Redis at {node}: {}", timeout_cause(cause))?;
        } else if RetryAction::is_refusal(cause) {
            write!(f, "Redis at {node} refused: {cause}")?;
        } else {
            write!(f, "Redis at {node} failed: {cause}")?;
        }
        hint.iter().try_for_each(|hint| write!(f, "; {hint}"))
    }
}

/// Without a source: the text contains that of the cause.
impl std::error::Error for ServerError {}

/// Why a request timed out.
pub(crate) fn timeout_cause(error: &RedisError) -> String {
    if is_caused_by::<HandshakeTimeout>(error) {
        HandshakeTimeout.to_string()
    } else {
        "no reply in time".into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::tests::refusal;

    fn error(cause: RedisError) -> ServerError {
        let (node, hint) = ("h:1".into(), None);
        ServerError { node, cause, hint }
    }

    #[test]
    fn a_reply_is_told_from_a_failure_and_what_is_temporary_from_what_is_not() {
        for (line, temporary) in [
            ("LOADING Redis is loading the dataset in memory", true),
            ("ERR max number of clients reached", true),
            ("NOAUTH Authentication required.", false),
            ("NOPERM this user has no permissions", false),
            ("ERR unknown command 'PING'", false),
        ] {
            let error = error(refusal(line));
            assert!(error.is_reply(), "{line}");
            assert_eq!(error.is_temporary(), temporary, "{line}");
            assert!(error.to_string().starts_with("Redis at h:1 refused: "));
        }
        let of_proxy = error(refusal("upstream failure"));
        assert!(of_proxy.is_reply() && of_proxy.is_temporary());
        assert!(of_proxy.to_string().starts_with("Redis at h:1 failed: "));
        let error = error(std::io::Error::from(std::io::ErrorKind::ConnectionRefused).into());
        assert!(!error.is_reply() && error.is_temporary());
        assert!(error.to_string().starts_with("Redis at h:1 failed: "));
    }

    #[test]
    fn the_text_contains_the_hint_once() {
        let refused = ServerError {
            hint: Some(Hint::LogIn.into()),
            ..error(refusal("NOAUTH Authentication required."))
        };
        let (text, hint) = (refused.to_string(), Hint::LogIn.to_string());
        assert_eq!(text.matches(&hint).count(), 1, "{text}");
        let late = error(std::io::Error::from(std::io::ErrorKind::TimedOut).into());
        assert_eq!(late.to_string(), "Redis at h:1: no reply in time");
    }
}
