//! Keys, fields, counts, channels and messages are those of Redisson's `RReadWriteLock`.

use super::keys;
use crate::support::prelude::*;
use crate::support::proxy::library_script;
use crate::wire::published;

fn fields(server: &Server, name: &str) -> HashMap<String, String> {
    server.ask(redis::cmd("HGETALL").arg(name))
}

fn left(server: &Server, key: &str) -> i64 {
    server.ask(redis::cmd("PTTL").arg(key))
}

/// The field of the one reader.
fn reader(server: &Server, name: &str) -> String {
    let fields = fields(server, name);
    let mut readers = fields
        .keys()
        .filter(|field| *field != "mode" && !field.ends_with(":write"));
    let reader = readers.next().expect("a reader").clone();
    assert!(readers.next().is_none(), "{fields:?}");
    reader
}

#[test]
fn a_reader_has_a_field_and_a_key_with_its_lease() {
    let server = Server::start();
    let client = client(&server.url());
    for (name, tagged) in [("lock", "{lock}"), ("{order}:pay", "{order}:pay")] {
        let lock = client.read_write_lock(name).read();
        let guard = lock.acquire_with(Lease::fixed(SOON.get())).unwrap();
        let reader = reader(&server, name);
        let (uuid, number) = reader.split_once(':').unwrap();
        assert!(
            uuid.len() == 36 && number.parse::<u64>().unwrap() > 0,
            "{reader}"
        );
        let found = fields(&server, name);
        assert_eq!((&*found["mode"], &*found[&reader]), ("read", "1"));
        let timeout = format!("{tagged}:{reader}:rwlock_timeout:1");
        let value: String = server.ask(redis::cmd("GET").arg(&timeout));
        assert_eq!(value, "1");
        let millis = i64::try_from(SOON.get().as_millis()).unwrap();
        for key in [name, &timeout] {
            let left = left(&server, key);
            assert!(left > millis / 2 && left <= millis, "{key}: {left}");
        }
        guard.unlock().unwrap();
        assert_eq!(keys(&server), [""; 0]);
    }
}

#[test]
fn a_writer_has_a_field_and_its_reader_another() {
    let server = Server::start();
    let lock = client(&server.url()).read_write_lock("lock");
    let writing = lock.write().acquire().unwrap();
    let written = fields(&server, "lock");
    assert_eq!((written.len(), &*written["mode"]), (2, "write"));
    assert!(
        written
            .iter()
            .any(|(field, count)| field.ends_with(":write") && count == "1")
    );
    assert_eq!(keys(&server), ["lock"]);
    let reading = lock.read().acquire().unwrap();
    reader(&server, "lock");
    assert_eq!(fields(&server, "lock")["mode"], "write");
    writing.unlock().unwrap();
    let read = fields(&server, "lock");
    assert_eq!((read.len(), &*read["mode"]), (2, "read"));
    reading.unlock().unwrap();
    assert_eq!(keys(&server), [""; 0]);
}

/// A read unlock that frees the lock announces `0`, a write unlock announces `1`.
#[test]
fn messages_are_those_of_redisson() {
    let server = Server::start();
    let lock = client(&server.url()).read_write_lock("lock");
    let messages = published(&server, "redisson_rwlock:{lock}", || {
        pair(&lock.read());
        pair(&lock.write());
        let writing = lock.write().acquire().unwrap();
        let reading = lock.read().acquire().unwrap();
        writing.unlock().unwrap();
        reading.unlock().unwrap();
    });
    assert_eq!(messages, ["0", "1", "1", "0"]);
}

/// Two copies of a request, of which Redis executes the second first, are two readers.
#[test]
fn a_release_ends_all_copies_of_a_read_request() {
    let server = Server::start();
    let first = "0f3ae5a8-65b9-8e3d-b1f0-aabbccddeeff:1";
    let both = format!("{first}2 {first}");
    let run = |script: &str, arguments: &[&str]| {
        let mut call = redis::cmd("EVAL");
        call.arg(library_script(script)).arg(1).arg("lock");
        server.ask::<Option<i32>>(call.arg(arguments))
    };
    for names in [&*both, first] {
        let arguments = [names, "60000", "", "0", "read", "", "publish"];
        assert_eq!(run("read_write_acquire", &arguments), None);
    }
    let arguments = [&both, "redisson_rwlock:{lock}", "publish"];
    assert_eq!(run("read_write_release", &arguments), Some(1));
    assert_eq!(keys(&server), [""; 0]);
}
