//! Readers of one client share a grant. `local::queue::tests` has the rules for each hold on it.

use std::sync::Barrier;

use super::{can_write, keys, two_clients};
use crate::support::prelude::*;

const READERS: usize = 20;

#[test]
fn readers_that_wait_for_a_writer_send_one_command_together() {
    let (server, ours, theirs) = two_clients();
    // Loads the scripts.
    pair(&ours.read());
    let writing = theirs.write().acquire().unwrap();
    let (lock, all_read) = (ours.read(), Barrier::new(READERS + 1));
    thread::scope(|scope| {
        let readers = [(); READERS].map(|()| {
            scope.spawn(|| {
                let guard = lock.acquire().unwrap();
                all_read.wait();
                all_read.wait();
                guard.unlock().unwrap();
            })
        });
        throughout(A_WHILE.get(), "they wait", || {
            readers.iter().all(|reader| !reader.is_finished())
        });
        let mut monitor = Monitor::of(&server);
        writing.unlock().unwrap();
        all_read.wait();
        let fields: Vec<String> = server.query("HKEYS lock");
        assert_eq!(fields.len(), 2, "the mode and one reader: {fields:?}");
        let commands = monitor.commands();
        let scripts = commands.iter().filter(|name| *name == "EVALSHA").count();
        assert!(
            scripts <= 3,
            "a release and one or two requests: {commands:?}"
        );
        assert!(!can_write(&theirs));
        monitor.commands();
        all_read.wait();
        for reader in readers {
            reader.join().unwrap();
        }
        assert_eq!(monitor.commands(), ["EVALSHA"], "one release");
    });
    assert_eq!(keys(&server), [""; 0]);
}
