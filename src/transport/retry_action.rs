//! What to do after a failure: one rule for each kind of failure.

use redis::{ErrorKind, RedisError};

use crate::transport::tls::{CertificateRefused, is_caused_by};

/// What the caller does after a failed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RetryAction {
    /// Drop the connection and retry on a new one: the connection is in an unknown state, or its
    /// server accepts no writes.
    Reconnect,
    /// Retry a little later: the server is not ready.
    Retry,
    /// Retry a little later, after a look-up: the server is not ready, and another one may have its
    /// locks by then.
    LookUp,
    /// Retry a little later on another connection: the server has too many clients, and closes
    /// this one.
    TooManyClients,
    /// Send the request at once to the server of the cluster that the reply names.
    Redirect,
    /// Send the source of the script, which the server does not know.
    SendSource,
    /// Fail: the key is not a lock.
    WrongType,
    /// Fail, and drop the connection: the log-in or a certificate is wrong or no longer valid.
    FailAndDrop,
    /// Fail: a retry would get the same reply.
    Fail,
}

/// The code of an error reply, words in it, and the action.
const REPLIES: [(&str, &str, RetryAction); 17] = [
    ("NOSCRIPT", "", RetryAction::SendSource),
    ("MOVED", "", RetryAction::Redirect),
    ("ASK", "", RetryAction::Redirect),
    ("READONLY", "", RetryAction::Reconnect),
    // The server ended a blocked command because it became a replica.
    ("UNBLOCKED", "", RetryAction::Reconnect),
    ("ERR", "replica instances", RetryAction::Reconnect),
    ("LOADING", "", RetryAction::LookUp),
    ("MASTERDOWN", "", RetryAction::LookUp),
    ("CLUSTERDOWN", "", RetryAction::LookUp),
    ("TRYAGAIN", "", RetryAction::Retry),
    // A script of another client runs too long.
    ("BUSY", "", RetryAction::Retry),
    ("NOREPLICAS", "", RetryAction::Retry),
    // A script needs a second key of a slot that is being moved to another server.
    (
        "ERR",
        "a non local key in a cluster node",
        RetryAction::Retry,
    ),
    ("ERR", "max number of clients", RetryAction::TooManyClients),
    ("WRONGTYPE", "", RetryAction::WrongType),
    ("NOAUTH", "", RetryAction::FailAndDrop),
    ("WRONGPASS", "", RetryAction::FailAndDrop),
];

impl RetryAction {
    pub(crate) fn on(error: &RedisError) -> Self {
        match error.kind() {
            ErrorKind::Io if is_caused_by::<CertificateRefused>(error) => Self::FailAndDrop,
            ErrorKind::Io | ErrorKind::Parse => Self::Reconnect,
            _ => {
                let text = error.detail().unwrap_or_default();
                let mut replies = REPLIES.iter();
                let is_this = |(code, words, _): &&(&str, &str, _)| {
                    error.code() == Some(code) && text.contains(words)
                };
                replies.find(is_this).map_or(Self::Fail, |reply| reply.2)
            }
        }
    }

    /// Whether a retry of the same request can succeed.
    pub(crate) fn is_retryable(self) -> bool {
        matches!(
            self,
            Self::Reconnect | Self::Retry | Self::LookUp | Self::TooManyClients | Self::Redirect
        )
    }

    /// Whether the error is a reply. Then the request is not under way any more.
    pub(crate) fn is_reply(error: &RedisError) -> bool {
        matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension)
    }

    /// True for the replies that Redis sends when it accepts a connection, before it reads a
    /// request: there are too many clients, or it is in protected mode.
    pub(crate) fn refuses_client(error: &RedisError) -> bool {
        Self::on(error) == Self::TooManyClients || error.code() == Some("DENIED")
    }

    /// Whether the connection can be used for the next request.
    pub(crate) fn keeps_connection(self) -> bool {
        !matches!(
            self,
            Self::Reconnect | Self::FailAndDrop | Self::TooManyClients
        )
    }

    /// Whether another server may have the locks of this one by now. The route to it is then looked
    /// up again.
    pub(crate) fn invalidates_route(self) -> bool {
        matches!(self, Self::Reconnect | Self::FailAndDrop | Self::LookUp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::tests::refusal;
    use std::io;

    fn on(code: &str) -> RetryAction {
        RetryAction::on(&refusal(&format!("{code} some detail")))
    }

    #[test]
    fn a_reply_is_known_by_its_code_and_its_words() {
        for (code, action) in [
            ("NOSCRIPT", RetryAction::SendSource),
            ("MOVED 7 127.0.0.1:7001", RetryAction::Redirect),
            ("TRYAGAIN", RetryAction::Retry),
            ("OOM", RetryAction::Fail),
            (
                "ERR max number of clients reached",
                RetryAction::TooManyClients,
            ),
            ("ERR", RetryAction::Fail),
        ] {
            assert_eq!(on(code), action, "{code}");
        }
    }

    #[test]
    fn a_broken_connection_is_no_reply() {
        let reply = redis::parse_redis_value(b"-READONLY now\r\n").unwrap();
        assert!(RetryAction::is_reply(&reply.extract_error().unwrap_err()));
        let broken = redis::parse_redis_value(b"?what\r\n").unwrap_err();
        assert!(!RetryAction::is_reply(&broken));
        assert!(!RetryAction::is_reply(
            &io::Error::from(io::ErrorKind::TimedOut).into()
        ));
    }

    #[test]
    fn errors_in_scripts_of_older_servers_have_the_same_actions() {
        let raised = "ERR Error running script (call to f_1): @user_script:1: ";
        for (error, action) in [
            ("WRONGTYPE Operation", RetryAction::WrongType),
            ("-READONLY You can't write", RetryAction::Reconnect),
            ("-NOREPLICAS Not enough", RetryAction::Retry),
            (
                "Script attempted to access a non local key in a cluster node",
                RetryAction::Retry,
            ),
            ("attempt to call nil", RetryAction::Fail),
        ] {
            for before in [raised, "@user_script: 18: "] {
                let line = format!("{before}{error}");
                assert_eq!(on(&line), action, "{line}");
            }
        }
    }

    #[test]
    fn a_refused_certificate_is_refused_again() {
        let refused = CertificateRefused("expired".into());
        let error = RedisError::from(io::Error::new(io::ErrorKind::InvalidData, refused));
        assert_eq!(RetryAction::on(&error), RetryAction::FailAndDrop);
        assert!(error.to_string().contains("expired"), "{error}");
    }

    #[test]
    fn after_an_io_error_the_connection_is_not_trusted() {
        for kind in [
            io::ErrorKind::TimedOut,
            io::ErrorKind::WouldBlock,
            io::ErrorKind::ConnectionReset,
            io::ErrorKind::UnexpectedEof,
        ] {
            let action = RetryAction::on(&RedisError::from(io::Error::from(kind)));
            assert_eq!(action, RetryAction::Reconnect, "{kind:?}");
            assert!(!action.keeps_connection());
        }
    }
}
