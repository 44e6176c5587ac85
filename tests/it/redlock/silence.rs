//! Messages that do not come, and majorities that hang.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use leasehold::{Error, Interrupt, Lease, RedLock};

use super::{COMMAND, NAME, Servers, scripts, take_all};
use crate::support::server::Server;
use crate::support::timing::{A_WHILE, LEASE, SLIP, SOON, eventually, millis, throughout, within};

const TURNS: usize = 40;

/// Raised at the end of a test, however that ends.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Raised at the end of a test, however that ends.
struct Raised<'a>(&'a Interrupt);

impl Drop for Raised<'_> {
    fn drop(&mut self) {
        self.0.interrupt();
    }
}

/// One that waits gives back what a minority grants it, and is not woken by that to try again at once.
#[test]
#[ignore = "soak"]
fn who_waits_does_not_wake_himself_while_a_majority_is_dead() {
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
        eventually("it to listen", || {
            let channels = redis::cmd("PUBSUB").arg("CHANNELS").arg("*lock*").clone();
            servers.0.iter().all(|server| {
                let channels: Vec<String> = server.ask(&channels);
                channels.iter().any(|channel| channel.contains(NAME))
            })
        });
        dead.iter().for_each(Server::kill);
        let before = scripts(alive);
        drop(guard);
        // Past its first pauses, which are short.
        eventually("it to try in vain", || scripts(alive) > before + 14);
        let before = scripts(alive);
        throughout(A_WHILE.get() * 20, "in vain", || !waiting.is_finished());
        let calls = scripts(alive) - before;
        drop(raised);
        let told = waiting.join().unwrap();
        assert!(matches!(told, Err(Error::Interrupted { .. })), "{told:?}");
        // Each attempt is taken and given back, and the pauses are 0.4 s long.
        let most = 2 * (A_WHILE.get() * 20).as_millis() / 400 + 6;
        assert!(u128::from(calls) <= most, "{calls} script calls");
    });
}

/// Sees to it that nobody listens there for long.
fn kill_subscribers(server: &Server, killed: &AtomicUsize, stop: &AtomicBool) {
    let mut redis = server.connection();
    while !stop.load(Ordering::SeqCst) {
        let mut kill = redis::cmd("CLIENT");
        kill.arg("KILL").arg("TYPE").arg("pubsub");
        let count: usize = kill.query(&mut redis).expect("the server answers");
        killed.fetch_add(count, Ordering::SeqCst);
        thread::sleep(millis(20));
    }
}

#[test]
fn killed_subscribers_do_not_stop_it_from_changing_hands() {
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
                        // The other process is to have it next, which it can know by a message only.
                        thread::sleep(millis(5));
                    }
                })
            })
            .collect();
        // Not a lease for each message that nobody heard.
        within(SOON.get(), "all turns", || {
            for worker in workers {
                worker.join().expect("all of its turns");
            }
        });
    });
    assert!(killed.load(Ordering::SeqCst) > TURNS, "{killed:?}");
    eventually("it to be free", || servers.held() == 0);
}

/// Takes it and gives it back, or learns in time that it cannot be had.
fn tries(lock: &RedLock) -> bool {
    let budget = millis(COMMAND) * 4 + SLIP.get() * 4;
    let taken = within(budget, "the call", || {
        // As long as a test, so that it is no lease that frees it.
        lock.try_acquire(A_WHILE.get(), Lease::fixed(SOON.get() * 6))
    });
    match taken {
        Ok(Some(guard)) => match within(budget * 2, "the unlock", || guard.unlock()) {
            Ok(()) => return true,
            Err(Error::Unavailable { .. } | Error::Lost { .. }) => {}
            Err(error) => panic!("{error}"),
        },
        Ok(None) | Err(Error::Unavailable { .. }) => {}
        Err(error) => panic!("{error}"),
    }
    false
}

#[test]
fn a_majority_that_hangs_and_goes_on_leaves_nothing_behind() {
    let servers = Servers::start(5);
    let locks = [servers.impatient_lock(), servers.impatient_lock()];
    let clients = servers.impatient_clients();
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
        let told = within(LEASE.get() + SLIP.get(), "the news", || {
            guard.lost().recv_timeout(SOON.get())
        });
        assert!(told.is_ok() && guard.check().is_err());
        let before: Vec<usize> = taken.iter().map(|one| one.load(Ordering::SeqCst)).collect();
        throughout(LEASE.get(), "nobody", || {
            taken
                .iter()
                .map(|one| one.load(Ordering::SeqCst))
                .eq(before.iter().copied())
        });
        servers.0[..3].iter().for_each(Server::resume);
        eventually("everybody to have it", || {
            let more = taken.iter().zip(&before);
            let mut more = more.map(|(taken, before)| taken.load(Ordering::SeqCst) > *before);
            more.all(|more| more)
        });
    });
    drop(guard);
    eventually("it to be free", || servers.held() == 0);
    let again = RedLock::new(&clients, NAME);
    assert!(again.try_lock(Duration::ZERO, Lease::RENEWED).unwrap());
    again.unlock().unwrap();
}
