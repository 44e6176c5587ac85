//! Requests whose replies are lost, and requests that arrive late. Counts stay exact.

use super::counts;
use super::view::View;
use crate::support::prelude::*;

fn faults() -> impl Iterator<Item = Fault> {
    let lost = [
        Fault::SwallowReply,
        Fault::SwallowRequest,
        Fault::ResetBeforeReply,
        Fault::CutInReply(2),
        Fault::HalfRequest,
    ];
    lost.into_iter().chain([proxy_error()])
}

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

/// The delayed request arrives and is executed.
fn deliver(gate: &Gate) {
    eventually("the request to be held back", || gate.held() > 0);
    gate.open();
    eventually("it to be executed", || gate.passed() > 0);
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
    assert_eq!(lost, Ok(LostReason::Deleted));
    drop(guard);
    eventually("all to be available", || state(&mut view) == (1, vec![]));
}

/// A number is never changed twice, and an error says that it is unknown whether it was changed.
#[test]
fn a_lost_reply_changes_the_number_of_permits_at_most_once() {
    let server = ProxiedServer::new();
    for fault in faults() {
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
