//! The permissions that a Redis user needs, and that the log-in and the database of the URL are
//! used.

mod kinds;
mod many_servers;

use crate::support::prelude::*;
use crate::support::proxy::repository;
use crate::support::refused;

/// The rules in the line of docs/permissions.md. Redis also checks the commands that a script calls.
pub fn documented() -> Vec<String> {
    let page = std::fs::read_to_string(repository().join("docs/permissions.md")).unwrap();
    let mut lines = page.lines();
    let line = lines.find(|line| line.starts_with("ACL SETUSER")).unwrap();
    let rules: Vec<String> = line.split(' ').skip(5).map(str::to_owned).collect();
    assert!(rules.len() > 40 && rules[0] == "resetchannels", "{rules:?}");
    rules
}

fn all_but(spared: &str) -> Vec<String> {
    let rules = documented().into_iter();
    rules.filter(|rule| rule != spared).collect()
}

/// Uses every feature that the rules are for.
fn uses_everything(builder: &LockClientBuilder) -> leasehold::Result<()> {
    let clients = [builder.clone().build()?, builder.clone().build()?];
    let [lock, other] = [&clients[0], &clients[1]].map(|client| client.reentrant_lock("lock"));
    let guard = lock.acquire()?;
    lock.lock()?;
    lock.unlock()?;
    guard.extend(LEASE.get())?;
    clients[0].fenced_lock("numbered").acquire()?.unlock()?;
    lock.is_locked()?;
    lock.remaining_lease()?;
    clients[0].inspect("lock")?;
    use_numbers(&clients)?;
    kinds::use_other_kinds(&clients)?;
    // Long enough for a renewal.
    assert!(!on_another_thread(
        || other.try_lock(LEASE.get() * 2, Lease::RENEWED)
    )?);
    guard.check()?;
    let woken = clients[1].stats().wakeups_by_message;
    thread::scope(|scope| {
        let waiter = scope.spawn(|| other.acquire()?.unlock());
        throughout(A_WHILE.get(), "the waiter waits", || !waiter.is_finished());
        clients[0].force_unlock("lock")?;
        waiter.join().expect("no panic")
    })?;
    assert!(clients[1].stats().wakeups_by_message > woken);
    assert_matches!(guard.unlock(), Err(Error::Lost { .. }));
    use_a_condition(&clients)?;
    assert!(clients[0].stats().renewals > 0);
    assert_eq!(
        clients
            .iter()
            .map(|client| client.stats().reconnects)
            .sum::<u64>(),
        0
    );
    Ok(())
}

/// A thread waits, renews its place, and is notified by another client.
fn use_a_condition(clients: &[LockClient; 2]) -> leasehold::Result<()> {
    let [there, here] = clients
        .each_ref()
        .map(|client| client.reentrant_lock("lock"));
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let guard = there.acquire()?;
            there.condition("ready").wait()?;
            guard.unlock()
        });
        throughout(LEASE.get() * 2, "the waiter waits", || {
            !waiter.is_finished()
        });
        let guard = here.acquire()?;
        here.condition("ready").notify_one()?;
        guard.unlock()?;
        waiter.join().expect("no panic")
    })
}

/// Uses every feature of semaphores and latches that the rules are for.
fn use_numbers(clients: &[LockClient; 2]) -> leasehold::Result<()> {
    let [slots, other] = [&clients[0], &clients[1]].map(|client| client.semaphore("slots"));
    let latches = [&clients[0], &clients[1]].map(|client| client.count_down_latch("loaded"));
    slots.drain()?;
    slots.try_set_permits(1)?;
    latches[0].try_set_count(2)?;
    latches[0].count_down()?;
    assert_eq!(latches[0].count()?, 1);
    let woken = clients[1].stats().wakeups_by_message;
    thread::scope(|scope| {
        let taken = scope.spawn(|| other.acquire(2));
        let opened = scope.spawn(|| latches[1].wait());
        let listen = || clients[1].stats().wakeups_by_message > woken + 1;
        eventually("both listen", listen);
        slots.release(1)?;
        slots.add_permits(1)?;
        latches[0].count_down()?;
        taken.join().expect("no panic")?;
        opened.join().expect("no panic")
    })
}

#[test]
fn the_acl_line_is_enough() {
    let server = Server::start();
    let url = server.with_user(documented());
    uses_everything(&builder(&url)).unwrap();
    assert_eq!(refused(&server), [""; 0]);
    let database = format!("{url}/0");
    uses_everything(&builder(&database)).unwrap();
}

/// Waits for a short time, and notifies.
fn use_a_condition_alone(client: &LockClient) -> leasehold::Result<()> {
    let lock = client.reentrant_lock("with condition");
    let guard = lock.acquire()?;
    lock.condition("ready").wait_for(millis(50))?;
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let guard = lock.acquire()?;
            lock.condition("ready").wait_for(millis(50))?;
            guard.unlock()
        });
        lock.condition("ready").wait_for(millis(20))?;
        lock.condition("ready").notify_one()?;
        guard.unlock()?;
        waiter.join().expect("no panic")
    })
}

/// Without them, clients poll or are all woken together, and a place in a queue that is given up, or
/// whose client is dead, ends by itself.
const OPTIONAL: [&str; 6] = [
    "+subscribe",
    "+publish",
    "+lrem",
    "+pubsub|numsub",
    "+hscan",
    "+zrank",
];

/// Without any one of the rules something is refused.
#[test]
fn every_rule_of_the_acl_line_is_needed() {
    let server = Server::start();
    // PING is sent only after seconds without messages, UNSUBSCRIBE only when a channel is no
    // longer needed.
    let seldom = ["+ping", "+unsubscribe"];
    let mut others = Vec::new();
    for spared in documented() {
        if !spared.starts_with('+') || seldom.contains(&&*spared) {
            continue;
        }
        for reset in [
            "FLUSHALL",
            "SCRIPT FLUSH",
            "ACL LOG RESET",
            "ACL DELUSER worker",
        ] {
            server.query::<redis::Value>(reset);
        }
        let url = server.with_user(all_but(&spared));
        let quick = builder(&url).build().unwrap();
        let lock = quick.reentrant_lock("lock");
        let use_it = || -> leasehold::Result<()> {
            let guard = lock.acquire()?;
            quick.fenced_lock("numbered").acquire()?.unlock()?;
            let kept = quick.reentrant_lock("kept").acquire()?;
            kept.unlock_after(SOON.get())?;
            guard.extend(SOON.get())?;
            quick.inspect("lock")?;
            use_a_condition_alone(&quick)?;
            quick.semaphore("slots").release(1)?;
            let other = builder(&url).build()?;
            let waits = on_another_thread(|| {
                other
                    .reentrant_lock("lock")
                    .try_lock(millis(50), Lease::RENEWED)
            });
            assert!(!waits?);
            quick.force_unlock("lock")?;
            kinds::use_other_kinds(&[quick.clone(), other])
        };
        let used = use_it();
        let refused = refused(&server);
        assert!(!refused.is_empty(), "{spared} is not needed: {used:?}");
        // The call fails with an error and does not hang.
        if !OPTIONAL.contains(&&*spared) && !matches!(used, Err(Error::Redis { .. })) {
            others.push(format!("{spared}: {used:?}"));
        }
    }
    assert_eq!(others, [""; 0]);
}

/// The error of a call without permission names what to grant, as far as the server says what is
/// missing.
#[test]
fn a_missing_permission_is_reported_with_the_rule_to_grant() {
    let server = Server::start();
    for (rules, database, words) in [
        (&["-evalsha"][..], "", "ACL SETUSER <user> +evalsha"),
        (&[], "/3", "ACL SETUSER <user> +select"),
        (&["resetkeys"], "", "ACL SETUSER <user> ~<key>"),
        // Redis 7.0 does not say which command of the script it is.
        (&["-hset"], "", "docs/permissions.md"),
    ] {
        let mut all = documented();
        all.extend(rules.iter().map(|rule| (*rule).to_owned()));
        let url = server.with_user(all) + database;
        let lock = builder(&url).build().unwrap().reentrant_lock("lock");
        let error = lock.lock().unwrap_err();
        assert_matches!(error, Error::Redis { .. });
        let text = error.to_string();
        for words in [words, "docs/permissions.md"] {
            assert!(text.contains(words), "no {words:?}: {text}");
        }
    }
}
