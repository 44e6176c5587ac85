//! What to do about a failure, decided once for every kind of it.

use redis::{ErrorKind, RedisError, ServerErrorKind};

use crate::transport::tls::{CertificateRefused, is_caused_by};

/// What a failed command asks of its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RetryAction {
    /// The connection cannot be trusted any more, or leads to a server that may not be written to:
    /// drop it and ask again on a fresh one.
    Reconnect,
    /// The server is there but not ready: ask again a little later.
    Wait,
    /// The server takes no more connections, and this was one too many: ask again a little later.
    Crowded,
    /// Another server of the cluster has the lock: ask there, at once.
    Redirect,
    /// The server does not know the script: send its source.
    SendSource,
    /// The key is not a lock.
    WrongType,
    /// The log-in or a certificate is wrong or no longer valid: asking again is in vain, and the connection is of no use.
    Forget,
    /// The server means it: asking again is in vain.
    Refuse,
}

impl RetryAction {
    pub(crate) fn on(error: &RedisError) -> Self {
        match error.kind() {
            ErrorKind::Io if is_caused_by::<CertificateRefused>(error) => Self::Forget,
            ErrorKind::Io | ErrorKind::Parse => Self::Reconnect,
            ErrorKind::AuthenticationFailed => Self::Forget,
            ErrorKind::Server(kind) => Self::on_server_error(kind, error),
            ErrorKind::Extension => Self::on_code(error.code()),
            _ => Self::Refuse,
        }
    }

    fn on_server_error(kind: ServerErrorKind, error: &RedisError) -> Self {
        match kind {
            ServerErrorKind::NoScript => Self::SendSource,
            ServerErrorKind::Moved | ServerErrorKind::Ask => Self::Redirect,
            ServerErrorKind::ReadOnly => Self::Reconnect,
            ServerErrorKind::BusyLoading
            | ServerErrorKind::MasterDown
            | ServerErrorKind::ClusterDown
            | ServerErrorKind::TryAgain => Self::Wait,
            _ => error.detail().map_or(Self::Refuse, Self::on_text),
        }
    }

    /// Where there is no code: Redis 6 wraps the error of a command in a script into one of its own.
    fn on_text(text: &str) -> Self {
        if text.contains("max number of clients") {
            return Self::Crowded;
        }
        if text.contains("replica instances") {
            return Self::Reconnect;
        }
        let wrapped = text.starts_with("Error running script");
        let code = ["WRONGTYPE", "READONLY", "NOREPLICAS"]
            .into_iter()
            .find(|code| wrapped && text.contains(code));
        match code {
            Some("READONLY") => Self::Reconnect,
            code => Self::on_code(code),
        }
    }

    /// Codes that `redis` has no kind for.
    fn on_code(code: Option<&str>) -> Self {
        match code {
            Some("WRONGTYPE") => Self::WrongType,
            // BUSY: a script of somebody else runs too long.
            Some("BUSY" | "NOREPLICAS") => Self::Wait,
            // A command that waited was ended, because the server became a replica.
            Some("UNBLOCKED") => Self::Reconnect,
            Some("NOAUTH" | "WRONGPASS") => Self::Forget,
            _ => Self::Refuse,
        }
    }

    /// Whether the same request may be answered a little later, or elsewhere.
    pub(crate) fn asks_again(self) -> bool {
        matches!(
            self,
            Self::Reconnect | Self::Wait | Self::Crowded | Self::Redirect
        )
    }

    /// Whether asking again is in vain.
    pub(crate) fn is_final(self) -> bool {
        matches!(self, Self::WrongType | Self::Forget | Self::Refuse)
    }

    /// Whether the server gave this error in reply to a request, which is then settled.
    pub(crate) fn is_reply(error: &RedisError) -> bool {
        matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension)
    }

    pub(crate) fn keeps_connection(self) -> bool {
        !matches!(self, Self::Reconnect | Self::Crowded | Self::Forget)
    }

    /// Whether the other connections to the server are of no use either, by what happened to one.
    pub(crate) fn drops_all_connections(self) -> bool {
        matches!(self, Self::Reconnect | Self::Forget)
    }
}

impl RetryAction {
    /// Whether another server may have the locks of this one by now.
    pub(crate) fn invalidates_route(self, error: &RedisError) -> bool {
        let kind = match error.kind() {
            ErrorKind::Server(kind) => Some(kind),
            _ => None,
        };
        matches!(self, Self::Reconnect | Self::Forget)
            || matches!(
                kind,
                Some(
                    ServerErrorKind::ClusterDown
                        | ServerErrorKind::MasterDown
                        | ServerErrorKind::BusyLoading
                )
            )
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
    fn every_reply_has_its_advice() {
        for (code, action) in [
            ("NOSCRIPT", RetryAction::SendSource),
            ("MOVED 7 127.0.0.1:7001", RetryAction::Redirect),
            ("ASK 7 127.0.0.1:7001", RetryAction::Redirect),
            ("READONLY", RetryAction::Reconnect),
            ("LOADING", RetryAction::Wait),
            ("BUSY", RetryAction::Wait),
            ("MASTERDOWN", RetryAction::Wait),
            ("CLUSTERDOWN", RetryAction::Wait),
            ("TRYAGAIN", RetryAction::Wait),
            ("WRONGTYPE", RetryAction::WrongType),
            ("NOAUTH", RetryAction::Forget),
            ("WRONGPASS", RetryAction::Forget),
            ("NOPERM", RetryAction::Refuse),
            ("OOM", RetryAction::Refuse),
            ("MISCONF", RetryAction::Refuse),
            ("NOREPLICAS", RetryAction::Wait),
            ("ERR max number of clients reached", RetryAction::Crowded),
            ("ERR", RetryAction::Refuse),
            ("UNBLOCKED", RetryAction::Reconnect),
            (
                "ERR WAIT cannot be used with replica instances",
                RetryAction::Reconnect,
            ),
            ("SOMETHINGNEW", RetryAction::Refuse),
        ] {
            assert_eq!(on(code), action, "{code}");
        }
    }

    #[test]
    fn what_breaks_is_no_reply() {
        let reply = redis::parse_redis_value(b"-READONLY now\r\n").unwrap();
        assert!(RetryAction::is_reply(&reply.extract_error().unwrap_err()));
        let broken = redis::parse_redis_value(b"?what\r\n").unwrap_err();
        assert!(!RetryAction::is_reply(&broken));
        assert!(!RetryAction::is_reply(
            &io::Error::from(io::ErrorKind::TimedOut).into()
        ));
    }

    #[test]
    fn errors_are_seen_through_the_wrapping_of_older_servers() {
        for (error, action) in [
            ("WRONGTYPE Operation", RetryAction::WrongType),
            ("-READONLY You can't write", RetryAction::Reconnect),
            ("-NOREPLICAS Not enough", RetryAction::Wait),
            ("attempt to call nil", RetryAction::Refuse),
        ] {
            let wrapped =
                format!("ERR Error running script (call to f_1): @user_script:1: {error}");
            assert_eq!(on(&wrapped), action, "{error}");
        }
    }

    #[test]
    fn a_refused_certificate_is_refused_again() {
        let refused = CertificateRefused("expired".into());
        let error = RedisError::from(io::Error::new(io::ErrorKind::InvalidData, refused));
        assert_eq!(RetryAction::on(&error), RetryAction::Forget);
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
