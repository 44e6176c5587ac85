//! Semaphores whose number of permits is set by each acquire.

use parking_lot::Mutex;

use super::view::View;
use super::{counts, now};
use crate::support::prelude::*;

/// The time after which a semaphore expires that is not used.
const HOUR: i64 = 3_600_000;

/// The times to live of the number and of the leases, in milliseconds.
fn lives(view: &mut View, name: &str) -> [i64; 2] {
    let leases = view.leases_key();
    [name, &leases].map(|key| view.ask(redis::cmd("PTTL").arg(key)))
}

#[test]
fn an_acquire_sets_the_number_of_permits_and_applies_a_raised_one() {
    let server = Server::start();
    let semaphore = client(&server.url()).leased_semaphore(&unique("tenant"));
    assert_error!(semaphore.with_permits(1 << 31), InvalidArgument);
    let limit = |permits| semaphore.with_permits(permits).unwrap();
    // The scripts are loaded.
    drop(now(&limit(0)));
    let mut monitor = Monitor::of(&server);
    let first = limit(2).acquire().unwrap();
    assert_eq!(monitor.commands_but_pings(), ["EVALSHA"]);
    let second = now(&limit(2)).unwrap();
    assert!(now(&limit(2)).is_none() && counts(&semaphore) == (0, 2));
    let third = now(&limit(3)).unwrap();
    assert_eq!(counts(&semaphore), (0, 3));
    // A lowered limit takes nothing away: the old program may run, too.
    assert!(now(&limit(1)).is_none() && now(&limit(2)).is_none());
    assert_eq!(counts(&semaphore), (0, 3));
    drop((first, second, third));
    assert!(now(&limit(1)).is_some() && counts(&semaphore) == (3, 3));
    semaphore.set_permits(1).unwrap();
    let only = now(&limit(1)).unwrap();
    assert!(now(&limit(1)).is_none());
    drop(only);
}

/// A client that waits for one of the old permits gets one of the new.
#[test]
fn a_raised_limit_wakes_those_that_wait() {
    let server = Server::start();
    let name = unique("raised");
    let theirs = client(&server.url())
        .leased_semaphore(&name)
        .with_permits(1)
        .unwrap();
    let ours = client(&server.url()).leased_semaphore(&name);
    let held = theirs.acquire_with(long()).unwrap();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| ours.acquire().unwrap());
        eventually("it waits", || {
            let line = format!("leasehold_line:{{{name}}}");
            server.ask::<i64>(redis::cmd("EXISTS").arg(line)) == 1
        });
        let raised = now(&theirs.with_permits(3).unwrap()).unwrap();
        waiter.join().unwrap().release().unwrap();
        drop(raised);
    });
    assert_eq!(counts(&ours), (2, 3));
    drop(held);
}

/// Without a renewal, the keys of a permit with a long lease would end before it.
#[test]
fn a_semaphore_that_an_acquire_has_set_expires_but_not_before_its_leases() {
    let server = Server::start();
    let name = unique("unused");
    let semaphore = client(&server.url()).leased_semaphore(&name);
    let limit = semaphore.with_permits(2).unwrap();
    let mut view = View::of(&server, &name);
    let is_hour = |life| (HOUR - 60_000..=HOUR).contains(&life);
    let guard = limit.acquire().unwrap();
    assert!(lives(&mut view, &name).into_iter().all(is_hour));
    let day = Duration::from_secs(86_400);
    guard.extend(day).unwrap();
    assert!(
        lives(&mut view, &name)
            .into_iter()
            .all(|life| life > 23 * HOUR)
    );
    drop(guard);
    let fixed = semaphore.acquire_with(Lease::fixed(day * 2)).unwrap();
    assert!(
        lives(&mut view, &name)
            .into_iter()
            .all(|life| life > 47 * HOUR)
    );
    drop(fixed);

    // A renewal, after two thirds of the lease, keeps keys that would expire.
    let held = limit.acquire().unwrap();
    let lease = LEASE.get().as_millis() as i64;
    for key in [name.clone(), view.leases_key()] {
        view.ask::<()>(redis::cmd("PEXPIRE").arg(key).arg(lease));
    }
    let before = view.leases()[0].1;
    eventually("it is renewed", || view.leases()[0].1 > before);
    let lives_of_both = lives(&mut view, &name);
    assert!(
        lives_of_both.iter().all(|life| *life > lease / 2),
        "{lives_of_both:?}"
    );
    held.confirm().unwrap();
    drop(held);

    // It has expired. The next acquire sets it again.
    view.ask::<()>(redis::cmd("DEL").arg(&name));
    assert_eq!(counts(&semaphore), (0, 0));
    drop(now(&limit).unwrap());
    assert_eq!(counts(&semaphore), (2, 2));
    // A semaphore that was set otherwise does not expire.
    let kept = unique("kept");
    let semaphore = client(&server.url()).leased_semaphore(&kept);
    semaphore.try_set_permits(1).unwrap();
    let both = [(); 2].map(|()| now(&semaphore.with_permits(2).unwrap()).unwrap());
    assert_eq!(lives(&mut View::of(&server, &kept), &kept), [-1, -1]);
    drop(both);
}

/// A refused request has set the number. What it has set expires, too.
#[test]
fn a_semaphore_that_a_refused_request_has_set_expires() {
    let server = Server::start();
    let name = unique("refused");
    let semaphore = client(&server.url()).leased_semaphore(&name);
    let limit = semaphore.with_permits(2).unwrap();
    let too_many = limit
        .try_acquire_many(3, Duration::ZERO, Lease::RENEWED)
        .unwrap();
    assert!(too_many.is_none() && counts(&semaphore) == (2, 2));
    assert!(lives(&mut View::of(&server, &name), &name)[0] > 0);
}

/// The lease of a later copy of the request ends later.
#[test]
fn a_semaphore_does_not_expire_before_the_lease_of_a_permit_that_a_copy_takes_over() {
    let proxied = ProxiedServer::new();
    let name = unique("taken over");
    let rival = proxied.rival().leased_semaphore(&name);
    drop(now(&rival.with_permits(1).unwrap()).unwrap());
    let copies = AtomicUsize::new(0);
    let view = Mutex::new(View::of(&proxied.server, &name));
    proxied.proxy.on_request(move |request| {
        if !request.runs("permit_acquire") {
            return Fault::Pass;
        }
        if copies.fetch_add(1, Ordering::SeqCst) == 0 {
            return Fault::SwallowReply;
        }
        // As if it arrived nearly one lease later.
        let mut view = view.lock();
        for key in [name.clone(), view.leases_key()] {
            view.ask::<()>(
                redis::cmd("PEXPIRE")
                    .arg(key)
                    .arg(SOON.get().as_millis() as u64),
            );
        }
        Fault::Pass
    });
    let client = proxied.builder(SLIP.get()).build().unwrap();
    let two_hours = Lease::fixed(Duration::from_secs(7_200));
    let guard = client
        .leased_semaphore(rival.name())
        .acquire_with(two_hours)
        .unwrap();
    let lives = lives(&mut View::of(&proxied.server, rival.name()), rival.name());
    assert!(lives.into_iter().all(|life| life > HOUR), "{lives:?}");
    guard.release().unwrap();
}
