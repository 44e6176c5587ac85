//! The bytes in Redis, and values that are none of a semaphore.

use super::view::View;
use super::{counts, now, semaphore};
use crate::support::prelude::*;
use crate::support::proxy::library_script;

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

/// The request was late, and its holder has died.
#[test]
fn a_renewal_does_not_lease_a_permit_again_whose_lease_has_ended() {
    let server = Server::start();
    let name = unique("late");
    let semaphore = semaphore(&server, &name, 1);
    let mut view = View::of(&server, &name);
    view.lease_as_java([1; 16], -1.0);
    let mut renewal = redis::cmd("EVAL");
    renewal.arg(library_script("permit_renew")).arg(2);
    renewal
        .arg(&name)
        .arg(view.leases_key())
        .arg(&[1_u8; 16][..]);
    assert_eq!(view.ask::<[u32; 1]>(renewal.arg(60_000)), [0]);
    assert_eq!(counts(&semaphore), (1, 1));
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
