//! A lock that is lost, or whose holder is killed, while its command runs.

use super::{delete, is_dead, keys, run, said_pid, text, time_to_live, until};
use crate::support::server::Server;
use crate::support::timing::{SLIP, eventually, millis, within};

const STUBBORN: &str = "trap '' TERM; echo $$; exec 2>/dev/null; while :; do sleep 0.02; done";

#[test]
fn the_command_is_ended_and_the_status_reports_it() {
    let server = Server::start();
    let script =
        "trap 'echo term; exit 0' TERM; echo on; exec 2>/dev/null; while :; do sleep 0.02; done";
    let running = run(&server).arg("--quiet").locked("k", script).start();
    assert_eq!(running.next_output(), "on\n");
    delete(&server, "k");
    let output = running
        .end()
        .expect_failure(76, &["\"k\"", "its key was deleted"]);
    assert_eq!(output.text(), "term\n");
}

#[test]
fn a_lock_of_another_client_is_told_from_a_deleted_one() {
    let server = Server::start();
    let running = run(&server).locked("k", "echo on; exec sleep 100").start();
    running.next_output();
    let mut theirs = redis::pipe();
    theirs.atomic().del("k").hset("k", "other:1", 1);
    theirs.query::<()>(&mut server.connection()).unwrap();
    running
        .end()
        .expect_failure(76, &["another client or thread acquired it"]);
    assert_eq!(
        server.ask::<Vec<String>>(redis::cmd("HKEYS").arg("k")),
        ["other:1"]
    );
}

#[test]
#[ignore = "soak"]
fn the_job_is_dead_before_a_waiter_has_the_lock() {
    let server = Server::start();
    let directory = tempfile::tempdir().unwrap();
    let waited = directory.path().join("waited");
    let lease = millis(6_000);
    // The one that ignores TERM has a sixth of its lease at most, whatever is left of that.
    for (script, kill_after) in [
        (STUBBORN, millis(500)),
        (STUBBORN, millis(60_000)),
        ("echo $$; exec sleep 100", millis(60_000)),
    ] {
        let bound = lease / 10 + kill_after.min(lease / 6) + SLIP.get() * 4;
        let lease = ["--lease".to_owned(), text(lease)];
        let running = run(&server)
            .args(&lease)
            .args(["--kill-after", &text(kill_after)])
            .locked("k", script)
            .start();
        let pid = said_pid(&running);
        let seen = format!("cat /proc/{pid}/stat; touch '{}'", waited.display());
        let tries = tries(&server);
        let waiter = run(&server).args(&lease).locked("k", &seen).start();
        // The second is made when it listens; after that it waits for a message, or the end of the
        // lease.
        eventually("the second try of the waiter", || {
            self::tries(&server) >= tries + 2
        });
        delete(&server, "k");
        within(bound, "the end of the job", || {
            eventually("the end of the job", || is_dead(pid));
        });
        assert!(!waited.exists());
        running.end().expect_failure(76, &["deleted"]);
        let waiter = waiter.end().expect(0);
        assert!(waiter.err.contains("No such file"), "{waiter:?}");
        std::fs::remove_file(&waited).unwrap();
        assert!(keys(&server).is_empty());
    }
}

/// How often clients tried to acquire a lock. No other request for a held lock uses EXISTS, and a
/// refused one uses it twice: for the lock, and for the queue of a fair lock.
fn tries(server: &Server) -> u64 {
    let stats: String = server.ask(redis::cmd("INFO").arg("commandstats"));
    let calls = stats
        .split_once("cmdstat_exists:calls=")
        .and_then(|(_, rest)| rest.split_once(','));
    calls.map_or(0, |(calls, _)| calls.parse::<u64>().expect("a number") / 2)
}

/// The release finds the loss, if nothing found it before.
#[test]
fn a_loss_that_is_found_at_the_end_is_reported() {
    let server = Server::start();
    let script = format!("redis-cli -p {} del k", server.port());
    let output = run(&server).locked("k", &script).output();
    assert_eq!(
        output.expect_failure(76, &["its key was deleted"]).text(),
        "1\n"
    );
}

#[test]
fn what_a_lost_job_leaves_behind_is_killed() {
    let server = Server::start();
    let script = "trap '' TERM; sleep 100 & echo $!; trap - TERM; wait";
    let running = run(&server)
        .args(["--kill-after", &text(millis(500))])
        .locked("k", script)
        .start();
    let child = said_pid(&running);
    delete(&server, "k");
    running.end().expect_failure(76, &["deleted"]);
    eventually("the end of the child", || is_dead(child));
}

#[test]
fn what_a_lost_job_leaves_behind_has_its_time_to_end() {
    let server = Server::start();
    let child = "trap 'sleep 0.5; echo cleaned; exit' TERM; echo on; while :; do sleep 0.02; done";
    // The shell itself ends with the first signal.
    let script = format!("({child}) 2>/dev/null & wait");
    let running = run(&server)
        .args(["--lease", "60s", "--kill-after", "60s"])
        .locked("k", &script)
        .start();
    assert_eq!(running.next_output(), "on\n");
    delete(&server, "k");
    let output = running.end().expect_failure(76, &["deleted"]);
    assert_eq!(output.text(), "cleaned\n");
}

#[test]
fn what_a_good_job_leaves_behind_lives() {
    let server = Server::start();
    let script = "sleep 100 >/dev/null 2>&1 & echo $!";
    let child = run(&server).locked("k", script).output().expect(0).text();
    let child = child.trim().parse().unwrap();
    assert!(!is_dead(child));
    crate::support::process::signal(child, "KILL");
}

/// A killed process can neither pass a signal on nor release its lock.
#[test]
fn the_job_dies_with_leasehold() {
    let server = Server::start();
    let lease = millis(1_500);
    let running = run(&server)
        .args(["--lease", &text(lease)])
        .locked("k", STUBBORN)
        .start();
    let job = said_pid(&running);
    assert!(!is_dead(job));
    running.signal("KILL");
    within(millis(1_000), "the death of the job", || {
        eventually("the death of the job", || is_dead(job));
    });
    assert_eq!(running.end().signal(), Some(9));
    // Nothing renews it.
    within(lease + millis(500), "the end of the lease", || {
        eventually("the end of the lease", || time_to_live(&server, "k") < 0);
    });
}

#[test]
fn a_release_that_fails_is_a_warning_also_with_quiet() {
    let directory = tempfile::tempdir().unwrap();
    for quiet in [false, true] {
        let server = Server::start();
        let over = directory.path().join(format!("over {quiet}"));
        let running = run(&server)
            .args(["--timeout", &text(millis(200))])
            .args(quiet.then_some("--quiet"))
            .locked("k", &format!("echo on; {}; exit 3", until(&over)))
            .start();
        running.next_output();
        server.kill();
        std::fs::write(&over, "").unwrap();
        running.end().expect_failure(3, &["k"]);
    }
}
