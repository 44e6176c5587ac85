//! The permissions that the documentation names.

use std::thread;

use leasehold::Lease;

use crate::support::proxy::repository;
use crate::support::server::Server;
use crate::support::timing::{A_WHILE, LEASE, SOON, throughout};
use crate::support::{client, pair, refused};
use crate::wire::permissions::documented;

/// The rules of docs/permissions.md, with the keys of one lock in the place of all keys.
fn rules() -> Vec<String> {
    let text = std::fs::read_to_string(repository().join("docs/permissions.md")).unwrap();
    let mut rules = documented();
    rules.retain(|rule| rule != "~*");
    let start = text.find("* Read-write locks: ").unwrap();
    let item = text[start..].split("\n* ").next().unwrap();
    let quoted = item.split('`').skip(1).step_by(2);
    let more = quoted.filter(|rule| rule.starts_with(['~', '&']) && *rule != "~*");
    rules.extend(more.map(str::to_owned));
    assert!(rules.len() > 20, "{rules:?}");
    rules
}

#[test]
fn the_documented_permissions_are_enough() {
    let server = Server::start();
    let url = server.with_user(rules());
    let clients = [(); 2].map(|()| client(&url));
    let [lock, other] = clients
        .each_ref()
        .map(|client| client.read_write_lock("pay"));
    let writing = lock.write().acquire().unwrap();
    let reading = lock.read().acquire().unwrap();
    assert!(
        !other
            .read()
            .try_lock(A_WHILE.get(), Lease::RENEWED)
            .unwrap()
    );
    writing.extend(SOON.get()).unwrap();
    writing.unlock().unwrap();
    throughout(LEASE.get() * 2, "renewed", || reading.check().is_ok());
    // The writer waits, and with it the next reader.
    thread::scope(|scope| {
        let write = other.write();
        let waiting = scope.spawn(move || pair(&write));
        throughout(A_WHILE.get(), "it waits", || !waiting.is_finished());
        reading.unlock_after(LEASE.get()).unwrap();
        waiting.join().unwrap();
    });
    clients[0].inspect("pay").unwrap();
    assert!(lock.write().is_locked().is_ok() && lock.read().is_locked().is_ok());
    let _reading = lock.read().acquire().unwrap();
    clients[0].force_unlock("pay").unwrap();
    assert_eq!(refused(&server), [""; 0]);
}
