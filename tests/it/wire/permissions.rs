//! The permissions that a Redis user needs, and that the log-in and the database of the URL are
//! used.

mod kinds;
mod many_servers;

use leasehold::Result;

use crate::line::{add_place, listen};
use crate::support::prelude::*;
use crate::support::proxy::repository;
use crate::support::refused;

/// The rules of the user `locks` in docs/permissions.md. Redis also checks the commands that a
/// script calls.
pub fn documented() -> Vec<String> {
    documented_for("locks")
}

/// The rules of a user in docs/permissions.md.
fn documented_for(user: &str) -> Vec<String> {
    let page = std::fs::read_to_string(repository().join("docs/permissions.md")).unwrap();
    let mut lines = page.lines();
    let start = format!("ACL SETUSER {user} ");
    let line = lines.find(|line| line.starts_with(&start)).unwrap();
    let rules: Vec<String> = line.split(' ').skip(5).map(str::to_owned).collect();
    assert!(rules.len() > 30 && rules[0] == "resetchannels", "{rules:?}");
    rules
}

fn all_but(spared: &str) -> Vec<String> {
    let rules = documented().into_iter();
    rules.filter(|rule| rule != spared).collect()
}

/// Uses every feature that the rules are for, and waits until a lock was renewed.
fn uses_everything(builder: &LockClientBuilder) -> Result<()> {
    let clients = [builder.clone().build()?, builder.clone().build()?];
    let guard = clients[0].reentrant_lock("renewed").acquire()?;
    let waits = clients[1].reentrant_lock("renewed");
    assert!(!waits.try_lock(LEASE.get() * 2, Lease::RENEWED)?);
    guard.unlock()?;
    let renewals = clients[0].stats().renewals;
    assert!(renewals > 0);
    use_all_calls(&clients)?;
    let woken = clients[1].stats().wakeups_by_message;
    assert!(woken > 0, "it was called");
    let reconnects = clients.iter().map(|client| client.stats().reconnects);
    assert_eq!(reconnects.sum::<u64>(), 0);
    Ok(())
}

/// Calls everything that needs a permission.
fn use_all_calls(clients: &[LockClient; 2]) -> Result<()> {
    let [ours, theirs] = clients;
    let [lock, other] = [ours, theirs].map(|client| client.reentrant_lock("lock"));
    let guard = lock.acquire()?;
    ours.fenced_lock("numbered").acquire()?.unlock()?;
    let kept = ours.reentrant_lock("kept").acquire()?;
    kept.unlock_after(millis(20))?;
    guard.extend(SOON.get())?;
    assert!(lock.is_locked()? && lock.remaining()?.is_some());
    ours.inspect("lock")?;
    lock.condition("ready").wait_for(millis(10))?;
    kinds::while_another_waits(
        || {
            let guard = other.acquire()?;
            other.condition("ready").wait_for(LEASE.get())?;
            guard.unlock()
        },
        || {
            lock.condition("ready").wait_for(millis(20))?;
            lock.condition("ready").notify_one()?;
            guard.unlock()
        },
    )?;
    // Leases and waits have limits, so that no wait lasts after a refusal.
    lock.lock_with(Lease::fixed(LEASE.get()))?;
    assert!(!other.try_lock(millis(15), Lease::RENEWED)?);
    kinds::while_another_waits(
        || other.acquire()?.unlock(),
        || ours.force_unlock("lock").map(drop),
    )?;
    let [slots, wanted] = [ours, theirs].map(|client| client.semaphore("slots"));
    let [latch, awaited] = [ours, theirs].map(|client| client.count_down_latch("loaded"));
    slots.drain()?;
    slots.try_set_permits(1)?;
    slots.add_permits(-1)?;
    kinds::while_another_waits(
        || wanted.try_acquire(1, LEASE.get()).map(drop),
        || slots.release(1),
    )?;
    latch.try_set_count(1)?;
    assert_eq!(latch.count()?, 1);
    kinds::while_another_waits(
        || awaited.wait_for(LEASE.get()).map(drop),
        || latch.count_down().map(drop),
    )?;
    kinds::use_other_kinds(clients)
}

#[test]
fn the_acl_line_is_enough() {
    let server = Server::start();
    let url = server.with_user(documented());
    uses_everything(&builder(&url)).unwrap();
    let guard = client(&url).reentrant_lock("queried").acquire().unwrap();
    let set = redis::pipe().set("key", 1).ignore().to_owned();
    guard.query::<()>(&set).unwrap();
    assert_eq!(refused(&server), [""; 0]);
    let database = format!("{url}/0");
    uses_everything(&builder(&database)).unwrap();
}

/// Also while another client waits.
#[test]
fn the_acl_line_of_queries_is_enough_for_a_plain_lock() {
    let server = Server::start();
    let url = server.with_user(documented_for("orders"));
    let [lock, other] = [(); 2].map(|()| client(&url).reentrant_lock("order:42"));
    let guard = lock.acquire().unwrap();
    let mut pipe = redis::pipe();
    pipe.set("{order:42}:state", 1)
        .incr("{order:42}:version", 1);
    guard.query::<()>(pipe.get("{order:42}:state")).unwrap();
    guard.extend(SOON.get()).unwrap();
    lock.inspect().unwrap();
    let wait_and_unlock = || other.acquire()?.unlock();
    kinds::while_another_waits(wait_and_unlock, || guard.unlock()).unwrap();
    assert_eq!(refused(&server), [""; 0]);
}

/// Also if a client before it has stopped, so that its place is taken away.
#[test]
fn the_acl_line_of_queries_is_enough_behind_a_client_that_does_not_answer() {
    let server = Server::start();
    let url = server.with_user(documented_for("orders"));
    let [lock, other] = [(); 2].map(|()| client(&url).reentrant_lock("order:42"));
    let guard = lock.acquire().unwrap();
    let stopped = "redisson_lock__channel:{leasehold:stopped}".to_owned();
    add_place(&server, "order:42", &stopped);
    let _listens = listen(&server, &[stopped]);
    let wait_and_unlock = || other.acquire()?.unlock();
    kinds::while_another_waits(wait_and_unlock, || guard.unlock()).unwrap();
    assert_eq!(refused(&server), [""; 0]);
}

/// Without them, clients poll or are all woken together, and a place in a queue that is given up,
/// or whose client is dead, ends by itself.
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
        let clients = [(); 2].map(|()| builder(&url).build().unwrap());
        let used = use_all_calls(&clients);
        let refused = refused(&server);
        assert!(!refused.is_empty(), "{spared} is not needed: {used:?}");
        // The call fails with an error and does not hang.
        if !OPTIONAL.contains(&&*spared) && !matches!(used, Err(Error::Redis { .. })) {
            others.push(format!("{spared}: {used:?}"));
        }
    }
    assert_eq!(others, [""; 0]);
}
