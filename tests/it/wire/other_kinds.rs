//! Keys that hold another kind of lock, or data: every call reports what it found, and changes
//! nothing.

use crate::support::prelude::*;

const KEY: &str = "key";

const OWNER: &str = "6f0829ed-bfd3-4e6f-bba3-6f3d66cd176c:54";

/// A command on the key with its arguments, and words of the error that results.
type Kind = (&'static str, &'static [&'static str], &'static str);

const KINDS: &[Kind] = &[
    ("SET", &["1"], "a string"),
    ("RPUSH", &["1"], "a list"),
    ("SADD", &["1"], "a set"),
    ("ZADD", &["1", "one"], "a zset"),
    ("XADD", &["*", "a", "1"], "a stream"),
    ("HSET", &["mode", "read", OWNER, "1"], "a read-write lock"),
    (
        "HSET",
        &[
            "6f0829ed-bfd3-4e6f-bba3-6f3d66cd176c:54:write",
            "1",
            "mode",
            "write",
        ],
        "a read-write lock",
    ),
    ("HSET", &[OWNER, "1", "more", "1"], "a hash of 2 fields"),
    ("HSET", &["mode", "1"], "not an owner"),
    ("HSET", &["", "1"], "not an owner"),
    ("HSET", &["two\nlines", "1"], "not an owner"),
    ("HSET", &["name", "Ann"], "not an owner"),
    ("HSET", &["user", "1"], "not an owner"),
    (
        "HSET",
        &["6f0829ed-bfd3-4e6f-bba3-6f3d66cd176c", "1"],
        "not an owner",
    ),
    ("HSET", &[OWNER, "0"], "not a hold count"),
    ("HSET", &[OWNER, "-1"], "not a hold count"),
    ("HSET", &[OWNER, "1.5"], "not a hold count"),
    ("HSET", &[OWNER, ""], "not a hold count"),
    ("HSET", &[OWNER, "4294967296"], "not a hold count"),
    ("HSET", &[OWNER, "9223372036854775807"], "not a hold count"),
];

/// All calls fail, and the error names what the key holds. The key stays unchanged.
#[track_caller]
fn is_refused(server: &Server, client: &LockClient, what: &str) {
    let dump = || -> (Vec<u8>, i64) {
        let mut pipe = redis::pipe();
        let both = pipe.cmd("DUMP").arg(KEY).cmd("PTTL").arg(KEY);
        both.query(&mut server.connection())
            .expect("the key is there")
    };
    let before = dump();
    let mut results = every_call(&client.reentrant_lock(KEY));
    results.extend([
        ("fenced", client.fenced_lock(KEY).acquire().map(drop)),
        ("several", client.multi_lock(["other", KEY]).lock()),
    ]);
    // These two calls know all kinds of locks.
    if what != "a read-write lock" {
        results.push(("inspect", client.inspect(KEY).map(drop)));
        results.push(("force_unlock", client.force_unlock(KEY).map(drop)));
    }
    for (call, result) in results {
        let Err(error @ Error::WrongType { .. }) = &result else {
            panic!("{call} of {what}: {result:?}");
        };
        let text = error.to_string();
        let named = text.contains(what) && text.contains(&server.address());
        assert!(named, "{call} of {what}: {text}");
    }
    assert_eq!(dump(), before, "{what}");
    let keys = server.keys();
    assert_eq!(keys, [KEY], "{what}");
}

#[test]
fn a_key_that_is_no_lock_is_reported_and_not_changed() {
    let server = Server::start();
    let client = client(&server.url());
    for (command, arguments, what) in KINDS {
        server.delete(KEY);
        server.ask::<redis::Value>(redis::cmd(command).arg(KEY).arg(arguments));
        is_refused(&server, &client, what);
    }
    server.delete(KEY);
    server.ask::<()>(redis::cmd("HSET").arg(KEY).arg(b"\xff\xfe").arg(1));
    is_refused(&server, &client, "not an owner");
}

/// The hashes have the field `mode`, and other data in place of owners or beside one. A write lock
/// must not delete them as read locks without living readers, and a reader must not join them.
#[test]
fn data_that_looks_like_a_read_write_lock_is_reported_and_not_changed() {
    let server = Server::start();
    let client = client(&server.url());
    let writer = format!("{OWNER}:write");
    let numbers: Vec<String> = (0..3_000).map(|number| number.to_string()).collect();
    let mut many = vec!["mode", "read"];
    many.extend(numbers.iter().map(String::as_str));
    for fields in [
        &["mode", "read"][..],
        &["mode", "read", "pages", "7"],
        &["mode", "read", "name", "Ann"],
        &["mode", "read", OWNER, "Ann"],
        &["mode", "read", OWNER, "1", "pages", "7"],
        &["mode", "read", OWNER, "1", "name", "Ann"],
        &many[..40],
        &many,
        &["mode", "write"],
        &["mode", "write", "pages", "7"],
        &["mode", "write", OWNER, "1"],
        &["mode", "write", &writer, "1", "name", "Ann"],
        &["mode", "append", "name", "Ann"],
    ] {
        // Shorter than the lease of a reader, and longer. A reader does not look at many fields.
        let with_expiry = if fields.len() > 20 { 1 } else { 3 };
        for expiry in &[None, Some(5_000), Some(3_600_000)][..with_expiry] {
            let expiry = *expiry;
            let what = format!("{:?}, {expiry:?}", &fields[..fields.len().min(6)]);
            server.delete(KEY);
            server.ask::<()>(redis::cmd("HSET").arg(KEY).arg(fields));
            let expiry = expiry.inspect(|millis| server.run(&format!("PEXPIRE {KEY} {millis}")));
            let dump = || -> Vec<u8> { server.ask(redis::cmd("DUMP").arg(KEY)) };
            let before = dump();
            let lock = client.read_write_lock(KEY);
            let mut results = every_call(&lock.write());
            results.extend(every_call(&lock.read()));
            results.push(("inspect", client.inspect(KEY).map(drop)));
            results.push(("force_unlock", client.force_unlock(KEY).map(drop)));
            for (call, result) in results {
                assert_error!(result, WrongType, "{call} of {what}");
                let text = result.unwrap_err().to_string();
                assert!(text.contains("the key \"key\""), "{call}: {text}");
            }
            assert_eq!(dump(), before, "{what}");
            let left: i64 = server.query(&format!("PTTL {KEY}"));
            let is_kept = expiry.map_or(left == -1, |millis| (millis / 2..=millis).contains(&left));
            assert!(is_kept, "{what}: {left}");
            assert_eq!(server.keys(), [KEY]);
        }
    }
}

/// A client that holds the write lock acquires the read lock, too.
#[test]
fn a_writer_does_not_read_beside_data() {
    let server = Server::start();
    let client = client(&server.url());
    let lock = client.read_write_lock(KEY);
    let writing = lock.write().acquire().unwrap();
    server.run("HSET key pages 7");
    assert_error!(lock.read().try_acquire_now(), WrongType);
    assert_eq!(server.query::<u32>("HLEN key"), 3);
    drop(writing);
}

/// A reader that joins adds a field. Its release, and a force-unlock, leave the other fields.
#[test]
fn data_among_readers_is_not_deleted() {
    let server = Server::start();
    let (ours, theirs) = (client(&server.url()), client(&server.url()));
    let reading = ours.read_write_lock(KEY).read().acquire().unwrap();
    server.run("HSET key pages 7");
    assert_error!(theirs.force_unlock(KEY), WrongType);
    let write = theirs.read_write_lock(KEY).write();
    assert!(
        !write
            .try_lock(Duration::ZERO, Lease::RENEWED)
            .unwrap_or(false)
    );
    reading.unlock().unwrap();
    assert_error!(write.try_acquire_now(), WrongType);
    let fields: Vec<String> = server.query("HGETALL key");
    assert_eq!(fields, ["mode", "read", "pages", "7"]);
}

/// The error of Redis has the hash of the script, and not the key that has the wrong type.
#[test]
fn a_key_beside_a_lock_is_named() {
    let server = Server::start();
    let client = client(&server.url());
    server.run("SET redisson_lock_queue:{key} mine");
    let fair = client.fair_lock(KEY).acquire().map(drop);
    server.run("FLUSHALL");
    let semaphore = client.semaphore(KEY);
    assert!(semaphore.try_set_permits(1).unwrap());
    let records: Vec<String> = server.query("KEYS *:leasehold:*");
    server.delete(&records[0]);
    server.ask::<()>(redis::cmd("SET").arg(&records[0]).arg("mine"));
    let permits = semaphore.acquire(1);
    for (result, key) in [(fair, "redisson_lock_queue:{key}"), (permits, &*records[0])] {
        assert_error!(result, WrongType);
        let text = result.unwrap_err().to_string();
        let is_named = text.contains(key) && text.contains("key") && !text.contains("script");
        assert!(is_named, "{text}");
    }
}

/// Redis serves no other client while a script runs.
#[test]
fn a_lock_of_very_many_readers_is_inspected_by_some_of_them() {
    const READERS: u32 = 50_000;
    let server = Server::start();
    let client = client(&server.url());
    let mut fields = redis::cmd("HSET");
    fields.arg(KEY).arg("mode").arg("read");
    for number in 0..READERS {
        fields
            .arg(format!("{number:08x}-bfd3-4e6f-bba3-6f3d66cd176c:1"))
            .arg(1);
    }
    server.ask::<()>(&fields);
    server.run("CONFIG RESETSTAT");
    let status = client.inspect(KEY).unwrap();
    assert_eq!((status.readers, status.hold_count), (READERS, 1));
    let calls = traffic::calls(&server);
    assert_eq!(calls.get("hgetall"), None, "{calls:?}");
    assert!(calls["hscan"] <= 2, "{calls:?}");
    assert!(client.read_write_lock(KEY).read().is_locked().unwrap());
    assert!(client.force_unlock(KEY).unwrap());
}

/// The user may not run TYPE, which other calls do not need.
#[test]
fn without_permission_for_type_another_type_is_still_reported() {
    let server = Server::start();
    let url = server.with_user(&["~*", "&*", "+@all", "-type"]);
    server.ask::<()>(redis::cmd("SET").arg(KEY).arg("mine"));
    is_refused(&server, &client(&url), "a value that is not a hash");
}

#[test]
fn a_lock_of_redisson_is_a_lock() {
    let server = Server::start();
    let client = client(&server.url());
    let lock = client.reentrant_lock(KEY);
    // Redisson takes the number of a thread from the caller. Owners in its transactions are longer.
    let of_caller = OWNER.replace(":54", ":-54");
    let in_transaction = format!("{OWNER}:0fa3");
    for owner in [OWNER, &of_caller, &in_transaction] {
        for count in [1, 2_147_483_648, u32::MAX] {
            server.ask::<()>(redis::cmd("HSET").arg(KEY).arg(owner).arg(count));
            assert!(!lock.try_lock(Duration::ZERO, Lease::RENEWED).unwrap());
            let status = client.inspect(KEY).unwrap();
            assert_eq!(status.owner.as_deref(), Some(owner));
            assert_eq!(status.hold_count, count);
            assert!(lock.is_locked().unwrap());
            assert!(client.force_unlock(KEY).unwrap());
            assert!(!lock.is_locked().unwrap());
        }
    }
}

/// The field of its writer has the number of the transaction at its end.
#[test]
fn a_write_lock_in_a_transaction_of_redisson_is_a_lock() {
    let server = Server::start();
    let client = client(&server.url());
    let lock = client.read_write_lock(KEY);
    let writer = format!("{OWNER}:write:0fa3");
    let fields = ["mode", "write", &writer, "1"];
    server.ask::<()>(redis::cmd("HSET").arg(KEY).arg(&fields));
    assert!(lock.read().try_acquire_now().unwrap().is_none());
    assert!(lock.write().try_acquire_now().unwrap().is_none());
    let status = client.inspect(KEY).unwrap();
    assert_eq!(status.owner.as_deref(), Some(&*writer));
    assert!(client.force_unlock(KEY).unwrap());
}
