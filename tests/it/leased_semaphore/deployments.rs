//! With Sentinel, in a cluster, with replicas, and under a restricted user.

use std::thread;

use leasehold::Error;

use super::counts;
use super::view::View;
use crate::faults::deployment::Deployment;
use crate::support::server::Server;
use crate::support::timing::{LEASE, SOON, eventually, millis, throughout};
use crate::support::traffic;
use crate::support::{builder, unique};

/// Acquires, waits, renews, loses and releases permits of several semaphores.
fn permits_work(deployment: &Deployment) {
    let (client, other) = (deployment.client(), deployment.client());
    let names: Vec<String> = (0..6).map(|_| unique("where")).collect();
    let semaphores: Vec<_> = names
        .iter()
        .map(|name| client.leased_semaphore(name))
        .collect();
    let guards: Vec<_> = semaphores
        .iter()
        .map(|semaphore| {
            assert!(semaphore.try_set_permits(1).unwrap());
            semaphore.acquire().unwrap()
        })
        .collect();
    throughout(LEASE.get() * 2, "all are renewed", || {
        guards.iter().all(|guard| guard.check().is_ok())
    });
    for (guard, name) in guards.into_iter().zip(&names) {
        let semaphore = other.leased_semaphore(name);
        assert!(semaphore.try_acquire_now().unwrap().is_none());
        let server = deployment.server_of(name);
        thread::scope(|scope| {
            let waiting = scope.spawn(|| semaphore.acquire().unwrap());
            thread::sleep(millis(20));
            guard.release().unwrap();
            let next = waiting.join().unwrap();
            View::of(server, name).release_as_java(next.id());
            assert!(matches!(next.confirm(), Err(Error::Lost { .. })));
        });
        assert_eq!(counts(&semaphore), (1, 1));
    }
    assert_eq!(client.stats().lost, 0);
}

#[test]
fn in_a_cluster() {
    permits_work(&Deployment::cluster());
}

#[test]
fn with_sentinel() {
    permits_work(&Deployment::sentinel());
}

/// Their keys would be in several slots.
#[test]
fn in_a_cluster_names_with_several_slots_are_refused() {
    let deployment = Deployment::cluster();
    let client = deployment.client();
    for name in ["a}b", "a{b", "{}x"] {
        let semaphore = client.leased_semaphore(name);
        let results = [
            semaphore.try_acquire_now().map(drop),
            semaphore.permits().map(drop),
        ];
        for result in results {
            assert!(matches!(result, Err(Error::Config { .. })), "{result:?}");
        }
    }
}

/// Without enough replicas no permit is acquired, and none stays leased.
#[test]
fn a_permit_needs_the_replicas_that_the_client_requires() {
    let server = Server::start();
    let builder = builder(&server.url()).min_replicas(1, millis(50));
    let semaphore = builder.build().unwrap().leased_semaphore(&unique("alone"));
    semaphore.try_set_permits(1).unwrap();
    for wait in [millis(0), millis(200)] {
        let result = semaphore.try_acquire(wait, leasehold::Lease::RENEWED);
        assert!(
            matches!(result, Err(Error::TooFewReplicas { .. })),
            "{result:?}"
        );
        assert_eq!(counts(&semaphore), (1, 1));
    }
    assert!(traffic::calls(&server)["wait"] >= 3, "it was repeated");
}

/// The rules that a user of semaphores needs.
#[test]
fn a_user_with_these_permissions_can_use_semaphores() {
    let server = Server::start();
    let mut acl = redis::cmd("ACL");
    acl.arg("SETUSER").arg("worker").arg("resetchannels");
    acl.arg(&["on", ">secret"]);
    acl.arg(&["~shop:*", "~{shop:*}:timeout", "&redisson_sc:{shop:*}"]);
    acl.arg("&redisson_lock__channel:{shop:*}");
    acl.arg(&[
        "+eval",
        "+evalsha",
        "+get",
        "+type",
        "+time",
        "+zscore",
        "+zadd",
        "+zrem",
        "+zrange",
        "+zrangebyscore",
        "+zcard",
        "+zcount",
        "+incrby",
        "+decrby",
        "+pttl",
        "+pexpire",
        "+publish",
        "+subscribe",
        "+unsubscribe",
        "+ping",
    ]);
    server.ask::<()>(&acl);
    let url = server.url().replace("://", "://worker:secret@");
    let client = builder(&url).namespace("shop").build().unwrap();
    let semaphore = client.leased_semaphore("mail");
    assert!(semaphore.try_set_permits(1).unwrap());
    let guard = semaphore.acquire().unwrap();
    throughout(LEASE.get() * 2, "it is renewed", || guard.check().is_ok());
    thread::scope(|scope| {
        let waiting = scope.spawn(|| semaphore.acquire().unwrap());
        eventually("a subscription", || {
            View::of(&server, "shop:mail").listeners() == 1
        });
        guard.release().unwrap();
        let next = waiting.join().unwrap();
        next.extend(SOON.get()).unwrap();
    });
    View::of(&server, "shop:mail").lease_as_java([1; 16], -1.0);
    assert_eq!(counts(&semaphore), (1, 1));
    drop(semaphore.acquire().unwrap());
    assert_eq!(counts(&semaphore), (1, 1));
}

/// A permission that is missing in the middle of a script leaves no half of a change.
#[test]
fn a_missing_permission_changes_nothing() {
    let server = Server::start();
    let name = unique("acl");
    let url = server.url().replace("://", "://worker:secret@");
    let semaphore = builder(&url).build().unwrap().leased_semaphore(&name);
    let allow = |rules: &[&str]| {
        let mut acl = redis::cmd("ACL");
        acl.arg("SETUSER")
            .arg("worker")
            .arg(&["reset", "on", ">secret", "~*", "&*", "+@all"]);
        server.ask::<()>(acl.arg(rules));
    };
    allow(&[]);
    semaphore.try_set_permits(3).unwrap();
    let mut view = View::of(&server, &name);
    view.lease_as_java([1; 16], -1.0);
    let mut held = semaphore.try_acquire_now().unwrap();
    for command in ["zadd", "decrby", "incrby", "zrem"] {
        view.lease_as_java([1; 16], -1.0);
        let before = (view.available(), view.leases());
        allow(&[&format!("-{command}")]);
        let refused = semaphore.try_acquire_now();
        assert!(
            matches!(refused, Err(Error::Redis { .. })),
            "{command}: {refused:?}"
        );
        let total = |view: &mut View| {
            view.available().unwrap() + i64::try_from(view.leases().len()).unwrap()
        };
        assert_eq!(total(&mut view), 3, "{command}");
        if ["incrby", "zrem"].contains(&command) {
            assert_eq!((view.available(), view.leases()), before, "{command}");
        }
        if let Some(guard) = held.take_if(|_| command == "incrby") {
            assert!(guard.release().is_err());
            assert_eq!(total(&mut view), 3);
        }
        allow(&[]);
        if held.is_none() {
            // The watchdog repeats the release, and the next round compares what it finds.
            eventually("the release in the background", || {
                view.leases().iter().all(|(id, _)| id.starts_with("0101"))
            });
        }
        drop(semaphore.try_acquire_now().unwrap().unwrap());
    }
}
