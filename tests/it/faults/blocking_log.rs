//! A log that blocks, one that panics, and one that drops the last client. All are code of the
//! application that the client's own threads cause to be called.

use parking_lot::{Condvar, Mutex};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::support::prelude::*;
use crate::support::{connect, process, run};

/// What the log does on a thread of a client.
#[derive(Clone, Copy)]
enum Log {
    Block,
    Panic,
    Drop,
}

/// How often the log was called on a thread of a client.
static CALLS: AtomicU64 = AtomicU64::new(0);

static BLOCKED: Mutex<bool> = Mutex::new(true);
static RELEASED: Condvar = Condvar::new();
/// The last client, which the log drops.
static LAST: Mutex<Option<LockClient>> = Mutex::new(None);

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("leasehold")
    }

    fn event(&self, _: &Event<'_>) {
        self.called();
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

fn is_a_clients_own_thread() -> bool {
    let thread = thread::current();
    let name = thread.name();
    name.is_some_and(|name| name.starts_with("leasehold"))
}

impl Log {
    fn called(self) {
        if !is_a_clients_own_thread() {
            return;
        }
        CALLS.fetch_add(1, Ordering::SeqCst);
        match self {
            Self::Block => RELEASED.wait_while(&mut BLOCKED.lock(), |blocked| *blocked),
            Self::Panic => panic!("on purpose"),
            Self::Drop => {
                let last = LAST.lock().take();
                drop(last);
            }
        }
    }

    /// Waits until the log has been called. One that blocks is called once, until it is released.
    fn await_call(self) {
        eventually("the log to be called", || calls() > 0);
        assert!(calls() == 1 || !matches!(self, Self::Block));
    }
}

fn calls() -> u64 {
    CALLS.load(Ordering::SeqCst)
}

fn release_the_log() {
    *BLOCKED.lock() = false;
    RELEASED.notify_all();
}

type Scenario = (&'static str, Log, fn(Log, &str, &mut Connection));

const SCENARIOS: [Scenario; 3] = [
    ("block, loss", Log::Block, other_locks_are_renewed),
    ("panic, loss", Log::Panic, other_locks_are_renewed),
    ("drop, loss", Log::Drop, a_loss_drops_the_last_client),
];

/// The role: one of the scenarios. A process has only one log, so each has its own process.
pub fn log_scenario(arguments: &[&str]) {
    let [url, scenario] = child::named(arguments);
    let mut scenarios = SCENARIOS.into_iter();
    let found = scenarios.find(|(name, ..)| *name == scenario);
    let (_, log, play) = found.expect("the name of a scenario");
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !(matches!(log, Log::Panic) && is_a_clients_own_thread()) {
            report(info);
            // After the panic, threads that wait for a lock would continue to wait.
            std::process::exit(101);
        }
    }));
    tracing::subscriber::set_global_default(log).expect("the first");
    play(log, url, &mut connect(url));
    assert!(calls() > 0, "the log was not called at all");
}

#[test]
fn a_log_that_blocks_panics_or_drops_the_last_client_affects_no_lock() {
    thread::scope(|scope| {
        for some in SCENARIOS.chunks(2) {
            scope.spawn(move || {
                for (scenario, ..) in some {
                    println!("{scenario}");
                    let server = Server::start();
                    child::run_role("log_scenario", &[&server.url(), scenario]);
                }
            });
        }
    });
}

/// Deletes the lock, and waits until its holder is notified.
fn lose(redis: &mut Connection, guard: &LockGuard) {
    run(redis, &format!("DEL {}", guard.name()));
    let loss = guard.lost().recv_timeout(LEASE.get() * 2 / 3 + SLIP.get());
    assert_eq!(loss, Ok(LostReason::Deleted));
}

fn hold_some(client: &LockClient) -> Vec<LockGuard> {
    let locks = (0..20).map(|_| client.reentrant_lock(&unique("held")));
    let guards = locks.map(|lock| lock.acquire().expect("it is free"));
    guards.collect()
}

fn other_locks_are_renewed(log: Log, url: &str, redis: &mut Connection) {
    let client = client(url);
    let events = client.events();
    let mut guards = hold_some(&client);
    // The thread must exist for the second loss, too.
    for at in [3, 11] {
        let lost = guards.remove(at);
        thread::scope(|scope| {
            let next = client.reentrant_lock(lost.name());
            let next = scope.spawn(move || next.acquire().expect("Redis replies").unlock());
            lose(redis, &lost);
            within(SLIP.get() * 2, "the next thread", || {
                next.join().expect("no panic").expect("it is held");
            });
        });
        log.await_call();
        assert_error!(lost.check(), Lost);
        eventually("the event of the loss", || {
            let mut events = events.try_iter();
            events.any(|event| matches!(event, LockEvent::Lost { .. }))
        });
        throughout(LEASE.get() * 5 / 4, "the others are renewed", || {
            guards.iter().all(|guard| guard.check().is_ok())
        });
        assert_error!(lost.unlock(), Lost);
    }
    log.await_call();
    release_the_log();
    eventually("both losses to be logged", || calls() >= 2);
    assert_eq!(client.stats().lost, 2);
    for guard in guards {
        guard.unlock().expect("it is held");
    }
}

fn a_loss_drops_the_last_client(_: Log, url: &str, redis: &mut Connection) {
    let threads = process::threads();
    let (client, name) = (client(url), unique("held"));
    // Without a guard, which would keep the client alive.
    client.reentrant_lock(&name).lock().expect("it is free");
    *LAST.lock() = Some(client);
    run(redis, &format!("DEL {name}"));
    eventually("the log to drop it", || {
        calls() > 0 && LAST.lock().is_none()
    });
    eventually("its threads to end", || process::threads() == threads);
}
