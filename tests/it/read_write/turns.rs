//! Readers and writers enter in the order of their line.

use std::sync::{Barrier, Mutex};

use super::{can_read, two_clients, waiting};
use crate::line::{self, RESERVED};
use crate::support::prelude::*;

/// Two readers that stand one behind the other read at the same time. A writer before a reader is
/// not overtaken by it, nor the other way round.
#[test]
fn clients_enter_in_their_order_and_readers_together() {
    const ORDER: [&str; 5] = ["read", "read", "write", "read", "write"];
    let (server, ours, _) = two_clients();
    let writing = ours.write().acquire().unwrap();
    let (together, got) = (Barrier::new(2), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for (number, kind) in ORDER.into_iter().enumerate() {
            let (got, together) = (&got, &together);
            let lock = client(&server.url()).read_write_lock("lock");
            scope.spawn(move || {
                let guard = match kind {
                    "read" => lock.read().acquire().unwrap(),
                    _ => lock.write().acquire().unwrap(),
                };
                got.lock().unwrap().push(number);
                if number < 2 {
                    together.wait();
                }
                guard.unlock().unwrap();
            });
            eventually("it to wait", || {
                line::is_waiting(&server, "lock", number + 1)
            });
        }
        let mut monitor = Monitor::of(&server);
        writing.unlock().unwrap();
        eventually("all to be through", || super::keys(&server).is_empty());
        let scripts = monitor.commands_but_pings().into_iter();
        let scripts = scripts.filter(|command| command == "EVALSHA").count();
        // The third one is that of a client that was not called for half a second.
        assert!(scripts <= 1 + 3 * ORDER.len(), "{scripts}");
    });
    let mut got = got.into_inner().unwrap();
    got[..2].sort_unstable();
    assert_eq!(got, [0, 1, 2, 3, 4]);
}

/// While readers hold the lock, its place is the first. Its process is dead, or is stopped, or its
/// host has vanished without closing its connections.
#[test]
fn a_writer_that_does_not_answer_keeps_readers_out_for_a_moment() {
    let (server, ours, theirs) = two_clients();
    let reading = ours.read().acquire().unwrap();
    let _mute = line::listen(&server, &["redisson_lock__channel:mute".to_owned()]);
    for (place, is_dead) in [("dead", true), ("mute", false)] {
        let place = format!("redisson_lock__channel:{place}");
        line::add_place(&server, "lock", &place);
        // An attempt finds whether it listens.
        assert_eq!(can_read(&theirs), is_dead);
        line::add_place(&server, "lock", &place);
        within(millis(RESERVED * 3) + SLIP.get(), "the lock", || {
            pair(&theirs.read());
        });
        assert_eq!(waiting(&server), 0);
    }
    reading.unlock().unwrap();
}

/// A client of Redisson listens, which may want to write. The readers that are left keep it out, so
/// there is no message.
#[test]
fn a_reader_lets_those_pass_that_listen_although_other_readers_are_left() {
    let (server, ours, theirs) = two_clients();
    let _listening = line::listen(&server, &["redisson_rwlock:{lock}".to_owned()]);
    let read = || ours.read().acquire().unwrap().unlock().unwrap();
    let begun = Instant::now();
    read();
    let reading = theirs.read().acquire().unwrap();
    (0..3).for_each(|_| read());
    let took = begun.elapsed();
    // Each of the last three begins at least 2.5 ms after the release before it.
    assert!(took >= Duration::from_millis(7), "{took:?}");
    reading.unlock().unwrap();
}
