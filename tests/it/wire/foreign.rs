//! Holders that are not Leasehold clients: a Java service, a process that died.

use crate::support::prelude::*;

const JAVA: &str = "6f0829ed-bfd3-4e6f-bba3-6f3d66cd176c:54";

/// Acquires as Redisson does: HINCRBY and PEXPIRE.
fn java_takes(server: &Server, name: &str, lease: Option<Duration>) {
    server.ask::<()>(redis::cmd("HINCRBY").arg(name).arg(JAVA).arg(1));
    if let Some(lease) = lease {
        let millis = u64::try_from(lease.as_millis()).unwrap();
        server.ask::<()>(redis::cmd("PEXPIRE").arg(name).arg(millis));
    }
}

/// Releases as Redisson does: DEL and PUBLISH.
fn java_releases(server: &Server, name: &str) {
    redis::pipe()
        .atomic()
        .cmd("DEL")
        .arg(name)
        .cmd("PUBLISH")
        .arg(format!("redisson_lock__channel:{{{name}}}"))
        .arg("0")
        .exec(&mut server.connection())
        .unwrap();
}

/// How a hold of another program ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Release,
    /// Without a time to live.
    ReleaseOfEndlessHold,
    Lease,
}

#[test]
fn a_waiter_gets_the_lock_soon_after_another_program_has_released_it() {
    for end in [End::Release, End::ReleaseOfEndlessHold, End::Lease] {
        let server = Server::start();
        let lock = client(&server.url()).reentrant_lock("java");
        let lease = match end {
            End::Release => Some(SOON.get() * 6),
            End::ReleaseOfEndlessHold => None,
            End::Lease => Some(LEASE.get()),
        };
        java_takes(&server, "java", lease);
        thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                assert!(lock.try_lock(SOON.get() * 2, Lease::RENEWED).unwrap());
                let got = Instant::now();
                lock.unlock().unwrap();
                got
            });
            eventually("the waiter to be subscribed", || {
                server.subscribers("redisson_lock__channel:{java}") == 1
            });
            let free = if end == End::Lease {
                let left = u64::try_from(server.time_to_live("java")).expect("it still runs");
                Instant::now() + Duration::from_millis(left)
            } else {
                // The second try of the waiter must be over.
                thread::sleep(SLIP.get());
                let free = Instant::now();
                java_releases(&server, "java");
                free
            };
            let late = waiter.join().unwrap().saturating_duration_since(free);
            assert!(late <= SLIP.get(), "{end:?}: {late:?} after it was free");
        });
    }
}
