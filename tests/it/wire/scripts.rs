//! How scripts get to the server, and that a failed script leaves nothing behind.

use crate::support::prelude::*;
use crate::support::server::program::is_redis_7;

/// Sent by source once, and by hash from then on.
#[test]
fn the_source_of_a_script_is_sent_once() {
    let server = Server::start();
    let client = client(&server.url());
    let lock = client.reentrant_lock("lock");
    let mut monitor = Monitor::of(&server);
    lock.lock().unwrap();
    lock.unlock().unwrap();
    // The name of the connection comes with the first request. Before Redis 7, MONITOR hides it.
    let name: &[&str] = if is_redis_7() { &["CLIENT"] } else { &[] };
    let expected = [name, &["EVALSHA", "EVAL", "EVALSHA", "EVAL"]].concat();
    assert_eq!(monitor.commands(), expected);
    lock.lock().unwrap();
    lock.unlock().unwrap();
    assert_eq!(monitor.commands(), ["EVALSHA", "EVALSHA"]);
}

/// A server out of memory refuses the whole acquire: no key without a time to live is left.
#[test]
fn a_script_that_fails_leaves_no_key_behind() {
    let server = Server::start();
    let client = client(&server.url());
    let held = client.reentrant_lock("held");
    held.lock_with(Lease::fixed(LEASE.get() * 20)).unwrap();
    server.limit_memory(1);
    let refused = client.reentrant_lock("lock").lock();
    assert_matches!(refused, Err(Error::Redis { .. }));
    assert_eq!(server.keys(), ["held"]);
    server.limit_memory(0);
    held.unlock().unwrap();

    // A user who may write the hash, but not its expiry.
    let half = crate::support::client(&server.with_user(&["~*", "&*", "+@all", "-pexpire"]));
    let lock = half.reentrant_lock("half");
    let refused = lock.lock();
    assert_matches!(refused, Err(Error::Redis { .. }));
    assert_ne!(
        server.time_to_live("half"),
        -1,
        "a lock without a holder that never expires"
    );
}
