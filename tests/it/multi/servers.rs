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

/// For how long a thread may keep a free lock from a thread of its client, by the promises.
const KEPT: Duration = Duration::from_millis(1500);

/// While one thread waits for two locks, of which another client holds one, a thread of the same
/// client gets the other one, also with a wait of zero. When the first is free, the waiting thread
/// gets both.
#[test]
fn a_free_part_is_kept_from_other_threads_of_the_client_for_a_short_time() {
    let servers = [Server::start(), Server::start()];
    let case = |at: [usize; 2], names: [&str; 2]| {
        let on_first = client(&servers[at[0]].url());
        let on_second = match at[0] == at[1] {
            true => on_first.clone(),
            false => client(&servers[at[1]].url()),
        };
        let held = client(&servers[at[0]].url()).reentrant_lock(names[0]);
        held.lock_with(long()).unwrap();
        let free = on_second.reentrant_lock(names[1]);
        let both = MultiLock::over([&on_first.reentrant_lock(names[0]), &free]);
        thread::scope(|scope| {
            let waiter = scope.spawn(|| both.acquire().unwrap().unlock());
            in_redis::await_listeners(&servers[at[0]], names[0], 1);
            within(KEPT + SLIP.get(), "the free lock", || {
                free.lock().unwrap();
            });
            stay_waiting([&waiter]);
            free.unlock().unwrap();
            pair(&free);
            held.unlock().unwrap();
            within(SLIP.get() * 2, "both locks", || {
                waiter.join().unwrap().unwrap();
            });
        });
    };
    thread::scope(|scope| {
        scope.spawn(|| case([0, 0], ["a", "b"]));
        scope.spawn(|| case([0, 0], ["d", "c"]));
        scope.spawn(|| case([0, 1], ["e", "f"]));
        scope.spawn(|| case([0, 1], ["h", "g"]));
    });
    eventually("nothing is left", || {
        servers.iter().all(|server| server.size() == 0)
    });
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

/// No owner holds a name, so the call must not say that one does.
#[test]
fn a_server_that_hangs_is_no_other_owner() {
    let servers = [(); 2].map(|()| Server::start());
    let single = |server: &Server| {
        let builder = builder(&server.url()).command_timeout(millis(100));
        builder.build().unwrap().reentrant_lock("name")
    };
    let lock = MultiLock::over(servers.each_ref().map(single));
    pair(&lock);
    servers[1].pause();
    for wait in [Duration::ZERO, millis(50), millis(300)] {
        let taken = lock.try_lock(wait, Lease::RENEWED);
        assert!(matches!(taken, Err(Error::Unavailable { .. })), "{taken:?}");
    }
    servers[1].resume();
    eventually("all to be free", || {
        servers.iter().all(|server| server.size() == 0)
    });
}
