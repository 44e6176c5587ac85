//! A Redis that does not reply: the job is ended before its lease can end on the server.

use std::time::{Duration, Instant};

use super::{is_dead, over, run, said_pid, text, time_to_live, until};
use crate::support::server::Server;
use crate::support::timing::{SLIP, eventually, millis, throughout};

/// TERM comes a sixth of it before its end, KILL a sixtieth.
const LEASE: u64 = 12_000;

#[test]
#[ignore = "soak"]
fn a_hang_ends_the_job_before_its_lease_is_over() {
    ends_in_time(Server::pause);
}

#[test]
#[ignore = "soak"]
fn a_crash_ends_the_job_before_its_lease_is_over() {
    ends_in_time(Server::kill);
}

fn ends_in_time(harm: fn(&Server)) {
    let server = Server::start();
    let lease = millis(LEASE);
    let directory = tempfile::tempdir().unwrap();
    let told = directory.path().join("told");
    let script = format!(
        "trap \"touch '{}'\" TERM; echo $$; exec 2>/dev/null; while :; do sleep 0.02; done",
        told.display()
    );
    let running = run(&server)
        .args(["--lease", &text(lease), "--timeout", &text(millis(500))])
        .locked("k", &script)
        .start();
    let job = said_pid(&running);
    let before = Instant::now();
    // Not renewed between this question and the harm: it was taken a moment ago.
    let left = Duration::from_millis(time_to_live(&server, "k").try_into().expect("it is held"));
    harm(&server);
    assert!(
        left > lease * 2 / 3 && before.elapsed() < lease / 3,
        "{left:?}"
    );
    let lease_ends = before + left;

    let died = wait_for_death(job, lease_ends);
    assert!(told.exists(), "TERM came before KILL");
    let to_spare = lease_ends.checked_duration_since(died);
    assert!(
        to_spare.is_some(),
        "alive {:?} after its lease",
        died - lease_ends
    );
    // Nor was it ended without need.
    assert!(
        to_spare.unwrap() < lease / 60 + lease / 100 + SLIP.get() * 2,
        "{to_spare:?}"
    );
    let output = running.end().expect_failure(76, &["no renewal"]);
    assert_eq!(output.text(), "");
}

/// When it was first seen dead.
fn wait_for_death(pid: u32, expected: Instant) -> Instant {
    while !is_dead(pid) {
        assert!(Instant::now() < expected + millis(5_000), "it does not die");
        std::thread::sleep(Duration::from_millis(1));
    }
    Instant::now()
}

/// The clock of another machine may say only now that the job is due.
#[test]
#[ignore = "soak"]
fn a_job_that_is_ended_without_a_reply_has_its_time_even_if_redis_is_back() {
    let server = Server::start();
    let (lease, least) = (millis(LEASE), millis(60_000));
    let directory = tempfile::tempdir().unwrap();
    let [told, over] = ["told", "over"].map(|name| directory.path().join(name));
    let script = format!(
        "trap \"touch '{}'\" TERM; echo on; exec 2>/dev/null; {}",
        told.display(),
        until(&over)
    );
    let running = run(&server)
        .args(["--lease", &text(lease), "--timeout", &text(millis(500))])
        .args(["--at-least", &text(least)])
        .locked("k", &script)
        .start();
    assert_eq!(running.next_output(), "on\n");
    server.pause();
    let start = Instant::now();
    while !told.exists() {
        assert!(start.elapsed() < lease, "it is not ended");
        std::thread::sleep(Duration::from_millis(1));
    }
    server.resume();
    std::fs::write(&over, "").unwrap();
    running.end().expect_failure(76, &["no renewal"]);
    let left = u128::try_from(time_to_live(&server, "k")).expect("it is locked");
    assert!(left > (least / 2).as_millis(), "{left}");
}

#[test]
#[ignore = "soak"]
fn a_redis_that_replies_again_in_time_does_no_harm() {
    let server = Server::start();
    let lease = millis(6_000);
    let (_directory, over) = over();
    let mut running = run(&server)
        .args(["--lease", &text(lease), "--timeout", &text(millis(200))])
        // So that TERM is not due before the last thirtieth of the lease.
        .args(["--kill-after", &text(lease / 60)])
        .locked("k", &format!("echo on; {}; exit 3", until(&over)))
        .start();
    running.next_output();
    let renewed =
        |server: &Server| time_to_live(server, "k") > (lease * 19 / 20).as_millis() as i64;
    eventually("a fresh lease", || renewed(&server));
    server.pause();
    // The first renewal is made after two thirds of the lease, and fails.
    throughout(lease * 3 / 4, "the job runs on", || running.is_running());
    server.resume();
    eventually("a renewal", || renewed(&server));
    assert!(running.is_running());
    std::fs::write(&over, "").unwrap();
    let output = running.end().expect(3);
    assert_eq!(output.err, "");
}
