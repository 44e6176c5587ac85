//! The text of every error, and whether it is transient.

use super::*;

/// Every error.
fn all() -> Vec<Error> {
    let lock = || String::from("order:pay");
    let node = || String::from("h:1");
    let cause = || Cause::from("no reply").into();
    let limit = Some(TimeLimit::Command);
    vec![
        Error::NotHeld {
            lock: lock(),
            by_guard: false,
        },
        Error::NotReleased {
            lock: lock(),
            node: node(),
            limit,
            cause: cause(),
            retried: true,
            is_change: false,
        },
        Error::Query {
            lock: lock(),
            node: node(),
            cause: cause(),
            executed: false,
        },
        Error::NoThread {
            cause: Cause::from("no thread for order:pay").into(),
        },
        Error::Lost {
            lock: lock(),
            reason: LostReason::Expired,
        },
        Error::HeldByAnother {
            lock: lock(),
            waited: Duration::ZERO,
            owner: None,
        },
        Error::Unavailable {
            lock: lock(),
            node: node(),
            waited: Duration::ZERO,
            limit,
            cause: cause(),
        },
        Error::TooFewReplicas {
            lock: lock(),
            node: node(),
            wanted: 1,
            confirmed: 0,
        },
        Error::Forked { lock: lock() },
        Error::ShutDown { lock: lock() },
        Error::Interrupted { lock: lock() },
        Error::Upgrade { lock: lock() },
        Error::WrongType {
            lock: lock(),
            node: node(),
            found: "a list".into(),
        },
        Error::Config {
            lock: lock(),
            field: "default client",
            value: "not set".into(),
            rule: "set it".into(),
        },
        Error::InvalidArgument {
            lock: lock(),
            argument: "lease",
            value: "0".into(),
            rule: "must be at least 1 ms".into(),
        },
        Error::Redis {
            lock: lock(),
            node: node(),
            cause: Cause::from("OOM").into(),
            hint: None,
        },
    ]
}

#[test]
fn an_error_is_transient_if_a_repetition_may_succeed() {
    for error in all() {
        let expected = matches!(
            error,
            Error::NoThread { .. }
                | Error::HeldByAnother { .. }
                | Error::Unavailable { .. }
                | Error::TooFewReplicas { .. }
        );
        assert_eq!(error.is_transient(), expected, "{error:?}");
        assert!(error.to_string().contains("order:pay"), "{error}");
        assert_eq!(format!("{error:?}"), error.to_string());
        assert_eq!(error.clone().to_string(), error.to_string());
    }
}

#[test]
fn an_error_says_which_lock_it_concerns_and_which_limit_ended_its_call() {
    for error in all() {
        let has_lock = !matches!(error, Error::NoThread { .. });
        assert_eq!(error.lock_name(), has_lock.then_some("order:pay"));
        let limit = match error {
            Error::HeldByAnother { .. } => Some(TimeLimit::Wait),
            Error::TooFewReplicas { .. } => Some(TimeLimit::Replicas),
            Error::Unavailable { .. } | Error::NotReleased { .. } => Some(TimeLimit::Command),
            _ => None,
        };
        assert_eq!(error.time_limit(), limit, "{error}");
        if limit == Some(TimeLimit::Command) {
            assert!(error.to_string().contains("limited by command_timeout"));
        }
    }
    let lock = String::new();
    assert_eq!(Error::ShutDown { lock }.lock_name(), None);
}

/// Calls of semaphores and latches return the other errors, too. `WrongType` names all kinds.
#[test]
fn only_an_error_of_locks_alone_calls_the_name_a_lock() {
    for error in all() {
        let names_locks = matches!(
            error,
            Error::NotHeld { .. }
                | Error::HeldByAnother { .. }
                | Error::Upgrade { .. }
                | Error::WrongType { .. }
        );
        let text = error.to_string();
        assert_eq!(text.contains("lock"), names_locks, "{text}");
    }
    let channel = Hint::Grant(Permission::Channel).to_string();
    assert!(
        channel.contains("&redisson_*") && !channel.contains("lock"),
        "{channel}"
    );
}

/// The same error after an unlock, and before one.
#[test]
fn the_error_of_a_lost_lock_is_true_before_and_after_its_unlock() {
    let lost = Error::Lost {
        lock: "a".into(),
        reason: LostReason::Deleted,
    };
    assert_eq!(
        lost.to_string(),
        "\"a\" was lost (its key was deleted); stop the work that it protects; if a thread held \
         it, and not an owned guard, that thread can acquire it again once it has released it"
    );
}

/// Nothing was held, and no work has begun.
#[test]
fn the_error_of_a_spent_token_speaks_of_no_loss() {
    let spent = Error::Lost {
        lock: "a".into(),
        reason: LostReason::TokenSpent,
    };
    assert_eq!(
        spent.to_string(),
        "\"a\" was not taken over (its token was used before, or its lease has ended); do not \
         begin the work: another process may have done it, or do it now"
    );
}

/// A lock that a client keeps by `unlock_after` is held by no client.
#[test]
fn a_refusal_names_the_owner_and_claims_no_holder() {
    let text = |owner: Option<&str>| {
        let refused = Error::HeldByAnother {
            lock: "a".into(),
            waited: Duration::from_secs(2),
            owner: owner.map(Into::into),
        };
        refused.to_string()
    };
    let named = text(Some("6ba7b810:17"));
    assert!(
        named.contains("6ba7b810:17") && named.contains("LockClient::holder"),
        "{named}"
    );
    assert!(!named.contains("held by another client"), "{named}");
    assert!(text(None).contains("not free after a wait of 2.0s"));
}

/// What a call that concerns no lock returns names none.
#[test]
fn an_error_without_a_lock_names_none() {
    let ping = Error::Unavailable {
        lock: String::new(),
        node: "h:1".into(),
        waited: Duration::from_secs(1),
        limit: None,
        cause: Cause::from("no reply in time").into(),
    };
    assert_eq!(ping.lock_name(), None);
    assert_eq!(
        ping.to_string(),
        "no clear reply from Redis at h:1 within 1.0s (no reply in time); check the server, \
         then try again"
    );
}

/// The name stands in the text once.
#[test]
fn an_argument_that_is_the_name_is_named_once() {
    let error = Error::misused("order:pay", "use one kind of lock");
    assert_eq!(
        error.to_string(),
        "name is \"order:pay\": use one kind of lock"
    );
}

#[test]
fn an_unlock_of_what_a_guard_holds_says_to_unlock_the_guard() {
    let text = |by_guard| {
        let lock = "a".into();
        Error::NotHeld { lock, by_guard }.to_string()
    };
    assert_eq!(
        text(true),
        "this thread holds lock \"a\" by a guard: unlock the guard"
    );
    assert!(text(false).contains("is not held by this thread"));
}
