//! Renewals of many locks are sent together. An error for one lock does not affect the others.

use super::{NO_PERMISSION, says};
use crate::support::prelude::*;

const MANY: usize = 500;

/// The last of the first 250 locks, which are renewed together, and the first of the next.
const REFUSED: [usize; 2] = [249, 250];

/// The script may be called for all keys, but its commands only for some keys. Then the error has
/// no code of its own.
#[test]
fn of_many_locks_two_lose_the_permission_in_scripts_and_all_others_are_renewed() {
    let server = Server::start();
    let mut redis = server.connection();
    server.run("ACL SETUSER worker on >secret allchannels +@all ~*");
    // Long enough that all locks are acquired within the time in which they are renewed together.
    let lease = LEASE.get() * 4;
    let client = builder(&format!("redis://worker:secret@{}", server.address()))
        .watchdog_lease(lease)
        .build()
        .unwrap();
    let events = client.events();
    let mut guards: Vec<LockGuard> = (0..MANY)
        .map(|at| {
            let kind = if REFUSED.contains(&at) {
                "refused"
            } else {
                "kept"
            };
            let lock = client.reentrant_lock(&format!("{kind}:{at}"));
            lock.acquire().expect("it is free")
        })
        .collect();
    let mut acl = redis::cmd("ACL");
    acl.arg("SETUSER").arg("worker");
    acl.arg(&["-@all", "+evalsha", "+eval", "(+@all ~kept:*)"]);
    server.ask::<()>(&acl);
    let start = Instant::now();
    let refused = REFUSED.map(|_| guards.remove(REFUSED[0]));
    throughout(lease * 2, "renewed in time", || {
        let mut pttl = redis::pipe();
        for guard in &guards {
            pttl.cmd("PTTL").arg(guard.name());
        }
        let left: Vec<i64> = pttl.query(&mut redis).expect("the server replies");
        thread::sleep(SLIP.get() / 10);
        let notified_in_time = refused.iter().all(|guard| {
            start.elapsed() < lease + SLIP.get() || guard.lost().is_empty() != guard.is_lost()
        });
        notified_in_time
            && left.iter().all(|left| *left > 0)
            && guards
                .iter()
                .all(|guard| guard.remaining() > Duration::ZERO)
    });
    let mut in_danger = HashSet::new();
    for event in events.try_iter() {
        // A reply may be late on a busy machine.
        if let LockEvent::RenewalFailed { lock, cause, .. } = event
            && says(&cause, NO_PERMISSION)
        {
            in_danger.insert(lock.to_string());
        }
    }
    let names = refused.each_ref().map(|guard| guard.name().to_owned());
    assert_eq!(in_danger, HashSet::from(names));
    for guard in refused {
        assert_eq!(guard.lost().try_recv(), Ok(LostReason::Expired));
        assert_error!(guard.unlock(), Lost);
    }
    assert_eq!(client.stats().lost, 2);
    for guard in guards {
        guard.unlock().expect("it is held");
    }
}
