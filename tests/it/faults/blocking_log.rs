//! A log that blocks, and one that drops the last client. Both are code of the application that the
//! client's own threads cause to be called.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crossbeam_channel::bounded;
use leasehold::{Error, Lease, LockClient, LockGuard, LostReason};
use parking_lot::{Condvar, Mutex};
use redis::Connection;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use super::in_redis;
use crate::support::server::Server;
use crate::support::timing::{LEASE, SLIP, SOON, eventually, millis, throughout, within};
use crate::support::{child, client, on_another_thread, process, unique};

/// What the log does on a thread of a client.
enum Log {
    Block,
    Drop,
}

/// How often the log was called on a thread of a client.
static CALLS: AtomicU64 = AtomicU64::new(0);
/// How many lines were logged.
static LINES: AtomicU64 = AtomicU64::new(0);
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
        LINES.fetch_add(1, Ordering::SeqCst);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {
        self.called();
    }
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {
        self.called();
    }
    fn exit(&self, _: &Id) {
        self.called();
    }
    fn try_close(&self, _: Id) -> bool {
        self.called();
        true
    }
}

impl Log {
    fn called(&self) {
        let thread = thread::current();
        if !thread
            .name()
            .is_some_and(|name| name.starts_with("leasehold"))
        {
            return;
        }
        CALLS.fetch_add(1, Ordering::SeqCst);
        match self {
            Self::Block => RELEASED.wait_while(&mut BLOCKED.lock(), |blocked| *blocked),
            Self::Drop => {
                let last = LAST.lock().take();
                drop(last);
            }
        }
    }
}

fn calls() -> u64 {
    CALLS.load(Ordering::SeqCst)
}

fn release_the_log() {
    *BLOCKED.lock() = false;
    RELEASED.notify_all();
}

/// The role: one of the scenarios below. A process has only one log, so each scenario has its own
/// process.
pub fn log_scenario(arguments: &[&str]) {
    let &[url, scenario] = arguments else {
        panic!("{arguments:?}")
    };
    let (log, play): (_, fn(&str)) = match scenario {
        "renewals" => (Log::Block, a_lock_is_lost_while_others_are_renewed),
        "wake-ups" => (Log::Block, a_subscription_is_cut),
        "end" => (Log::Block, the_client_ends),
        "loss" => (Log::Drop, a_loss_is_logged),
        "cut" => (Log::Drop, a_cut_is_logged),
        other => panic!("{other}"),
    };
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        report(info);
        // On any thread.
        std::process::exit(101);
    }));
    tracing::subscriber::set_global_default(log).expect("the first");
    play(url);
}

fn play(scenario: &str) {
    let server = Server::start();
    child::run_role("log_scenario", &[&server.url(), scenario]);
}

fn connect(url: &str) -> Connection {
    redis::Client::open(url)
        .and_then(|client| client.get_connection())
        .expect("the server replies")
}

fn delete(redis: &mut Connection, name: &str) {
    redis::cmd("DEL").arg(name).exec(redis).expect("a reply");
}

fn cut_subscriptions(redis: &mut Connection) {
    redis::cmd("CLIENT")
        .arg("KILL")
        .arg("TYPE")
        .arg("pubsub")
        .exec(redis)
        .expect("a reply");
}

/// Deletes the lock, and waits until its holder is notified.
fn lose(redis: &mut Connection, guard: &LockGuard) {
    delete(redis, guard.name());
    let bound = LEASE.get() * 2 / 3 + SLIP.get();
    let loss = guard.lost().recv_timeout(bound);
    assert_eq!(loss, Ok(LostReason::Deleted));
}

#[test]
fn a_log_that_blocks_delays_no_renewal() {
    play("renewals");
}

fn a_lock_is_lost_while_others_are_renewed(url: &str) {
    let (client, mut redis) = (client(url), connect(url));
    let hold = |what| {
        let lock = client.reentrant_lock(&unique(what));
        lock.acquire().expect("it is free")
    };
    let (first, second) = (hold("first"), hold("second"));
    let kept: Vec<LockGuard> = (0..5).map(|_| hold("kept")).collect();
    lose(&mut redis, &first);
    eventually("the log to block", || calls() == 1);
    throughout(LEASE.get() * 5 / 4, "the others are renewed", || {
        kept.iter().all(|guard| guard.check().is_ok())
    });
    lose(&mut redis, &second);
    assert_eq!(calls(), 1, "the log still blocks");
    release_the_log();
    eventually("both losses to be logged", || {
        LINES.load(Ordering::SeqCst) == 2
    });
    for guard in kept {
        guard.unlock().expect("it is held");
    }
    for lost in [first, second] {
        assert!(matches!(lost.unlock(), Err(Error::Lost { .. })));
    }
    assert_eq!(client.stats().lost, 2);
}

#[test]
fn a_log_that_blocks_delays_no_wake_up() {
    play("wake-ups");
}

fn a_subscription_is_cut(url: &str) {
    let (ours, theirs, mut redis) = (client(url), client(url), connect(url));
    let held = ours.reentrant_lock(&unique("held"));
    // The lease does not end before the message comes.
    held.lock_with(Lease::fixed(SOON.get() * 6))
        .expect("it is free");
    thread::scope(|scope| {
        let waits = theirs.reentrant_lock(held.name());
        let waiter = scope.spawn(move || waits.acquire().expect("Redis replies").unlock());
        let mut listens = || in_redis::listening(&mut redis, held.name()) == 1;
        eventually("the waiter to subscribe", &mut listens);
        cut_subscriptions(&mut connect(url));
        eventually("the log to block", || calls() > 0);
        eventually("the waiter to subscribe again", &mut listens);
        let woken = theirs.stats().wakeups_by_message;
        within(SLIP.get() * 2, "from release to hold", || {
            held.unlock().expect("it is held");
            let unlocked = waiter.join().expect("the thread panicked, see above");
            unlocked.expect("it is held");
        });
        assert!(theirs.stats().wakeups_by_message > woken);
    });
    assert_eq!(calls(), 1, "the log still blocks");
    release_the_log();
}

#[test]
fn a_log_that_blocks_does_not_block_the_end_of_the_client() {
    play("end");
}

fn the_client_ends(url: &str) {
    let threads = process::threads();
    let (client, mut redis) = (client(url), connect(url));
    let guard = client.reentrant_lock(&unique("held")).acquire();
    let guard = guard.expect("it is free");
    lose(&mut redis, &guard);
    eventually("the log to block", || calls() == 1);
    assert!(guard.unlock().is_err());
    let (done, end) = bounded(1);
    thread::spawn(move || {
        drop(client);
        done.send(())
    });
    assert!(end.recv_timeout(SOON.get()).is_ok(), "the drop waits");
    release_the_log();
    eventually("its threads to end", || process::threads() == threads);
}

#[test]
fn a_log_that_drops_the_last_client_when_a_loss_is_logged_ends_it() {
    play("loss");
}

fn a_loss_is_logged(url: &str) {
    let mut redis = connect(url);
    the_log_drops_the_last_client(url, &mut redis, |client, redis| {
        let name = unique("held");
        // Without a guard, which would keep the client alive.
        client.reentrant_lock(&name).lock().expect("it is free");
        *LAST.lock() = Some(client);
        delete(redis, &name);
    });
}

#[test]
fn a_log_that_drops_the_last_client_when_a_cut_is_logged_ends_it() {
    play("cut");
}

fn a_cut_is_logged(url: &str) {
    let (mut redis, name) = (connect(url), unique("held"));
    let ours = client(url);
    let held = ours.reentrant_lock(&name).acquire().expect("it is free");
    the_log_drops_the_last_client(url, &mut redis, |client, redis| {
        let waits = client.reentrant_lock(&name);
        eventually("the waiter to subscribe", || {
            let taken = waits.try_lock(millis(20), Lease::RENEWED);
            assert!(!taken.expect("a reply"));
            let channels = redis::cmd("PUBSUB")
                .arg("CHANNELS")
                .query::<Vec<String>>(redis);
            channels.expect("a reply").len() == 1
        });
        drop(waits);
        *LAST.lock() = Some(client);
        cut_subscriptions(redis);
    });
    held.unlock().expect("it is held");
    on_another_thread(|| drop(ours));
}

fn the_log_drops_the_last_client(
    url: &str,
    redis: &mut Connection,
    bring_about: impl FnOnce(LockClient, &mut Connection),
) {
    let connections = |redis: &mut Connection| {
        let list: String = redis::cmd("CLIENT")
            .arg("LIST")
            .query(redis)
            .expect("a reply");
        list.lines().count()
    };
    let (threads, before) = (process::threads(), connections(redis));
    bring_about(client(url), redis);
    eventually("the log to drop it", || {
        calls() > 0 && LAST.lock().is_none()
    });
    eventually("its threads to end", || process::threads() == threads);
    // The server may have listed a connection of its start at first.
    eventually("its connections to be closed", || {
        connections(redis) <= before
    });
}
