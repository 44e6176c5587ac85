//! Multi-locks of several clients on several servers.

use std::thread;
use std::time::Duration;

use leasehold::{Error, Lease, LockClient, LostReason, MultiLock};

use super::{is_held, long};
use crate::support::server::Server;
use crate::support::timing::{A_WHILE, SLIP, SOON, eventually, millis, within};
use crate::support::{builder, client};

const COMMAND: u64 = 200;

fn client_with_short_timeout(server: &Server) -> LockClient {
    let builder = builder(&server.url());
    builder.command_timeout(millis(COMMAND)).build().unwrap()
}

#[test]
fn each_server_has_its_part() {
    let servers = [Server::start(), Server::start()];
    let [one, other] = [&servers[0], &servers[1]].map(|server| client(&server.url()));
    let (one, other) = (one.reentrant_lock("x"), other.reentrant_lock("x"));
    let lock = MultiLock::over([&one, &other]);
    assert_eq!(lock.name(), "x, x", "two locks of one name");
    let guard = lock.acquire().unwrap();
    assert!(servers.iter().all(|server| is_held(server, "x")));
    assert_eq!((one.hold_count(), other.hold_count()), (1, 1));
    servers[1].ask::<()>(redis::cmd("DEL").arg("x"));
    assert_eq!(
        guard.lost().recv_timeout(SOON.get()),
        Ok(LostReason::Deleted)
    );
    assert!(matches!(guard.unlock(), Err(Error::Lost { .. })));
    assert!(!servers.iter().any(|server| is_held(server, "x")));
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
    assert!(!servers.iter().any(|server| is_held(server, "x")));
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

/// The call ends in time with an error that names the server, and the other server's lock is free.
#[test]
#[ignore = "soak"]
fn a_dead_or_hanging_server_is_reported_in_time() {
    let servers = [Server::start(), Server::start()];
    let lock = MultiLock::over([
        client_with_short_timeout(&servers[0]).reentrant_lock("a"),
        client_with_short_timeout(&servers[1]).reentrant_lock("b"),
    ]);
    // From now on connections and scripts exist.
    lock.lock().unwrap();
    lock.unlock().unwrap();
    let timeout = millis(COMMAND);
    for fault in [Server::pause, Server::kill] {
        fault(&servers[1]);
        let (attempt, ten) = (timeout * 2 + SLIP.get() * 4, timeout * 12 + millis(1500));
        for (budget, call) in [
            (
                attempt,
                &(|| lock.try_lock(Duration::ZERO, Lease::RENEWED).map(drop)) as &dyn Fn() -> _,
            ),
            (ten + SLIP.get() * 4, &|| lock.lock()),
        ] {
            let result = within(budget, "the call", call);
            let Err(Error::Unavailable { lock, node, .. }) = &result else {
                panic!("{result:?}")
            };
            assert_eq!((lock.as_str(), node), ("b", &servers[1].address()));
            assert!(!is_held(&servers[0], "a"));
        }
    }
}

/// A server that hangs affects its own part only: the other part is released.
#[test]
fn a_server_that_hangs_does_not_block_the_release_of_the_other_part() {
    let servers = [Server::start(), Server::start()];
    let lock = MultiLock::over([
        client_with_short_timeout(&servers[0]).reentrant_lock("a"),
        client_with_short_timeout(&servers[1]).reentrant_lock("b"),
    ]);
    let guard = lock.acquire().unwrap();
    servers[1].pause();
    let result = within(millis(COMMAND) * 3 + SLIP.get() * 4, "the unlock", || {
        guard.unlock()
    });
    assert!(
        matches!(&result, Err(Error::Unavailable { lock, .. }) if lock == "b"),
        "{result:?}"
    );
    assert!(!is_held(&servers[0], "a"));
    servers[1].resume();
    eventually("the release in the background", || {
        !is_held(&servers[1], "b")
    });
}
