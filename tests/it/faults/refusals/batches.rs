//! Renewals of many locks are sent together. An error for one lock does not affect the others.

use super::{NO_PERMISSION, says};
use crate::support::prelude::*;

/// The script may be called for all keys, but its commands only for some keys. Then the error has
/// no code of its own.
#[test]
fn a_lock_without_permission_in_the_script_does_not_stop_the_renewal_of_others() {
    let server = Server::start();
    server.run("ACL SETUSER worker on >secret allchannels +@all ~*");
    let url = format!("redis://worker:secret@{}", server.address());
    let client = client(&url);
    let events = client.events();
    let hold = |name: String| client.reentrant_lock(&name).acquire().expect("it is free");
    let kept: Vec<LockGuard> = (0..20).map(|at| hold(format!("kept:{at}"))).collect();
    let refused = hold("refused".into());
    let mut acl = redis::cmd("ACL");
    acl.arg("SETUSER").arg("worker");
    acl.arg(&["-@all", "+evalsha", "+eval", "(+@all ~kept:*)"]);
    server.ask::<()>(&acl);
    throughout(LEASE.get() * 2, "renewed in time", || {
        kept.iter().all(|guard| guard.check().is_ok())
    });
    assert_eq!(refused.lost().try_recv(), Ok(LostReason::Expired));
    assert_error!(refused.unlock(), Lost);
    for event in events.try_iter() {
        // A reply may be late on a busy machine.
        if let LockEvent::RenewalFailed { lock, cause, .. } = event {
            assert!(
                *lock == *"refused" || !says(&cause, NO_PERMISSION),
                "{lock}: {cause}"
            );
        }
    }
    for guard in kept {
        guard.unlock().expect("it is held");
    }
}
