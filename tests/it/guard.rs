//! The requests of a guard, for each kind of lock: `confirm` and `unlock_after`.

use leasehold::Result;

use crate::support::prelude::*;

const NAME: &str = "lock";
const SECOND: &str = "too";

/// The command timeout.
const COMMAND: u64 = 500;

/// Longer than the test, so that the watchdog sends nothing.
fn long() -> Lease {
    Lease::fixed(SOON.get() * 12)
}

fn client(server: &Server) -> LockClient {
    let builder = builder(&server.url()).command_timeout(millis(COMMAND));
    builder.build().unwrap()
}

fn servers(count: usize) -> Vec<Server> {
    Server::start_all((0..count).map(|_| Server::options()).collect())
}

/// A lock of each kind, for new clients. All use the same name on the first server.
fn locks(servers: &[Server]) -> Vec<Box<dyn Lock>> {
    let clients: Vec<LockClient> = servers.iter().map(client).collect();
    vec![
        Box::new(clients[0].reentrant_lock(NAME)),
        Box::new(clients[0].multi_lock([NAME, SECOND])),
        Box::new(RedLock::new(&clients, NAME)),
    ]
}

fn acquire(lock: &dyn Lock) -> LockGuard {
    let guard = lock.try_acquire(SOON.get(), long()).unwrap();
    guard.expect("a free lock")
}

fn is_lost(result: Result<()>, expected: LostReason) -> bool {
    matches!(result, Err(Error::Lost { reason, .. }) if reason == expected)
}

#[test]
fn a_held_lock_is_confirmed_by_a_majority_of_its_servers() {
    let servers = servers(3);
    for lock in locks(&servers) {
        let guard = acquire(&*lock);
        let left = guard.remaining();
        guard.confirm().unwrap();
        assert!(guard.remaining() <= left, "the lease does not change");
        if lock.name() == NAME {
            servers[2].delete(NAME);
            guard.confirm().unwrap();
        }
        guard.unlock().unwrap();
    }
    let fenced = client(&servers[0]).fenced_lock("fenced");
    fenced.acquire().unwrap().confirm().unwrap();
}

#[test]
fn a_deleted_lock_is_reported_before_the_watchdog_detects_it() {
    let servers = servers(3);
    for lock in locks(&servers) {
        let guard = acquire(&*lock);
        for server in &servers[..2] {
            server.delete(NAME);
        }
        guard.check().unwrap();
        let result = guard.confirm();
        assert!(is_lost(result, LostReason::Deleted), "{lock:?}");
        assert!(guard.is_lost() && is_lost(guard.confirm(), LostReason::Deleted));
        assert_eq!(guard.lost().try_recv(), Ok(LostReason::Deleted));
        assert!(is_lost(guard.unlock(), LostReason::Deleted));
    }
}

#[test]
fn without_a_reply_the_hold_remains_valid() {
    let servers = servers(3);
    for lock in locks(&servers) {
        let guard = acquire(&*lock);
        servers[..2].iter().for_each(Server::pause);
        let bound = millis(COMMAND) + SLIP.get() * 4;
        let result = within(bound, "confirm", || guard.confirm());
        assert_matches!(result, Err(Error::Unavailable { .. }), "{lock:?}");
        guard.check().unwrap();
        servers[..2].iter().for_each(Server::resume);
        eventually("a confirmation", || guard.confirm().is_ok());
        guard.unlock().unwrap();
    }
}

#[test]
fn a_lock_that_is_unlocked_after_a_time_is_kept_in_redis_until_then() {
    let servers = servers(3);
    let time = A_WHILE.get() * 6;
    for (lock, other) in locks(&servers).into_iter().zip(locks(&servers)) {
        let guard = acquire(&*lock);
        let start = Instant::now();
        guard.unlock_after(time).unwrap();
        assert_eq!(lock.hold_count(), 0);
        // The thread no longer owns it.
        assert!(lock.try_acquire_now().unwrap().is_none(), "{lock:?}");
        assert!(other.is_locked().unwrap(), "{lock:?}");
        let left = other.remaining_lease().unwrap().unwrap();
        assert!(left <= time, "{left:?}");
        acquire(&*other).unlock().unwrap();
        assert!(start.elapsed() >= time - millis(20), "{lock:?}");
    }
    let fenced = client(&servers[0]).fenced_lock("fenced");
    fenced.acquire().unwrap().unlock_after(time).unwrap();
    assert!(fenced.is_locked().unwrap() && !fenced.is_held_by_current_thread());
}

#[test]
fn the_time_begins_when_the_last_level_is_unlocked() {
    let servers = servers(1);
    let lock = client(&servers[0]).reentrant_lock(NAME);
    let outer = lock.acquire().unwrap();
    let inner = lock.acquire().unwrap();
    inner.unlock_after(SOON.get()).unwrap();
    outer.confirm().unwrap();
    assert_eq!(lock.hold_count(), 1);
    outer.unlock().unwrap();
    assert!(lock.is_locked().unwrap() && !lock.is_held_by_current_thread());
}

#[test]
fn a_lock_that_cannot_be_kept_is_unlocked_at_once() {
    let servers = servers(1);
    let lock = client(&servers[0]).reentrant_lock(NAME);
    for time in [Duration::from_micros(999), Duration::MAX] {
        let result = lock.acquire().unwrap().unlock_after(time);
        assert_matches!(result, Err(Error::Config { field: "time", .. }));
        assert!(!lock.is_locked().unwrap());
    }
    let guard = lock.acquire().unwrap();
    guard.unlock_after(Duration::ZERO).unwrap();
    assert!(!lock.is_locked().unwrap());
    let guard = lock.acquire().unwrap();
    servers[0].delete(NAME);
    assert!(is_lost(guard.unlock_after(SOON.get()), LostReason::Deleted));
    assert!(!lock.is_locked().unwrap());
}
