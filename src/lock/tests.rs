//! A toy kind of lock, as an example of what a new kind needs in this folder: a type.
//! `protocol/tests.rs` has the rest of it.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "the methods are those of a public type"
)]

use std::sync::Arc;
use std::thread;

use redis_test::server::RedisServer;

use super::Lock;
use super::methods::*;
use crate::config::LockClientBuilder;
use crate::core::Core;
use crate::error::{Error, LostReason};
use crate::protocol::TOY;

#[derive(Clone)]
struct ToyLock(SingleLock);

lock_by_handle!(ToyLock);

/// The lock at a client of its own.
fn lock_at(url: &str) -> ToyLock {
    let config = LockClientBuilder::from(url).validate();
    let core = Arc::new(Core::open(config.unwrap()).unwrap());
    ToyLock(SingleLock::new(core, "toy", &TOY))
}

#[test]
fn a_new_kind_is_a_row_of_differences_a_type_and_scripts() {
    let server = RedisServer::new();
    let url = format!("redis://{}", server.addr);
    let (one, other) = (lock_at(&url), lock_at(&url));

    // It excludes other clients, and has levels.
    let guard = one.acquire().unwrap();
    one.lock().unwrap();
    assert_eq!(one.hold_count(), 2);
    assert!(other.try_acquire_now().unwrap().is_none());
    assert!(other.is_locked().unwrap());
    one.unlock().unwrap();

    // Its lease is renewed and extended.
    guard.confirm().unwrap();
    guard.extend(Duration::from_secs(100)).unwrap();
    let left = other.remaining().unwrap().unwrap();
    assert!(left > Duration::from_secs(90), "{left:?}");

    // A client that waits is woken by the release.
    let waiter = thread::spawn(move || (&other as &dyn Lock).acquire()?.unlock());
    guard.unlock().unwrap();
    waiter.join().unwrap().unwrap();

    // A loss is noticed.
    let guard = one.acquire_with(Lease::RENEWED).unwrap();
    let client = redis::Client::open(&*url).unwrap();
    let mut connection = client.get_connection().unwrap();
    redis::cmd("DEL").arg("toy").exec(&mut connection).unwrap();
    let confirmed = guard.confirm();
    let deleted = LostReason::Deleted;
    assert!(matches!(confirmed, Err(Error::Lost { reason, .. }) if reason == deleted));
    drop(guard);
    assert!(!one.is_locked().unwrap());
}
