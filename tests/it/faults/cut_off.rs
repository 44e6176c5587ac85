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
    let locks = KINDS.iter().map(|kind| {
        let lock = (kind.lock)(&ours, &unique(kind.name));
        (kind, lock.acquire().unwrap())
    });
    let held: Vec<(&Kind, LockGuard)> = locks.collect();
    let (acquired, checked) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (next, done) = (&acquired, &checked);
    thread::scope(|scope| {
        let mut waiting = Vec::new();
        for (kind, old) in &held {
            let lock = (kind.rival)(&theirs, old.name());
            waiting.push(scope.spawn(move || {
                let guard = lock.acquire().unwrap();
                assert!(old.check().is_err(), "{}", lock.name());
                next.fetch_add(1, Ordering::SeqCst);
                let mine = in_redis::holders(server, lock.name());
                eventually("the old holder to be checked", || {
                    done.load(Ordering::SeqCst)
                });
                throughout(A_WHILE.get(), "the only holder", || {
                    guard.check().is_ok() && in_redis::holders(server, lock.name()) == mine
                });
                guard.unlock().unwrap();
            }));
        }
        eventually("the others to wait", || {
            let mut names = held.iter().map(|(_, guard)| guard.name());
            names.all(|name| in_redis::listeners(server, name) == 1)
        });
        let renewed = ours.stats().renewals + u64::try_from(KINDS.len()).unwrap();
        eventually("the renewals", || ours.stats().renewals >= renewed);
        proxied.proxy.on_request(|_| Fault::SwallowRequest);
        let end = Instant::now() + LEASE.get() + SLIP.get();
        for (kind, guard) in &held {
            let reason = guard.lost().recv_deadline(end);
            assert_eq!(reason, Ok(LostReason::Expired), "{}", kind.name);
        }
        eventually("the next holders", || {
            next.load(Ordering::SeqCst) == KINDS.len()
        });
        // Requests that the old holder sends now must not affect the next.
        proxied.proxy.clear_rules();
        for (kind, guard) in &held {
            let lock = (kind.rival)(&ours, guard.name());
            let taken = on_another_thread(|| lock.try_lock(Duration::ZERO, Lease::RENEWED));
            assert!(!taken.unwrap(), "{}", kind.name);
        }
        checked.store(true, Ordering::SeqCst);
        for thread in waiting {
            thread.join().unwrap();
        }
    });
    for (_, guard) in held {
        assert_error!(guard.unlock(), Lost);
    }
    let keys: Vec<String> = server.ask(redis::cmd("KEYS").arg("*"));
    assert_eq!(keys, [""; 0]);
}
