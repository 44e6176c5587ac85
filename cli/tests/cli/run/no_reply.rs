//! A Redis that does not reply: the job is ended before its lease can end on the server.

use std::path::Path;
use std::time::{Duration, Instant};

use super::{FOREVER, Over, is_dead, job, said_pid, text, time_to_live};
use crate::support::server::Server;
use crate::support::timing::{SLIP, millis};

/// TERM comes a sixth of it before its end, KILL a sixtieth.
const LEASE: u64 = 12_000;

fn options(lease: u64, timeout: u64) -> String {
    let (lease, timeout) = (text(millis(lease)), text(millis(timeout)));
    format!("--lease {lease} --timeout {timeout}")
}

#[test]
#[ignore = "soak"]
fn a_hang_ends_the_job_before_its_lease_is_over() {
    ends_in_time(Server::pause);
}

fn ends_in_time(harm: fn(&Server)) {
    let server = Server::start();
    let lease = millis(LEASE);
    let told = Over::new();
    let trap = format!("trap 'touch {}' TERM", told.file.display());
    let script = format!("{trap}; echo $$; {FOREVER}");
    let running = job(&server, &options(LEASE, 500), &script).start();
    let pid = said_pid(&running);
    let before = Instant::now();
    // Not renewed between this question and the harm: it was taken a moment ago.
    let left = Duration::from_millis(time_to_live(&server, "k").try_into().expect("it is held"));
    harm(&server);
    let is_new = left > lease * 2 / 3 && before.elapsed() < lease / 3;
    assert!(is_new, "{left:?}");
    let lease_ends = before + left;

    let is_late = || Instant::now() > lease_ends + millis(5_000);
    wait_until(|| is_dead(pid), is_late);
    let died = Instant::now();
    assert!(told.file.exists(), "TERM came before KILL");
    let to_spare = lease_ends.checked_duration_since(died);
    let to_spare = to_spare.unwrap_or_else(|| panic!("alive {:?} after", died - lease_ends));
    // Nor was it ended without need.
    let bound = lease / 60 + lease / 100 + SLIP.get() * 2;
    assert!(to_spare < bound, "{to_spare:?}");
    let output = running.end().expect_ended(76, &["no renewal"], 137);
    assert_eq!(output.text(), "");
}

fn wait_until(condition: impl Fn() -> bool, is_late: impl Fn() -> bool) {
    while !condition() {
        assert!(!is_late());
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The clock of another machine may say only now that the job is due.
#[test]
#[ignore = "soak"]
fn a_job_that_is_ended_without_a_reply_has_its_time_even_if_redis_is_back() {
    let server = Server::start();
    let least = millis(60_000);
    let over = Over::new();
    let told = over.beside("told");
    let trap = format!("trap 'touch {}' TERM", told.display());
    let script = format!("{trap}; echo on; exec 2>/dev/null; {}", over.until());
    let options = format!("{} --at-least {}", options(LEASE, 500), text(least));
    let running = job(&server, &options, &script).start().when_on();
    server.pause();
    let start = Instant::now();
    wait_until(|| Path::exists(&told), || start.elapsed() > millis(LEASE));
    server.resume();
    over.create();
    running.end().expect_ended(76, &["no renewal"], 0);
    let left = u128::try_from(time_to_live(&server, "k")).expect("it is locked");
    assert!(left > (least / 2).as_millis(), "{left}");
}
