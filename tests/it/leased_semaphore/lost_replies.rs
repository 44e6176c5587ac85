//! Requests whose replies are lost, and requests that arrive late. Counts stay exact.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use leasehold::{Error, Lease, LeasedSemaphore, PermitGuard, Result};

use super::view::View;
use super::{counts, now};
use crate::faults::proxied_server::{ProxiedServer, is_not_released, is_unavailable};
use crate::support::proxy::{Fault, Gate};
use crate::support::timing::{LEASE, SLIP, SOON, eventually, throughout};
use crate::support::unique;

const FAULTS: [Fault; 5] = [
    Fault::SwallowReply,
    Fault::SwallowRequest,
    Fault::ResetBeforeReply,
    Fault::CutInReply(2),
    Fault::HalfRequest,
];

/// A semaphore of a client behind the proxy, with this lease, and a view without the proxy.
fn proxied(proxied: &ProxiedServer, lease: Duration, permits: u32) -> (LeasedSemaphore, View) {
    let name = unique("lost");
    let direct = proxied.rival().leased_semaphore(&name);
    direct.try_set_permits(permits).unwrap();
    let builder = proxied.builder(SLIP.get()).watchdog_lease(lease);
    let semaphore = builder.build().unwrap().leased_semaphore(&name);
    // Opens a connection, so that the first attempt of a call is sent at once.
    drop(semaphore.acquire().unwrap());
    let view = View::of(&proxied.server, &name);
    (semaphore, view)
}

/// The number of available permits, and the ids of the leased ones.
fn state(view: &mut View) -> (i64, Vec<String>) {
    let ids = view.leases().into_iter().map(|(id, _)| id).collect();
    (view.available().unwrap(), ids)
}

#[track_caller]
fn await_all_available(view: &mut View, permits: i64, bound: Duration) {
    let start = Instant::now();
    while state(view) != (permits, vec![]) {
        assert!(start.elapsed() < bound, "{:?}", state(view));
        thread::sleep(Duration::from_millis(1));
    }
}

/// The delayed request arrives and is executed.
fn deliver(gate: &Gate) {
    eventually("the request to be held back", || gate.held() > 0);
    gate.open();
    eventually("it to be executed", || gate.passed() > 0);
}

#[test]
fn one_lost_reply_of_each_step_only_delays_it() {
    let server = ProxiedServer::new();
    for fault in FAULTS {
        let (semaphore, mut view) = proxied(&server, SOON.get() * 6, 3);
        let check = |script, lost: &AtomicBool| {
            let what = format!("{fault:?} of {script}");
            assert!(lost.load(Ordering::SeqCst), "{what}: no request was sent");
            server.proxy.clear_rules();
        };
        let lost = server.fault_once("permit_acquire", &fault);
        let guard = semaphore.acquire().unwrap();
        check("permit_acquire", &lost);
        assert_eq!(
            state(&mut view),
            (2, vec![guard.id().to_owned()]),
            "{fault:?}"
        );

        let lost = server.fault_once("permit_renew", &fault);
        let extended = guard.extend(SOON.get() * 60);
        check("permit_renew", &lost);
        // It has one command timeout, which a swallowed request uses up.
        assert!(
            extended.is_ok() || is_unavailable(&extended),
            "{extended:?}"
        );
        assert_eq!(
            state(&mut view),
            (2, vec![guard.id().to_owned()]),
            "{fault:?}"
        );

        let lost = server.fault_once("permit_release", &fault);
        guard.release().unwrap();
        check("permit_release", &lost);
        assert_eq!(state(&mut view), (3, vec![]), "{fault:?}");
    }
}

/// The client gives up, and what it may have acquired comes back long before the lease ends.
#[test]
fn an_acquire_that_is_never_answered_is_compensated() {
    let server = ProxiedServer::new();
    for fault in [Fault::SwallowReply, Fault::ResetBeforeReply] {
        let (semaphore, mut view) = proxied(&server, SOON.get() * 60, 3);
        server.fault_always("permit_acquire", &fault);
        let result = semaphore.try_acquire_now();
        assert!(is_unavailable(&result), "{fault:?}: {result:?}");
        await_all_available(&mut view, 3, SOON.get());
        let result = semaphore.try_acquire(SLIP.get() * 3, Lease::RENEWED);
        assert!(is_unavailable(&result), "{fault:?}: {result:?}");
        await_all_available(&mut view, 3, SOON.get());
        server.proxy.clear_rules();
        semaphore.acquire().unwrap().release().unwrap();
        assert_eq!(state(&mut view), (3, vec![]));
    }
}

/// The watchdog repeats the release.
#[test]
fn a_release_that_is_never_answered_is_executed_once() {
    let server = ProxiedServer::new();
    for fault in [Fault::SwallowReply, Fault::SwallowRequest] {
        let (semaphore, mut view) = proxied(&server, SOON.get() * 60, 3);
        let guard = semaphore.acquire().unwrap();
        server.fault_always("permit_release", &fault);
        let result = guard.release();
        assert!(is_not_released(&result), "{fault:?}: {result:?}");
        server.proxy.clear_rules();
        await_all_available(&mut view, 3, SOON.get());
        throughout(SLIP.get(), "no permit is added", || {
            state(&mut view) == (3, vec![])
        });
    }
}

#[test]
fn a_renewal_that_is_never_answered_is_a_loss_in_time() {
    let server = ProxiedServer::new();
    let (semaphore, mut view) = proxied(&server, LEASE.get(), 2);
    let guard = semaphore.acquire().unwrap();
    server.fault_always("permit_renew", &Fault::SwallowRequest);
    let lost = guard.lost().recv_timeout(SOON.get());
    assert_eq!(lost, Ok(leasehold::LostReason::Expired));
    assert!(now(&semaphore).is_some(), "of the other permit");
    // Redis may still have it.
    assert!(matches!(guard.release(), Err(Error::Lost { .. })));
    assert_eq!(state(&mut view), (2, vec![]));
}

#[test]
fn an_acquire_that_arrives_after_the_release_leaves_no_permit_leased() {
    let server = ProxiedServer::new();
    let (semaphore, mut view) = proxied(&server, SOON.get() * 60, 2);
    let gate = server.hold_back_once("permit_acquire");
    let guard = semaphore.acquire().unwrap();
    assert_eq!(state(&mut view), (1, vec![guard.id().to_owned()]));
    guard.release().unwrap();
    deliver(&gate);
    await_all_available(&mut view, 2, SOON.get());
}

#[test]
fn an_acquire_that_arrives_during_the_hold_does_not_change_it() {
    let server = ProxiedServer::new();
    let (semaphore, mut view) = proxied(&server, SOON.get() * 60, 2);
    let gate = server.hold_back_once("permit_acquire");
    let guard = semaphore.acquire().unwrap();
    deliver(&gate);
    let held = (1, vec![guard.id().to_owned()]);
    eventually("the late copy to be undone", || state(&mut view) == held);
    guard.confirm().unwrap();
    guard.release().unwrap();
    assert_eq!(state(&mut view), (2, vec![]));
}

/// With one id for all copies, the late copy would lease the permit again, and the watchdog would
/// renew it, although another client may have had it meanwhile.
#[test]
fn an_acquire_that_arrives_after_the_loss_does_not_hide_it() {
    let server = ProxiedServer::new();
    let (semaphore, mut view) = proxied(&server, LEASE.get() * 3, 1);
    let gate = server.hold_back_once("permit_acquire");
    let guard = semaphore.acquire().unwrap();
    view.release_as_java(guard.id());
    deliver(&gate);
    let lost = guard.lost().recv_timeout(LEASE.get() * 3);
    assert_eq!(lost, Ok(leasehold::LostReason::Deleted));
    drop(guard);
    await_all_available(&mut view, 1, SOON.get());
}

/// Renewals and releases of a permit that has been released.
#[test]
fn late_requests_do_not_change_other_permits() {
    let server = ProxiedServer::new();
    let (semaphore, mut view) = proxied(&server, SOON.get() * 60, 2);
    type Step = fn(PermitGuard) -> Result<()>;
    let steps: [(_, Step); 2] = [
        ("permit_release", PermitGuard::release),
        ("permit_renew", |guard| {
            // Has no reply in its time.
            guard.extend(SOON.get() * 90).unwrap_err();
            guard.release()
        }),
    ];
    for (script, step) in steps {
        let guard = semaphore.acquire().unwrap();
        let gate = server.hold_back_once(script);
        if script == "permit_renew" {
            server.fault_always(script, &Fault::HoldBack(gate.clone()));
        }
        step(guard).unwrap();
        let next = semaphore.acquire().unwrap();
        let held = (1, vec![next.id().to_owned()]);
        assert_eq!(state(&mut view), held, "{script}");
        deliver(&gate);
        throughout(SLIP.get(), script, || state(&mut view) == held);
        next.release().unwrap();
        assert_eq!(state(&mut view), (2, vec![]), "{script}");
        server.proxy.clear_rules();
    }
}

/// A number is never changed twice, and the caller hears when it is unknown whether it was.
#[test]
fn a_lost_reply_changes_the_number_of_permits_at_most_once() {
    let server = ProxiedServer::new();
    for fault in FAULTS {
        let (semaphore, _) = proxied(&server, LEASE.get(), 10);
        let direct = server.rival().leased_semaphore(semaphore.name());
        let lost = server.fault_once("permit_total", &fault);
        let result = semaphore.add_permits(5);
        assert!(lost.load(Ordering::SeqCst), "{fault:?}");
        let is_done = !matches!(fault, Fault::SwallowRequest | Fault::HalfRequest);
        assert!(is_unavailable(&result), "{fault:?}: {result:?}");
        let expected = if is_done { 15 } else { 10 };
        assert_eq!(counts(&direct), (expected, expected), "{fault:?}");

        server.fault_once("permit_total", &fault);
        semaphore
            .set_permits(7)
            .or_else(|_| semaphore.set_permits(7))
            .unwrap();
        assert_eq!(counts(&direct), (7, 7), "{fault:?}");

        server.server.ask::<()>(&redis::cmd("FLUSHALL"));
        server.fault_once("permit_total", &fault);
        let result = semaphore.try_set_permits(3);
        assert!(is_unavailable(&result), "{fault:?}: {result:?}");
        assert_eq!(semaphore.try_set_permits(3).unwrap(), !is_done);
        assert_eq!(counts(&direct), (3, 3), "{fault:?}");
        server.proxy.clear_rules();
    }
}

/// One in four requests or replies is lost, while threads of two clients use the permits.
#[test]
fn at_random_never_more_than_k_permits_are_leased_and_none_is_lost() {
    const K: i64 = 3;
    let server = ProxiedServer::new();
    let lease = LEASE.get() * 2;
    let (first, mut view) = proxied(&server, lease, K as u32);
    let builder = server.builder(SLIP.get()).watchdog_lease(lease);
    let second = builder.build().unwrap().leased_semaphore(first.name());
    let seed = std::env::var("LEASEHOLD_SEED").ok();
    let seed = seed.map_or_else(|| fastrand::u64(..), |seed| seed.parse().unwrap());
    println!("LEASEHOLD_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    server.proxy.on_request(move |request| {
        match request.script() {
            Some(_) if random.u8(..4) == 0 => {}
            _ => return Fault::Pass,
        }
        match random.u8(..4) {
            0 => Fault::SwallowRequest,
            1 => Fault::SwallowReply,
            2 => Fault::ResetBeforeReply,
            _ => Fault::Delay(Duration::from_millis(random.u64(..300))),
        }
    });
    let (at_work, most) = (AtomicI64::new(0), AtomicI64::new(0));
    thread::scope(|scope| {
        for semaphore in [&first, &second].into_iter().cycle().take(6) {
            scope.spawn(|| {
                for _ in 0..15 {
                    let wait = LEASE.get() * 3;
                    let Ok(Some(guard)) = semaphore.try_acquire(wait, Lease::RENEWED) else {
                        continue;
                    };
                    let now = at_work.fetch_add(1, Ordering::SeqCst) + 1;
                    if guard.check().is_ok() {
                        most.fetch_max(now, Ordering::SeqCst);
                    }
                    thread::yield_now();
                    at_work.fetch_sub(1, Ordering::SeqCst);
                    drop(guard);
                }
            });
        }
    });
    assert!(most.load(Ordering::SeqCst) <= K);
    server.proxy.clear_rules();
    let acquire = || first.try_acquire_now().unwrap();
    eventually("all permits to be available", || {
        let guards: Vec<_> = (0..=K).map_while(|_| acquire()).collect();
        assert!(guards.len() as i64 <= K);
        guards.len() as i64 == K
    });
    await_all_available(&mut view, K, SOON.get());
}
