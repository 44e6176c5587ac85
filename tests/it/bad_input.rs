//! Invalid input is reported in time, before anything is sent, and without secrets.

mod causes;
mod lists;
mod urls;
mod wrong_deployment;

use std::error::Error as _;
use std::process::{Command, ExitCode};
use std::time::Duration;

use leasehold::{Error, Interrupt, Lease, LockClient, LockClientBuilder};

use crate::support::outcome::take_and_release;
use crate::support::server::Server;
use crate::support::timing::millis;
use crate::support::{builder, client};

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
        let (wait, lease) = (Duration::ZERO, Lease::RENEWED);
        for field in [
            setting(lock.lock()),
            setting(lock.lock_with(lease)),
            setting(lock.try_lock(wait, lease)),
            setting(lock.lock_interruptibly(lease, &Interrupt::new())),
            setting(lock.unlock()),
            setting(lock.acquire()),
            setting(lock.try_acquire(wait, lease)),
            setting(lock.is_locked()),
            setting(lock.remaining_lease()),
            setting(client.inspect(&name)),
            setting(client.force_unlock(&name)),
        ] {
            assert_eq!(field, "name");
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
    type Set = fn(LockClientBuilder, u64) -> LockClientBuilder;
    let settings: [(&str, Set, [u64; 2], [u64; 2]); 7] = [
        (
            "pool_size",
            |b, n| b.pool_size(n as u32),
            [0, 1001],
            [1, 1000],
        ),
        (
            "connections",
            |b, n| b.connections(n as u32),
            [0, 1001],
            [1, 1000],
        ),
        (
            "pool_timeout",
            |b, n| b.pool_timeout(micros(n)),
            TIMES_OUT,
            TIMES,
        ),
        (
            "connect_timeout",
            |b, n| b.connect_timeout(micros(n)),
            TIMES_OUT,
            TIMES,
        ),
        (
            "command_timeout",
            |b, n| b.command_timeout(micros(n)),
            TIMES_OUT,
            TIMES,
        ),
        (
            "watchdog_lease",
            |b, n| b.watchdog_lease(Duration::from_millis(n)),
            [9, (1 << 53) + 1],
            [10, 1 << 53],
        ),
        (
            "namespace",
            |b, n| b.namespace("x".repeat(n as usize)),
            [513, 1000],
            [0, 512],
        ),
    ];
    for (field, set, refused, accepted) in settings {
        let build = |value| set(LockClient::builder("redis://127.0.0.1:1"), value).build();
        for value in refused {
            assert_eq!(setting(build(value)), field, "{value}");
        }
        for value in accepted {
            build(value).unwrap_or_else(|error| panic!("{field} {value}: {error}"));
        }
    }
}

/// In microseconds.
const TIMES: [u64; 2] = [1_000, 3_600_000_000];
const TIMES_OUT: [u64; 2] = [999, u64::MAX];

fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
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

#[test]
fn debug_shows_no_password() {
    let server = Server::options().password(SECRET).start();
    let builder = builder(&server.url());
    let mut shown = vec![format!("{builder:?}")];
    let client = builder.build().unwrap();
    let lock = client.reentrant_lock("lock");
    let guard = lock.acquire().unwrap();
    shown.extend([
        format!("{client:#?}"),
        format!("{lock:#?}"),
        format!("{guard:#?}"),
    ]);
    for text in shown {
        assert!(!text.contains(SECRET), "{text}");
    }
}

/// The runtime writes `Debug` of the error that `main` returns. In a process of its own, this test
/// ends like such a program.
#[test]
fn a_program_whose_main_returns_an_error_prints_its_text() {
    const IS_PROGRAM: &str = "LEASEHOLD_TEST_MAIN";
    const NAME: &str = "bad_input::a_program_whose_main_returns_an_error_prints_its_text";
    fn main() -> leasehold::Result<()> {
        let builder = LockClient::builder("redis://127.0.0.1:1");
        let client = builder.command_timeout(millis(20)).build()?;
        client
            .reentrant_lock("order:pay")
            .try_acquire_now()
            .map(drop)
    }
    if std::env::var_os(IS_PROGRAM).is_some() {
        let code = std::process::Termination::report(main());
        assert_eq!(code, ExitCode::FAILURE);
        return;
    }
    let program = Command::new(std::env::current_exe().expect("a test binary"))
        .args([NAME, "--exact", "--nocapture"])
        .env(IS_PROGRAM, "1")
        .output()
        .expect("the test binary can be run again");
    let text = String::from_utf8_lossy(&program.stderr);
    let begin = "Error: \"order:pay\": no clear reply from Redis at 127.0.0.1:1 within ";
    let line = text.lines().find(|line| line.starts_with("Error: "));
    let line = line.unwrap_or_else(|| panic!("no error: {text}"));
    assert!(line.starts_with(begin), "{line}");
    assert!(
        line.ends_with("; check the server, then try again"),
        "{line}"
    );
    assert!(program.status.success());
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
