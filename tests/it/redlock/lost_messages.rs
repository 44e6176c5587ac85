//! Messages that do not come, and majorities that hang.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use leasehold::{Error, Interrupt, Lease, RedLock};

use super::{COMMAND, NAME, Servers, scripts, take_all};
use crate::support::Stop;
use crate::support::server::Server;
use crate::support::timing::{A_WHILE, LEASE, SLIP, SOON, eventually, millis, throughout, within};
use crate::support::{assert_matches, long};

const TURNS: usize = 40;

/// Raised at the end of a test, also after a panic.
struct Raised<'a>(&'a Interrupt);

impl Drop for Raised<'_> {
    fn drop(&mut self) {
        self.0.interrupt();
    }
}

/// A waiter releases what a minority grants to it. It must not be woken by its own release.
#[test]
#[ignore = "soak"]
fn a_waiter_does_not_wake_itself_while_a_majority_is_dead() {
    let servers = Servers::start(3);
    let clients = servers.clients();
    let guard = take_all(&clients, Lease::RENEWED);
    let waiter = servers.lock();
    let interrupt = Interrupt::new();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| waiter.lock_interruptibly(Lease::RENEWED, &interrupt));
        let raised = Raised(&interrupt);
        let [alive, dead @ ..] = &servers.0[..] else {
            unreachable!("there are three");
        };
        eventually("the waiter to subscribe", || {
            let channels = redis::cmd("PUBSUB").arg("CHANNELS").arg("*lock*").clone();
            servers.0.iter().all(|server| {
                let channels: Vec<String> = server.ask(&channels);
                channels.iter().any(|channel| channel.contains(NAME))
            })
        });
        dead.iter().for_each(Server::kill);
        let before = scripts(alive);
        drop(guard);
        // After its first pauses, which are short.
        eventually("some failed attempts", || scripts(alive) > before + 14);
        let before = scripts(alive);
        throughout(A_WHILE.get() * 20, "the waiter waits", || {
            !waiting.is_finished()
        });
        let calls = scripts(alive) - before;
        drop(raised);
        let result = waiting.join().unwrap();
        assert_matches!(result, Err(Error::Interrupted { .. }));
        // Each attempt acquires and releases, and the pauses are 0.4 s long.
        let most = 2 * (A_WHILE.get() * 20).as_millis() / 400 + 6;
        assert!(u128::from(calls) <= most, "{calls} script calls");
    });
}

/// Repeatedly cuts the subscriptions.
fn kill_subscribers(server: &Server, killed: &AtomicUsize, stop: &AtomicBool) {
    let mut redis = server.connection();
    while !stop.load(Ordering::SeqCst) {
        let mut kill = redis::cmd("CLIENT");
        kill.arg("KILL").arg("TYPE").arg("pubsub");
        let count: usize = kill.query(&mut redis).expect("the server replies");
        killed.fetch_add(count, Ordering::SeqCst);
        thread::sleep(millis(20));
    }
}

#[test]
fn a_lock_changes_hands_although_subscribers_are_killed() {
    let servers = Servers::start(3);
    let locks = [servers.lock(), servers.lock()];
    let (stop, inside) = (AtomicBool::new(false), AtomicBool::new(false));
    let killed = AtomicUsize::new(0);
    thread::scope(|scope| {
        for server in &servers.0 {
            scope.spawn(|| kill_subscribers(server, &killed, &stop));
        }
        let _stop = Stop(&stop);
        let workers: Vec<_> = (0..4)
            .map(|at| {
                let (lock, inside) = (&locks[at % 2], &inside);
                scope.spawn(move || {
                    for _ in 0..TURNS {
                        assert!(lock.try_lock(SOON.get() * 3, Lease::RENEWED).unwrap());
                        assert!(!inside.swap(true, Ordering::SeqCst), "two holders");
                        thread::sleep(millis(5));
                        inside.store(false, Ordering::SeqCst);
                        lock.unlock().unwrap();
                        // The other process is next, and it knows that only by a message.
                        thread::sleep(millis(5));
                    }
                })
            })
            .collect();
        // Not a lease for each lost message.
        within(SOON.get(), "all turns", || {
            for worker in workers {
                worker.join().expect("all of its turns");
            }
        });
    });
    assert!(killed.load(Ordering::SeqCst) > TURNS, "{killed:?}");
    eventually("the lock to be free", || servers.held() == 0);
}

/// Acquires and releases the lock, or returns false in time.
fn tries(lock: &RedLock) -> bool {
    let budget = millis(COMMAND) * 4 + SLIP.get() * 4;
    let taken = within(budget, "the call", || {
        // Longer than the test, so that no lease releases the lock.
        lock.try_acquire(A_WHILE.get(), long())
    });
    match taken {
        Ok(Some(guard)) => match within(budget * 2, "the unlock", || guard.unlock()) {
            Ok(()) => return true,
            Err(Error::NotReleased { .. } | Error::Lost { .. }) => {}
            Err(error) => panic!("{error}"),
        },
        Ok(None) | Err(Error::Unavailable { .. }) => {}
        Err(error) => panic!("{error}"),
    }
    false
}

#[test]
fn a_majority_that_hangs_and_resumes_leaves_nothing_behind() {
    let servers = Servers::start(5);
    let locks = [
        servers.lock_with_short_timeout(),
        servers.lock_with_short_timeout(),
    ];
    let clients = servers.clients_with_short_timeout();
    let guard = take_all(&clients, Lease::RENEWED);
    let stop = AtomicBool::new(false);
    let taken: [AtomicUsize; 4] = Default::default();
    thread::scope(|scope| {
        let _stop = Stop(&stop);
        for (at, taken) in taken.iter().enumerate() {
            let (lock, stop) = (&locks[at % 2], &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::SeqCst) {
                    taken.fetch_add(usize::from(tries(lock)), Ordering::SeqCst);
                }
            });
        }
        throughout(A_WHILE.get(), "held", || guard.check().is_ok());
        servers.0[..3].iter().for_each(Server::pause);
        let loss = within(LEASE.get() + SLIP.get(), "the notification", || {
            guard.lost().recv_timeout(SOON.get())
        });
        assert!(loss.is_ok() && guard.check().is_err());
        let before: Vec<usize> = taken.iter().map(|one| one.load(Ordering::SeqCst)).collect();
        throughout(LEASE.get(), "no holder", || {
            taken
                .iter()
                .map(|one| one.load(Ordering::SeqCst))
                .eq(before.iter().copied())
        });
        servers.0[..3].iter().for_each(Server::resume);
        eventually("all threads to get it", || {
            let more = taken.iter().zip(&before);
            let mut more = more.map(|(taken, before)| taken.load(Ordering::SeqCst) > *before);
            more.all(|more| more)
        });
    });
    drop(guard);
    eventually("the lock to be free", || servers.held() == 0);
    let again = RedLock::new(&clients, NAME);
    assert!(again.try_lock(Duration::ZERO, Lease::RENEWED).unwrap());
    again.unlock().unwrap();
}
