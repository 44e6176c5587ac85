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

/// Two programs see the order of the locks differently, and each has what the other waits for.
#[test]
fn clients_that_wait_for_each_other_do_not_deadlock() {
    let servers = [Server::start(), Server::start()];
    let programs = opposite_programs(&servers);
    let obstacles = servers
        .each_ref()
        .map(|server| client(&server.url()).reentrant_lock("x"));
    for obstacle in &obstacles {
        obstacle.lock_with(long()).unwrap();
    }
    thread::scope(|scope| {
        let waiting = programs.each_ref().map(|program| {
            scope.spawn(move || {
                let lock = MultiLock::over(program.each_ref().map(|at| at.reentrant_lock("x")));
                let guard = lock.try_acquire(SOON.get() * 2, Lease::RENEWED).unwrap();
                guard
                    .expect("the other one releases its lock")
                    .unlock()
                    .unwrap();
            })
        });
        // Each of them waits for its own first lock.
        thread::sleep(A_WHILE.get());
        for obstacle in &obstacles {
            obstacle.unlock().unwrap();
        }
        for program in waiting {
            program.join().unwrap();
        }
    });
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

/// For equal keys, the order is that of the client ids, which a hold shows.
fn opposite_programs(servers: &[Server; 2]) -> [[LockClient; 2]; 2] {
    let program = || servers.each_ref().map(|server| client(&server.url()));
    let is_first_less = |program: &[LockClient; 2]| {
        let [one, other] = program.each_ref().map(|client| {
            let guard = client.reentrant_lock("id").acquire().unwrap();
            let owner = client.inspect("id").unwrap().owner.unwrap();
            guard.unlock().unwrap();
            owner
        });
        one < other
    };
    let first = program();
    loop {
        let second = program();
        if is_first_less(&first) != is_first_less(&second) {
            return [first, second];
        }
    }
}
