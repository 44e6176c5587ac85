//! Readers beside clients of Redisson.

use super::two_clients;
use crate::line;
use crate::support::prelude::*;

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
