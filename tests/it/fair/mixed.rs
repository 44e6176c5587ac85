//! A name that is used as a fair lock and as another kind of lock.

use leasehold::Result;

use crate::support::prelude::*;

fn make(client: &LockClient, kind: &str) -> Arc<dyn Lock> {
    match kind {
        "fair" => Arc::new(client.fair_lock("lock")),
        "fenced" => Arc::new(client.fenced_lock("lock")),
        "several" => Arc::new(client.multi_lock(["another", "lock"])),
        _ => Arc::new(client.reentrant_lock("lock")),
    }
}

fn attempt(client: &LockClient, kind: &str) -> Result<bool> {
    make(client, kind).try_lock(millis(50), Lease::RENEWED)
}

/// The error names the lock and both kinds.
#[track_caller]
fn assert_refused(result: Result<bool>, kinds: [&str; 2]) {
    let Err(error @ Error::InvalidArgument { .. }) = result else {
        panic!("{kinds:?}: {result:?}");
    };
    let text = error.to_string();
    for part in ["\"lock\"", "one kind of lock for one name"]
        .iter()
        .chain(&kinds)
    {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(!error.is_transient() && !text.contains("delete"), "{text}");
}

#[test]
fn a_held_name_is_refused_to_another_kind_at_once() {
    let server = Server::start();
    let (ours, theirs) = (client(&server.url()), client(&server.url()));
    for (held, requested) in [
        ("fair", "reentrant"),
        ("fair", "fenced"),
        ("fair", "several"),
        ("reentrant", "fair"),
        ("fenced", "fair"),
        ("several", "fair"),
    ] {
        let lock = make(&ours, held);
        lock.lock().unwrap();
        let named = |kind| if kind == "several" { "reentrant" } else { kind };
        for client in [&ours, &theirs] {
            assert_refused(attempt(client, requested), [named(held), named(requested)]);
        }
        lock.unlock().unwrap();
        assert_eq!(server.ask::<u32>(redis::cmd("EXISTS").arg("lock")), 0);
        // One after another is not noticed.
        assert!(attempt(&theirs, requested).unwrap());
        make(&theirs, requested).unlock().unwrap();
    }
    assert!(attempt(&ours, "reentrant").unwrap());
    assert!(!attempt(&theirs, "fenced").unwrap());
}
