//! Messages are hints: without them waiting takes longer, but not for ever.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use leasehold::{Lease, Lock, LockClient};

use crate::support::server::Server;
use crate::support::timing::{LEASE, SLIP, SOON, eventually, millis, within};
use crate::support::{builder, client, logs, traffic, unique};

/// The longest pause between two looks at a lock whose release nobody announces.
fn poll() -> Duration {
    millis(1000)
}

/// Sees to it that nobody listens for long.
fn kill_subscribers(server: &Server, every: Duration, stop: &AtomicBool) {
    let mut redis = server.connection();
    while !stop.load(Ordering::Relaxed) {
        let mut kill = redis::cmd("CLIENT");
        kill.arg("KILL").arg("TYPE").arg("pubsub");
        kill.exec(&mut redis).expect("the server answers");
        thread::sleep(every);
    }
}

/// What clients sent to wait and to try: releases, and what scripts call, left out.
fn commands(server: &Server, releases: u64) -> u64 {
    traffic::sent(server, releases) - releases
}

/// A subscription that is cut again and again neither keeps a waiter from its lock nor makes it
/// ask without a pause.
#[test]
fn killed_subscribers_do_not_spin() {
    let server = Server::start();
    let (holder, waiters) = (client(&server.url()), client(&server.url()));
    let name = unique("cut");
    let guard = holder.reentrant_lock(&name).acquire().expect("it is free");
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let waiting: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let lock = waiters.reentrant_lock(&name);
                    assert!(lock.try_lock(SOON.get() * 2, Lease::RENEWED)?);
                    lock.unlock()
                })
            })
            .collect();
        scope.spawn(|| kill_subscribers(&server, millis(5), &stop));
        eventually("it is cut", || waiters.stats().reconnects > 1);
        traffic::reset(&server);
        let start = Instant::now();
        thread::sleep(LEASE.get() * 2);
        let sent = commands(&server, 0);
        // One for all: connecting anew, 50 ms apart at least, takes two subscriptions, a hint and
        // two tries, beside the renewals.
        let bound = u64::try_from(start.elapsed().as_millis() / 50 * 5 + 20).expect("small");
        assert!(sent < bound, "{sent} commands in {:?}", start.elapsed());
        assert!(waiting.iter().all(|waiter| !waiter.is_finished()));
        guard.unlock().expect("it is held");
        for waiter in waiting {
            waiter.join().expect("no panic").expect("the lock");
        }
        stop.store(true, Ordering::Relaxed);
    });
}

/// A lock changes hands between clients whose subscribers do not live long.
#[test]
fn killed_subscribers_do_not_stop_a_lock_from_changing_hands() {
    let server = Server::start();
    let clients = [client(&server.url()), client(&server.url())];
    let name = unique("hands");
    let stop = AtomicBool::new(false);
    let busy = AtomicBool::new(false);
    let releases = AtomicU64::new(0);
    let start = Instant::now();
    let turns: Vec<u64> = thread::scope(|scope| {
        let killer = scope.spawn(|| kill_subscribers(&server, millis(20), &stop));
        let workers: Vec<_> = (0..4)
            .map(|at| {
                let lock = clients[at % 2].reentrant_lock(&name);
                let (busy, stop, releases) = (&busy, &stop, &releases);
                scope.spawn(move || {
                    let mut turns = 0;
                    while !stop.load(Ordering::Relaxed) {
                        let guard = lock.acquire()?;
                        assert!(!busy.swap(true, Ordering::SeqCst), "two holders");
                        thread::sleep(millis(3));
                        busy.store(false, Ordering::SeqCst);
                        guard.unlock()?;
                        releases.fetch_add(1, Ordering::Relaxed);
                        turns += 1;
                        // The other process is to have it next, which it can know by a message only.
                        thread::sleep(millis(3));
                    }
                    leasehold::Result::<u64>::Ok(turns)
                })
            })
            .collect();
        thread::sleep(LEASE.get() * 4);
        stop.store(true, Ordering::Relaxed);
        killer.join().expect("no panic");
        let workers = workers.into_iter();
        workers
            .map(|worker| worker.join().expect("no panic").expect("no error"))
            .collect()
    });
    assert!(turns.iter().all(|turns| *turns > 10), "{turns:?}");
    let cut: u64 = clients.iter().map(|c| c.stats().reconnects).sum();
    assert!(cut > 10, "{cut} subscriptions were cut");
    let releases = releases.load(Ordering::Relaxed);
    let sent = commands(&server, releases);
    let ticks = u64::try_from(start.elapsed().as_millis() / 50).expect("small");
    // For each turn two scripts and some tries in vain; for each new connection as above.
    let bound = releases * 8 + 2 * ticks * 5;
    assert!(sent < bound, "{sent} commands for {releases} turns");
}

/// A user who may do all that a lock needs, but listen only to these channels.
fn url_of_user(server: &Server, subscribe: &str, channels: &[&str]) -> String {
    let mut acl = redis::cmd("ACL");
    acl.arg("SETUSER").arg("worker").arg("reset");
    acl.arg("on").arg(">secret").arg("~*").arg("+@all");
    acl.arg(subscribe).arg(channels);
    server.ask::<()>(&acl);
    format!("redis://worker:secret@{}", server.address())
}

/// Takes many locks that another client gives back, one after the other; each is had by a poll.
fn take_by_polling(holder: &LockClient, waiter: &LockClient, names: &[String]) {
    for name in names {
        let guard = holder.reentrant_lock(name).acquire().expect("it is free");
        let polls = waiter.stats().wakeups_by_timeout;
        thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let lock = waiter.reentrant_lock(name);
                assert!(lock.try_lock(SOON.get(), Lease::RENEWED)?);
                let got = Instant::now();
                lock.unlock().map(|()| got)
            });
            eventually("it polls", || waiter.stats().wakeups_by_timeout > polls + 1);
            let released = Instant::now();
            guard.unlock().expect("it is held");
            let got = waiting.join().expect("no panic").expect("the lock");
            let took = got.saturating_duration_since(released);
            assert!(took < poll() + SLIP.get(), "{took:?}");
        });
    }
}

/// A lock that is held for long is asked for once a second, not more.
fn polls_seldom(server: &Server, holder: &LockClient, waiter: &LockClient) {
    let name = unique("long");
    let guard = holder.reentrant_lock(&name);
    let guard = guard.try_acquire(Duration::ZERO, Lease::fixed(SOON.get() * 6));
    let guard = guard.expect("an answer").expect("it is free");
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let lock = waiter.reentrant_lock(&name);
            assert!(lock.try_lock(SOON.get(), Lease::RENEWED)?);
            lock.unlock()
        });
        let polls = waiter.stats().wakeups_by_timeout;
        // Past the first, quick ones.
        eventually("it polls", || {
            waiter.stats().wakeups_by_timeout >= polls + 6
        });
        traffic::reset(server);
        thread::sleep(poll() * 3);
        let sent = commands(server, 0);
        assert!((2..=8).contains(&sent), "{sent} commands in three polls");
        guard.unlock().expect("it is held");
        waiting.join().expect("no panic").expect("the lock");
    });
}

#[test]
fn a_user_who_may_not_subscribe_polls_and_is_told_once() {
    logs::keep();
    let server = Server::start();
    let waiter = url_of_user(&server, "-subscribe", &["allchannels"]);
    let waiter = builder(&waiter).build().expect("the settings are good");
    let holder = client(&server.url());
    let names: Vec<String> = (0..20).map(|_| unique("mute")).collect();
    take_by_polling(&holder, &waiter, &names);
    polls_seldom(&server, &holder, &waiter);
    take_by_polling(&holder, &waiter, &names[..3]);
    assert_eq!(waiter.stats().wakeups_by_message, 0);
    let told = logs::warnings_about(&server.address());
    assert_eq!(told.len(), 1, "{told:#?}");
    assert!(told[0].contains("polled"), "{told:?}");
}

#[test]
fn locks_whose_channels_are_forbidden_are_polled_and_that_is_told_once() {
    logs::keep();
    let server = Server::start();
    let prefix = unique("forbidden");
    let channels = ["resetchannels", "&redisson_lock__channel:{leasehold:*"];
    let waiter = url_of_user(&server, "+subscribe", &channels);
    let waiter = builder(&waiter).build().expect("the settings are good");
    let holder = client(&server.url());
    let names: Vec<String> = (0..10).map(|at| format!("{prefix}:{at}")).collect();
    take_by_polling(&holder, &waiter, &names);
    // A new connection says nothing new.
    server.ask::<()>(redis::cmd("CLIENT").arg("KILL").arg("TYPE").arg("pubsub"));
    eventually("a new connection", || waiter.stats().reconnects > 0);
    take_by_polling(&holder, &waiter, &names[..3]);
    polls_seldom(&server, &holder, &waiter);
    let told = logs::warnings_about(&prefix);
    assert_eq!(told.len(), 1, "{told:#?}");
}

/// Of two locks one may be listened to.
#[test]
fn a_forbidden_channel_does_not_hurt_the_others() {
    let server = Server::start();
    let (heard, mute) = (unique("heard"), unique("mute"));
    let allowed = format!("&redisson_lock__channel:{{{heard}}}");
    let channels = [
        "resetchannels",
        "&redisson_lock__channel:{leasehold:*",
        &allowed,
    ];
    let waiter = url_of_user(&server, "+subscribe", &channels);
    let waiter = builder(&waiter).build().expect("the settings are good");
    let holder = client(&server.url());
    let held = Lease::fixed(SOON.get() * 6);
    for name in [&mute, &heard] {
        holder
            .reentrant_lock(name)
            .lock_with(held)
            .expect("it is free");
    }
    thread::scope(|scope| {
        let [muted, hearing] = [&mute, &heard].map(|name| {
            scope.spawn(|| {
                let lock = waiter.reentrant_lock(name);
                assert!(lock.try_lock(SOON.get(), Lease::RENEWED)?);
                lock.unlock()
            })
        });
        let polls = || waiter.stats().wakeups_by_timeout;
        eventually("one polls", || polls() > 5);
        within(millis(100) + SLIP.get(), "the message", || {
            holder.reentrant_lock(&heard).unlock().expect("it is held");
            hearing.join().expect("no panic").expect("the lock");
        });
        assert!(!muted.is_finished());
        holder.reentrant_lock(&mute).unlock().expect("it is held");
        within(poll() + SLIP.get(), "the poll", || {
            muted.join().expect("no panic").expect("the lock");
        });
    });
}

/// Redis cuts off those who listen to what they may no longer hear.
#[test]
fn a_channel_that_is_forbidden_while_a_thread_waits_is_polled() {
    let server = Server::start();
    let waiter = url_of_user(&server, "+subscribe", &["allchannels"]);
    let waiter = builder(&waiter).build().expect("the settings are good");
    let holder = client(&server.url());
    let name = unique("revoked");
    let lock = holder.reentrant_lock(&name);
    lock.lock_with(Lease::fixed(SOON.get() * 6))
        .expect("it is free");
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let lock = waiter.reentrant_lock(&name);
            assert!(lock.try_lock(SOON.get(), Lease::RENEWED)?);
            lock.unlock()
        });
        eventually("it listens", || waiter.stats().wakeups_by_message > 0);
        let polls = waiter.stats().wakeups_by_timeout;
        url_of_user(&server, "-subscribe", &["resetchannels"]);
        eventually("it polls", || waiter.stats().wakeups_by_timeout > polls + 2);
        lock.unlock().expect("it is held");
        within(poll() + SLIP.get(), "the poll", || {
            waiting.join().expect("no panic").expect("the lock");
        });
    });
}
