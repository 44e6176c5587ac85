//! Invalid input is reported in time, before anything is sent, and without secrets.

mod causes;
mod lists;
mod urls;
mod wrong_deployment;

use std::error::Error as _;

use crate::support::prelude::*;

const SECRET: &str = "hunter2";

/// Returns the setting that an error names, and checks the text of the error.
#[track_caller]
fn setting<T: std::fmt::Debug>(result: Result<T, Error>) -> &'static str {
    let error = result.expect_err("the setting is out of bounds");
    let Error::Config { field, value, rule } = &error else {
        panic!("{error:?}")
    };
    let text = error.to_string();
    assert!(text.contains(field) && text.contains(value.as_str()) && text.contains(rule.as_str()));
    assert!(!value.is_empty() && !rule.is_empty(), "{text}");
    field
}

#[test]
fn a_bad_name_is_refused_by_every_call_and_one_at_its_bounds_is_accepted() {
    let server = Server::start();
    let client = client(&server.url());
    for name in [String::new(), "x".repeat(513), "ß".repeat(257)] {
        let lock = client.reentrant_lock(&name);
        let mut results = every_call(&lock);
        results.extend([
            ("unlock", lock.unlock()),
            ("inspect", client.inspect(&name).map(drop)),
            ("force_unlock", client.force_unlock(&name).map(drop)),
        ]);
        for (call, result) in results {
            assert_eq!(setting(result), "name", "{call}");
        }
        assert_eq!(lock.hold_count(), 0);
    }
    assert_eq!(server.ask::<u32>(&redis::cmd("DBSIZE")), 0);
    for name in ["x".to_owned(), "x".repeat(512), "ß".repeat(256)] {
        take_and_release(&client.reentrant_lock(&name));
    }
}

#[test]
fn a_setting_out_of_bounds_is_refused_and_one_at_its_bounds_is_accepted() {
    type Times = fn(LockClientBuilder, Duration) -> LockClientBuilder;
    let builder = || LockClient::builder("redis://127.0.0.1:1");
    let millis = Duration::from_millis;
    let [times_out, times] = [
        [Duration::from_micros(999), Duration::MAX],
        [millis(1), millis(3_600_000)],
    ];
    let settings: [(&str, Times, _, _); 4] = [
        (
            "pool_timeout",
            LockClientBuilder::pool_timeout,
            times_out,
            times,
        ),
        (
            "connect_timeout",
            LockClientBuilder::connect_timeout,
            times_out,
            times,
        ),
        (
            "command_timeout",
            LockClientBuilder::command_timeout,
            times_out,
            times,
        ),
        (
            "watchdog_lease",
            LockClientBuilder::watchdog_lease,
            [millis(9), millis((1 << 53) + 1)],
            [millis(10), millis(1 << 53)],
        ),
    ];
    for (field, set, refused, accepted) in settings {
        for time in refused {
            assert_eq!(setting(set(builder(), time).build()), field, "{time:?}");
        }
        for time in accepted {
            set(builder(), time).build().unwrap();
        }
    }
    for out in [0, 1001] {
        assert_eq!(setting(builder().pool_size(out).build()), "pool_size");
        assert_eq!(setting(builder().connections(out).build()), "connections");
    }
    let long = |length| builder().namespace("x".repeat(length)).build();
    assert_eq!(setting(long(513)), "namespace");
    long(512).unwrap();
}

/// Checks the text of the error, its sources and its `Debug` output.
#[track_caller]
fn assert_no_secret(error: &Error) {
    let mut texts = vec![
        format!("{error:?}"),
        format!("{error:#?}"),
        error.to_string(),
    ];
    let mut deeper = error.source();
    if let Error::Redis { cause, .. }
    | Error::Unavailable { cause, .. }
    | Error::NotReleased { cause, .. } = error
    {
        deeper = Some(&**cause);
    }
    while let Some(cause) = deeper {
        texts.extend([format!("{cause:?}"), cause.to_string()]);
        deeper = cause.source();
    }
    for text in texts {
        assert!(!text.contains(SECRET), "{text}");
    }
}

/// Redis repeats the arguments of a command that it does not know.
#[test]
fn a_server_without_auth_repeats_no_password() {
    let server = Server::options()
        .arguments(&["--rename-command", "AUTH", ""])
        .start();
    for login in [format!(":{SECRET}@"), format!("user:{SECRET}@")] {
        let client = builder(&format!("redis://{login}{}", server.address()))
            .build()
            .unwrap();
        let error = client.reentrant_lock("lock").lock().expect_err("no log-in");
        assert!(error.to_string().contains("AUTH"), "{error}");
        assert_no_secret(&error);
    }
}
