//! The wall clock of the server is set. That of a client is used nowhere: see `layers`.

use crate::support::faked_clock::FakedClock;
use crate::support::prelude::*;

const HOURS: i32 = 5;
const HOUR: Duration = Duration::from_secs(3600);

/// Sets the clock of the server.
fn jump(server: &Server, clock: &FakedClock, hours: i32) {
    let seconds = || server.ask::<(u64, u64)>(&redis::cmd("TIME")).0;
    let before = seconds();
    clock.set(hours);
    eventually("the server's clock to jump", || {
        seconds().abs_diff(before) > HOUR.as_secs()
    });
}

fn server_by(clock: &FakedClock) -> Server {
    Server::options()
        .environment(clock.environment_of_a_server())
        .start()
}

/// Redis counts leases by its wall clock, so all of them end when it is set forward. The holders
/// are notified at their next renewal.
#[test]
fn holders_are_notified_if_the_clock_of_the_server_is_set_forward() {
    let clock = FakedClock::new();
    let server = server_by(&clock);
    let (ours, theirs) = (client(&server.url()), client(&server.url()));
    let lock = ours.reentrant_lock("lock");
    let guard = lock.acquire().expect("it is free");
    jump(&server, &clock, HOURS);
    assert!(in_redis::is_free(&server, "lock"), "its lease is over");
    let loss = guard.lost().recv_timeout(LEASE.get() + SLIP.get());
    assert_eq!(loss, Ok(LostReason::Deleted));
    assert_error!(guard.unlock(), Lost);
    a_lock_is_renewed_and_handed_over(&server, &ours, &theirs);
}

/// Leases end later. A holder that renews or unlocks is not affected; a lock whose holder dies is
/// held for longer.
#[test]
fn no_lock_is_lost_if_the_clock_of_the_server_is_set_back() {
    let clock = FakedClock::new();
    let server = server_by(&clock);
    let (ours, theirs) = (client(&server.url()), client(&server.url()));
    let guard = ours.reentrant_lock("lock").acquire().expect("it is free");
    let left = ours.reentrant_lock("left");
    left.lock_with(Lease::fixed(LEASE.get()))
        .expect("it is free");
    jump(&server, &clock, -HOURS);
    eventually("the end of the fixed lease by our clock", || {
        left.hold_count() == 0
    });
    assert!(in_redis::time_to_live(&server, "left") > HOUR);
    assert_error!(left.unlock(), Lost);
    assert!(in_redis::is_free(&server, "left"), "released by its holder");
    throughout(LEASE.get() * 2, "held", || guard.check().is_ok());
    guard.unlock().expect("it is held");
    a_lock_is_renewed_and_handed_over(&server, &ours, &theirs);
}

/// After the jump, locks work as before.
fn a_lock_is_renewed_and_handed_over(server: &Server, ours: &LockClient, theirs: &LockClient) {
    let guard = ours.reentrant_lock("after").acquire().expect("it is free");
    throughout(LEASE.get() * 2, "held", || guard.check().is_ok());
    thread::scope(|scope| {
        let waiter = scope.spawn(|| theirs.reentrant_lock("after").acquire()?.unlock());
        in_redis::await_listeners(server, "after", 1);
        guard.unlock().expect("it is held");
        waiter.join().expect("no panic").expect("it has the lock");
    });
}
