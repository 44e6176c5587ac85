//! Invalid input is reported in time, before anything is sent, and without secrets.

mod log_in;
mod wrong_deployment;

use std::error::Error as StdError;
use std::iter::successors;

use crate::support::certificates::{Authority, TRUSTED};
use crate::support::prelude::*;
use crate::support::server::Port;

const SECRET: &str = "hunter2";

/// Returns the setting that an error names, and checks the text of the error.
#[track_caller]
fn setting<T: std::fmt::Debug>(result: Result<T, Error>) -> &'static str {
    let error = result.expect_err("the setting is out of bounds");
    let Error::Config {
        field, value, rule, ..
    } = &error
    else {
        panic!("{error:?}")
    };
    assert_text(&error, [field, value, rule]);
    field
}

/// Returns the argument that an error names, and checks the text of the error.
#[track_caller]
fn argument<T: std::fmt::Debug>(result: Result<T, Error>) -> &'static str {
    let error = result.expect_err("the argument is out of bounds");
    let Error::InvalidArgument {
        argument,
        value,
        rule,
        ..
    } = &error
    else {
        panic!("{error:?}")
    };
    assert_text(&error, [argument, value, rule]);
    argument
}

#[track_caller]
fn assert_text(error: &Error, parts: [&str; 3]) {
    let text = error.to_string();
    let is_shown = |part: &str| !part.is_empty() && text.contains(part);
    assert!(parts.into_iter().all(is_shown), "{text}");
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
            assert_eq!(argument(result), "name", "{call}");
        }
        assert_eq!(lock.hold_count(), 0);
    }
    assert_eq!(server.ask::<u32>(&redis::cmd("DBSIZE")), 0);
    for name in ["x".to_owned(), "x".repeat(512), "ß".repeat(256)] {
        pair(&client.reentrant_lock(&name));
    }
}

/// Numbers between these bounds are accepted, others are refused.
#[track_caller]
fn check(
    field: &str,
    set: fn(LockClientBuilder, u64) -> LockClientBuilder,
    [least, most]: [u64; 2],
) {
    let build = |number| set(LockClient::builder("redis://127.0.0.1:1"), number).build();
    for number in [least, most] {
        build(number).unwrap();
    }
    for number in [least.checked_sub(1), Some(most + 1)].into_iter().flatten() {
        assert_eq!(setting(build(number)), field, "{number}");
    }
}

#[test]
fn a_setting_out_of_bounds_is_refused_and_one_at_its_bounds_is_accepted() {
    const fn ms(time: u64) -> Duration {
        Duration::from_millis(time)
    }
    let time = [1, 3_600_000];
    check("connect_timeout", |b, n| b.connect_timeout(ms(n)), time);
    check("command_timeout", |b, n| b.command_timeout(ms(n)), time);
    // The shortest is the default command timeout.
    let longest = 24 * 3_600_000;
    check(
        "give_up_after",
        |b, n| b.give_up_after(ms(n)),
        [1000, longest],
    );
    check(
        "min_replicas' timeout",
        |b, n| b.min_replicas(1, ms(n)),
        time,
    );
    let lease = [10, 1 << 53];
    check("watchdog_lease", |b, n| b.watchdog_lease(ms(n)), lease);
    let replicas = |b: LockClientBuilder, n| b.replica_connections(n as u32);
    check("replica_connections", replicas, [1, 1000]);
    check("connections", |b, n| b.connections(n as u32), [1, 1000]);
    let replicas = |b: LockClientBuilder, n| b.min_replicas(n as u32, ms(1));
    check("min_replicas", replicas, [1, 100]);
    let name = |b: LockClientBuilder, n| b.namespace("x".repeat(n as usize));
    check("namespace", name, [0, 512]);
}

/// Each error names its lock, so that a log shows which call of a program is wrong.
#[test]
fn an_argument_out_of_bounds_is_reported_with_its_lock() {
    let client = client("redis://127.0.0.1:1");
    let none = Duration::ZERO;
    let too_many = 1 << 31;
    let lock = client.reentrant_lock("a");
    for (error, name) in [
        (lock.lock_with(Lease::fixed(none)), "a"),
        (
            client.multi_lock(["a", "b"]).lock_with(Lease::fixed(none)),
            "a, b",
        ),
        (client.multi_lock(["a", "a"]).lock(), "a, a"),
        (RedLock::new(std::slice::from_ref(&client), "a").lock(), "a"),
        (client.semaphore("a").acquire(too_many), "a"),
        (client.semaphore("a").release(too_many), "a"),
        (client.leased_semaphore("a").set_permits(too_many), "a"),
        (client.count_down_latch("a").try_set_count(0).map(drop), "a"),
    ] {
        let error = error.expect_err("it is out of bounds");
        assert_matches!(&error, Error::InvalidArgument { .. });
        assert_eq!(error.lock_name(), Some(name));
        let text = error.to_string();
        assert!(text.starts_with(&format!("{name:?}: ")), "{text}");
    }
    // A name that is too long is shown in part.
    let error = client.reentrant_lock(&"x".repeat(1000)).lock().unwrap_err();
    let text = error.to_string();
    assert!(text.contains("\"xxxxx") && text.len() < 150, "{text}");
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

const GOOD: &str = "redis://user:hunter2@127.0.0.1:7001";

/// Clients of this list, as sentinels and as servers of a cluster.
fn both(urls: &[&str]) -> [(&'static str, LockClientBuilder); 2] {
    let urls = || urls.iter().copied();
    let sentinels = LockClient::builder_sentinel(urls(), "mymaster");
    let nodes = LockClient::builder_cluster(urls());
    [("sentinels", sentinels), ("nodes", nodes)]
}

#[test]
fn a_bad_list_of_servers_is_refused_and_the_error_names_the_entry() {
    const OTHER: &str = "redis://user:hunter2@127.0.0.1:7002";
    let differs = "number 2 of 2, 127.0.0.1:7002";
    for (urls, words) in [
        (&[][..], "at least one"),
        (&["redis+unix:///run/redis"], "number 1 of 1"),
        (&[GOOD, "redis://another:hunter2@127.0.0.1:7002"], differs),
        (&[GOOD, "redis://user:hunter22@127.0.0.1:7002"], differs),
        (&[GOOD, "redis://user:hunter2@127.0.0.1:7002/1"], differs),
        (&[GOOD, "rediss://user:hunter2@127.0.0.1:7002"], differs),
        (&[GOOD, OTHER, GOOD], "number 3 of 3, 127.0.0.1:7001"),
        // 6379 is the default port.
        (&["redis://127.0.0.1", "redis://127.0.0.1:6379"], "once"),
    ] {
        for (field, builder) in both(urls) {
            let error = builder.build().expect_err("no good list");
            assert_no_secret(&error);
            assert!(error.to_string().contains(words), "no {words:?}: {error}");
            assert_eq!(setting::<()>(Err(error)), field);
        }
    }
    // A database is that of the master, and a cluster has only one.
    let [(_, sentinel), (field, cluster)] = both(&["redis://127.0.0.1:7001/3"]);
    sentinel.build().unwrap();
    assert_eq!(setting(cluster.build()), field);
    let nameless = LockClient::builder_sentinel([GOOD], "").build();
    assert_eq!(setting(nameless), "master");
}

/// Runtimes and logs print the error, and programs also the chain of its sources. The text of each
/// source appears once. Programs can distinguish errors of Redis by type.
#[test]
fn the_cause_of_a_failed_call_is_stated_once() {
    let identity = TRUSTED.issue("127.0.0.1");
    let server = Server::options().password("right").tls(&identity).start();
    let [address, closed] = [server.address(), Port::reserve().number().to_string()];
    let wrong = format!("redis://:{SECRET}@{address}");
    let closed = format!("redis://:{SECRET}@127.0.0.1:{closed}");
    let distrusting = builder(&format!("rediss://{}", server.tls_address()));
    for (builder, code) in [
        (builder(&closed), None),
        // A look-up that fails without a request to a name server.
        (builder("redis://a..b"), None),
        (LockClient::builder_sentinel([&closed], "mymaster"), None),
        (builder("redis+unix:///nonexistent/socket"), None),
        (builder(&wrong), Some("WRONGPASS")),
        (builder(&format!("redis://{address}")), Some("NOAUTH")),
        (LockClient::builder_cluster([&server.url()]), None),
        (distrusting.ca_certificates(Authority::new().pem), None),
    ] {
        let client = builder.command_timeout(millis(200)).build().unwrap();
        let error = client.reentrant_lock("lock").try_acquire_now().unwrap_err();
        assert_no_secret(&error);
        let (Error::Redis { cause, .. } | Error::Unavailable { cause, .. }) = &error else {
            panic!("{error:?}")
        };
        let chain: Vec<String> = successors(Some(&error as &dyn StdError), |&error| error.source())
            .map(ToString::to_string)
            .collect();
        let printed = chain.join(": ");
        let text = cause.to_string();
        assert_eq!(printed.matches(&text).count(), 1, "{text:?} in {printed:?}");
        if code.is_some() {
            let cause = cause.downcast_ref::<redis::RedisError>();
            assert_eq!(cause.and_then(redis::RedisError::code), code);
        }
    }
}
