//! Keys, numbers, channels and messages are those of Redisson's `RSemaphore` and `RCountDownLatch`.

use redis::FromRedisValue;

use super::published;
use crate::support::prelude::*;

/// Names and the channels of semaphores and latches.
const NAMES: &[(&str, &str, &str)] = &[
    (
        "slots",
        "redisson_sc:{slots}",
        "redisson_countdownlatch__channel__{slots}",
    ),
    (
        "{a}b",
        "redisson_sc:{a}b",
        "redisson_countdownlatch__channel__{{a}b}",
    ),
    (
        "größe ☃",
        "redisson_sc:{größe ☃}",
        "redisson_countdownlatch__channel__{größe ☃}",
    ),
];

fn ask<T: FromRedisValue>(server: &Server, command: &str, arguments: &[&str]) -> T {
    server.ask(redis::cmd(command).arg(arguments))
}

#[test]
fn a_semaphore_is_a_string_and_publishes_the_free_permits() {
    let server = Server::start();
    let client = client(&server.url());
    for (name, channel, _) in NAMES {
        let semaphore = client.semaphore(name);
        let stored = || ask::<String>(&server, "GET", &[name]);
        let messages = published(&server, channel, || {
            assert!(semaphore.try_set_permits(5).unwrap());
            assert_eq!(stored(), "5");
            assert!(!semaphore.try_set_permits(6).unwrap());
            semaphore.acquire(2).unwrap();
            assert_eq!(stored(), "3");
            semaphore.release(1).unwrap();
            assert_eq!(stored(), "4");
            semaphore.add_permits(-6).unwrap();
            assert_eq!(stored(), "-2");
            semaphore.add_permits(3).unwrap();
            assert_eq!(semaphore.drain().unwrap(), 1);
            assert_eq!(stored(), "0");
        });
        assert_eq!(messages, ["5", "4", "-2", "1"], "{name}");
        assert_eq!(ask::<String>(&server, "TYPE", &[name]), "string");
        assert_eq!(ask::<i64>(&server, "PTTL", &[name]), -1);
    }
}

#[test]
fn a_latch_is_a_string_and_publishes_its_begin_and_its_end() {
    let server = Server::start();
    let client = client(&server.url());
    for (name, _, channel) in NAMES {
        let latch = client.count_down_latch(name);
        let messages = published(&server, channel, || {
            latch.count_down().unwrap();
            assert!(latch.try_set_count(2).unwrap());
            assert!(!latch.try_set_count(2).unwrap());
            assert_eq!(ask::<String>(&server, "GET", &[name]), "2");
            latch.count_down().unwrap();
            assert_eq!(ask::<String>(&server, "GET", &[name]), "1");
            latch.count_down().unwrap();
            assert_eq!(ask::<u32>(&server, "EXISTS", &[name]), 0);
            latch.count_down().unwrap();
        });
        assert_eq!(messages, ["1", "0"], "{name}");
    }
    // Redisson can leave such counts.
    for count in ["0", "-3"] {
        let latch = client.count_down_latch("odd");
        ask::<()>(&server, "SET", &["odd", count]);
        assert_eq!(latch.count().unwrap(), 0);
        latch.wait().unwrap();
        let channel = "redisson_countdownlatch__channel__{odd}";
        let messages = published(&server, channel, || {
            assert_eq!(latch.count_down().unwrap(), 0);
        });
        assert_eq!(
            (messages.len(), ask::<u32>(&server, "EXISTS", &["odd"])),
            (0, 0)
        );
    }
}

/// Redisson drops it when permits are drained or added.
#[test]
fn an_expiry_stays() {
    let server = Server::start();
    let client = client(&server.url());
    let (semaphore, latch) = (client.semaphore("slots"), client.count_down_latch("loaded"));
    semaphore.try_set_permits(5).unwrap();
    latch.try_set_count(5).unwrap();
    for name in ["slots", "loaded"] {
        ask::<()>(&server, "PEXPIRE", &[name, "600000"]);
    }
    semaphore.acquire(1).unwrap();
    semaphore.release(1).unwrap();
    semaphore.add_permits(1).unwrap();
    semaphore.drain().unwrap();
    latch.count_down().unwrap();
    for name in ["slots", "loaded"] {
        let left: i64 = ask(&server, "PTTL", &[name]);
        assert!((1..=600_000).contains(&left), "{name}: {left}");
    }
}

/// The records of a client are beside the number, and expire.
#[test]
fn records_are_in_the_slot_of_the_number_and_expire() {
    let server = Server::start();
    let client = client(&server.url());
    for (name, start) in [("slots", "{slots}:leasehold:"), ("{a}b", "{a}b:leasehold:")] {
        client.semaphore(name).release(3).unwrap();
        let mut keys: Vec<String> = ask(&server, "KEYS", &["*"]);
        keys.retain(|key| key != name);
        let [records] = &keys[..] else {
            panic!("{keys:?}");
        };
        let uuid = records.strip_prefix(start).expect(records);
        assert!(uuid::Uuid::parse_str(uuid).is_ok(), "{records}");
        let fields: Vec<(String, String)> = ask(&server, "HGETALL", &[records]);
        let (number, reply) = fields[0].1.split_once(' ').unwrap();
        assert_eq!((fields.len(), fields[0].0.as_str(), reply), (1, "1", "3"));
        assert!(number.parse::<u64>().unwrap() > 0);
        let left: i64 = ask(&server, "PTTL", &[records]);
        assert!((60_000..=120_000).contains(&left), "{left}");
        server.run("FLUSHALL");
    }
    // A request that changes nothing leaves nothing.
    let semaphore = client.semaphore("slots");
    assert!(!semaphore.try_acquire(1, Duration::ZERO).unwrap());
    semaphore.drain().unwrap();
    client.count_down_latch("loaded").count_down().unwrap();
    assert_eq!(server.size(), 0);
}
