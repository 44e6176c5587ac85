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
    ("HSET", &["name", "Ann"], "not a hold count"),
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

/// The user may not run TYPE, which other calls do not need.
#[test]
fn without_permission_for_type_another_type_is_still_reported() {
    let server = Server::start();
    let url = server.with_user(&["~*", "&*", "+@all", "-type"]);
    server.ask::<()>(redis::cmd("SET").arg(KEY).arg("mine"));
    is_refused(&server, &client(&url), "a value that is not a hash");
}

#[test]
fn a_lock_of_any_other_program_is_a_lock() {
    let server = Server::start();
    let client = client(&server.url());
    let lock = client.reentrant_lock(KEY);
    for owner in [OWNER, "u:1", "someone"] {
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
