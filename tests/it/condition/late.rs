//! Requests that Redis executes late, and places that are left behind.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use leasehold::{Error, Lease};

use super::faults::proxied_client;
use super::{Place, await_waiting, places, waiting};
use crate::faults::proxied_server::ProxiedServer;
use crate::support::proxy::{Fault, Gate};
use crate::support::timing::{A_WHILE, LEASE, SLIP, SOON, eventually, millis, throughout, within};
use crate::support::unique;

/// The request that begins a wait is executed after the wait. With a client that lingers, the lock
/// has the same owner id then.
#[test]
fn a_late_copy_of_a_wait_takes_no_notification() {
    let proxied = ProxiedServer::new();
    let server = &proxied.server;
    let mut view = proxied.view();
    for lingers in [false, true] {
        let builder = proxied.builder(SLIP.get()).watchdog_lease(LEASE.get() * 10);
        let linger = if lingers {
            LEASE.get() * 3
        } else {
            Duration::ZERO
        };
        let client = builder.linger(linger).build().unwrap();
        let name = unique("condition");
        let place = Place::of(&client, &name);
        let guard = place.lock.acquire().unwrap();
        let owner = view.holder(&name);
        let gate = Gate::new();
        let late = proxied.fault_once("condition_wait", &Fault::HoldBack(gate.clone()));
        assert!(!place.condition.wait_for(SLIP.get() * 2).unwrap());
        assert!(late.load(Ordering::SeqCst));
        assert_eq!(view.holder(&name) == owner, lingers);
        gate.open();
        eventually("the late copy", || gate.passed() > 0);
        // The request behind it ends the place.
        within(LEASE.get(), "the end of the place", || {
            eventually("no place", || places(server, &name) == 0);
        });
        throughout(A_WHILE.get(), "no place", || places(server, &name) == 0);
        guard.unlock().unwrap();
        proxied.proxy.clear_rules();
    }
}

/// The late copy makes a place after the wait. A notification of the place is passed on.
#[test]
fn a_late_copy_of_a_notified_wait_takes_no_notification() {
    let proxied = ProxiedServer::new();
    assert!((0..100).any(|_| late_copy_of_a_notified_wait(&proxied)));
}

/// Returns false if the lock had another owner id after the wait, with which the late copy makes no
/// place: the thread was slow to take the idle grant.
fn late_copy_of_a_notified_wait(proxied: &ProxiedServer) -> bool {
    let server = &proxied.server;
    // No place ends by its time.
    let builder = proxied.builder(SLIP.get()).watchdog_lease(LEASE.get() * 10);
    let client = builder.linger(LEASE.get() * 3).build().unwrap();
    let name = unique("condition");
    let place = Place::of(&client, &name);
    let [copy, end] = [Gate::new(), Gate::new()];
    let gates = [copy.clone(), end.clone()];
    let mut connection = None;
    proxied.proxy.on_request(move |request| {
        if request.runs("condition_wait") && connection.is_none() {
            connection = Some(request.connection);
            Fault::HoldBack(gates[0].clone())
        } else if connection == Some(request.connection) {
            Fault::HoldBack(gates[1].clone())
        } else {
            Fault::Pass
        }
    });
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let mut view = proxied.view();
            let guard = place.lock.acquire().unwrap();
            let owner = view.holder(&name);
            assert!(place.condition.wait_for(SOON.get()).unwrap());
            assert_eq!((copy.held(), places(server, &name)), (1, 0));
            let is_same = view.holder(&name) == owner;
            copy.open();
            if is_same {
                eventually("the late copy", || waiting(server, &name) == 1);
            }
            guard.unlock().unwrap();
            is_same
        });
        await_waiting(server, &name, 1);
        place.notify_one();
        if !waiter.join().unwrap() {
            end.open();
            return false;
        }
        let next = scope.spawn(|| place.wait());
        await_waiting(server, &name, 2);
        place.notify_one();
        assert_eq!(waiting(server, &name), 1);
        end.open();
        within(LEASE.get(), "the notification", || next.join().unwrap());
        true
    })
}

/// The first copy makes a place. The second finds that the lock is gone.
#[test]
fn a_wait_that_finds_its_lock_lost_leaves_no_place() {
    let proxied = ProxiedServer::new();
    let builder = proxied.builder(SLIP.get()).watchdog_lease(LEASE.get() * 10);
    let name = unique("condition");
    let place = Place::of(&builder.build().unwrap(), &name);
    let guard = place.lock.acquire().unwrap();
    let (mut copies, mut view) = (0, proxied.view());
    let lock = name.clone();
    proxied.proxy.on_request(move |request| {
        copies += u32::from(request.runs("condition_wait"));
        match (request.runs("condition_wait"), copies) {
            (true, 1) => return Fault::SwallowReply,
            (true, 2) => redis::cmd("DEL").arg(&lock).exec(&mut view.0).unwrap(),
            _ => {}
        }
        Fault::Pass
    });
    let result = place.condition.wait_for(SOON.get());
    assert!(matches!(result, Err(Error::Lost { .. })), "{result:?}");
    within(LEASE.get(), "the end of the place", || {
        eventually("no place", || places(&proxied.server, &name) == 0);
    });
    assert!(guard.check().is_err());
}

/// The second copy of a notification arrives while another thread waits.
#[test]
fn a_late_copy_of_a_notification_wakes_no_second_thread() {
    let proxied = ProxiedServer::new();
    let server = &proxied.server;
    let (ours, theirs) = (proxied_client(&proxied), proxied.rival());
    let name = unique("condition");
    let [place, other] = [&ours, &theirs].map(|client| Place::of(client, &name));
    thread::scope(|scope| {
        let waiters = [scope.spawn(|| other.wait()), scope.spawn(|| other.wait())];
        await_waiting(server, &name, 2);
        let guard = place.lock.acquire().unwrap();
        let gate = proxied.hold_back_once("condition_notify");
        place.condition.notify_one().unwrap();
        assert_eq!(waiting(server, &name), 1);
        gate.open();
        eventually("the late copy", || gate.passed() > 0);
        throughout(A_WHILE.get(), "one waits", || waiting(server, &name) == 1);
        guard.unlock().unwrap();
        eventually("one wakes", || {
            waiters.iter().filter(|w| w.is_finished()).count() == 1
        });
        place.notify_one();
    });
}

/// Redis knows the call for longer than copies of it are sent, also with a short lease.
#[test]
fn a_second_copy_of_a_notification_wakes_no_second_thread_after_a_short_lease() {
    let proxied = ProxiedServer::new();
    let server = &proxied.server;
    let builder = proxied.builder(SLIP.get()).watchdog_lease(millis(20));
    let (ours, theirs) = (builder.build().unwrap(), proxied.rival());
    let name = unique("condition");
    let [place, other] = [&ours, &theirs].map(|client| Place::of(client, &name));
    thread::scope(|scope| {
        scope.spawn(|| other.wait());
        scope.spawn(|| other.wait());
        await_waiting(server, &name, 2);
        let guard = place.lock.acquire_with(Lease::fixed(SOON.get())).unwrap();
        proxied.fault_once("condition_notify", &Fault::SwallowReply);
        place.condition.notify_one().unwrap();
        assert_eq!(waiting(server, &name), 1);
        place.condition.notify_one().unwrap();
        guard.unlock().unwrap();
    });
}

/// Its old place, which is ended in the background, passes the notification on to its new one.
#[test]
fn a_thread_that_waits_again_is_notified_although_its_old_place_was_not_ended() {
    let proxied = ProxiedServer::new();
    // No place ends by its time.
    let builder = proxied.builder(SLIP.get()).watchdog_lease(LEASE.get() * 10);
    let (ours, theirs) = (builder.build().unwrap(), proxied.rival());
    let name = unique("condition");
    let [place, other] = [&ours, &theirs].map(|client| Place::of(client, &name));
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let guard = place.lock.acquire().unwrap();
            proxied.fault_always("condition_end", &Fault::SwallowRequest);
            assert!(place.condition.wait_for(A_WHILE.get()).unwrap());
            assert_eq!(waiting(&proxied.server, &name), 1);
            guard.unlock().unwrap();
            place.wait();
        });
        await_waiting(&proxied.server, &name, 2);
        other.notify_one();
        assert_eq!(waiting(&proxied.server, &name), 1);
        proxied.proxy.clear_rules();
        within(LEASE.get() * 3, "the notification", || {
            waiter.join().unwrap();
        });
        eventually("no place", || places(&proxied.server, &name) == 0);
    });
}
