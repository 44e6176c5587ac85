//! Latches: threads wait until a count is zero.

mod faults;

use std::thread;
use std::time::{Duration, Instant};

use leasehold::{Error, Interrupt, LockClient};

use crate::faults::proxied_server::load_scripts;
use crate::support::deployment::{ClusterDeployment, Replicated, SentinelDeployment};
use crate::support::server::Server;
use crate::support::timing::{A_WHILE, SOON, eventually, millis, throughout, within};
use crate::support::traffic::Monitor;
use crate::support::{builder, client, unique};

#[test]
fn a_count_goes_down_to_zero() {
    let server = Server::start();
    let client = client(&server.url());
    let latch = client.count_down_latch("loaded");
    assert_eq!(latch.name(), "loaded");
    assert_eq!(
        (latch.count().unwrap(), latch.count_down().unwrap()),
        (0, 0)
    );
    latch.wait().unwrap();
    assert!(latch.try_set_count(2).unwrap());
    assert!(!latch.try_set_count(5).unwrap());
    assert!(!latch.wait_for(Duration::ZERO).unwrap());
    assert!(!latch.wait_for(A_WHILE.get()).unwrap());
    assert_eq!(
        (latch.count_down().unwrap(), latch.count().unwrap()),
        (1, 1)
    );
    assert_eq!(
        (latch.count_down().unwrap(), latch.count().unwrap()),
        (0, 0)
    );
    assert!(latch.wait_for(Duration::ZERO).unwrap());
    latch.wait().unwrap();
    assert_eq!(latch.count_down().unwrap(), 0);
    // It can be used again.
    assert!(latch.try_set_count(1).unwrap());
    assert!(!latch.wait_for(Duration::ZERO).unwrap());
}

#[test]
fn a_count_out_of_bounds_is_refused() {
    let server = Server::start();
    let latch = client(&server.url()).count_down_latch("loaded");
    for count in [0, 1 << 53, u64::MAX] {
        let refused = latch.try_set_count(count);
        assert!(
            matches!(refused, Err(Error::Config { field: "count", .. })),
            "{refused:?}"
        );
    }
    let most = (1 << 53) - 1;
    assert!(latch.try_set_count(most).unwrap());
    assert_eq!(latch.count_down().unwrap(), most - 1);
    assert_eq!(latch.count().unwrap(), most - 1);
}

/// Of the same client, and of another one.
#[test]
fn the_last_count_down_wakes_all_waiting_threads_at_once() {
    const WAITING: usize = 20;
    let server = Server::start();
    let clients = [client(&server.url()), client(&server.url())];
    load_scripts(&server);
    let latch = clients[0].count_down_latch("loaded");
    assert!(latch.try_set_count(2).unwrap());
    let mut monitor = Monitor::of(&server);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..WAITING)
            .map(|number| {
                let latch = clients[number % 2].count_down_latch("loaded");
                scope.spawn(move || {
                    latch.wait().unwrap();
                    Instant::now()
                })
            })
            .collect();
        let all_wait = || threads.iter().all(|one| !one.is_finished());
        eventually("both clients listen", || {
            clients.iter().all(|one| one.stats().wakeups_by_message > 0)
        });
        throughout(A_WHILE.get() * 2, "they wait", all_wait);
        monitor.commands();
        throughout(A_WHILE.get() * 4, "they wait", all_wait);
        assert_eq!(monitor.commands_but_pings(), [""; 0]);
        latch.count_down().unwrap();
        throughout(A_WHILE.get(), "they wait", all_wait);
        assert_eq!(monitor.commands_but_pings().len(), 1, "not at zero");
        let opened = Instant::now();
        latch.count_down().unwrap();
        for thread in threads {
            let took = thread.join().unwrap().duration_since(opened);
            assert!(took < millis(500), "{took:?}");
        }
    });
    // The count-down, and one request of each client, which may open a connection for it.
    let mut commands = monitor.commands_but_pings();
    commands.retain(|command| command != "CLIENT");
    assert_eq!(commands, ["EVALSHA"; 3]);
}

#[test]
fn an_interrupt_ends_a_wait() {
    let server = Server::start();
    let latch = client(&server.url()).count_down_latch("loaded");
    latch.try_set_count(1).unwrap();
    let interrupt = Interrupt::new();
    thread::scope(|scope| {
        let waiters = [
            scope.spawn(|| latch.wait_interruptibly(&interrupt)),
            scope.spawn(|| {
                latch
                    .wait_for_interruptibly(SOON.get() * 6, &interrupt)
                    .map(drop)
            }),
        ];
        throughout(A_WHILE.get(), "they wait", || {
            waiters.iter().all(|one| !one.is_finished())
        });
        interrupt.interrupt();
        for waiter in waiters {
            let result = within(SOON.get(), "an interrupt", || waiter.join().unwrap());
            assert!(
                matches!(result, Err(Error::Interrupted { .. })),
                "{result:?}"
            );
        }
    });
    latch.count_down().unwrap();
    latch.wait_interruptibly(&Interrupt::new()).unwrap();
}

#[test]
fn a_key_of_another_type_is_reported_and_stays() {
    let server = Server::start();
    let latch = client(&server.url()).count_down_latch("key");
    server.ask::<()>(redis::cmd("HSET").arg("key").arg("field").arg("1"));
    for result in [
        latch.try_set_count(1).map(drop),
        latch.count_down().map(drop),
        latch.count().map(drop),
        latch.wait(),
    ] {
        let Err(Error::WrongType { lock, found, .. }) = &result else {
            panic!("{result:?}");
        };
        assert_eq!(
            (lock.as_str(), found.as_str()),
            ("key", "a hash in the key \"key\"")
        );
    }
    assert_eq!(server.ask::<u32>(&redis::cmd("DBSIZE")), 1);
}

/// Two clients in a deployment.
fn two_clients_share_a_count(clients: [LockClient; 2]) {
    let latch = clients[0].count_down_latch(&unique("loaded"));
    let other = clients[1].count_down_latch(latch.name());
    latch.try_set_count(2).unwrap();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| other.wait());
        eventually("it listens", || clients[1].stats().wakeups_by_message > 0);
        assert_eq!(other.count_down().unwrap(), 1);
        throughout(A_WHILE.get(), "it waits", || !waiter.is_finished());
        assert_eq!(latch.count_down().unwrap(), 0);
        within(SOON.get() / 4, "a message", || {
            waiter.join().unwrap().unwrap();
        });
    });
}

#[test]
fn behind_sentinels() {
    let shared = SentinelDeployment::shared();
    let builder = LockClient::builder_sentinel(shared.sentinel_urls(), shared.master_name());
    two_clients_share_a_count([(); 2].map(|()| builder.clone().build().unwrap()));
}

#[test]
fn in_a_namespace_and_with_replicas() {
    let shared = Replicated::shared();
    let builder = builder(&shared.url()).namespace("shop");
    let builder = builder.min_replicas(1, SOON.get());
    two_clients_share_a_count([(); 2].map(|()| builder.clone().build().unwrap()));
}

#[test]
fn in_a_cluster() {
    let shared = ClusterDeployment::shared();
    let builder = LockClient::builder_cluster(shared.urls());
    two_clients_share_a_count([(); 2].map(|()| builder.clone().build().unwrap()));
    // Redisson's channel of such a name is in another slot.
    let braces = builder.build().unwrap().count_down_latch("{order}:loaded");
    let refused = braces.count();
    assert!(
        matches!(refused, Err(Error::Config { field: "name", .. })),
        "{refused:?}"
    );
}

#[test]
fn a_handle_can_be_shared_and_shown() {
    fn is_shared<T: Send + Sync + Clone + 'static>(_: &T) {}
    let server = Server::start();
    let latch = client(&server.url()).count_down_latch("loaded");
    is_shared(&latch);
    let expected = format!(
        "CountDownLatch {{ name: \"loaded\", node: \"{}\" }}",
        server.address()
    );
    assert_eq!(format!("{latch:?}"), expected);
}
