//! The wall clock of a machine is set: leases, renewals and waits use monotonic clocks.

use std::thread;
use std::time::{Duration, Instant, SystemTime};

use leasehold::{Lease, LockClient, LostReason};

use super::in_redis;
use crate::support::child::{self, Process};
use crate::support::faked_clock::FakedClock;
use crate::support::outcome::{assert_error, take_and_release};
use crate::support::server::Server;
use crate::support::timing::{A_WHILE, LEASE, SLIP, SOON, eventually, throughout};
use crate::support::{builder, client, unique};

const HOURS: i32 = 5;
const HOUR: Duration = Duration::from_secs(3600);

/// Long enough to renew in time on a busy machine.
fn lease() -> Duration {
    LEASE.get() * 2
}

/// How far the wall clock jumped since this value was made.
struct Jump {
    wall: SystemTime,
    monotonic: Instant,
}

impl Jump {
    fn from_here() -> Self {
        Self {
            wall: SystemTime::now(),
            monotonic: Instant::now(),
        }
    }

    /// In whole hours, with the direction as its sign.
    fn hours(&self) -> i32 {
        let true_time = self.wall + self.monotonic.elapsed();
        let now = SystemTime::now();
        let hours = |jump: Duration| (jump.as_secs_f64() / HOUR.as_secs_f64()).round() as i32;
        match now.duration_since(true_time) {
            Ok(forward) => hours(forward),
            Err(back) => -hours(back.duration()),
        }
    }
}

/// The role: holds locks and waits for others while its clock is set. Its parent measures the
/// times, because the parent's clock is not set.
pub fn stepped_clock(arguments: &[&str]) {
    let &[url, prefix, hours] = arguments else {
        panic!("{arguments:?}")
    };
    let hours: i32 = hours.parse().expect("hours");
    let name = |what: &str| format!("{prefix}:{what}");
    let client = builder(url).watchdog_lease(lease());
    let client = client.build().expect("the settings are valid");
    let lock = |what: &str| client.reentrant_lock(&name(what));
    let renewed = lock("renewed").acquire().expect("it is free");
    let deleted = lock("deleted").acquire().expect("it is free");
    let jump = Jump::from_here();
    let fixed = lock("fixed").try_acquire(Duration::ZERO, Lease::fixed(lease() * 3));
    let fixed = fixed.expect("Redis replies").expect("it is free");
    thread::scope(|scope| {
        let (awaited, refused) = (lock("awaited"), lock("refused"));
        scope.spawn(move || {
            take_and_release(&awaited);
            child::send_line("awaited");
        });
        scope.spawn(move || {
            let taken = refused.try_lock(lease() * 3, Lease::RENEWED);
            assert!(!taken.expect("Redis replies"), "its holder keeps it");
            child::send_line("refused");
        });
        child::send_line("ready");
        eventually("the clock to be set", || jump.hours() == hours);
        child::send_line("jumped");
        scope.spawn(|| {
            let loss = fixed.lost().recv();
            assert_eq!(loss, Ok(LostReason::Expired));
            child::send_line("expired");
        });
        throughout(lease(), "held", || {
            renewed.check().is_ok() && deleted.check().is_ok() && fixed.check().is_ok()
        });
        child::send_line("delete");
        assert_eq!(deleted.lost().recv(), Ok(LostReason::Deleted));
        child::send_line("deleted");
    });
    throughout(lease(), "renewed", || renewed.check().is_ok());
    assert_eq!(jump.hours(), hours, "it was set all the time");
    assert_eq!(client.stats().lost, 2);
    renewed.unlock().expect("it is held");
    child::send_line("done");
}

fn a_clock_jump_changes_nothing(hours: i32) {
    let server = Server::start();
    let prefix = unique("clock");
    let name = |what: &str| format!("{prefix}:{what}");
    let ours = client(&server.url());
    let awaited = ours.reentrant_lock(&name("awaited"));
    let refused = ours.reentrant_lock(&name("refused"));
    for lock in [&awaited, &refused] {
        lock.lock_with(Lease::fixed(SOON.get() * 6))
            .expect("it is free");
    }
    let clock = FakedClock::new();
    let process = Process::start_in(
        "stepped_clock",
        &[&server.url(), &prefix, &hours.to_string()],
        clock.environment(),
    );
    assert_eq!(process.read_line(), "ready");
    let start = Instant::now();
    for what in ["awaited", "refused"] {
        in_redis::await_listeners(&server, &name(what), 1);
    }
    clock.set(hours);
    assert_eq!(process.read_line(), "jumped");
    throughout(A_WHILE.get(), "held", || {
        !in_redis::is_free(&server, &name("renewed"))
    });

    assert_eq!(process.read_line(), "delete");
    awaited.unlock().expect("it is held");
    let released = Instant::now();
    assert_eq!(process.read_line(), "awaited");
    let took = released.elapsed();
    assert!(took <= SLIP.get(), "woken after {took:?}");
    server.ask::<()>(redis::cmd("DEL").arg(name("deleted")));
    let deleted = Instant::now();
    assert_eq!(process.read_line(), "deleted");
    let (took, bound) = (deleted.elapsed(), lease() * 2 / 3 + SLIP.get());
    assert!(took <= bound, "notified after {took:?}");

    // In either order.
    let mut said = [process.read_line(), process.read_line()];
    said.sort_unstable();
    assert_eq!(said, ["expired", "refused"]);
    let took = start.elapsed();
    assert!(
        took + SLIP.get() >= lease() * 3 && took <= lease() * 3 + SLIP.get(),
        "{took:?}"
    );
    assert_eq!(process.read_line(), "done");
    process.finish();
    assert!(in_redis::is_free(&server, &name("renewed")));
}

#[test]
#[ignore = "soak"]
fn a_clock_jump_by_hours_changes_nothing() {
    for hours in [HOURS, -HOURS] {
        a_clock_jump_changes_nothing(hours);
    }
}

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

/// A virtual machine may adjust its clock in many small steps. The server's leases then end before
/// the client's would.
#[test]
#[ignore = "soak"]
fn a_slightly_fast_clock_of_the_server_ends_no_valid_hold() {
    let clock = FakedClock::new();
    // Half of the drift that the library allows for.
    clock.hurry(5);
    let server = server_by(&clock);
    let lock = client(&server.url()).reentrant_lock("lock");
    for _ in 0..3 {
        let started = Instant::now();
        let guard = lock.try_acquire(Duration::ZERO, Lease::fixed(lease()));
        let guard = guard.expect("Redis replies").expect("it is free");
        eventually("its end in Redis", || in_redis::is_free(&server, "lock"));
        assert!(guard.is_lost(), "{:?} of {:?}", started.elapsed(), lease());
        drop(guard);
    }
}

/// When the server's clock is set back, current leases last longer by that time. A holder that
/// renews or unlocks is not affected, but the lock of a holder that dies is stuck for longer.
#[test]
#[ignore = "soak"]
fn no_lock_is_lost_if_the_clock_of_the_server_is_set_back() {
    let clock = FakedClock::new();
    let server = server_by(&clock);
    let (ours, theirs) = (client(&server.url()), client(&server.url()));
    let guard = ours.reentrant_lock("lock").acquire().expect("it is free");
    let left = ours.reentrant_lock("left");
    left.lock_with(Lease::fixed(LEASE.get()))
        .expect("it is free");
    jump(&server, &clock, -HOURS);
    eventually("the hold by a fixed lease to end by our clock", || {
        left.hold_count() == 0
    });
    let stuck = in_redis::time_to_live(&server, "left");
    assert!(stuck > HOUR, "until a client releases it: {stuck:?}");
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
