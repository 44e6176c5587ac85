//! The holder gets no replies, while the other clients do: it knows that its lease is over before
//! another client has the lock.

use super::kinds::{KINDS, Kind};
use crate::support::prelude::*;

#[test]
fn a_holder_without_replies_is_notified_before_another_client_has_the_lock() {
    let proxied = ProxiedServer::new();
    let server = &proxied.server;
    let ours = proxied.builder(LEASE.get() / 4).build().unwrap();
    let theirs = proxied.rival();
    let hold = |kind: &'static Kind| {
        let lock = (kind.lock)(&ours, &unique(kind.name));
        (kind, lock.acquire().unwrap())
    };
    let held = KINDS.each_ref().map(hold);
    let next = held
        .each_ref()
        .map(|(kind, old)| (kind.rival)(&theirs, old.name()));
    thread::scope(|scope| {
        let waiting = held.each_ref().map(|(kind, old)| {
            let lock = (kind.rival)(&theirs, old.name());
            scope.spawn(move || {
                let guard = lock.acquire().unwrap();
                assert!(old.check().is_err(), "{}", old.name());
                guard.unlock().unwrap();
            })
        });
        eventually("the others to wait", || {
            let mut names = held.iter().map(|(_, guard)| guard.name());
            names.all(|name| in_redis::listeners(server, name) == 1)
        });
        let renewed = ours.stats().renewals + KINDS.len() as u64;
        eventually("the renewals", || ours.stats().renewals >= renewed);
        proxied.proxy.on_request(|_| Fault::SwallowRequest);
        let end = Instant::now() + LEASE.get() + SLIP.get();
        for (kind, guard) in &held {
            let reason = guard.lost().recv_deadline(end);
            assert_eq!(reason, Ok(LostReason::Expired), "{}", kind.name);
        }
        for thread in waiting {
            thread.join().unwrap();
        }
    });
    // Requests that the old holder sends now must not affect the next.
    let guards = next.map(|lock| lock.acquire().unwrap());
    let holders = || {
        guards
            .each_ref()
            .map(|guard| in_redis::holders(server, guard.name()))
    };
    let before = holders();
    proxied.proxy.clear_rules();
    for (_, old) in held {
        assert_error!(old.unlock(), Lost);
    }
    throughout(A_WHILE.get() * 2, "the only holder", || holders() == before);
    for guard in guards {
        guard.unlock().unwrap();
    }
    assert_eq!(server.size(), 0);
}
