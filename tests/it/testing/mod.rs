//! `leasehold::testing`: what a test does to an in-memory server, and what its clients notice.

mod availability;
mod clock;
mod commands;
mod kinds;
mod losing;

use std::thread::JoinHandle;

use leasehold::Result;
use leasehold::testing::InMemoryRedis;

use crate::support::prelude::*;

/// The default lease.
const LEASE: Duration = Duration::from_secs(30);

const MINUTE: Duration = Duration::from_secs(60);

fn start() -> InMemoryRedis {
    InMemoryRedis::start().expect("loopback")
}

/// Runs a call on another thread, and returns when it waits.
fn waiting<T: Send + 'static>(
    redis: &InMemoryRedis,
    call: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    let thread = thread::spawn(call);
    assert!(redis.await_waiting(1), "the thread does not wait");
    thread
}

#[track_caller]
fn assert_unavailable<T: std::fmt::Debug>(result: Result<T>) {
    assert_matches!(result, Err(Error::Unavailable { .. }));
}
