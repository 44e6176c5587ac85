//! The permissions that a Redis user needs, and that the log-in and the database of the URL are
//! used.

mod kinds;
mod many_servers;

use std::time::Duration;

use leasehold::{Error, Lease, LockClient, LockClientBuilder};

use crate::support::server::Server;
use crate::support::timing::{A_WHILE, LEASE, SOON, eventually, millis, throughout};
use crate::support::{builder, on_another_thread, refused};

/// The line of docs/permissions.md. Redis also checks the commands that a script calls.
const ACL: &[&str] = &[
    "resetchannels",
    "&redisson_lock__channel:*",
    "&redisson_rwlock:*",
    "&redisson_sc:*",
    "&redisson_countdownlatch__channel__*",
    "~*",
    "-@all",
    "+evalsha",
    "+eval",
    "+publish",
    "+subscribe",
    "+unsubscribe",
    "+ping",
    "+time",
    "+get",
    "+set",
    "+exists",
    "+del",
    "+pttl",
    "+pexpire",
    "+hexists",
    "+hget",
    "+hset",
    "+hdel",
    "+hlen",
    "+hgetall",
    "+decrby",
    "+hscan",
    "+incrby",
    "+lindex",
    "+llen",
    "+lpop",
    "+lrem",
    "+pubsub|numsub",
    "+rpush",
    "+zadd",
    "+zcard",
    "+zcount",
    "+zrange",
    "+zrangebyscore",
    "+zrank",
    "+zrem",
    "+zscore",
];

fn with_user(server: &Server, rules: &[&str]) -> String {
    let mut acl = redis::cmd("ACL");
    acl.arg("SETUSER")
        .arg("worker")
        .arg("on")
        .arg(">secret")
        .arg(rules);
    server.ask::<()>(&acl);
    format!("redis://worker:secret@{}", server.address())
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
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| other.acquire()?.unlock());
        throughout(A_WHILE.get(), "the waiter waits", || !waiter.is_finished());
        clients[0].force_unlock("lock")?;
        waiter.join().expect("no panic")
    })?;
    assert!(clients[1].stats().wakeups_by_message > woken);
    assert!(matches!(guard.unlock(), Err(Error::Lost { .. })));
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
    std::thread::scope(|scope| {
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
    std::thread::scope(|scope| {
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
    let url = with_user(&server, ACL);
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
    std::thread::scope(|scope| {
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
    for spared in ACL
        .iter()
        .filter(|rule| rule.starts_with('+') && !seldom.contains(rule))
    {
        server.ask::<()>(&redis::cmd("FLUSHALL"));
        server.ask::<()>(redis::cmd("SCRIPT").arg("FLUSH"));
        server.ask::<()>(redis::cmd("ACL").arg("LOG").arg("RESET"));
        server.ask::<()>(redis::cmd("ACL").arg("DELUSER").arg("worker"));
        let rules: Vec<&str> = ACL.iter().filter(|rule| *rule != spared).copied().collect();
        let url = with_user(&server, &rules);
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
        if !OPTIONAL.contains(spared) && !matches!(used, Err(Error::Redis { .. })) {
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
        let rules: Vec<&str> = ACL.iter().chain(rules).copied().collect();
        let url = with_user(&server, &rules) + database;
        let lock = builder(&url).build().unwrap().reentrant_lock("lock");
        let error = lock.lock().unwrap_err();
        assert!(matches!(error, Error::Redis { .. }), "{error:?}");
        let text = error.to_string();
        for words in [words, "docs/permissions.md"] {
            assert!(text.contains(words), "no {words:?}: {text}");
        }
    }
}

/// Without the permission to subscribe, polling still detects a release.
#[test]
fn without_permission_to_subscribe_waiting_still_works() {
    let server = Server::start();
    let rules: Vec<&str> = ACL
        .iter()
        .filter(|rule| !rule.starts_with("+subscribe"))
        .copied()
        .collect();
    let url = with_user(&server, &rules);
    let clients = [
        builder(&url).build().unwrap(),
        builder(&url).build().unwrap(),
    ];
    let [ours, theirs] = [&clients[0], &clients[1]].map(|client| client.reentrant_lock("lock"));
    let guard = ours.acquire().unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| theirs.try_lock(SOON.get(), Lease::RENEWED));
        eventually("the waiter polls", || {
            clients[1].stats().wakeups_by_timeout > 1
        });
        guard.unlock().unwrap();
        assert!(waiter.join().unwrap().unwrap());
    });
}

#[test]
fn the_password_of_the_url_is_used() {
    let server = Server::options().password("s3cret").start();
    let url = server.url();
    assert!(url.contains("s3cret"));
    let client = builder(&url).build().unwrap();
    let guard = client.reentrant_lock("lock").acquire().unwrap();
    assert!(
        !on_another_thread(|| client
            .reentrant_lock("lock")
            .try_lock(Duration::ZERO, Lease::RENEWED))
        .unwrap()
    );
    guard.unlock().unwrap();
}

#[test]
fn the_database_of_the_url_is_used() {
    let server = Server::start();
    let url = format!("{}/7", server.url());
    let client = builder(&url).build().unwrap();
    let guard = client.reentrant_lock("lock").acquire().unwrap();
    let sizes: (u32, (), u32) = redis::pipe()
        .cmd("DBSIZE")
        .cmd("SELECT")
        .arg(7)
        .cmd("DBSIZE")
        .query(&mut server.connection())
        .unwrap();
    assert_eq!((sizes.0, sizes.2), (0, 1));
    // The watchdog's connection uses that database, too.
    eventually("a renewal", || client.stats().renewals > 1);
    guard.unlock().unwrap();
}
