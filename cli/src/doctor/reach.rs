//! How the server is reached: login, connections, speed.

use std::time::Duration;

use super::finding::Finding;
use super::finding::Verdict::{Failure, Unknown, Warning};
use crate::outcome::{self, advised};
use leasehold::admin::{RouteError, ServerError};
use leasehold::{Error, Hint, Permission};

/// Every lock takes a few round trips.
const SLOW: Duration = Duration::from_millis(100);

/// True if a server with this error for PING serves no other command either. A missing permission
/// and a failed save do not mean that.
pub(super) fn is_unusable(error: &ServerError) -> bool {
    use Hint::{LogIn, LogInToMaster, LogInToSentinel, NoPassword};
    let hint = error.hint.as_deref();
    let is_log_in = matches!(
        hint,
        Some(LogIn | LogInToMaster | LogInToSentinel | NoPassword)
    );
    let is_kept_out = is_log_in || error.cause.code() == Some("DENIED");
    is_kept_out || error.is_temporary() || !error.is_reply()
}

/// The finding for a server that could not be asked.
pub(super) fn out_of_reach(error: &ServerError) -> Finding {
    let cause = &error.cause;
    let advice = match (cause.code(), error.hint.as_deref()) {
        (_, Some(Hint::Grant(Permission::Database))) => {
            "the user may not use the database of the URL: ACL SETUSER <user> db=<database>"
        }
        (_, Some(Hint::Grant(_))) => {
            "the URL names a database: ACL SETUSER <user> +select, or use the database 0"
        }
        (_, Some(hint)) => &advised(hint),
        (Some("LOADING"), _) => "wait until it has loaded its data",
        (Some("BUSY"), _) => "a script runs too long: SCRIPT KILL ends it",
        (Some("MASTERDOWN"), _) => {
            "it is a replica that lost its master: give the URL of the master"
        }
        (Some("DENIED"), _) => {
            "protected-mode refuses other machines: bind the server, and set a password"
        }
        _ if cause.is_timeout() => {
            "it hangs, or the network drops packets; a longer --timeout may help"
        }
        _ if cause.is_io_error() => "check that Redis runs there, and that the URL is right",
        _ => "check what listens there: it does not reply as Redis does",
    };
    let found = match (cause.code(), cause.detail()) {
        _ if cause.is_timeout() => "no reply in time".into(),
        (Some(code), Some(detail)) => format!("{code} {detail}"),
        _ => cause.to_string(),
    };
    Failure.advise(found, advice)
}

/// The finding if no server reported where the locks are.
pub(super) fn no_route(error: RouteError) -> Finding {
    let hint = match &error {
        RouteError::Refused(error) => error.hint.as_deref(),
        RouteError::Unavailable(failed) => {
            failed.errors.iter().find_map(|error| error.hint.as_deref())
        }
        _ => None,
    };
    let advice = match (&error, hint) {
        (RouteError::Invalid(Error::Config { field, .. }), _) if *field == "master" => {
            "give --sentinel the name under which the sentinels monitor the master"
        }
        (_, Some(Hint::Grant(_))) => {
            "give the user the permissions for sentinels and clusters, which docs/permissions.md \
             lists"
        }
        (_, Some(hint)) => &advised(hint),
        _ => "check that these servers run, and that the URLs are right",
    };
    Failure.advise(outcome::Failure::from(error).to_string(), advice)
}

/// `trips`: the times of a few round trips.
pub(super) fn latency(mut trips: Vec<Duration>) -> Finding {
    trips.sort_unstable();
    let Some(&median) = trips.get(trips.len() / 2) else {
        return Unknown.of("not measured");
    };
    let found = format!("{median:.1?} for a round trip");
    let advice = "run closer to Redis, or find what keeps it busy (SLOWLOG): every lock takes a few \
                  round trips";
    Finding::of(found, (median > SLOW).then_some((Warning, advice)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Verdict::Ok;
    use crate::tests::{failures, refusal};

    #[test]
    fn every_refusal_at_login_has_its_advice() {
        for (line, word) in [
            (
                "WRONGPASS invalid username-password pair",
                "LEASEHOLD_PASSWORD",
            ),
            ("NOAUTH Authentication required.", "LEASEHOLD_PASSWORD"),
            (
                "ERR Client sent AUTH, but no password is set",
                "LEASEHOLD_PASSWORD",
            ),
            (
                "NOPERM this user has no permissions to run the 'select' command",
                "+select",
            ),
            ("LOADING Redis is loading the dataset in memory", "wait"),
            ("ERR max number of clients reached", "maxclients"),
        ] {
            let finding = out_of_reach(&refusal(line));
            assert!(finding.verdict == Failure);
            assert!(
                finding.advice.as_ref().unwrap().contains(word),
                "{finding:?}"
            );
        }
        for (error, word) in failures().iter().zip(["--timeout", "URL"]) {
            let finding = out_of_reach(error);
            assert!(finding.verdict == Failure, "{finding:?}");
            assert!(finding.advice.unwrap().contains(word), "{error}");
        }
    }

    #[test]
    fn a_server_without_service_is_recognized() {
        for (line, unusable) in [
            ("NOAUTH Authentication required.", true),
            ("LOADING Redis is loading the dataset in memory", true),
            ("DENIED Redis is running in protected mode", true),
            ("ERR max number of clients reached", true),
            ("MISCONF Redis is configured to save RDB snapshots", false),
            (
                "NOPERM this user has no permissions to run the 'ping' command",
                false,
            ),
            ("ERR unknown command 'PING'", false),
        ] {
            assert_eq!(is_unusable(&refusal(line)), unusable, "{line}");
        }
        assert!(failures().iter().all(is_unusable));
    }

    #[test]
    fn the_median_of_the_round_trips_counts() {
        let millis = |all: &[u64]| all.iter().map(|&ms| Duration::from_millis(ms)).collect();
        assert_eq!(latency(millis(&[900, 1, 100])).verdict, Ok);
        assert_eq!(latency(millis(&[1, 101, 900])).verdict, Warning);
        assert_eq!(latency(vec![]).verdict, Unknown);
    }
}
