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

#[test]
fn a_hold_of_another_program_is_respected() {
    let server = Server::start();
    let name = unique("java");
    let client = client(&server.url());
    let lock = client.reentrant_lock(&name);
    for lease in [Some(SOON.get()), None] {
        java_takes(&server, &name, lease);
        assert!(!lock.try_lock(Duration::ZERO, Lease::RENEWED).unwrap());
        assert!(!lock.try_lock(A_WHILE.get(), Lease::RENEWED).unwrap());
        assert_matches!(lock.unlock(), Err(Error::NotHeld { .. }));
        assert!(lock.is_locked().unwrap());
        let left = lock.remaining_lease().unwrap().expect("it is held");
        assert_eq!(left == Duration::MAX, lease.is_none(), "{left:?}");
        let status = client.inspect(&name).unwrap();
        assert_eq!(status.owner.as_deref(), Some(JAVA));
        assert_eq!(status.time_to_live.is_none(), lease.is_none());
        let fields: Vec<(String, u32)> = server.ask(redis::cmd("HGETALL").arg(&name));
        assert_eq!(fields, [(JAVA.to_owned(), 1)]);
        java_releases(&server, &name);
    }
    pair(&lock);
}

/// By Redisson's naming rule, `a` and `{a}` are two locks with one channel.
#[test]
fn locks_that_share_a_channel_do_not_lose_messages() {
    let server = Server::start();
    let (ours, theirs) = (client(&server.url()), client(&server.url()));
    let names = ["a", "{a}"];
    let held = names.map(|name| theirs.reentrant_lock(name));
    for lock in &held {
        lock.lock_with(long()).unwrap();
    }
    thread::scope(|scope| {
        let waiters = names.map(|name| {
            let lock = ours.reentrant_lock(name);
            scope.spawn(move || pair(&lock))
        });
        throughout(A_WHILE.get(), "both wait", || {
            waiters.iter().all(|waiter| !waiter.is_finished())
        });
        for (lock, waiter) in held.iter().zip(&waiters) {
            // The waiter of the released lock gets it, whichever that is.
            theirs.force_unlock(lock.name()).unwrap();
            eventually("its waiter to get it", || waiter.is_finished());
        }
    });
}
