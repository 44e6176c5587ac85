//! Keys, fields, counts, channels and messages are those of Redisson's `RLock`.

use uuid::Uuid;

use super::published;
use crate::support::prelude::*;

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

/// A release publishes `0`, once, on the lock's channel, and so does a forced one. Nothing else is
/// published.
#[test]
fn only_a_release_is_published() {
    let server = Server::start();
    let client = client(&server.url());
    for (name, channel) in NAMES {
        let lock = client.reentrant_lock(name);
        let messages = published(&server, channel, || {
            lock.lock().unwrap();
            lock.lock().unwrap();
            lock.unlock().unwrap();
        });
        assert_eq!(messages, [""; 0], "nothing is free yet");
        let messages = published(&server, channel, || lock.unlock().unwrap());
        assert_eq!(messages, ["0"]);
        let messages = published(&server, channel, || {
            lock.lock().unwrap();
            assert!(client.force_unlock(name).unwrap());
        });
        assert_eq!(messages, ["0"]);
        assert!(lock.unlock().is_err());
    }
}
