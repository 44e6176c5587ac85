//! One server, and what may be wrong with it.

use super::faked_clock::FakedClock;
use super::{at, expect, nothing_is_left, report};
use crate::locks::{command, send};
use crate::support::server::Server;
use crate::support::timing::eventually;

#[test]
fn a_good_server_is_all_ok() {
    let server = Server::start();
    let report = expect(0, &server.url(), &[]);
    for verdict in ["warning", "failure", "unknown"] {
        report.has_only(verdict, &[]);
    }
    report.allows_every_kind();
    assert!(report.output.err.is_empty());
    nothing_is_left(&server);
}

#[test]
fn people_get_a_line_for_each_check() {
    let policy = ["--maxmemory-policy", "allkeys-lru"];
    let server = Server::options().arguments(&policy).start();
    let output = at(&server.url()).arg("doctor").output().expect(0);
    let text = output.text();
    let advised = "warning  eviction   allkeys-lru, but no maxmemory: once it is set, locks may \
                   be evicted while they are held\n         -> set maxmemory-policy noeviction";
    assert!(text.contains(advised), "{text}");
    let quiet = at(&server.url()).args(["doctor", "--quiet"]);
    let quiet = quiet.output().expect(0).text();
    for (check, is_shown) in [("eviction", true), ("role", false), ("reentrant", false)] {
        assert_eq!(quiet.contains(check), is_shown, "{quiet}");
    }
}

#[test]
fn eviction_is_reported() {
    let policy = ["--maxmemory-policy", "allkeys-lru"];
    let server = Server::options().arguments(&policy).start();
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
        .says("reachable", "ok", &[])
        .says("reentrant", "failure", &["MISCONF"]);
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
    trusting(&TRUSTED.pem).says("reentrant", "ok", &[]);
}

#[test]
fn a_fast_clock_is_reported() {
    let clock = FakedClock::new();
    clock.hurry(100);
    let environment = clock.environment_of_a_server();
    let server = Server::options().environment(environment).start();
    expect(1, &server.url(), &[])
        .says("clock", "failure", &["% faster than the clock here"])
        .has_only("failure", &[]);
}

#[test]
fn a_renamed_command_and_a_name_that_is_too_long_are_reported() {
    let renamed = ["--rename-command", "PEXPIRE", "OTHER"];
    let server = Server::options().arguments(&renamed).start();
    expect(1, &server.url(), &[]).says("reentrant", "failure", &["rename-command"]);
    let long = at(&server.url()).args(["doctor", &"x".repeat(513)]);
    long.output().expect_failure(64, &["512 bytes"]);
    nothing_is_left(&server);
}
