//! The user has no permission to subscribe, to all channels or to some.

use super::{commands_in, kill_subscribers};
use crate::faults::deployment::Deployment;
use crate::support::prelude::*;
use crate::support::refused;
use crate::support::server::program::is_redis_7;

everywhere! {
    without_permission_to_publish_an_unlock_succeeds
    without_permission_to_subscribe_a_waiter_polls_and_there_is_one_warning;
    locks_whose_channels_are_forbidden_are_polled_and_there_is_one_warning
}

/// The server is asked again about a channel that it has refused.
#[test]
#[ignore = "soak"]
fn a_channel_that_is_permitted_later_is_subscribed_within_half_a_minute() {
    let deployment = Deployment::one_server();
    let channels = ["resetchannels", "&redisson_lock__channel:{leasehold:*"];
    let waiter = client_of_user(&deployment, MAY, &channels);
    let holder = deployment.client();
    let lock = holder.reentrant_lock(&unique("later"));
    let guard = lock.acquire().expect("it is free");
    thread::scope(|scope| {
        let waiting = scope.spawn(|| waiter.reentrant_lock(lock.name()).lock());
        eventually("the waiter polls", || waiter.stats().wakeups_by_timeout > 2);
        client_of_user(&deployment, MAY, &["allchannels"]);
        let start = Instant::now();
        while waiter.stats().wakeups_by_message == 0 {
            assert!(start.elapsed() < millis(35_000), "it is not subscribed");
            thread::sleep(millis(100));
        }
        guard.unlock().expect("it is held");
        waiting.join().expect("no panic").expect("the lock");
    });
}

const MAY: &str = "+";
const MAY_NOT: &str = "-";

/// The longest pause between two polls of a waiter, on any machine.
const POLL: Duration = Duration::from_secs(1);

/// A client of a user with all permissions for locks, but only for these channels. `subscribe` is
/// [`MAY`] or [`MAY_NOT`].
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

type Make = fn(&LockClient, &str) -> Box<dyn Lock>;

/// A client is called on a channel of its own.
fn plain(client: &LockClient, name: &str) -> Box<dyn Lock> {
    Box::new(client.reentrant_lock(name))
}

/// Each lock has a channel for each client.
fn fair(client: &LockClient, name: &str) -> Box<dyn Lock> {
    Box::new(client.fair_lock(name))
}

/// Acquires and unlocks a lock. Returns when it was acquired.
fn take(lock: &dyn Lock) -> Instant {
    let taken = lock.try_lock(SOON.get(), Lease::RENEWED);
    assert!(taken.expect("a reply"), "{}", lock.name());
    let got = Instant::now();
    lock.unlock().expect("it is held");
    got
}

/// Acquires many locks that another client releases one after the other. Each acquire succeeds by a
/// poll.
fn take_by_polling(make: Make, holder: &LockClient, waiter: &LockClient, names: &[String]) {
    for name in names {
        let lease = Lease::fixed(SOON.get() * 6);
        let guard = make(holder, name).try_acquire(SOON.get(), lease);
        let guard = guard.expect("a reply").expect("it is free");
        let polls = waiter.stats().wakeups_by_timeout;
        thread::scope(|scope| {
            let waiting = scope.spawn(|| take(&*make(waiter, name)));
            eventually("the waiter polls", || {
                waiter.stats().wakeups_by_timeout > polls + 1
            });
            let released = Instant::now();
            guard.unlock().expect("it is held");
            let got = waiting.join().expect("the lock");
            let took = got.saturating_duration_since(released);
            assert!(took < POLL + SLIP.get() * 2, "{took:?}");
        });
    }
}

/// Such a user can acquire and unlock: the message of a release is not essential.
fn without_permission_to_publish_an_unlock_succeeds(deployment: &Deployment) {
    let client = client_of_user(deployment, MAY, &["resetchannels"]);
    let lock = client.reentrant_lock(&unique("forbidden"));
    take_and_release(&lock);
    assert_eq!(client.stats().releases, 1);
    lock.lock().expect("it is free");
    assert!(client.force_unlock(lock.name()).expect("it is held"));
}

/// A lock that is held for long is polled once a second, not more often.
fn polls_seldom(make: Make, deployment: &Deployment, holder: &LockClient, waiter: &LockClient) {
    let name = unique("long");
    let server = deployment.server_of(&name);
    let guard = make(holder, &name);
    let guard = guard.try_acquire(Duration::ZERO, Lease::fixed(SOON.get() * 6));
    let guard = guard.expect("a reply").expect("it is free");
    thread::scope(|scope| {
        let waiting = scope.spawn(|| take(&*make(waiter, &name)));
        let polls = waiter.stats().wakeups_by_timeout;
        // After the first polls, which follow each other quickly.
        eventually("the waiter polls", || {
            waiter.stats().wakeups_by_timeout >= polls + 6
        });
        traffic::reset(server);
        thread::sleep(POLL * 3);
        let sent = commands_in(deployment, server, 0);
        assert!((2..=8).contains(&sent), "{sent} commands in three polls");
        guard.unlock().expect("it is held");
        waiting.join().expect("the lock");
    });
}

/// One warning for each server.
fn without_permission_to_subscribe_a_waiter_polls_and_there_is_one_warning(
    deployment: &Deployment,
) {
    logs::keep();
    let waiter = client_of_user(deployment, MAY_NOT, &["allchannels"]);
    let holder = deployment.client();
    let names: Vec<String> = (0..20).map(|_| unique("forbidden")).collect();
    take_by_polling(plain, &holder, &waiter, &names);
    polls_seldom(plain, deployment, &holder, &waiter);
    for (server, _) in deployment.by_server(&names) {
        assert!(!refused(server).is_empty(), "it has tried");
        let warnings = logs::warnings_about(&server.address());
        assert_eq!(warnings.len(), 1, "{warnings:#?}");
        assert!(warnings[0].contains("waiting threads poll"), "{warnings:?}");
    }
}

fn locks_whose_channels_are_forbidden_are_polled_and_there_is_one_warning(deployment: &Deployment) {
    logs::keep();
    let prefix = unique("forbidden");
    let channels = ["resetchannels", "&redisson_lock__channel:{leasehold:*"];
    let waiter = client_of_user(deployment, MAY, &channels);
    let holder = deployment.client();
    let names: Vec<String> = (0..30).map(|at| format!("{prefix}:{at}")).collect();
    // Names on one server, which has at least ten of them.
    let mut homes = deployment.by_server(&names).into_iter();
    let names = homes.find_map(|(_, names)| names.first_chunk::<10>().cloned());
    let names = names.expect("there are three servers at most");
    take_by_polling(fair, &holder, &waiter, &names);
    // A new connection logs no new warning.
    kill_subscribers(&deployment.servers());
    eventually("a new connection", || waiter.stats().reconnects > 0);
    take_by_polling(fair, &holder, &waiter, &names[..3]);
    polls_seldom(fair, deployment, &holder, &waiter);
    // Names of other tests may begin with the same digits.
    let warnings = logs::warnings_about(&format!("{prefix}:"));
    assert_eq!(warnings.len(), 1, "{warnings:#?}");
}
