//! Fields of dead readers keep no writer out, however many there are.

use super::{can_write, keys, two_clients, waiting};
use crate::support::prelude::*;

const JAVA: &str = "5cbc2e8c-0b0c-4c5e-9c0e-7d6d0a3a8d11:7";

/// Adds the fields of dead readers, each with this count.
fn die(server: &Server, readers: usize, count: u32) {
    let mut fields = redis::cmd("HSET");
    fields.arg("lock");
    for number in 0..readers {
        let client = format!("{number:08x}-{count:04x}-4e6f-bba3-6f3d66cd176c");
        fields.arg(format!("{client}:1")).arg(count);
    }
    server.ask::<()>(&fields);
}

/// A Java reader with a hold for each of these leases in milliseconds, of which some have ended.
fn java_reads(redis: &mut Connection, leases: &[u64]) {
    let mut pipe = redis::pipe();
    pipe.cmd("HSET").arg("lock").arg(JAVA).arg(leases.len());
    for (lease, hold) in leases.iter().zip(1..).filter(|(lease, _)| **lease > 0) {
        let key = format!("{{lock}}:{JAVA}:rwlock_timeout:{hold}");
        pipe.cmd("SET").arg(key).arg(1).arg("PX").arg(lease);
    }
    pipe.query::<()>(redis).unwrap();
}

/// The first two cases are below the limits of a script, the others beyond them.
#[test]
fn a_writer_gets_the_lock_after_the_last_reader_that_lives() {
    let (server, ours, theirs) = two_clients();
    for (readers, count) in [(900, 1), (15, 64), (1_100, 1), (17, 64), (5_000, 1)] {
        // The writer must not wait until the lease ends.
        let long = long();
        let reading = ours.read().acquire_with(long).unwrap();
        die(&server, readers, count);
        assert!(!can_write(&theirs));
        thread::scope(|scope| {
            let writer = scope.spawn(|| pair(&theirs.write()));
            eventually("the writer to wait", || waiting(&server) == 1);
            reading.unlock().unwrap();
            within(SOON.get() / 4, &format!("{readers} of {count}"), || {
                writer.join().unwrap();
            });
        });
        assert_eq!(keys(&server), [""; 0]);
    }
}

/// A Java reader lives as long as one of its holds.
#[test]
fn a_java_reader_among_dead_ones_keeps_writers_out() {
    let (server, ours, theirs) = two_clients();
    let mut redis = server.connection();
    let reading = ours.read().acquire().unwrap();
    die(&server, 3_000, 1);
    let lease = u64::try_from(SOON.get().as_millis()).unwrap();
    java_reads(&mut redis, &[0, 0, lease, 0]);
    reading.unlock().unwrap();
    for _ in 0..10 {
        assert!(!can_write(&theirs));
    }
    let field: bool = server.ask(redis::cmd("HEXISTS").arg("lock").arg(JAVA));
    assert!(field, "the field of a reader that lives");
    // It dies, and a reader that comes and goes finds that.
    let hold = format!("{{lock}}:{JAVA}:rwlock_timeout:3");
    server.ask::<()>(redis::cmd("DEL").arg(hold));
    pair(&ours.read());
    eventually("the writer", || can_write(&theirs));
    assert_eq!(keys(&server), [""; 0]);
}
