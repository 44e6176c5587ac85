//! Multi-locks of several clients on several servers.

use leasehold::MultiLock;

use crate::support::prelude::*;

#[test]
fn each_server_has_its_part() {
    let servers = [Server::start(), Server::start()];
    let [one, other] = [&servers[0], &servers[1]].map(|server| client(&server.url()));
    let (one, other) = (one.reentrant_lock("x"), other.reentrant_lock("x"));
    let lock = MultiLock::over([&one, &other]);
    assert_eq!(lock.name(), "x, x", "two locks of one name");
    let guard = lock.acquire().unwrap();
    assert!(servers.iter().all(|server| server.has("x")));
    assert_eq!((one.hold_count(), other.hold_count()), (1, 1));
    servers[1].ask::<()>(redis::cmd("DEL").arg("x"));
    assert_eq!(
        guard.lost().recv_timeout(SOON.get()),
        Ok(LostReason::Deleted)
    );
    assert_matches!(guard.unlock(), Err(Error::Lost { .. }));
    assert!(!servers.iter().any(|server| server.has("x")));
}

/// While the call waits for one part, other clients get the other one.
#[test]
fn a_part_is_not_kept_while_the_call_waits_for_the_other() {
    let servers = [Server::start(), Server::start()];
    let locks = || {
        let lock = |at: &Server| client(&at.url()).reentrant_lock("x");
        servers.each_ref().map(lock)
    };
    let (ours, [first, second]) = (MultiLock::over(locks()), locks());
    let waits_for = |at: &Server| {
        eventually("the wait", || in_redis::listeners(at, "x") == 1);
    };
    second.lock_with(long()).unwrap();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| ours.acquire().unwrap().unlock());
        waits_for(&servers[1]);
        assert!(first.try_lock(SOON.get(), Lease::RENEWED).unwrap());
        second.unlock().unwrap();
        waits_for(&servers[0]);
        assert!(second.try_lock(SOON.get(), Lease::RENEWED).unwrap());
        second.unlock().unwrap();
        first.unlock().unwrap();
        waiter.join().unwrap().unwrap();
    });
    assert!(!servers.iter().any(|server| server.has("x")));
}
