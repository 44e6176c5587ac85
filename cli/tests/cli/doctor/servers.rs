//! One server, and what may be wrong with it.

use std::time::Duration;

use leasehold::{Lease, LockClient};

use super::faked_clock::FakedClock;
use super::{nothing_is_left, report, with_long_timeout};
use crate::support::server::Server;
use crate::support::timing::SOON;

#[test]
fn a_good_server_is_all_ok() {
    let server = Server::options().keeps_data().start();
    let report = report(with_long_timeout(&server.url()), &[]).expect(0);
    report.has_only("note", &["replicas"]);
    for verdict in ["warning", "failure", "unknown"] {
        report.has_only(verdict, &[]);
    }
    report
        .says("persistence", "ok", &["always"])
        .says("lock", "ok", &["acquired"]);
    assert!(report.output.err.is_empty());
    nothing_is_left(&server);
}

#[test]
fn people_get_a_line_a_check_and_a_sum() {
    let server = Server::options().arguments(&["--save", ""]).start();
    let output = with_long_timeout(&server.url())
        .arg("doctor")
        .output()
        .expect(0);
    let lines = output.lines();
    let at = lines
        .iter()
        .position(|line| line.starts_with("warning  persistence "));
    let advice = &lines[at.expect("a line") + 1];
    assert!(
        advice.starts_with("         -> set appendonly yes"),
        "{advice}"
    );
    let last = lines.last().expect("a sum");
    assert!(
        last.contains(" checks: ") && last.contains("with warnings"),
        "{last}"
    );

    let quiet = with_long_timeout(&server.url()).args(["doctor", "--quiet"]);
    let quiet = quiet.output().expect(0);
    assert!(quiet.text().contains("persistence"), "{quiet:?}");
    assert!(!quiet.text().contains("version"), "{quiet:?}");
    assert!(!quiet.text().contains("replicas"), "{quiet:?}");
}

#[test]
fn eviction_is_reported() {
    let server = Server::options()
        .keeps_data()
        .arguments(&["--maxmemory-policy", "allkeys-lru"])
        .start();
    let without_limit = report(with_long_timeout(&server.url()), &[]).expect(0);
    without_limit.says("eviction", "warning", &["allkeys-lru", "noeviction"]);
    server.ask::<()>(
        redis::cmd("CONFIG")
            .arg("SET")
            .arg("maxmemory")
            .arg("500mb"),
    );
    let with_limit = report(with_long_timeout(&server.url()), &[]).expect(1);
    with_limit.says("eviction", "failure", &["allkeys-lru", "noeviction"]);
    with_limit.has_only("failure", &["eviction"]);
    nothing_is_left(&server);
}

#[test]
fn a_failed_save_is_reported() {
    let server = Server::options().arguments(&["--save", "3600 1"]).start();
    server.ask::<()>(redis::cmd("SET").arg("something").arg("to save"));
    // Where the dump should go there is a directory.
    let dump = server.directory().join("dump.rdb");
    std::fs::create_dir(&dump).expect("our own directory");
    server.try_ask::<()>(&redis::cmd("BGSAVE"));
    crate::support::timing::eventually("the save to fail", || {
        let info: String = server.ask(redis::cmd("INFO").arg("persistence"));
        info.contains("rdb_last_bgsave_status:err")
    });
    let report = report(with_long_timeout(&server.url()), &[]).expect(1);
    report.says("persistence", "failure", &["MISCONF"]);
    // It refuses locks, indeed.
    report.says("lock", "failure", &["MISCONF"]);
}

#[test]
fn a_wrong_password_is_reported_but_not_shown() {
    let server = Server::options().password("s3cret").start();
    for url in [
        format!("redis://:wr0ng@{}", server.address()),
        format!("redis://{}", server.address()),
    ] {
        let report = report(with_long_timeout(&url), &[]).expect(69);
        report.says("reachable", "failure", &["LEASEHOLD_PASSWORD"]);
        let all = format!("{:?}", report.output);
        assert!(!all.contains("wr0ng") && !all.contains("s3cret"), "{all}");
    }
    report(with_long_timeout(&server.url()), &[]).says("lock", "ok", &[]);
}

#[test]
fn an_absent_server_is_reported() {
    let server = Server::start();
    let ask = || {
        report(
            with_long_timeout(&server.url()).env("LEASEHOLD_TIMEOUT", "300ms"),
            &[],
        )
    };
    server.pause();
    ask()
        .expect(69)
        .says("reachable", "failure", &["no reply in time", "--timeout"]);
    server.kill();
    ask()
        .expect(69)
        .says("reachable", "failure", &["refused", "runs there"]);
}

#[test]
fn an_untrusted_certificate_is_reported() {
    use crate::support::certificates::{Authority, TRUSTED};

    let server = Server::options().tls(&TRUSTED.issue("127.0.0.1")).start();
    let url = format!("rediss://{}", server.tls_address());
    let file = server.directory().join("authority.pem");
    let trusting = |pem: &str| {
        std::fs::write(&file, pem).expect("our own directory");
        report(with_long_timeout(&url).env("LEASEHOLD_CACERT", &file), &[])
    };
    trusting(&Authority::new().pem)
        .expect(69)
        .says("reachable", "failure", &["--cacert"]);
    trusting(&TRUSTED.pem).says("lock", "ok", &[]);
}

#[test]
fn a_fast_clock_is_reported() {
    let clock = FakedClock::new();
    clock.hurry(100);
    let server = Server::options()
        .environment(clock.environment_of_a_server())
        .start();
    let report = report(with_long_timeout(&server.url()), &[]).expect(1);
    report.says("clock-rate", "failure", &["% faster than the clock here"]);
    report.has_only("failure", &[]);
}

#[test]
fn a_clock_that_is_far_off_is_only_noted() {
    let clock = FakedClock::new();
    clock.set(5);
    let server = Server::options()
        .environment(clock.environment_of_a_server())
        .start();
    let report = report(with_long_timeout(&server.url()), &[]).expect(0);
    report.says("clock", "note", &["ahead of the clock here"]);
}

#[test]
fn a_short_timeout_and_a_renamed_command_are_reported() {
    let server = Server::options()
        .arguments(&["--timeout", "20", "--rename-command", "PEXPIRE", "OTHER"])
        .start();
    let report = report(with_long_timeout(&server.url()), &[]).expect(1);
    report
        .says("timeout", "note", &["20 s"])
        .says("rights", "failure", &["does not know pexpire"]);
    nothing_is_left(&server);
}

#[test]
fn a_lock_of_another_client_is_not_used() {
    let server = Server::options().keeps_data().start();
    let theirs = LockClient::connect(&server.url()).expect("the settings are good");
    let theirs = theirs.reentrant_lock("leasehold-doctor");
    let lease = Lease::fixed(SOON.get() * 6);
    assert!(theirs.try_lock(Duration::ZERO, lease).expect("it answers"));
    let hold = || server.ask::<Vec<String>>(redis::cmd("HGETALL").arg("leasehold-doctor"));
    let before = hold();
    let held = report(with_long_timeout(&server.url()), &[]).expect(0);
    held.says("lock", "unknown", &["held by another client", "doctor KEY"])
        .says("rights", "ok", &[]);
    assert_eq!(hold(), before);
    let free = report(with_long_timeout(&server.url()), &["another"]).expect(0);
    free.says("lock", "ok", &[]);
    theirs.unlock().expect("it is held still");

    server.ask::<()>(redis::cmd("SET").arg("leasehold-doctor").arg("no lock"));
    let no_lock = report(with_long_timeout(&server.url()), &[]).expect(0);
    no_lock.says("lock", "unknown", &["is not a lock"]);
    let value: String = server.ask(redis::cmd("GET").arg("leasehold-doctor"));
    assert_eq!(value, "no lock");
}

#[test]
fn a_name_that_no_lock_can_have_is_refused_at_once() {
    let name = "x".repeat(513);
    with_long_timeout("redis://127.0.0.1:1")
        .args(["doctor", &name])
        .output()
        .expect_failure(64, &["512 bytes"]);
}
