//! Invalid input is reported in time, before anything is sent, and without secrets.

mod causes;
mod lists;
mod urls;
mod wrong_deployment;

use std::error::Error as _;
use std::process::{Command, ExitCode};
use std::time::Duration;

use leasehold::{Error, Interrupt, Lease, LockClient, LockClientBuilder};

use crate::support::server::{Port, Server};
use crate::support::timing::{millis, within};
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
fn a_bad_name_is_refused_by_every_call() {
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
}

#[test]
fn a_name_at_its_bounds_is_accepted() {
    let server = Server::start();
    let client = client(&server.url());
    for name in ["x".to_owned(), "x".repeat(512), "ß".repeat(256)] {
        client
            .reentrant_lock(&name)
            .acquire()
            .unwrap()
            .unlock()
            .unwrap();
    }
}

#[test]
fn a_setting_out_of_bounds_is_refused() {
    let change = |change: fn(LockClientBuilder) -> LockClientBuilder| {
        setting(change(LockClient::builder("redis://127.0.0.1:1")).build())
    };
    assert_eq!(change(|b| b.pool_size(0)), "pool_size");
    assert_eq!(change(|b| b.connections(0)), "connections");
    assert_eq!(change(|b| b.pool_size(1001)), "pool_size");
    assert_eq!(change(|b| b.connections(1001)), "connections");
    for out in [Duration::ZERO, Duration::from_micros(999), Duration::MAX] {
        for (field, builder) in [
            (
                "pool_timeout",
                LockClient::builder("redis://h").pool_timeout(out),
            ),
            (
                "connect_timeout",
                LockClient::builder("redis://h").connect_timeout(out),
            ),
            (
                "command_timeout",
                LockClient::builder("redis://h").command_timeout(out),
            ),
            (
                "watchdog_lease",
                LockClient::builder("redis://h").watchdog_lease(out),
            ),
        ] {
            assert_eq!(setting(builder.build()), field, "{out:?}");
        }
    }
    assert_eq!(
        change(|b| b.watchdog_lease(Duration::from_millis(9))),
        "watchdog_lease"
    );
    assert_eq!(
        change(|b| b.watchdog_lease(Duration::from_millis((1 << 53) + 1))),
        "watchdog_lease"
    );
    assert_eq!(change(|b| b.namespace("x".repeat(513))), "namespace");
}

#[test]
fn a_setting_at_its_bounds_is_accepted() {
    let (millisecond, hour) = (Duration::from_millis(1), Duration::from_secs(3600));
    for bound in [millisecond, hour] {
        LockClient::builder("redis://127.0.0.1:1")
            .pool_timeout(bound)
            .connect_timeout(bound)
            .command_timeout(bound)
            .build()
            .unwrap();
    }
    for lease in [Duration::from_millis(10), Duration::from_millis(1 << 53)] {
        LockClient::builder("redis://127.0.0.1:1")
            .watchdog_lease(lease)
            .build()
            .unwrap();
    }
    LockClient::builder("redis://h")
        .namespace("x".repeat(512))
        .build()
        .unwrap();
}

/// Each URL has a password, which no message may repeat.
#[test]
fn a_bad_url_is_refused_without_its_password() {
    for url in [
        "",
        "hunter2",
        "127.0.0.1:6379",
        "user:hunter2@127.0.0.1",
        "http://user:hunter2@127.0.0.1",
        "user:hunter2@redis://127.0.0.1",
        "rediss://user:hunter2@127.0.0.1:6379#insecure",
        "rediss://user:hunter2#@127.0.0.1:6379",
        "rediss://user:hunter2@127.0.0.1:hunter2",
        "rediss://user:hunter2@a..b",
        "redis://user:hunter2@127.0.0.1:hunter2",
        "redis://user:hunter2@127.0.0.1:65536",
        "redis://user:hunter2@127.0.0.1/hunter2",
        "redis://user:hunter2@",
        "redis://user:hunter2@[::1",
        "redis://user:%ff@hunter2@127.0.0.1",
        "valkey+what://user:hunter2@127.0.0.1",
        "redis+unix://",
    ] {
        let result = LockClient::connect(url);
        let Err(error) = result else {
            panic!("{url:?} was taken")
        };
        assert_no_secret(&error);
        assert_eq!(setting::<()>(Err(error)), "url", "{url}");
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

#[test]
fn a_wrong_password_is_reported_at_once_and_not_shown() {
    let server = Server::options().password("right").start();
    for login in [
        format!(":{SECRET}@"),
        format!("unknown:{SECRET}@"),
        String::new(),
    ] {
        let client = builder(&format!("redis://{login}{}", server.address()))
            .build()
            .unwrap();
        let lock = client.reentrant_lock("lock");
        // The client has enough time to retry, but a retry would fail, too.
        let error = within(millis(500), "the refusal", || {
            lock.lock().expect_err("no log-in")
        });
        assert!(matches!(error, Error::Redis { .. }), "{error:?}");
        assert!(error.to_string().contains(&server.address()), "{error}");
        assert_no_secret(&error);
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

#[test]
#[ignore = "soak"]
fn an_unreachable_host_is_reported_in_time() {
    let closed = Port::reserve();
    let refused = format!("redis://:{SECRET}@127.0.0.1:{}", closed.number());
    let no_socket = "redis+unix:///nonexistent/hunter".to_owned();
    for url in [refused, no_socket] {
        let client = builder(&url).command_timeout(millis(200)).build().unwrap();
        let lock = client.reentrant_lock("lock");
        for (call, timeouts, error) in [
            (
                "try_lock",
                1,
                lock.try_lock(Duration::ZERO, Lease::RENEWED).map(drop),
            ),
            ("is_locked", 1, lock.is_locked().map(drop)),
        ] {
            let Err(Error::Unavailable { waited, .. }) = &error else {
                panic!("{call}: {error:?}")
            };
            assert!(
                *waited <= millis(200) * timeouts + millis(300),
                "{call}: {waited:?}"
            );
            assert_no_secret(&error.unwrap_err());
        }
        let start = std::time::Instant::now();
        let error = lock.lock().expect_err("no server listens there");
        assert!(
            start.elapsed() <= millis(200) * 10 + millis(300),
            "{:?}",
            start.elapsed()
        );
        assert_no_secret(&error);
    }
}
