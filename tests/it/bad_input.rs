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

/// Sets a number, or a time in milliseconds.
type Set = fn(LockClientBuilder, u64) -> LockClientBuilder;

const HOUR: u64 = 3_600_000;

/// Settings, and the numbers that are accepted and refused at their bounds.
const SETTINGS: [(&str, Set, [u64; 2], [u64; 2]); 9] = [
    (
        "pool_timeout",
        |to, time| to.pool_timeout(Duration::from_millis(time)),
        [1, HOUR],
        [0, HOUR + 1],
    ),
    (
        "connect_timeout",
        |to, time| to.connect_timeout(Duration::from_millis(time)),
        [1, HOUR],
        [0, HOUR + 1],
    ),
    (
        "command_timeout",
        |to, time| to.command_timeout(Duration::from_millis(time)),
        [1, HOUR],
        [0, HOUR + 1],
    ),
    (
        "watchdog_lease",
        |to, time| to.watchdog_lease(Duration::from_millis(time)),
        [10, 1 << 53],
        [9, (1 << 53) + 1],
    ),
    (
        "pool_size",
        |to, size| to.pool_size(size as u32),
        [1, 1000],
        [0, 1001],
    ),
    (
        "connections",
        |to, count| to.connections(count as u32),
        [1, 1000],
        [0, 1001],
    ),
    (
        "namespace",
        |to, length| to.namespace("x".repeat(length as usize)),
        [0, 512],
        [513, 600],
    ),
    (
        "min_replicas",
        |to, count| to.min_replicas(count as u32, Duration::from_secs(1)),
        [1, 100],
        [0, 101],
    ),
    (
        "min_replicas' timeout",
        |to, time| to.min_replicas(1, Duration::from_millis(time)),
        [1, HOUR],
        [0, HOUR + 1],
    ),
];

#[test]
fn a_setting_out_of_bounds_is_refused_and_one_at_its_bounds_is_accepted() {
    let builder = || LockClient::builder("redis://127.0.0.1:1");
    for (field, set, accepted, refused) in SETTINGS {
        for number in refused {
            assert_eq!(setting(set(builder(), number).build()), field, "{number}");
        }
        for number in accepted {
            set(builder(), number).build().unwrap();
        }
    }
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
