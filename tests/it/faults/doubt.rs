//! Counts of which nobody knows whether Redis has them: a nested call gave up without an answer. What
//! goes on in the background sets them right, and the lock stands meanwhile.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use leasehold::{Error, Lease, LockClient, ReentrantLock};
use parking_lot::Mutex;

use super::bench::{Bench, Books, is_unavailable};
use crate::support::proxy::{Fault, Request};
use crate::support::timing::{LEASE, Millis, SLIP, eventually, millis, throughout};
use crate::support::unique;

/// A renewal takes so long, as in many a network.
const ROUND_TRIP: Millis = Millis(10);

/// The longest pause between two attempts of the background, which is the library's own.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Long enough to repeat a renewal on a busy machine.
fn lease() -> Duration {
    LEASE.get() * 2
}

fn client(bench: &Bench, lease: Duration) -> LockClient {
    let builder = bench.builder(SLIP.get()).watchdog_lease(lease);
    let client = builder.build().expect("the settings are good");
    // With a connection, so that the first attempt of a call is sent at once.
    let lock = client.reentrant_lock(&unique("first"));
    lock.lock().expect("it is free");
    lock.unlock().expect("it is held");
    client
}

fn counts(request: &Request) -> bool {
    request.runs("recount")
}

/// The background sends the source. Calls send the hash, which the server of the bench knows.
fn counts_in_the_background(request: &Request) -> bool {
    counts(request) && request.command() == "EVAL"
}

/// The names that the hold may have, of all attempts of the background so far.
type Names = Arc<Mutex<Vec<String>>>;

/// One fault for the counts of calls, one for those of the background.
fn faults(bench: &Bench, of_calls: Fault, of_background: Fault) -> Names {
    let names = Names::default();
    let seen = Arc::clone(&names);
    bench.proxy.on_request(move |request| {
        if counts_in_the_background(request) {
            // EVAL, the source, 1, the key, the names.
            seen.lock()
                .push(String::from_utf8_lossy(&request.words[4]).into_owned());
            of_background.clone()
        } else if counts(request) {
            of_calls.clone()
        } else if request.runs("renew") {
            Fault::Delay(ROUND_TRIP.get())
        } else {
            Fault::Pass
        }
    });
    names
}

/// A nested acquire that Redis does, and nobody hears of it.
#[track_caller]
fn nested_in_doubt(lock: &ReentrantLock, books: &mut Books) {
    let result = lock.try_lock(Duration::ZERO, Lease::RENEWED);
    assert!(is_unavailable(&result), "{result:?}");
    assert_eq!((lock.hold_count(), books.count(lock.name())), (1, 2));
}

/// The lock stands for three leases, although its count is not what it should be.
#[track_caller]
fn stands(lock: &ReentrantLock, books: &mut Books) {
    throughout(lease() * 3, "renewed, in doubt", || {
        assert!(books.time_to_live(lock.name()) > Duration::ZERO);
        (lock.hold_count(), books.count(lock.name())) == (1, 2)
    });
}

#[test]
#[ignore = "soak"]
fn a_count_in_doubt_that_redis_refuses_costs_no_lock() {
    let bench = Bench::new();
    let mut books = bench.books();
    let client = client(&bench, lease());
    let lock = client.reentrant_lock(&unique("doubt"));
    lock.lock().unwrap();
    let attempts = faults(&bench, Fault::SwallowReply, Fault::HalfRequest);
    nested_in_doubt(&lock, &mut books);
    let memory = |limit: &str| {
        let mut config = redis::cmd("CONFIG");
        let set = config.arg("SET").arg("maxmemory").arg(limit);
        bench.server.ask::<()>(set);
    };
    memory("1");
    faults_pass(&bench, &attempts);
    let before = attempts.lock().len();
    stands(&lock, &mut books);
    assert!(attempts.lock().len() >= before + 2, "it is tried, in vain");
    let refused = client.reentrant_lock(&unique("refused")).lock();
    assert!(matches!(refused, Err(Error::Redis { .. })), "{refused:?}");
    memory("0");
    let soon = LONGEST_PAUSE + SLIP.get();
    books.comes_to(1, lock.name(), soon, "memory is free");
    assert_eq!(client.stats().lost, 0);
    lock.unlock().unwrap();
    assert_eq!(books.count(lock.name()), 0);
}

/// From here on all requests reach the server; those of the background are noted still.
fn faults_pass(bench: &Bench, names: &Names) {
    let seen = Arc::clone(names);
    bench.proxy.on_request(move |request| {
        if counts_in_the_background(request) {
            seen.lock()
                .push(String::from_utf8_lossy(&request.words[4]).into_owned());
        }
        Fault::Pass
    });
}

/// What writes the counts waits for replies that do not come, whenever a renewal becomes due.
#[test]
#[ignore = "soak"]
fn a_count_in_doubt_that_is_never_answered_costs_no_lock() {
    never_answered(Fault::SwallowRequest);
}

#[test]
#[ignore = "soak"]
fn a_count_in_doubt_whose_connections_are_cut_costs_no_lock() {
    never_answered(Fault::HalfRequest);
}

/// Clients whose doubts begin at all times of a lease.
fn never_answered(fault: Fault) {
    const CLIENTS: u32 = 12;
    let bench = Bench::new();
    let clients = (0..CLIENTS).map(|_| client(&bench, lease()));
    let clients: Vec<LockClient> = clients.collect();
    faults(&bench, Fault::ResetBeforeReply, fault);
    let lost: Vec<Duration> = thread::scope(|scope| {
        let holders: Vec<_> = (0..)
            .zip(&clients)
            .map(|(at, client)| scope.spawn(move || stands_after(client, lease() * at / CLIENTS)))
            .collect();
        let lost = holders.into_iter().map(thread::ScopedJoinHandle::join);
        lost.filter_map(|lost| lost.expect("its errors are above").err())
            .collect()
    });
    assert!(lost.is_empty(), "lost, in doubt after {lost:?}");
}

/// Whether a lock whose count is in doubt so long after it was taken is held for three leases more.
fn stands_after(client: &LockClient, after: Duration) -> Result<(), Duration> {
    let lock = client.reentrant_lock(&unique("doubt"));
    lock.lock().expect("it is free");
    thread::sleep(after);
    let result = lock.try_lock(Duration::ZERO, Lease::RENEWED);
    assert!(is_unavailable(&result), "after {after:?}: {result:?}");
    let start = Instant::now();
    while start.elapsed() < lease() * 3 {
        if lock.hold_count() != 1 {
            return Err(after);
        }
        thread::sleep(millis(2));
    }
    Ok(())
}

/// No renewal is due for long, and no call of the holder helps.
#[test]
fn a_count_in_doubt_is_set_right_as_soon_as_the_call_has_given_up() {
    for (fault, reset) in [
        (Fault::SwallowReply, false),
        (Fault::ResetBeforeReply, false),
        (Fault::SwallowReply, true),
    ] {
        let bench = Bench::new();
        let mut books = bench.books();
        let client = client(&bench, LEASE.get() * 60);
        let lock = client.reentrant_lock(&unique("doubt"));
        lock.lock().unwrap();
        let attempts = faults(&bench, fault.clone(), Fault::Pass);
        let result = lock.try_lock(Duration::ZERO, Lease::RENEWED);
        if reset {
            bench.proxy.reset_all();
        }
        let what = format!("{fault:?}, all reset: {reset}");
        assert!(is_unavailable(&result), "{what}: {result:?}");
        books.comes_to(1, lock.name(), SLIP.get(), &what);
        assert!(!attempts.lock().is_empty(), "{what}: it was not doubted");
        assert_eq!(lock.hold_count(), 1, "{what}");
        bench.proxy.calm();
        lock.lock().unwrap();
        assert_eq!(books.count(lock.name()), 2, "{what}");
        lock.unlock().unwrap();
        lock.unlock().unwrap();
        assert_eq!(books.count(lock.name()), 0, "{what}");
    }
}

#[test]
#[ignore = "soak"]
fn the_names_of_a_hold_do_not_pile_up_while_its_count_cannot_be_written() {
    let bench = Bench::new();
    let mut books = bench.books();
    let client = client(&bench, lease());
    let lock = client.reentrant_lock(&unique("doubt"));
    lock.lock().unwrap();
    let attempts = faults(&bench, Fault::SwallowReply, Fault::HalfRequest);
    nested_in_doubt(&lock, &mut books);
    let start = Instant::now();
    eventually("many attempts", || attempts.lock().len() >= 8);
    let attempts = attempts.lock().clone();
    assert!(attempts.iter().all(|names| *names == attempts[0]));
    // The first, the call's for its copies, the call's for what comes after it, the background's.
    assert!(attempts[0].split(' ').count() <= 4, "{}", attempts[0]);
    assert!(start.elapsed() >= millis(500), "it does not give way");
    bench.proxy.calm();
    let soon = LONGEST_PAUSE + SLIP.get();
    books.comes_to(1, lock.name(), soon, "it can be written");
    lock.unlock().unwrap();
    assert_eq!(books.count(lock.name()), 0);
}

/// However often its thread tries meanwhile, and is refused.
#[test]
#[ignore = "soak"]
fn the_names_of_a_hold_do_not_pile_up_with_calls_that_are_refused() {
    let bench = Bench::new();
    let mut books = bench.books();
    let client = client(&bench, lease());
    let lock = client.reentrant_lock(&unique("doubt"));
    lock.lock().unwrap();
    let attempts = faults(&bench, Fault::SwallowReply, Fault::HalfRequest);
    nested_in_doubt(&lock, &mut books);
    let mut config = redis::cmd("CONFIG");
    bench
        .server
        .ask::<()>(config.arg("SET").arg("maxmemory").arg("1"));
    faults_pass(&bench, &attempts);
    for _ in 0..100 {
        let result = lock.try_lock(Duration::ZERO, Lease::RENEWED);
        assert!(matches!(result, Err(Error::Redis { .. })), "{result:?}");
    }
    let before = attempts.lock().len();
    eventually("another attempt", || attempts.lock().len() > before);
    let longest = attempts.lock().iter().map(String::len).max();
    let first = attempts.lock()[0].len();
    assert!(
        longest <= Some(first * 4),
        "{longest:?} bytes, from {first}"
    );
}
