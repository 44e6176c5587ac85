//! Limits of a hold in time: at most, at least, and once in a period.

use crate::support::prelude::*;

/// The holder learns of the limit while no other client can have the lock yet.
#[test]
fn a_renewed_hold_ends_within_its_limit() {
    let server = Server::start();
    let [holder, other] = [(); 2].map(|()| client(&server.url()));
    let (lease, max) = (LEASE.get(), LEASE.get() * 5 / 2);
    let start = Instant::now();
    let lock = holder.reentrant_lock("job");
    let guard = lock
        .acquire_with(Lease::held_at_most(max).lasting(lease))
        .unwrap();
    assert!(guard.remaining() <= lease);
    let reason = guard.lost().recv_timeout(SOON.get());
    let notified = start.elapsed();
    assert_eq!(reason, Ok(LostReason::RenewalLimit));
    assert!(notified >= max - lease / 2, "too early: {notified:?}");
    assert!(
        notified <= max - lease / 3 + SLIP.get(),
        "too late: {notified:?}"
    );
    assert!(holder.stats().renewals >= 2);

    drop(other.reentrant_lock("job").acquire().unwrap());
    let free = start.elapsed();
    assert!(
        free >= max - SLIP.get() && free <= max + SLIP.get(),
        "{free:?}"
    );
    assert_lost(&guard.unlock(), LostReason::RenewalLimit);
}

/// The role: a job that runs at most once in a period. It works until it gets a line.
pub fn run_once_a_period(arguments: &[&str]) {
    let [url, millis] = child::named(arguments);
    let period = Duration::from_millis(millis.parse().expect("a number"));
    let lock = client(url).reentrant_lock("report");
    let guard = lock.try_acquire(Duration::ZERO, Lease::fixed(period));
    let Some(guard) = guard.unwrap() else {
        return child::send_line("refused");
    };
    child::send_line("runs");
    child::read_line();
    guard.unlock_at_least(period).unwrap();
    child::send_line("done");
}

#[test]
fn a_job_runs_once_in_a_period_although_its_process_dies_in_the_middle() {
    let server = Server::start();
    let (url, period) = (server.url(), LEASE.get() * 3);
    let start_job = || {
        let start = Instant::now();
        let job = Process::start(
            "run_once_a_period",
            &[&url, &period.as_millis().to_string()],
        );
        (start, job.read_line(), job)
    };
    let next = |start: Instant| {
        let (_, answer, _refused) = start_job();
        assert_eq!(answer, "refused");
        let (client, mut before) = (client(&url), Instant::now());
        eventually("the next period", || {
            before = Instant::now();
            client
                .reentrant_lock("report")
                .try_acquire_now()
                .unwrap()
                .is_some()
        });
        assert!(start.elapsed() >= period, "{:?}", start.elapsed());
        before
    };
    let (start, answer, mut job) = start_job();
    assert_eq!(answer, "runs");
    job.kill();
    let killed = start;
    next(killed);

    let (start, answer, mut job) = start_job();
    assert_eq!(answer, "runs");
    // The work takes some time, which does not prolong the period.
    thread::sleep(A_WHILE.get() * 4);
    job.send_line("end");
    assert_eq!(job.read_line(), "done");
    let done = Instant::now();
    let free = next(start);
    assert!(free <= done + period - A_WHILE.get(), "{:?}", free - done);
}
