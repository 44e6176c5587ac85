//! The longest and the shortest time of a hold.

use std::time::Instant;

use super::{FOREVER, Over, is_dead, job, run, said_pid, text, time_to_live};
use crate::locks::{await_waiters, keys};
use crate::support::server::Server;
use crate::support::timing::{eventually, millis};

#[test]
fn a_job_that_runs_for_too_long_is_ended() {
    let server = Server::start();
    let (lease, longest) = (millis(750), millis(1_500));
    let options = format!("--lease {} --max-hold {}", text(lease), text(longest));
    let script = format!("trap 'echo term; exit 3' TERM; {FOREVER}");
    let start = Instant::now();
    let output = job(&server, &options, &script).output();
    let output = output.expect_ended(124, &["k", "--max-hold"], 3);
    assert!(start.elapsed() >= longest);
    assert_eq!(output.text(), "term\n");
    assert!(keys(&server).is_empty());
}

#[test]
fn a_job_that_does_not_end_is_killed_with_all_its_group_and_was_locked_until_then() {
    let server = Server::start();
    let (longest, kill_after) = (millis(300), millis(1_500));
    let times = format!(
        "--max-hold {} --kill-after {}",
        text(longest),
        text(kill_after)
    );
    let options = format!("--lease {} {times}", text(millis(750)));
    let script = format!("trap '' TERM; sleep 100 & echo $!; {FOREVER}");
    let start = Instant::now();
    let mut running = job(&server, &options, &script).start();
    let child = said_pid(&running);
    let mut unlocked_early = false;
    eventually("the end of the job", || {
        let was_locked = time_to_live(&server, "k") > 0;
        let is_over = is_dead(child);
        unlocked_early |= !was_locked && !is_over;
        is_over || !running.is_running()
    });
    assert!(!unlocked_early);
    assert!(start.elapsed() >= longest + kill_after);
    running.end().expect_ended(124, &["--max-hold"], 137);
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
        let times = ["--at-least", &text(least), "--lease", &text(lease)];
        let output = run(&server).args(times).locked(key, "exit 3").output();
        output.expect(3);
        let left = u128::try_from(time_to_live(&server, key)).expect("it is locked");
        assert!(left <= least.as_millis(), "{left}");
        let kept = left + start.elapsed().as_millis();
        assert!(kept >= least.as_millis(), "{left}");
    }
    let refused = run(&server).arg("--no-wait").locked("short", "echo ran");
    let words = ["lock \"short\" is not free", "(owner: "];
    refused.output().expect_failure(75, &words);
    // Who waited all the time learns of the new end.
    let waited = run(&server).locked("short", "echo ran").output();
    waited.expect_all(0, "ran\n", "");
}

#[test]
fn a_waiter_learns_how_long_a_lock_outlasts_its_job() {
    let server = Server::start();
    let over = Over::new();
    let options = format!("--at-least {} --lease 60s", text(millis(1_000)));
    let script = format!("echo on; {}", over.until());
    let holder = job(&server, &options, &script).start().when_on();
    let waiter = job(&server, "", "echo ran").start();
    await_waiters(&server, "k", 1);
    over.create();
    holder.end().expect(0);
    waiter.end().expect_all(0, "ran\n", "");
}
