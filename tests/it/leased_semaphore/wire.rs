//! The bytes in Redis, and values that are none of a semaphore.

use super::view::View;
use super::{counts, now, semaphore};
use crate::support::prelude::*;

#[test]
fn keys_and_messages_are_those_of_redisson() {
    let server = Server::start();
    let client = builder(&server.url()).namespace("shop").build().unwrap();
    let semaphore = client.leased_semaphore("mail");
    let mut view = View::of(&server, "shop:mail");
    let mut redis = server.connection();
    redis.set_read_timeout(Some(SOON.get())).unwrap();
    let mut messages = redis.as_pubsub();
    messages.subscribe("redisson_sc:{shop:mail}").unwrap();
    let mut message = || -> String { messages.get_message().unwrap().get_payload().unwrap() };

    semaphore.try_set_permits(2).unwrap();
    assert_eq!((view.available(), message()), (Some(2), "2".into()));
    assert_eq!(view.leases(), []);

    let before = view.clock();
    let lease = LEASE.get() * 30;
    let guard = semaphore.acquire_with(Lease::fixed(lease)).unwrap();
    let [(id, ends)] = &view.leases()[..] else {
        panic!("{:?}", view.leases())
    };
    assert_eq!(id, guard.id());
    let millis = lease.as_millis() as f64;
    assert!((before + millis..=view.clock() + millis).contains(ends));
    assert_eq!(view.available(), Some(1));
    let mut keys: Vec<String> = server.ask(redis::cmd("KEYS").arg("*"));
    keys.sort();
    assert_eq!(keys, ["shop:mail", "{shop:mail}:timeout"]);

    guard.release().unwrap();
    assert_eq!((view.available(), message()), (Some(2), "2".into()));
    assert_eq!(view.leases(), []);
    semaphore.add_permits(3).unwrap();
    assert_eq!((view.available(), message()), (Some(5), "5".into()));
    semaphore.set_permits(4).unwrap();
    semaphore.set_permits(7).unwrap();
    assert_eq!((view.available(), message()), (Some(7), "7".into()));
}

/// A Java program releases the permit by the id that it reads from its holder, and this crate
/// accepts the permits of Java programs.
#[test]
fn permits_of_java_programs_count() {
    let server = Server::start();
    let name = unique("java");
    let semaphore = semaphore(&server, &name, 2);
    let mut view = View::of(&server, &name);
    // As without a lease: it does not end.
    view.lease_until([7; 16], 922_337_203_685_477.0);
    let guard = now(&semaphore).unwrap();
    assert!(now(&semaphore).is_none());
    assert_eq!(counts(&semaphore), (0, 2));
    view.release_as_java(guard.id());
    assert_error!(guard.confirm(), Lost);
    drop(guard);
    assert_eq!(counts(&semaphore), (1, 2), "only once");
    let lease = view.leases();
    assert_eq!(lease.len(), 1);
    assert_eq!(lease[0].1, 922_337_203_685_477.0);
    // The lease without an end is none to wait for.
    let guard = now(&semaphore).unwrap();
    let none = semaphore.try_acquire(millis(30), Lease::RENEWED);
    assert!(none.unwrap().is_none());
    guard.release().unwrap();
}

/// The permits of a program that died. Those of another client wait for the end of the lease.
#[test]
fn permits_whose_leases_have_ended_are_available_again() {
    let server = Server::start();
    let name = unique("expired");
    let semaphore = semaphore(&server, &name, 3);
    let mut view = View::of(&server, &name);
    for id in 1..=3 {
        view.lease_as_java([id; 16], -1.0);
    }
    assert_eq!(counts(&semaphore), (3, 3), "counted before any acquire");
    assert_eq!(view.available(), Some(0), "which reading does not change");
    let guard = now(&semaphore).unwrap();
    assert_eq!((view.available(), view.leases().len()), (Some(2), 1));
    guard.release().unwrap();

    let lease = LEASE.get() / 2;
    let start = Instant::now();
    let ends = view.clock() + lease.as_millis() as f64;
    for id in 1..=3 {
        view.lease_until([id; 16], ends);
    }
    assert!(now(&semaphore).is_none());
    semaphore.acquire().unwrap().release().unwrap();
    let took = start.elapsed();
    assert!(
        took >= lease - millis(5) && took < lease + SLIP.get(),
        "{took:?}"
    );
    assert_eq!(counts(&semaphore), (3, 3));
}

/// Redisson's scripts fail for more than about 8,000.
#[test]
fn any_number_of_expired_permits_becomes_available() {
    const MANY: u32 = 20_000;
    let server = Server::start();
    let name = unique("many");
    let semaphore = semaphore(&server, &name, 0);
    let key = View::of(&server, &name).leases_key();
    let mut redis = server.connection();
    for ids in (0..MANY).collect::<Vec<_>>().chunks(1000) {
        let mut zadd = redis::cmd("ZADD");
        zadd.arg(&key);
        for id in ids {
            zadd.arg(1).arg(&u128::from(*id).to_be_bytes()[..]);
        }
        zadd.exec(&mut redis).unwrap();
    }
    let many = i64::from(MANY);
    assert_eq!(counts(&semaphore), (many, many));
    let guards: Vec<_> = (0..30).map(|_| now(&semaphore).unwrap()).collect();
    assert_eq!(counts(&semaphore), (many - 30, many));
    assert_eq!(View::of(&server, &name).available(), Some(many - 30));
    drop(guards);
}

/// With fewer permits than are leased, expired permits come back without being available.
#[test]
fn expired_permits_make_up_for_removed_ones() {
    let server = Server::start();
    let name = unique("removed");
    let semaphore = semaphore(&server, &name, 3);
    let mut view = View::of(&server, &name);
    for id in 1..=3 {
        view.lease_as_java([id; 16], -1.0);
    }
    semaphore.set_permits(1).unwrap();
    assert_eq!((view.available(), counts(&semaphore)), (Some(-2), (1, 1)));
    let guard = now(&semaphore).unwrap();
    assert!(now(&semaphore).is_none());
    assert_eq!((view.available(), view.leases().len()), (Some(0), 1));
    guard.release().unwrap();
}

#[test]
fn a_semaphore_that_ends_takes_its_leases_along() {
    let server = Server::start();
    let name = unique("ends");
    let semaphore = semaphore(&server, &name, 2);
    let mut view = View::of(&server, &name);
    let lease = LEASE.get() * 60;
    let expire = redis::cmd("PEXPIRE")
        .arg(&name)
        .arg(lease.as_millis() as u64)
        .clone();
    view.ask::<()>(&expire);
    let guard = semaphore.acquire().unwrap();
    let key = view.leases_key();
    let left: i64 = view.ask(redis::cmd("PTTL").arg(key));
    assert!(left > 0 && left <= lease.as_millis() as i64, "{left}");
    semaphore.set_permits(5).unwrap();
    guard.release().unwrap();
    let left: i64 = view.ask(redis::cmd("PTTL").arg(name));
    assert!(left > 0, "{left}");
}
