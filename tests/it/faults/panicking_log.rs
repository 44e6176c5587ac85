//! A log that panics when it is called on a thread of the client.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use leasehold::{Error, Lease, LockClient, LockEvent, LockGuard, LostReason};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use super::in_redis;
use crate::support::child;
use crate::support::server::Server;
use crate::support::timing::{LEASE, SLIP, SOON, eventually, millis, throughout, within};
use crate::support::{builder, client, unique};

/// A log that panics on the threads of clients.
struct Panicking;

fn is_a_clients_own_thread() -> bool {
    let thread = thread::current();
    thread
        .name()
        .is_some_and(|name| name.starts_with("leasehold"))
}

static PANICS: AtomicU64 = AtomicU64::new(0);

impl Subscriber for Panicking {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        if is_a_clients_own_thread() {
            PANICS.fetch_add(1, Ordering::SeqCst);
            panic!("on purpose, at {:?}", event.metadata().name());
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The role: one of the scenarios below, with a log that panics. A process has only one log, so
/// each scenario has its own process.
pub fn panicking_log(arguments: &[&str]) {
    let &[url, scenario] = arguments else {
        panic!("{arguments:?}")
    };
    let play: fn(&str) = match scenario {
        "loss" => a_lock_is_lost,
        "failure" => a_renewal_fails,
        "subscription" => a_subscription_is_cut,
        other => panic!("{other}"),
    };
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !is_a_clients_own_thread() {
            report(info);
            // After the panic, threads that wait for a lock would continue to wait.
            std::process::exit(101);
        }
    }));
    tracing::subscriber::set_global_default(Panicking).expect("the first");
    play(url);
    let panics = PANICS.load(Ordering::SeqCst);
    assert!(panics > 0, "the log was not called at all");
    child::send_line(format_args!("{panics} panics"));
}

fn play(scenario: &str) {
    let server = Server::start();
    for line in child::run_role("panicking_log", &[&server.url(), scenario]) {
        println!("{line}");
    }
}

#[test]
fn a_panic_while_a_loss_is_logged_loses_no_other_lock() {
    play("loss");
}

fn hold_some(client: &LockClient) -> Vec<LockGuard> {
    let locks = (0..20).map(|_| client.reentrant_lock(&unique("held")));
    locks
        .map(|lock| lock.acquire().expect("it is free"))
        .collect()
}

fn a_lock_is_lost(url: &str) {
    let client = client(url);
    let events = client.events();
    let mut guards = hold_some(&client);
    let mut redis = redis::Client::open(url)
        .and_then(|client| client.get_connection())
        .expect("the server replies");
    // The thread must exist for the second loss, too.
    for at in [3, 11] {
        let lost = guards.remove(at);
        thread::scope(|scope| {
            let next = client.reentrant_lock(lost.name());
            let next = scope.spawn(move || next.acquire().expect("Redis replies").unlock());
            redis::cmd("DEL")
                .arg(lost.name())
                .exec(&mut redis)
                .expect("the server replies");
            let bound = LEASE.get() * 2 / 3 + SLIP.get();
            let loss = lost.lost().recv_timeout(bound);
            assert_eq!(loss, Ok(LostReason::Deleted));
            within(SLIP.get() * 2, "the next thread", || {
                next.join()
                    .expect("the thread panicked, see above")
                    .expect("it is held");
            });
        });
        assert!(matches!(lost.check(), Err(Error::Lost { .. })));
        eventually("the event of the loss", || {
            events
                .try_iter()
                .any(|event| matches!(event, LockEvent::Lost { .. }))
        });
        throughout(LEASE.get() * 2, "the others are renewed", || {
            guards.iter().all(|guard| guard.check().is_ok())
        });
    }
    assert_eq!(client.stats().lost, 2);
    for guard in guards {
        guard.unlock().expect("it is held");
    }
}

#[test]
fn a_panic_while_a_failed_renewal_is_logged_loses_no_lock() {
    play("failure");
}

fn a_renewal_fails(url: &str) {
    let lease = LEASE.get() * 6;
    let client = builder(url)
        .watchdog_lease(lease)
        .build()
        .expect("the settings are valid");
    let guards = hold_some(&client);
    let mut redis = redis::Client::open(url)
        .and_then(|client| client.get_connection())
        .expect("the server replies");
    for _ in 0..2 {
        let before = client.stats();
        // The server hangs from before the renewal, which is due with a third of the lease left and
        // may take a sixth of it, until an eighth is left for another attempt.
        eventually("it to be nearly due", || guards[0].remaining() < lease / 2);
        let hang = u64::try_from((lease * 3 / 8).as_millis()).expect("a lease");
        redis::cmd("CLIENT")
            .arg("PAUSE")
            .arg(hang)
            .arg("ALL")
            .exec(&mut redis)
            .expect("the server replies");
        eventually("a renewal to fail", || {
            client.stats().renewals_unknown > before.renewals_unknown
        });
        eventually("all to be renewed", || {
            client.stats().renewals >= before.renewals + guards.len() as u64
        });
    }
    throughout(lease / 2, "all are renewed", || {
        guards.iter().all(|guard| guard.check().is_ok())
    });
    assert_eq!(client.stats().lost, 0);
    for guard in guards {
        guard.unlock().expect("it is held");
    }
}

#[test]
fn a_panic_while_a_cut_subscription_is_logged_loses_no_wake_up() {
    play("subscription");
}

fn a_subscription_is_cut(url: &str) {
    let (ours, theirs) = (client(url), client(url));
    let held = ours.reentrant_lock(&unique("held"));
    let mut redis = redis::Client::open(url)
        .and_then(|client| client.get_connection())
        .expect("the server replies");
    for _ in 0..3 {
        // So long that the waiter does not get the lock by its end.
        held.lock_with(Lease::fixed(SOON.get() * 6))
            .expect("it is free");
        thread::scope(|scope| {
            let waits = theirs.reentrant_lock(held.name());
            let waiter = scope.spawn(move || waits.acquire().expect("Redis replies").unlock());
            eventually("the waiter to subscribe", || {
                in_redis::listening(&mut redis, held.name()) == 1
            });
            let cuts = theirs.stats().reconnects;
            redis::cmd("CLIENT")
                .arg("KILL")
                .arg("TYPE")
                .arg("pubsub")
                .exec(&mut redis)
                .expect("the server replies");
            eventually("the cut to be noticed", || theirs.stats().reconnects > cuts);
            eventually("the waiter to subscribe again", || {
                in_redis::listening(&mut redis, held.name()) == 1
            });
            throughout(millis(50), "the waiter waits", || !waiter.is_finished());
            let woken = theirs.stats().wakeups_by_message;
            within(SLIP.get() * 2, "from release to hold", || {
                held.unlock().expect("it is held");
                waiter
                    .join()
                    .expect("the thread panicked, see above")
                    .expect("it is held");
            });
            assert!(theirs.stats().wakeups_by_message > woken);
        });
    }
}
