//! The spans that the log subscriber gets. The only tests of their process, because a subscriber
//! serves a whole process.

mod panicking;
mod recorder;

use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use leasehold::{Error, Lease, LockClient, LostReason};
use panicking::{MESSAGE, PANICS, Panicking};
use recorder::{Kept, keep, spans, within_a_span};
use redis_test::server::RedisServer;

const LEASE: Duration = Duration::from_millis(900);
const SOON: Duration = Duration::from_secs(20);

fn start() -> (RedisServer, LockClient) {
    keep();
    let server = RedisServer::new();
    let client = client(&server);
    (server, client)
}

fn client(server: &RedisServer) -> LockClient {
    LockClient::builder(&format!("redis://{}", server.addr))
        .watchdog_lease(LEASE)
        .build()
        .unwrap()
}

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < SOON, "not within {SOON:?}: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn outcomes(spans: &[Kept]) -> Vec<&str> {
    spans.iter().map(|span| span.field("outcome")).collect()
}

/// The only hold of this lock.
fn hold(lock: &str) -> Kept {
    let holds = spans("lock.hold", lock);
    let [hold] = &holds[..] else {
        panic!("{holds:?}");
    };
    // Before it is closed, another thread may be within it and about to log the event.
    let is_entered = hold.was_entered && hold.closed_on.is_some();
    assert!(!is_entered || !hold.events.is_empty(), "{hold:?}");
    hold.clone()
}

#[test]
fn an_acquire_is_a_wait_and_then_a_hold() {
    let (server, client) = start();
    let lock = client.reentrant_lock("plain");
    let (request, guard) = within_a_span(|| lock.acquire().unwrap());
    let waits = spans("lock.wait", "plain");
    assert_eq!(outcomes(&waits), ["acquired"]);
    assert_eq!(waits[0].field("kind"), "reentrant");
    assert_eq!(waits[0].parent, Some(request));
    assert!(waits[0].was_entered && waits[0].closed_on.is_some());
    let held = hold("plain");
    assert_eq!(held.parent, Some(request), "not within the wait");
    assert_eq!(held.field("kind"), "reentrant");
    assert_eq!(held.field("node"), server.addr.to_string());
    assert_eq!((held.field("outcome"), &held.closed_on), ("", &None));

    lock.lock().unwrap();
    lock.unlock().unwrap();
    assert_eq!(
        outcomes(&spans("lock.wait", "plain")),
        ["acquired", "reentered"]
    );
    assert_eq!(hold("plain").closed_on, None, "a level is left");

    guard.unlock().unwrap();
    let held = hold("plain");
    assert_eq!(held.field("outcome"), "released");
    assert!(held.closed_on.is_some());
}

#[test]
fn a_failed_acquire_is_a_wait_with_its_reason() {
    let (server, client) = start();
    let lock = client.reentrant_lock("held");
    let guard = lock.acquire().unwrap();
    let rival = self::client(&server);
    let wait = Duration::from_millis(30);
    let other = rival.reentrant_lock("held");
    assert!(other.try_acquire(wait, Lease::RENEWED).unwrap().is_none());
    assert!(other.try_acquire_now().unwrap().is_none());
    assert_eq!(
        outcomes(&spans("lock.wait", "held")),
        ["acquired", "timeout", "timeout"]
    );
    assert_eq!(rival.stats().acquires_timed_out, 2);
    guard.unlock().unwrap();
    assert_eq!(spans("lock.hold", "held").len(), 1);

    redis::Client::open(format!("redis://{}", server.addr))
        .and_then(|redis| {
            redis::cmd("SET")
                .arg("text")
                .arg("x")
                .exec(&mut redis.get_connection()?)
        })
        .unwrap();
    let refused = rival.reentrant_lock("text").acquire();
    assert!(matches!(refused, Err(Error::WrongType { .. })));
    assert_eq!(outcomes(&spans("lock.wait", "text")), ["refused"]);
    assert_eq!(rival.stats().acquires_refused, 1);

    drop(server);
    let lost = rival
        .reentrant_lock("away")
        .try_acquire(Duration::ZERO, Lease::RENEWED);
    assert!(matches!(lost, Err(Error::Unavailable { .. })), "{lost:?}");
    assert_eq!(outcomes(&spans("lock.wait", "away")), ["unavailable"]);
    assert_eq!(rival.stats().acquires_unavailable, 1);
}

#[test]
fn a_loss_is_logged_within_the_hold_which_it_ends() {
    let (server, client) = start();
    let guard = client.reentrant_lock("lost").acquire().unwrap();
    self::client(&server).force_unlock("lost").unwrap();
    assert_eq!(guard.lost().recv_timeout(SOON), Ok(LostReason::Deleted));
    until("the end of the span", || hold("lost").closed_on.is_some());
    let lost = hold("lost");
    assert_eq!(lost.events, ["a held lock is lost"]);
    assert_eq!(
        (lost.field("outcome"), lost.field("reason")),
        ("lost", "deleted")
    );
    // The watchdog has found the loss, and does not call the subscriber.
    assert_eq!(lost.closed_on.as_deref(), Some("leasehold-reporter"));
    assert!(matches!(guard.unlock(), Err(Error::Lost { .. })));
}

#[test]
fn a_hold_that_is_handed_over_ends_and_another_begins() {
    let (_server, client) = start();
    let lock = client.fenced_lock("stock");
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                until("a hand-over", || {
                    lock.acquire().unwrap().unlock().unwrap();
                    client.stats().hand_overs > 0
                });
            });
        }
    });
    let holds = spans("lock.hold", "stock");
    let stats = client.stats();
    assert_eq!(holds.len() as u64, stats.acquisitions + stats.hand_overs);
    let handed_over = outcomes(&holds);
    let handed_over = handed_over.iter().filter(|end| **end == "handed_over");
    assert_eq!(handed_over.count() as u64, stats.hand_overs);
    let tokens: Vec<u64> = holds
        .iter()
        .map(|hold| hold.field("token").parse().unwrap())
        .collect();
    assert!(tokens.iter().all(|token| *token > 0), "{tokens:?}");
    assert!(holds.iter().all(|hold| hold.closed_on.is_some()));
}

#[test]
fn an_owned_guard_ends_its_hold_when_it_is_dropped_or_given_away() {
    let (_server, client) = start();
    let owned = |name: &str| {
        let lock = client.reentrant_lock(name);
        lock.acquire_owned(Lease::RENEWED).unwrap()
    };
    drop(owned("dropped"));
    assert_eq!(hold("dropped").field("outcome"), "kept");
    until("the release", || client.stats().releases == 1);
    let token = owned("given").into_token().unwrap();
    assert_eq!(hold("given").field("outcome"), "released");
    assert_eq!(client.stats().releases, 2);
    client.adopt(&token).unwrap().unlock().unwrap();
    let given = spans("lock.hold", "given");
    assert_eq!(outcomes(&given), ["released", "released"]);
}

#[test]
fn a_wait_on_a_condition_ends_a_hold_and_begins_another() {
    let (_server, client) = start();
    let lock = client.reentrant_lock("buffer");
    let guard = lock.acquire().unwrap();
    let filled = lock.condition("filled");
    assert!(!filled.wait_for(Duration::from_millis(20)).unwrap());
    let waits = spans("lock.wait", "buffer");
    let kinds: Vec<&str> = waits.iter().map(|wait| wait.field("kind")).collect();
    assert_eq!(kinds, ["reentrant", "condition", "reentrant"]);
    assert_eq!(outcomes(&waits), ["acquired", "timeout", "acquired"]);
    assert_eq!(outcomes(&spans("lock.hold", "buffer")), ["released", ""]);
    guard.unlock().unwrap();
    assert_eq!(
        outcomes(&spans("lock.hold", "buffer")),
        ["released", "released"]
    );
}

/// A lock that a client leaves behind: its span is closed with the client.
#[test]
fn the_last_drop_of_a_client_closes_the_spans_of_what_it_held() {
    let (_server, client) = start();
    client.reentrant_lock("left").lock().unwrap();
    assert_eq!(hold("left").closed_on, None);
    drop(client);
    assert!(hold("left").closed_on.is_some());
}

#[test]
fn a_subscriber_that_panics_at_every_call_changes_nothing() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if info.payload_as_str() != Some(MESSAGE) {
            report(info);
        }
    }));
    let (server, client) = start();
    for refuses_spans in [false, true] {
        let before = PANICS.load(Ordering::SeqCst);
        tracing::subscriber::with_default(Panicking { refuses_spans }, || {
            let lock = client.reentrant_lock("panic");
            let guard = lock.acquire().unwrap();
            lock.lock().unwrap();
            lock.unlock().unwrap();
            guard.unlock().unwrap();
            let guard = lock.acquire().unwrap();
            self::client(&server).force_unlock("panic").unwrap();
            assert_eq!(guard.lost().recv_timeout(SOON), Ok(LostReason::Deleted));
            assert!(matches!(guard.unlock(), Err(Error::Lost { .. })));
            lock.acquire().unwrap().unlock().unwrap();
        });
        assert!(PANICS.load(Ordering::SeqCst) > before);
    }
}
