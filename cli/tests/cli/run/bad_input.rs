//! What makes no sense, or cannot work: one line, a status, and nothing locked.

use super::{keys, run};
use crate::program::leasehold;
use crate::support::server::Server;
use crate::support::timing::{millis, within};

#[test]
fn it_is_reported_in_one_line_and_nothing_is_locked() {
    let server = Server::start();
    let long = "k".repeat(513);
    for (args, words) in [
        (&["--lease", "soon", "k", "--", "true"][..], "--lease"),
        (&["--lease", "9ms", "k", "--", "true"], "10ms"),
        (&["--lease", "300000years", "k", "--", "true"], "lease"),
        (&["--wait=-1s", "k", "--", "true"], "--wait"),
        (
            &["--no-wait", "--wait", "1s", "k", "--", "true"],
            "--no-wait",
        ),
        (&["--max-hold", "1parsec", "k", "--", "true"], "parsec"),
        (&["", "--", "true"], "name"),
        (&[&long, "--", "true"], "512"),
        (&["k", "true"], "true"),
        (&["k"], "COMMAND"),
        (&["k", "--"], "COMMAND"),
        (&["--", "true"], "KEY"),
        (&["--wrong", "k", "--", "true"], "--wrong"),
        (&["--redlock", "--fenced", "k", "--", "true"], "--fenced"),
        (
            &["--redlock", "--kind", "fair", "k", "--", "true"],
            "--kind",
        ),
        (
            &["--kind", "fair", "--fenced", "k", "--", "true"],
            "--fenced",
        ),
        (&["--kind", "spin", "k", "--", "true"], "spin"),
        (&["--kind", "permits=0", "k", "--", "true"], "permits=N"),
        (
            &["--kind", "permits=2", "--at-least", "1s", "k", "--", "true"],
            "--at-least",
        ),
        (&["--redlock", "k", "--", "true"], "three"),
        (&["--url", "http://there", "k", "--", "true"], "url"),
    ] {
        let output = run(&server).args(args).output();
        assert_eq!(
            output.expect_failure(64, &["leasehold: ", words]).text(),
            ""
        );
        assert!(keys(&server).is_empty(), "{args:?}");
    }
}

#[test]
fn a_wrong_password_is_reported_and_not_shown() {
    let server = Server::options().password("right").start();
    let url = server.url().replace("right", "sesame");
    let output = leasehold(&url).arg("run").locked("k", "echo ran").output();
    let output = output.expect_failure(69, &["refused"]);
    assert!(
        !output.err.contains("sesame") && output.out.is_empty(),
        "{output:?}"
    );
    assert!(keys(&server).is_empty());
}

#[test]
fn a_key_that_is_no_lock_is_left_alone() {
    let server = Server::start();
    server.ask::<()>(redis::cmd("SET").arg("k").arg("precious"));
    let output = run(&server).locked("k", "echo ran").output();
    output.expect_failure(64, &["another type"]);
    assert_eq!(server.ask::<String>(redis::cmd("GET").arg("k")), "precious");
}

#[test]
fn an_absent_redis_is_reported_in_time() {
    let server = Server::start();
    server.kill();
    let timeout = millis(200);
    for (wait, bound) in [
        ("--no-wait", timeout * 3),
        ("--wait=1ms", timeout * 3),
        ("-q", timeout * 13),
    ] {
        let start = run(&server).args(["--timeout", &super::text(timeout), wait]);
        let start = start.locked("k", "echo ran");
        let output = within(bound + millis(1_000), "to give up", || start.output());
        assert_eq!(output.expect_failure(69, &["no clear reply"]).text(), "");
    }
}
