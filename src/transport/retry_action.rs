//! What to do after a failure: one rule for each kind of failure.
//!
//! Only some error replies say that the request was not executed. A proxy may have an error of its
//! own, while Redis executes the request: it waited for Redis too long, or lost the connection. So
//! an error reply is a refusal only if its code and its words are known here. After any other one
//! the request counts as lost. Undoing a request that was not executed changes nothing.

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
    /// Retry a little later: Redis may execute the request, because this may be the error of a
    /// proxy before it.
    Unclear,
    /// Fail: the key is not a lock.
    WrongType,
    /// Fail, and drop the connection: the log-in or a certificate is wrong or no longer valid.
    FailAndDrop,
    /// Fail: a retry would get the same reply.
    Fail,
}

/// The code of a refusal of Redis, words in it, and the action. The first that applies counts.
const REPLIES: [(&str, &str, RetryAction); 41] = [
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
    // Before Redis 6.
    ("ERR", "invalid password", RetryAction::FailAndDrop),
    ("NOPERM", "", RetryAction::Fail),
    ("OOM", "", RetryAction::Fail),
    ("MISCONF", "", RetryAction::Fail),
    ("CROSSSLOT", "", RetryAction::Fail),
    ("DENIED", "", RetryAction::Fail),
    ("EXECABORT", "", RetryAction::Fail),
    ("NOPROTO", "", RetryAction::Fail),
    // A script that failed or was refused. `Bad file descriptor` is an error of a proxy.
    ("ERR", " script", RetryAction::Fail),
    ("ERR", "@user_script", RetryAction::Fail),
    // Of scripts of this library.
    ("ERR", "fencing token", RetryAction::Fail),
    ("ERR", "this request is over", RetryAction::Fail),
    // A server that does not have the command, or not in this form.
    ("ERR", "unknown command", RetryAction::Fail),
    ("ERR", "subcommand", RetryAction::Fail),
    ("ERR", "wrong number of arg", RetryAction::Fail),
    ("ERR", "syntax error", RetryAction::Fail),
    ("ERR", "not an integer", RetryAction::Fail),
    ("ERR", "db index", RetryAction::Fail),
    ("ERR", "not allowed", RetryAction::Fail),
    ("ERR", "cluster support disabled", RetryAction::Fail),
    // Of COMMAND GETKEYS.
    ("ERR", "no key arguments", RetryAction::Fail),
    ("ERR", "specified for command", RetryAction::Fail),
    // The text of servers before Redis 6, of servers without a password, and of proxies.
    ("ERR", "password", RetryAction::Fail),
    // Of Envoy.
    ("unsupported", "command", RetryAction::Fail),
];

impl RetryAction {
    pub(crate) fn on(error: &RedisError) -> Self {
        match error.kind() {
            ErrorKind::Io if is_caused_by::<CertificateRefused>(error) => Self::FailAndDrop,
            ErrorKind::Io | ErrorKind::Parse => Self::Reconnect,
            _ if !Self::is_reply(error) => Self::Fail,
            _ => {
                // The first word of a text follows a space, too.
                let text = format!(" {}", error.detail().unwrap_or_default()).to_lowercase();
                let mut replies = REPLIES.iter();
                let is_this = |(code, words, _): &&(&str, &str, _)| {
                    error.code() == Some(code) && text.contains(words)
                };
                replies.find(is_this).map_or(Self::Unclear, |reply| reply.2)
            }
        }
    }

    /// Whether a retry of the same request can succeed.
    pub(crate) fn is_retryable(self) -> bool {
        matches!(
            self,
            Self::Reconnect
                | Self::Retry
                | Self::LookUp
                | Self::TooManyClients
                | Self::Redirect
                | Self::Unclear
        )
    }

    /// Whether the error is a reply, of the server or of a proxy before it.
    pub(crate) fn is_reply(error: &RedisError) -> bool {
        matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension)
    }

    /// Whether the error is a refusal of the server. Then the request is neither executed nor under
    /// way.
    pub(crate) fn is_refusal(error: &RedisError) -> bool {
        Self::is_reply(error) && Self::on(error) != Self::Unclear
    }

    /// True for the replies that Redis sends when it accepts a connection, before it reads a
    /// request: there are too many clients, or it is in protected mode.
    pub(crate) fn refuses_client(error: &RedisError) -> bool {
        Self::on(error) == Self::TooManyClients || error.code() == Some("DENIED")
    }

    /// True if the server refuses the user or the password, or requires them.
    pub(crate) fn refuses_log_in(error: &RedisError) -> bool {
        Self::is_reply(error) && Self::on(error) == Self::FailAndDrop
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
    use std::path::Path;
    use std::{fs, io};

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
        ] {
            assert_eq!(on(code), action, "{code}");
        }
    }

    /// The replies of Redis 5 to 8, Valkey, KeyDB, Dragonfly and of the scripts.
    #[test]
    fn a_refusal_of_redis_fails_at_once() {
        let position = "script: 8a2f41, on @user_script:1.";
        for line in [
            "NOPERM this user has no permissions to run the 'evalsha' command",
            "OOM command not allowed when used memory > 'maxmemory'.",
            "MISCONF Redis is configured to save RDB snapshots, but cannot persist on disk",
            "CROSSSLOT Keys in request don't hash to the same slot",
            "DENIED Redis is running in protected mode",
            "ERR unknown command 'EVALSHA', with args beginning with: ",
            "ERR unknown subcommand or wrong number of arguments for 'SETNAME'",
            "ERR Unknown PUBSUB subcommand or wrong number of arguments for 'SHARDNUMSUB'",
            "ERR wrong number of arguments for 'evalsha' command",
            "ERR AUTH <password> called without any password configured for the default user",
            "ERR Client sent AUTH, but no password is set",
            "ERR DB index is out of range",
            "ERR SELECT is not allowed in cluster mode",
            "ERR This instance has cluster support disabled",
            "ERR value is not an integer or out of range",
            "ERR syntax error",
            "ERR Error compiling script (new function): user_script:1: '=' expected near 'x'",
            "ERR Error running script (call to f_8a2f): @user_script:1: attempt to call nil",
            &format!("ERR user_script:1: attempt to call a nil value {position}"),
            &format!("ERR ACL failure in script: No permissions to access a key {position}"),
            "ERR Script killed by user with SCRIPT KILL.",
            "ERR script tried accessing undeclared key",
            "ERR this request is over: a newer one was executed",
            "ERR the last fencing token is not a whole number: token",
            "unsupported command 'client'",
        ] {
            let error = refusal(line);
            assert_eq!(RetryAction::on(&error), RetryAction::Fail, "{line}");
            assert!(RetryAction::is_refusal(&error), "{line}");
        }
    }

    /// An unknown error counts as one of a proxy, so the request would be repeated.
    #[test]
    fn an_error_of_a_script_is_a_refusal() {
        let lua = Path::new(env!("CARGO_MANIFEST_DIR")).join("lua");
        let folders = [lua.join("shared"), lua];
        let files = folders
            .iter()
            .flat_map(|folder| fs::read_dir(folder).unwrap());
        let paths = files.map(|file| file.unwrap().path());
        let mut errors = 0;
        for path in paths.filter(|path| path.is_file()) {
            let source = fs::read_to_string(path).unwrap();
            for (_, rest) in source
                .match_indices("error_reply('")
                .map(|at| source.split_at(at.0))
            {
                let text = rest.split('\'').nth(1).unwrap();
                assert!(RetryAction::is_refusal(&refusal(text)), "{text}");
                errors += 1;
            }
        }
        assert!(errors > 5, "{errors}");
    }

    /// The errors of Envoy, twemproxy (`ERR` and the text of `errno`) and Predixy.
    #[test]
    fn after_the_error_of_a_proxy_it_is_unclear_whether_redis_executes_the_request() {
        for line in [
            "upstream failure",
            "upstream protocol error",
            "no upstream host",
            "finished with 1 error(s)",
            "ERR",
            "ERR Connection timed out",
            "ERR Connection refused",
            "ERR Connection reset by peer",
            "ERR Host is down",
            "ERR Bad file descriptor",
            "ERR Numerical result out of range",
            "ERR Protocol error",
            "ERR Operation not permitted",
            "ERR unknown",
            "ERR upstream request timeout",
            "ERR server connection close",
            "ERR Server closed the connection",
            "TIMEOUT the shard does not reply",
        ] {
            let error = refusal(line);
            let action = RetryAction::on(&error);
            assert_eq!(action, RetryAction::Unclear, "{line}");
            assert!(action.is_retryable() && action.keeps_connection(), "{line}");
            assert!(RetryAction::is_reply(&error) && !RetryAction::is_refusal(&error));
        }
    }

    /// Of Redis 5 and of later ones.
    #[test]
    fn a_refused_log_in_fails_on_every_connection() {
        for line in [
            "ERR invalid password",
            "NOAUTH Authentication required.",
            "WRONGPASS invalid username-password pair or user is disabled.",
        ] {
            let error = refusal(line);
            assert_eq!(RetryAction::on(&error), RetryAction::FailAndDrop, "{line}");
            assert!(RetryAction::refuses_log_in(&error), "{line}");
        }
        for line in [
            "NOPERM this user has no permissions to run the 'select' command",
            "ERR Client sent AUTH, but no password is set",
        ] {
            assert!(!RetryAction::refuses_log_in(&refusal(line)), "{line}");
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
        let refused = CertificateRefused {
            text: "expired".into(),
            is_of_another_host: false,
        };
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
