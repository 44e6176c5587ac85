//! A command that starts `leasehold` again.

use super::{job, run};
use crate::program::{PATH, leasehold_nowhere};
use crate::support::server::Server;

/// Settings without a password stay in the environment: the command may be a client of the same
/// Redis.
#[test]
fn the_password_is_not_in_the_environment_of_the_command() {
    let server = Server::options().password("sesame").start();
    let (url, other) = (server.url(), "redis://127.0.0.1:1");
    let without_password = format!("redis://{}", server.address());
    let script = "echo ${LEASEHOLD_URL-none} ${LEASEHOLD_PASSWORD-none} $REDIS_URL";
    for (name, url, password, kept) in [
        ("LEASEHOLD_URL", &*url, "", format!("{url} {other}")),
        (
            "LEASEHOLD_URL",
            &without_password,
            "sesame",
            format!("{without_password} sesame {other}"),
        ),
    ] {
        let run = |options: &[&str], script: &str| {
            let run = leasehold_nowhere().env("REDIS_URL", other).env(name, url);
            let run = run.env("LEASEHOLD_PASSWORD", password).arg("run");
            run.args(options).locked("k", script).output()
        };
        let plain = run(&[], script);
        plain.expect_all(0, &format!("none none {other}\n"), "");
        let keeping = run(&["--keep-credentials"], script);
        keeping.expect_all(0, &format!("{kept}\n"), "");
        // Without its URL, the inner leasehold would take the lock at the Redis of REDIS_URL.
        let inner = format!("exec {PATH} run another -- echo ran");
        run(&[], &inner).expect_refusal(64, &["--keep-credentials"]);
        run(&["--keep-credentials"], &inner).expect_all(0, "ran\n", "");
    }
}

#[test]
fn a_command_that_waits_for_its_own_lock_is_refused() {
    let server = Server::start();
    let outer = |kind: &str, inner: &str| {
        let options = format!("--keep-credentials --kind {kind}");
        let script = format!("exec {PATH} {inner}");
        job(&server, &options, &script).output()
    };
    for (kind, inner) in [
        ("reentrant", "-q run k -- echo ran"),
        ("reentrant", "hold k"),
        ("read", "run --kind write k -- echo ran"),
        ("permits=1", "run --kind permits=1 k -- echo ran"),
        // Of the command that started the one between.
        (
            "reentrant",
            &format!("run --keep-credentials j -- {PATH} run k -- echo ran"),
        ),
    ] {
        let words = ["\"k\"", "LEASEHOLD_KEYS", "--wait"];
        outer(kind, inner).expect_refusal(64, &words);
        server.run("FLUSHALL");
    }
    for (kind, inner) in [
        ("reentrant", "run other -- echo ran"),
        ("read", "run --kind read k -- echo ran"),
        ("permits=2", "run --kind permits=2 k -- echo ran"),
    ] {
        outer(kind, inner).expect_all(0, "ran\n", "");
        server.run("FLUSHALL");
    }
    let limited = outer("reentrant", "run --wait 50ms k -- echo ran");
    limited.expect_refusal(75, &["\"k\""]);
    // LEASEHOLD_KEYS stays in a process that an ended command has left behind. The lock is free.
    let later = run(&server)
        .env("LEASEHOLD_KEYS", "k")
        .locked("k", "echo ran");
    later.output().expect_all(0, "ran\n", "");
}
