//! Keys, fields, counts, channels and messages are those of Redisson's `RLock`.

use leasehold::Lease;
use uuid::Uuid;

use crate::support::server::Server;
use crate::support::timing::{A_WHILE, LEASE, eventually};
use crate::support::{builder, client};

/// Names with special bytes.
const NAMES: &[(&str, &str)] = &[
    ("order:pay", "redisson_lock__channel:{order:pay}"),
    ("{order}:pay", "redisson_lock__channel:{order}:pay"),
    ("a{b", "redisson_lock__channel:a{b"),
    ("a}b", "redisson_lock__channel:{a}b}"),
    ("{}", "redisson_lock__channel:{}"),
    ("a b\r\n\"c\"\0", "redisson_lock__channel:{a b\r\n\"c\"\0}"),
    ("größe ☃", "redisson_lock__channel:{größe ☃}"),
    ("*[a-z]?", "redisson_lock__channel:{*[a-z]?}"),
];

#[test]
fn a_lock_is_a_hash_of_owner_to_count() {
    let server = Server::start();
    let client = client(&server.url());
    let locks: Vec<_> = NAMES
        .iter()
        .map(|(name, _)| client.reentrant_lock(name))
        .collect();
    for lock in &locks {
        lock.lock_with(Lease::fixed(LEASE.get() * 20)).unwrap();
        lock.lock().unwrap();
    }
    for lock in &locks {
        let name = lock.name();
        eventually("the count of both levels", || {
            server.ask::<Vec<u32>>(redis::cmd("HVALS").arg(name)) == [2]
        });
        let (kind, fields, left): (String, Vec<(String, String)>, i64) = redis::pipe()
            .cmd("TYPE")
            .arg(name)
            .cmd("HGETALL")
            .arg(name)
            .cmd("PTTL")
            .arg(name)
            .query(&mut server.connection())
            .unwrap();
        assert_eq!(kind, "hash");
        let [(owner, count)] = &fields[..] else {
            panic!("one field: {fields:?}")
        };
        assert_eq!(count, "2");
        let (uuid, number) = owner.split_once(':').unwrap();
        assert_eq!(
            Uuid::parse_str(uuid).unwrap().hyphenated().to_string(),
            uuid
        );
        assert!(number.parse::<u64>().unwrap() > 0 && number.bytes().all(|b| b.is_ascii_digit()));
        assert!(left > 0 && left <= i64::try_from((LEASE.get() * 20).as_millis()).unwrap());
    }
    let keys: u32 = server.ask(&redis::cmd("DBSIZE"));
    assert_eq!(keys as usize, NAMES.len(), "and nothing else is in Redis");
    for lock in &locks {
        lock.unlock().unwrap();
        lock.unlock().unwrap();
    }
    assert_eq!(server.size(), 0);
}

#[test]
fn each_grant_has_an_owner_of_its_own() {
    let server = Server::start();
    let clients = [client(&server.url()), client(&server.url())];
    let owner = |client: &leasehold::LockClient| {
        let lock = client.reentrant_lock("who");
        lock.lock().unwrap();
        let owner = client.inspect("who").unwrap().owner.unwrap();
        lock.unlock().unwrap();
        owner
    };
    let first = owner(&clients[0]);
    let uuid = first.split(':').next();
    let of_another_thread = crate::support::on_another_thread(|| owner(&clients[0]));
    let second = owner(&clients[0]);
    assert!(first != second && first != of_another_thread && second != of_another_thread);
    for other in [second, of_another_thread] {
        assert_eq!(other.split(':').next(), uuid, "one client, one UUID");
    }
    assert_ne!(owner(&clients[1]).split(':').next(), uuid);
}

/// A release publishes `0`, once, on the lock's channel. Nothing else is published.
#[test]
fn only_a_release_is_published() {
    let server = Server::start();
    let client = client(&server.url());
    let mut connection = server.connection();
    for (name, channel) in NAMES {
        let mut subscriber = connection.as_pubsub();
        subscriber.subscribe(*channel).unwrap();
        subscriber.set_read_timeout(Some(A_WHILE.get())).unwrap();
        let lock = client.reentrant_lock(name);
        lock.lock().unwrap();
        lock.lock().unwrap();
        lock.unlock().unwrap();
        let quiet = subscriber.get_message();
        assert!(
            quiet.is_err_and(|error| error.is_timeout()),
            "nothing is free yet"
        );
        lock.unlock().unwrap();
        let message = subscriber.get_message().unwrap();
        assert_eq!(message.get_channel_name(), *channel);
        assert_eq!(message.get_payload::<String>().unwrap(), "0");
        assert!(
            subscriber
                .get_message()
                .is_err_and(|error| error.is_timeout()),
            "once"
        );
    }
}

#[test]
fn a_force_unlock_is_published_like_a_release() {
    let server = Server::start();
    let client = client(&server.url());
    let mut connection = server.connection();
    let mut subscriber = connection.as_pubsub();
    subscriber
        .subscribe("redisson_lock__channel:{forced}")
        .unwrap();
    client.reentrant_lock("forced").lock().unwrap();
    assert!(client.force_unlock("forced").unwrap());
    assert_eq!(
        subscriber
            .get_message()
            .unwrap()
            .get_payload::<String>()
            .unwrap(),
        "0"
    );
}

#[test]
fn a_namespace_goes_before_key_and_channel() {
    let server = Server::start();
    for namespace in ["shop", "shop:"] {
        let client = builder(&server.url()).namespace(namespace).build().unwrap();
        let lock = client.reentrant_lock("pay");
        assert_eq!(lock.name(), "pay");
        let mut connection = server.connection();
        let mut subscriber = connection.as_pubsub();
        subscriber
            .subscribe("redisson_lock__channel:{shop:pay}")
            .unwrap();
        lock.lock().unwrap();
        let keys = server.keys();
        assert_eq!(keys, ["shop:pay"]);
        lock.unlock().unwrap();
        assert_eq!(
            subscriber
                .get_message()
                .unwrap()
                .get_payload::<String>()
                .unwrap(),
            "0"
        );
    }
}
