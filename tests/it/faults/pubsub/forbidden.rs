//! The user may not listen: to anything, or to some channels.

use std::thread;
use std::time::{Duration, Instant};

use leasehold::{Lease, Lock, LockClient};

use super::commands;
use crate::support::server::Server;
use crate::support::timing::{SLIP, SOON, eventually, millis, within};
use crate::support::{builder, client, logs, traffic, unique};

/// The longest pause between two looks at a lock whose release nobody announces.
fn poll() -> Duration {
    millis(1000)
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
        let lease = Lease::fixed(SOON.get() * 6);
        let guard = holder.reentrant_lock(name).try_acquire(SOON.get(), lease);
        let guard = guard.expect("an answer").expect("it is free");
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

/// Such a user can take a lock and give it back: a message is a hint.
#[test]
fn a_user_who_may_not_publish_can_unlock() {
    let server = Server::start();
    let url = url_of_user(&server, "+subscribe", &["resetchannels"]);
    let client = builder(&url).build().expect("the settings are good");
    let lock = client.reentrant_lock(&unique("mute"));
    lock.acquire()
        .expect("it is free")
        .unlock()
        .expect("it is held");
    assert_eq!(client.stats().releases, 1);
    lock.lock().expect("it is free");
    assert!(client.force_unlock(lock.name()).expect("it is held"));
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
    polls_and_is_told_once(millis(0));
}

/// Long enough for the client to try again.
#[test]
#[ignore = "long; run it by its name"]
fn a_user_who_may_not_subscribe_is_told_once_in_a_long_time() {
    polls_and_is_told_once(millis(35_000));
}

fn polls_and_is_told_once(time: Duration) {
    logs::keep();
    let server = Server::start();
    let waiter = url_of_user(&server, "-subscribe", &["allchannels"]);
    let waiter = builder(&waiter).build().expect("the settings are good");
    let holder = client(&server.url());
    let names: Vec<String> = (0..20).map(|_| unique("mute")).collect();
    let start = Instant::now();
    take_by_polling(&holder, &waiter, &names);
    polls_seldom(&server, &holder, &waiter);
    while start.elapsed() < time {
        take_by_polling(&holder, &waiter, &names[..3]);
    }
    let refused: Vec<redis::Value> = server.ask(redis::cmd("ACL").arg("LOG"));
    assert!(!refused.is_empty(), "it did try");
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

#[test]
fn a_user_who_may_no_longer_subscribe_goes_on_by_polling() {
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
        url_of_user(&server, "-subscribe", &["allchannels"]);
        let mut kill = redis::cmd("CLIENT");
        server.ask::<()>(kill.arg("KILL").arg("TYPE").arg("pubsub"));
        eventually("it polls", || waiter.stats().wakeups_by_timeout > polls + 2);
        lock.unlock().expect("it is held");
        within(poll() + SLIP.get(), "the poll", || {
            waiting.join().expect("no panic").expect("the lock");
        });
    });
}
