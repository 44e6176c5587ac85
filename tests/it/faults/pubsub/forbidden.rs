//! The user has no permission to subscribe, to all channels or to some.

use super::{commands_in, kill_subscribers};
use crate::faults::deployment::Deployment;
use crate::support::prelude::*;
use crate::support::refused;
use crate::support::server::program::is_redis_7;

everywhere! {
    without_permission_to_publish_an_unlock_succeeds
    without_permission_to_subscribe_a_waiter_polls_and_there_is_one_warning;
}

/// The longest pause between two polls of a waiter, on any machine.
const POLL: Duration = Duration::from_secs(1);

/// A client of a user with all permissions for locks, but only for these channels. `subscribe` is
/// `+` or `-`.
fn client_of_user(deployment: &Deployment, subscribe: &str, channels: &[&str]) -> LockClient {
    let mut acl = redis::cmd("ACL");
    acl.arg("SETUSER").arg("worker").arg("reset");
    acl.arg("on").arg(">secret").arg("~*").arg("+@all");
    acl.arg(format!("{subscribe}subscribe")).arg(channels);
    if is_redis_7() {
        acl.arg(format!("{subscribe}ssubscribe"));
    }
    for server in deployment.all_servers() {
        server.ask::<()>(&acl);
    }
    let builder = deployment.builder().credentials(Some("worker"), "secret");
    builder.build().expect("the settings are valid")
}

/// A lock that is held for longer than the test.
fn hold(lock: &dyn Lock) {
    let lease = Lease::fixed(SOON.get() * 6);
    assert!(lock.try_lock(SOON.get(), lease).expect("a reply"));
}

/// Acquires a lock by a poll when another client releases it. The first polls follow each other
/// quickly, later ones come once a second. Meanwhile, `look` is called.
fn take_by_polling(
    held: &dyn Lock,
    waiter: &LockClient,
    wanted: &dyn Lock,
    polls: u64,
    look: impl FnOnce(),
) {
    hold(held);
    let before = waiter.stats().wakeups_by_timeout;
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            assert!(
                wanted
                    .try_lock(SOON.get(), Lease::RENEWED)
                    .expect("a reply")
            );
            let got = Instant::now();
            wanted.unlock().expect("it is held");
            got
        });
        eventually("the waiter polls", || {
            waiter.stats().wakeups_by_timeout > before + polls
        });
        look();
        let released = Instant::now();
        held.unlock().expect("it is held");
        let took = waiting.join().expect("the lock");
        let took = took.saturating_duration_since(released);
        assert!(took < POLL + SLIP.get() * 2, "{took:?}");
    });
}

/// Such a user can acquire and unlock: the message of a release is not essential.
fn without_permission_to_publish_an_unlock_succeeds(deployment: &Deployment) {
    let client = client_of_user(deployment, "+", &["resetchannels"]);
    let lock = client.reentrant_lock(&unique("forbidden"));
    pair(&lock);
    assert_eq!(client.stats().releases, 1);
    lock.lock().expect("it is free");
    assert!(client.force_unlock(lock.name()).expect("it is held"));
}

/// One warning for each server.
fn without_permission_to_subscribe_a_waiter_polls_and_there_is_one_warning(
    deployment: &Deployment,
) {
    logs::keep();
    let waiter = client_of_user(deployment, "-", &["allchannels"]);
    let holder = deployment.client();
    let names: Vec<String> = (0..12).map(|_| unique("forbidden")).collect();
    let take = |name: &String, polls, look: &dyn Fn()| {
        let [held, wanted] = [&holder, &waiter].map(|client| client.reentrant_lock(name));
        take_by_polling(&held, &waiter, &wanted, polls, look);
    };
    for name in &names {
        take(name, 1, &|| ());
    }
    let server = deployment.server_of(&names[0]);
    take(&names[0], 6, &|| {
        traffic::reset(server);
        thread::sleep(POLL * 3);
        let sent = commands_in(server, 0);
        // It is the first in the line, so it asks every ten milliseconds.
        assert!(
            (2..=330).contains(&sent),
            "{sent} commands in three seconds"
        );
    });
    for (server, _) in deployment.by_server(&names) {
        assert!(!refused(server).is_empty(), "it has tried");
        let warnings = logs::warnings_about(&server.address());
        assert_eq!(warnings.len(), 1, "{warnings:#?}");
        assert!(warnings[0].contains("waiting threads poll"), "{warnings:?}");
    }
}

/// Else each turn of this client would leave the lock free for a second.
#[test]
fn the_first_client_of_a_fair_lock_asks_often_if_it_may_not_subscribe() {
    let deployment = Deployment::one_server();
    let waiter = client_of_user(&deployment, "-", &["allchannels"]);
    let name = unique("forbidden");
    let [held, wanted] = [&deployment.client(), &waiter].map(|client| client.fair_lock(&name));
    // The first polls follow each other more quickly.
    take_by_polling(&held, &waiter, &wanted, 12, || {
        let (begin, polls) = (Instant::now(), waiter.stats().wakeups_by_timeout);
        eventually("the waiter polls", || {
            waiter.stats().wakeups_by_timeout >= polls + 4
        });
        assert!(begin.elapsed() < POLL * 2, "{:?}", begin.elapsed());
    });
}

/// Each fair lock has a channel for each client. A new connection subscribes all channels by one
/// command, which Redis refuses if one of them is forbidden. It logs no new warning.
#[test]
fn a_forbidden_channel_is_polled_and_does_not_affect_one_that_is_subscribed_with_it() {
    logs::keep();
    let deployment = Deployment::one_server();
    let server = deployment.servers()[0];
    let prefix = unique("mixed");
    let [permitted, forbidden] = ["permitted", "forbidden"].map(|name| format!("{prefix}:{name}"));
    let [control, channel] = ["leasehold", &permitted];
    let rules = [control, channel].map(|name| format!("&redisson_lock__channel:{{{name}*"));
    let waiter = client_of_user(&deployment, "+", &["resetchannels", &rules[0], &rules[1]]);
    let holder = deployment.client();
    let listens = || in_redis::listeners(server, &permitted) == 1;
    let held = holder.fair_lock(&permitted);
    hold(&held);
    let permitted = waiter.fair_lock(&permitted);
    let [denied, wanted] = [&holder, &waiter].map(|client| client.fair_lock(&forbidden));
    thread::scope(|scope| {
        let waiting = scope.spawn(|| permitted.try_lock(SOON.get(), Lease::RENEWED));
        eventually("the permitted channel", listens);
        take_by_polling(&denied, &waiter, &wanted, 1, || {
            let before = waiter.stats().reconnects;
            kill_subscribers(&[server]);
            eventually("a new connection", || waiter.stats().reconnects > before);
            eventually("the permitted channel", listens);
        });
        let before = Instant::now();
        held.unlock().expect("it is held");
        assert!(waiting.join().expect("no panic").expect("a reply"));
        assert!(before.elapsed() < POLL, "it got a message");
    });
    // Names of other tests may begin with the same digits.
    let warnings = logs::warnings_about(&format!("{prefix}:"));
    assert_eq!(warnings.len(), 1, "{warnings:#?}");
}
