//! Semaphores in every deployment: behind sentinels, in a cluster, with replicas.

use std::thread;
use std::time::Duration;

use leasehold::{Error, LockClient, LockClientBuilder};

use super::semaphore;
use crate::support::deployment::{ClusterDeployment, Replicated, SentinelDeployment};
use crate::support::server::Server;
use crate::support::timing::{A_WHILE, SOON, eventually, millis, throughout, within};
use crate::support::{builder, client, unique};

/// Two clients share permits and wake each other.
fn two_clients_share_permits(builder: &LockClientBuilder) {
    let clients = [(); 2].map(|()| builder.clone().build().unwrap());
    for _ in 0..4 {
        let semaphore = semaphore(&clients[0], 2);
        let other = clients[1].semaphore(semaphore.name());
        semaphore.acquire(1).unwrap();
        assert!(!other.try_acquire(2, Duration::ZERO).unwrap());
        let woken = clients[1].stats().wakeups_by_message;
        thread::scope(|scope| {
            let waiter = scope.spawn(|| other.acquire(2));
            eventually("it listens", || {
                clients[1].stats().wakeups_by_message > woken
            });
            throughout(A_WHILE.get(), "it waits", || !waiter.is_finished());
            semaphore.release(1).unwrap();
            within(SOON.get() / 4, "a message", || {
                waiter.join().unwrap().unwrap();
            });
        });
        other.add_permits(3).unwrap();
        assert_eq!(
            (other.drain().unwrap(), semaphore.available().unwrap()),
            (3, 0)
        );
    }
}

#[test]
fn behind_sentinels() {
    let shared = SentinelDeployment::shared();
    let urls = shared.sentinel_urls();
    two_clients_share_permits(&LockClient::builder_sentinel(urls, shared.master_name()));
}

#[test]
fn in_a_cluster() {
    let shared = ClusterDeployment::shared();
    two_clients_share_permits(&LockClient::builder_cluster(shared.urls()));
}

#[test]
fn in_a_namespace_and_with_replicas() {
    let shared = Replicated::shared();
    let builder = builder(&shared.url()).namespace("shop");
    two_clients_share_permits(&builder.min_replicas(1, SOON.get()));
    let stored: i32 = shared.master().ask(redis::cmd("EXISTS").arg("slots"));
    assert_eq!(stored, 0);
}

/// In a cluster, the key, its records and its channel have one slot.
#[test]
fn a_name_with_two_slots_is_refused_in_a_cluster() {
    let shared = ClusterDeployment::shared();
    let client = LockClient::builder_cluster(shared.urls()).build().unwrap();
    for name in ["a}b", "a{b", "{}x"] {
        let refused = client.semaphore(name).release(1);
        assert!(
            matches!(refused, Err(Error::Config { field: "name", .. })),
            "{refused:?}"
        );
    }
    let name = format!("{{order}}:{}", unique("slots"));
    let semaphore = client.semaphore(&name);
    semaphore.release(1).unwrap();
    assert!(semaphore.try_acquire(1, Duration::ZERO).unwrap());
}

/// The permits move with their slot while clients use and await them.
#[test]
fn permits_stay_exact_while_their_slot_moves() {
    let cluster = ClusterDeployment::start();
    let client = || LockClient::builder_cluster(cluster.urls()).build().unwrap();
    let clients = [client(), client()];
    let first = semaphore(&clients[0], 2);
    let slot = cluster.slot_of(first.name());
    let done = std::sync::atomic::AtomicBool::new(false);
    thread::scope(|scope| {
        let threads = [0, 1, 0, 1].map(|place: usize| {
            let (semaphore, done) = (clients[place].semaphore(first.name()), &done);
            scope.spawn(move || {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    semaphore.acquire(1).unwrap();
                    semaphore.release(1).unwrap();
                }
            })
        });
        for _ in 0..2 {
            let migration = cluster.begin_migration(slot, cluster.another_primary(slot));
            thread::sleep(millis(50));
            migration.move_keys();
            thread::sleep(millis(50));
            migration.end();
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        threads.into_iter().for_each(|one| one.join().unwrap());
    });
    assert_eq!(first.available().unwrap(), 2);
}

/// Permits that too few replicas confirm are given back.
#[test]
fn too_few_replicas_are_an_error() {
    let deployment = Replicated::start(1);
    let builder = builder(&deployment.url()).command_timeout(millis(300));
    let client = builder.min_replicas(1, millis(100)).build().unwrap();
    let semaphore = client.semaphore("slots");
    semaphore.try_set_permits(2).unwrap();
    semaphore.acquire(1).unwrap();
    deployment.pause_replica(0);
    for wait in [Duration::ZERO, A_WHILE.get()] {
        let result = semaphore.try_acquire(1, wait);
        let Err(Error::TooFewReplicas {
            confirmed, wanted, ..
        }) = result
        else {
            panic!("{result:?}");
        };
        assert_eq!((confirmed, wanted), (0, 1));
        assert_eq!(semaphore.available().unwrap(), 1);
    }
    let result = within(SOON.get(), "an acquire", || semaphore.acquire(1));
    assert!(
        matches!(result, Err(Error::TooFewReplicas { .. })),
        "{result:?}"
    );
    deployment.resume_replica(0);
    semaphore.acquire(1).unwrap();
    assert_eq!(semaphore.available().unwrap(), 0);
}

/// The first of the waiting threads sends the requests of all.
#[test]
fn too_few_replicas_are_an_error_of_all_waiting_threads() {
    let server = Server::start();
    let waiting = builder(&server.url()).command_timeout(millis(100));
    let waiting = waiting.min_replicas(1, millis(20)).build().unwrap();
    let semaphore = waiting.semaphore("slots");
    let view = client(&server.url()).semaphore("slots");
    view.try_set_permits(0).unwrap();
    thread::scope(|scope| {
        let waiters = [(); 3].map(|()| scope.spawn(|| semaphore.acquire(1)));
        throughout(A_WHILE.get(), "they wait", || {
            waiters.iter().all(|one| !one.is_finished())
        });
        view.release(3).unwrap();
        for waiter in waiters {
            let result = within(SOON.get(), "an acquire", || waiter.join().unwrap());
            assert!(
                matches!(result, Err(Error::TooFewReplicas { .. })),
                "{result:?}"
            );
        }
    });
    eventually("all are given back", || view.available().unwrap() == 3);
}
