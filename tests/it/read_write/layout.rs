//! Keys, fields, counts, channels and messages are those of Redisson's `RReadWriteLock`.

use super::keys;
use crate::support::prelude::*;
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

/// What the script of a Redisson client does when its reader unlocks: the time to live of the lock
/// becomes the longest one of the keys of all readers.
const JAVA_READ_UNLOCK: &str = "
    redis.call('hdel', KEYS[1], ARGV[1])
    redis.call('del', ARGV[2] .. ':' .. ARGV[1] .. ':rwlock_timeout:1')
    local longest = -3
    for _, field in ipairs(redis.call('hkeys', KEYS[1])) do
        local count = tonumber(redis.call('hget', KEYS[1], field))
        for i = count or 0, 1, -1 do
            local key = ARGV[2] .. ':' .. field .. ':rwlock_timeout:' .. i
            longest = math.max(longest, redis.call('pttl', key))
        end
    end
    if longest > 0 then
        return redis.call('pexpire', KEYS[1], longest)
    end
    return redis.call('del', KEYS[1])";

fn java_reads(server: &Server, millis: u64) {
    let mut pipe = redis::pipe();
    pipe.cmd("HSET").arg("lock").arg("java:7").arg(1);
    let key = "{lock}:java:7:rwlock_timeout:1";
    pipe.cmd("SET").arg(key).arg(1).arg("PX").arg(millis);
    pipe.query::<()>(&mut server.connection()).unwrap();
}

fn java_unlocks(server: &Server) {
    let mut script = redis::cmd("EVAL");
    script
        .arg(JAVA_READ_UNLOCK)
        .arg(1)
        .arg("lock")
        .arg("java:7")
        .arg("{lock}");
    server.ask::<i64>(&script);
}

/// Also if the key of our lease was deleted.
#[test]
fn the_keys_of_leases_are_renewed_so_that_a_java_unlock_keeps_our_readers() {
    let server = Server::start();
    let client = client(&server.url());
    let lock = client.read_write_lock("lock").read();
    let guard = lock.acquire().unwrap();
    lock.lock().unwrap();
    eventually("the count of both levels", || {
        fields(&server, "lock").values().any(|v| v == "2")
    });
    let timeout = format!("{{lock}}:{}:rwlock_timeout:1", reader(&server, "lock"));
    let lease = i64::try_from(LEASE.get().as_millis()).unwrap();
    throughout(LEASE.get() * 4, "both leases", || {
        java_reads(&server, 50);
        java_unlocks(&server);
        let (of_lock, of_key) = (left(&server, "lock"), left(&server, &timeout));
        let are_renewed = [of_lock, of_key]
            .iter()
            .all(|&left| left > lease / 4 && left <= lease);
        assert!(are_renewed, "{of_lock} {of_key} of {lease}");
        guard.check().is_ok()
    });
    server.delete(&timeout);
    eventually("the key of the lease", || left(&server, &timeout) > 0);
    assert_eq!(client.stats().lost, 0);
    lock.unlock().unwrap();
    guard.unlock().unwrap();
    assert_eq!(keys(&server), [""; 0]);
}

/// The lock lives as long as the longest lease of its readers.
#[test]
fn an_unlock_of_a_reader_leaves_the_leases_of_the_others() {
    let server = Server::start();
    let lock = || client(&server.url()).read_write_lock("lock").read();
    let longer = lock().acquire_with(long()).unwrap();
    let short = lock().acquire_with(Lease::fixed(SOON.get())).unwrap();
    let millis = i64::try_from(SOON.get().as_millis()).unwrap();
    assert!(left(&server, "lock") > millis);
    java_reads(&server, 50);
    longer.unlock().unwrap();
    let shorter = left(&server, "lock");
    assert!(shorter > millis / 2 && shorter <= millis, "{shorter}");
    eventually("the end of the Java reader", || {
        left(&server, "{lock}:java:7:rwlock_timeout:1") == -2
    });
    // The field of the Java reader, which is dead, does not keep the lock.
    short.unlock().unwrap();
    assert_eq!(keys(&server), [""; 0]);
}

#[test]
fn our_unlock_keeps_a_java_reader() {
    let server = Server::start();
    let lock = client(&server.url()).read_write_lock("lock");
    let reading = lock.read().acquire().unwrap();
    java_reads(&server, 60_000);
    reading.unlock().unwrap();
    assert!(left(&server, "lock") > 30_000);
    let is_free = on_another_thread(|| lock.write().try_lock(Duration::ZERO, Lease::RENEWED));
    assert!(!is_free.unwrap());
    java_unlocks(&server);
    pair(&lock.write());
}
