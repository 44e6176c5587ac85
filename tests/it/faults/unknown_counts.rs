//! Unknown counts: a nested call gave up without a reply, so the client does not know the count in
//! Redis. The watchdog writes the count in the background, and the lock remains held.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use leasehold::{Error, Lease, LockClient, ReentrantLock};
use parking_lot::Mutex;

use super::proxied_server::{ProxiedServer, RedisView, is_unavailable};
use crate::support::proxy::{Fault, Request};
use crate::support::timing::{LEASE, Millis, SLIP, eventually, millis, throughout};
use crate::support::unique;

/// A typical round trip for a renewal.
const ROUND_TRIP: Millis = Millis(10);

/// The longest pause between two attempts in the background: a constant of the library.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Long enough to retry a renewal on a busy machine.
fn lease() -> Duration {
    LEASE.get() * 2
}

fn client(proxied: &ProxiedServer, lease: Duration) -> LockClient {
    let builder = proxied.builder(SLIP.get()).watchdog_lease(lease);
    let client = builder.build().expect("the settings are valid");
    // Opens a connection, so that the first attempt of a call is sent at once.
    let lock = client.reentrant_lock(&unique("first"));
    lock.lock().expect("it is free");
    lock.unlock().expect("it is held");
    client
}

fn is_recount(request: &Request) -> bool {
    request.runs("recount")
}

/// The background sends the source. Calls send the hash, which the server knows.
fn is_background_recount(request: &Request) -> bool {
    is_recount(request) && request.command() == "EVAL"
}

/// The owner ids of the hold in each attempt of the background so far.
type Names = Arc<Mutex<Vec<String>>>;

/// One fault for the recounts of calls, and one for those of the background.
fn faults(proxied: &ProxiedServer, of_calls: Fault, of_background: Fault) -> Names {
    let names = Names::default();
    let seen = Arc::clone(&names);
    proxied.proxy.on_request(move |request| {
        if is_background_recount(request) {
            // EVAL, the source, 1, the key, the owner ids.
            seen.lock()
                .push(String::from_utf8_lossy(&request.words[4]).into_owned());
            of_background.clone()
        } else if is_recount(request) {
            of_calls.clone()
        } else if request.runs("renew") {
            Fault::Delay(ROUND_TRIP.get())
        } else {
            Fault::Pass
        }
    });
    names
}

/// A nested acquire that Redis executes, but whose reply is lost.
#[track_caller]
fn nested_without_reply(lock: &ReentrantLock, view: &mut RedisView) {
    let result = lock.try_lock(Duration::ZERO, Lease::RENEWED);
    assert!(is_unavailable(&result), "{result:?}");
    assert_eq!((lock.hold_count(), view.count(lock.name())), (1, 2));
}

/// The lock is held for three leases, although its count is wrong.
#[track_caller]
fn stays_held(lock: &ReentrantLock, view: &mut RedisView) {
    throughout(lease() * 3, "the lock is renewed", || {
        assert!(view.time_to_live(lock.name()) > Duration::ZERO);
        (lock.hold_count(), view.count(lock.name())) == (1, 2)
    });
}

#[test]
#[ignore = "soak"]
fn no_lock_is_lost_if_redis_refuses_to_write_an_unknown_count() {
    let proxied = ProxiedServer::new();
    let mut view = proxied.view();
    let client = client(&proxied, lease());
    let lock = client.reentrant_lock(&unique("unknown count"));
    lock.lock().unwrap();
    let attempts = faults(&proxied, Fault::SwallowReply, Fault::HalfRequest);
    nested_without_reply(&lock, &mut view);
    let memory = |limit: &str| {
        let mut config = redis::cmd("CONFIG");
        let set = config.arg("SET").arg("maxmemory").arg(limit);
        proxied.server.ask::<()>(set);
    };
    memory("1");
    stop_faults(&proxied, &attempts);
    let before = attempts.lock().len();
    stays_held(&lock, &mut view);
    assert!(
        attempts.lock().len() >= before + 2,
        "the background retries"
    );
    let refused = client.reentrant_lock(&unique("refused")).lock();
    assert!(matches!(refused, Err(Error::Redis { .. })), "{refused:?}");
    memory("0");
    let soon = LONGEST_PAUSE + SLIP.get();
    view.await_count(1, lock.name(), soon, "memory is free");
    assert_eq!(client.stats().lost, 0);
    lock.unlock().unwrap();
    assert_eq!(view.count(lock.name()), 0);
}

/// From now on all requests reach the server. Those of the background are still recorded.
fn stop_faults(proxied: &ProxiedServer, names: &Names) {
    let seen = Arc::clone(names);
    proxied.proxy.on_request(move |request| {
        if is_background_recount(request) {
            seen.lock()
                .push(String::from_utf8_lossy(&request.words[4]).into_owned());
        }
        Fault::Pass
    });
}

/// The background waits for missing replies, also when a renewal becomes due.
#[test]
#[ignore = "soak"]
fn no_lock_is_lost_if_writing_an_unknown_count_is_never_answered() {
    never_answered(Fault::SwallowRequest);
}

#[test]
#[ignore = "soak"]
fn no_lock_is_lost_if_writing_an_unknown_count_breaks_the_connections() {
    never_answered(Fault::HalfRequest);
}

/// Clients whose counts become unknown at different times of a lease.
fn never_answered(fault: Fault) {
    const CLIENTS: u32 = 12;
    let proxied = ProxiedServer::new();
    let clients = (0..CLIENTS).map(|_| client(&proxied, lease()));
    let clients: Vec<LockClient> = clients.collect();
    faults(&proxied, Fault::ResetBeforeReply, fault);
    let lost: Vec<Duration> = thread::scope(|scope| {
        let holders: Vec<_> = (0..)
            .zip(&clients)
            .map(|(at, client)| scope.spawn(move || is_held_after(client, lease() * at / CLIENTS)))
            .collect();
        let lost = holders.into_iter().map(thread::ScopedJoinHandle::join);
        lost.filter_map(|lost| lost.expect("the thread panicked, see above").err())
            .collect()
    });
    assert!(
        lost.is_empty(),
        "lost, with an unknown count after {lost:?}"
    );
}

/// Whether a lock is held for three more leases if its count becomes unknown this long after the
/// acquire.
fn is_held_after(client: &LockClient, after: Duration) -> Result<(), Duration> {
    let lock = client.reentrant_lock(&unique("unknown count"));
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

/// No renewal is due for long, and the holder makes no other call.
#[test]
fn an_unknown_count_is_written_as_soon_as_the_call_has_given_up() {
    for (fault, reset) in [
        (Fault::SwallowReply, false),
        (Fault::ResetBeforeReply, false),
        (Fault::SwallowReply, true),
    ] {
        let proxied = ProxiedServer::new();
        let mut view = proxied.view();
        let client = client(&proxied, LEASE.get() * 60);
        let lock = client.reentrant_lock(&unique("unknown count"));
        lock.lock().unwrap();
        let attempts = faults(&proxied, fault.clone(), Fault::Pass);
        let result = lock.try_lock(Duration::ZERO, Lease::RENEWED);
        if reset {
            proxied.proxy.reset_all();
        }
        let what = format!("{fault:?}, all reset: {reset}");
        assert!(is_unavailable(&result), "{what}: {result:?}");
        view.await_count(1, lock.name(), SLIP.get(), &what);
        assert!(
            !attempts.lock().is_empty(),
            "{what}: the background wrote no count"
        );
        assert_eq!(lock.hold_count(), 1, "{what}");
        proxied.proxy.calm();
        lock.lock().unwrap();
        assert_eq!(view.count(lock.name()), 2, "{what}");
        lock.unlock().unwrap();
        lock.unlock().unwrap();
        assert_eq!(view.count(lock.name()), 0, "{what}");
    }
}

#[test]
#[ignore = "soak"]
fn the_owner_ids_of_a_hold_do_not_accumulate_while_its_count_cannot_be_written() {
    let proxied = ProxiedServer::new();
    let mut view = proxied.view();
    let client = client(&proxied, lease());
    let lock = client.reentrant_lock(&unique("unknown count"));
    lock.lock().unwrap();
    let attempts = faults(&proxied, Fault::SwallowReply, Fault::HalfRequest);
    nested_without_reply(&lock, &mut view);
    let start = Instant::now();
    eventually("many attempts", || attempts.lock().len() >= 8);
    let attempts = attempts.lock().clone();
    assert!(attempts.iter().all(|names| *names == attempts[0]));
    // The first id, the id of the call's retries, the id after the abandoned call, and the id of
    // the background.
    assert!(attempts[0].split(' ').count() <= 4, "{}", attempts[0]);
    assert!(
        start.elapsed() >= millis(500),
        "there is a pause between the attempts"
    );
    proxied.proxy.calm();
    let soon = LONGEST_PAUSE + SLIP.get();
    view.await_count(1, lock.name(), soon, "it can be written");
    lock.unlock().unwrap();
    assert_eq!(view.count(lock.name()), 0);
}

/// However often the thread tries meanwhile and is refused.
#[test]
#[ignore = "soak"]
fn the_owner_ids_of_a_hold_do_not_accumulate_with_refused_calls() {
    let proxied = ProxiedServer::new();
    let mut view = proxied.view();
    let client = client(&proxied, lease());
    let lock = client.reentrant_lock(&unique("unknown count"));
    lock.lock().unwrap();
    let attempts = faults(&proxied, Fault::SwallowReply, Fault::HalfRequest);
    nested_without_reply(&lock, &mut view);
    let mut config = redis::cmd("CONFIG");
    proxied
        .server
        .ask::<()>(config.arg("SET").arg("maxmemory").arg("1"));
    stop_faults(&proxied, &attempts);
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
