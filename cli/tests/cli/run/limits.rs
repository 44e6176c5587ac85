//! The longest and the shortest time of a hold.

use std::time::Instant;

use super::{keys, over, run, said_pid, text, time_to_live};
use crate::proxy::library_script;
use crate::support::server::Server;
use crate::support::timing::{eventually, millis};

#[test]
fn a_job_that_runs_for_too_long_is_ended() {
    let server = Server::start();
    let (lease, longest) = (millis(750), millis(1_500));
    let start = Instant::now();
    let output = run(&server)
        .args(["--lease", &text(lease), "--max-hold", &text(longest)])
        .locked(
            "k",
            "trap 'echo term; exit 3' TERM; exec 2>/dev/null; while :; do sleep 0.02; done",
        )
        .output()
        .expect_failure(76, &["k", "--max-hold"]);
    assert!(start.elapsed() >= longest);
    assert_eq!(output.text(), "term\n");
    assert!(keys(&server).is_empty());
}

#[test]
fn a_job_that_does_not_end_is_killed_with_all_its_group_and_was_locked_until_then() {
    let server = Server::start();
    let (lease, longest, kill_after) = (millis(750), millis(300), millis(1_500));
    let start = Instant::now();
    let running = run(&server)
        .args(["--lease", &text(lease), "--max-hold", &text(longest)])
        .args(["--kill-after", &text(kill_after)])
        .locked(
            "k",
            "trap '' TERM; sleep 100 & echo $!; exec 2>/dev/null; while :; do sleep 0.02; done",
        )
        .start();
    let child = said_pid(&running);
    let mut running = running;
    let mut unlocked_early = false;
    eventually("the end of the job", || {
        let was_locked = time_to_live(&server, "k") > 0;
        let is_over = super::is_dead(child);
        unlocked_early |= !was_locked && !is_over;
        is_over || !running.is_running()
    });
    assert!(!unlocked_early);
    assert!(start.elapsed() >= longest + kill_after);
    running.end().expect_failure(76, &["--max-hold"]);
    assert!(keys(&server).is_empty());
}

#[test]
#[ignore = "soak"]
fn a_lock_outlasts_a_short_job() {
    let server = Server::start();
    let least = millis(5_000);
    // A lease that is longer is cut short, a shorter one lengthened.
    for (key, lease) in [("long", millis(60_000)), ("short", millis(1_000))] {
        let start = Instant::now();
        let output = run(&server)
            .args(["--at-least", &text(least), "--lease", &text(lease)])
            .locked(key, "exit 3")
            .output();
        output.expect(3);
        let left = u128::try_from(time_to_live(&server, key)).expect("it is locked");
        assert!(left <= least.as_millis(), "{left}");
        assert!(
            left + start.elapsed().as_millis() >= least.as_millis(),
            "{left}"
        );
    }
    let refused = run(&server)
        .arg("--no-wait")
        .locked("short", "echo ran")
        .output();
    refused.expect_failure(75, &["another client or thread"]);
    // Who waited all the time learns of the new end.
    let waited = run(&server).locked("short", "echo ran").output();
    assert_eq!(waited.expect(0).text(), "ran\n");
}

#[test]
fn a_waiter_learns_how_long_a_lock_outlasts_its_job() {
    let server = Server::start();
    let (_directory, over) = over();
    let holder = run(&server)
        .args([
            "--at-least",
            &text(millis(1_000)),
            "--lease",
            &text(millis(60_000)),
        ])
        .locked("k", &format!("echo on; {}", super::until(&over)))
        .start();
    holder.next_output();
    let waiter = run(&server).locked("k", "echo ran").start();
    super::await_waiters(&server, "k", 1);
    std::fs::write(&over, "").unwrap();
    holder.end().expect(0);
    assert_eq!(waiter.end().expect(0).text(), "ran\n");
}

/// A renewal that arrives after the end of the job has no effect.
#[test]
fn nothing_lengthens_what_outlasts_its_job() {
    let server = Server::start();
    let (_directory, over) = over();
    let (least, lease) = (millis(30_000), millis(60_000));
    let holder = run(&server)
        .args(["--at-least", &text(least), "--lease", &text(lease)])
        .locked("k", &format!("echo on; {}", super::until(&over)))
        .start();
    holder.next_output();
    let [(owner, 1)] = &server.ask::<Vec<(String, u32)>>(redis::cmd("HGETALL").arg("k"))[..] else {
        panic!("one owner has it once");
    };
    std::fs::write(&over, "").unwrap();
    holder.end().expect(0);
    let renew = library_script("renew");
    let mut late = redis::cmd("EVAL");
    late.arg(renew).arg(1).arg("k").arg(owner);
    late.arg(u64::try_from(lease.as_millis()).unwrap());
    assert_eq!(server.ask::<Vec<i32>>(&late), [-1]);
    let left = u128::try_from(time_to_live(&server, "k")).expect("it is locked");
    assert!(left <= least.as_millis(), "{left}");
}

#[test]
fn a_job_that_is_long_enough_leaves_nothing() {
    let server = Server::start();
    run(&server)
        .args(["--at-least", "20ms"])
        .locked("k", "sleep 0.1")
        .output()
        .expect(0);
    assert!(keys(&server).is_empty());
}
