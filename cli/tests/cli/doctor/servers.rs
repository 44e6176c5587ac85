//! One server, and what may be wrong with it.

use std::time::Duration;

use leasehold::Lease;

use super::faked_clock::FakedClock;
use super::{at, expect, nothing_is_left, report};
use crate::locks::{client, command, send};
use crate::support::server::Server;
use crate::support::timing::{SOON, eventually};

#[test]
fn a_good_server_is_all_ok() {
    let server = Server::options().keeps_data().start();
    let report = expect(0, &server.url(), &[]);
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
    let output = at(&server.url()).arg("doctor").output().expect(0);
    let text = output.text();
    let advised = "warning  persistence  nothing is written to the disk: a restart frees all \
                   locks, also those that are held\n         -> set appendonly yes\n";
    assert!(text.contains(advised), "{text}");
    let last = text.lines().last().expect("a sum");
    let is_sum = last.contains(" checks: ") && last.contains("with warnings");
    assert!(is_sum, "{last}");

    let quiet = at(&server.url()).args(["doctor", "--quiet"]);
    let quiet = quiet.output().expect(0).text();
    for (check, is_shown) in [
        ("persistence", true),
        ("version", false),
        ("replicas", false),
    ] {
        assert_eq!(quiet.contains(check), is_shown, "{quiet}");
    }
}

#[test]
fn eviction_is_reported() {
    let policy = ["--maxmemory-policy", "allkeys-lru"];
    let server = Server::options().keeps_data().arguments(&policy).start();
    let words = ["allkeys-lru", "noeviction"];
    expect(0, &server.url(), &[]).says("eviction", "warning", &words);
    send(&server, "CONFIG SET maxmemory 500mb");
    expect(1, &server.url(), &[])
        .says("eviction", "failure", &words)
        .has_only("failure", &["eviction"]);
    nothing_is_left(&server);
}

#[test]
fn a_failed_save_is_reported() {
    let server = Server::options().arguments(&["--save", "3600 1"]).start();
    send(&server, "SET something to-save");
    // Where the dump should go there is a directory.
    let dump = server.directory().join("dump.rdb");
    std::fs::create_dir(&dump).expect("our own directory");
    server.try_ask::<()>(&redis::cmd("BGSAVE"));
    eventually("the save to fail", || {
        let info: String = server.ask(&command("INFO persistence"));
        info.contains("rdb_last_bgsave_status:err")
    });
    // It refuses locks, indeed.
    expect(1, &server.url(), &[])
        .says("persistence", "failure", &["MISCONF"])
        .says("lock", "failure", &["MISCONF"]);
}

#[test]
fn an_absent_server_is_reported() {
    let server = Server::start();
    let check = |words: &[&str]| {
        let program = at(&server.url()).env("LEASEHOLD_TIMEOUT", "300ms");
        report(program, &[])
            .expect(69)
            .says("reachable", "failure", words);
    };
    server.pause();
    check(&["no reply in time", "--timeout"]);
    server.kill();
    check(&["refused", "runs there"]);
}

#[test]
fn an_untrusted_certificate_is_reported() {
    use crate::support::certificates::{Authority, TRUSTED};

    let server = Server::options().tls(&TRUSTED.issue("127.0.0.1")).start();
    let url = format!("rediss://{}", server.tls_address());
    let file = server.directory().join("authority.pem");
    let trusting = |pem: &str| {
        std::fs::write(&file, pem).expect("our own directory");
        report(at(&url).env("LEASEHOLD_CACERT", &file), &[])
    };
    let untrusted = trusting(&Authority::new().pem).expect(69);
    untrusted.says("reachable", "failure", &["--cacert"]);
    trusting(&TRUSTED.pem).says("lock", "ok", &[]);
}

#[test]
fn a_fast_clock_is_reported_and_one_that_is_far_off_is_only_noted() {
    let check = |fake: fn(&FakedClock), code| {
        let clock = FakedClock::new();
        fake(&clock);
        let environment = clock.environment_of_a_server();
        let server = Server::options().environment(environment).start();
        expect(code, &server.url(), &[])
    };
    check(|clock| clock.hurry(100), 1)
        .says("clock-rate", "failure", &["% faster than the clock here"])
        .has_only("failure", &[]);
    let words = ["ahead of the clock here"];
    check(|clock| clock.set(5), 0).says("clock", "note", &words);
}

#[test]
fn a_short_timeout_and_a_renamed_command_are_reported() {
    let arguments = ["--timeout", "20", "--rename-command", "PEXPIRE", "OTHER"];
    let server = Server::options().arguments(&arguments).start();
    expect(1, &server.url(), &[])
        .says("timeout", "note", &["20 s"])
        .says("rights", "failure", &["does not know pexpire"]);
    nothing_is_left(&server);
}

#[test]
fn a_lock_of_another_client_is_not_used() {
    let server = Server::options().keeps_data().start();
    let theirs = client(&server).reentrant_lock("leasehold-doctor");
    let lease = Lease::fixed(SOON.get() * 6);
    assert!(theirs.try_lock(Duration::ZERO, lease).expect("it answers"));
    let hold = || server.ask::<Vec<String>>(&command("HGETALL leasehold-doctor"));
    let before = hold();
    let words = ["held by another client", "doctor KEY"];
    expect(0, &server.url(), &[])
        .says("lock", "unknown", &words)
        .says("rights", "ok", &[]);
    assert_eq!(hold(), before);
    expect(0, &server.url(), &["another"]).says("lock", "ok", &[]);
    theirs.unlock().expect("it is held still");

    send(&server, "SET leasehold-doctor precious");
    let words = ["is not a lock"];
    expect(0, &server.url(), &[]).says("lock", "unknown", &words);
    let value: String = server.ask(&command("GET leasehold-doctor"));
    assert_eq!(value, "precious");
    let long = at("redis://127.0.0.1:1").args(["doctor", &"x".repeat(513)]);
    long.output().expect_failure(64, &["512 bytes"]);
}
