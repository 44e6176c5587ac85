//! A Redlock over independent servers, of which one at a time meets faults.

use std::sync::atomic::Ordering;
use std::time::Duration;

use leasehold::{Error, Interrupt, LockClient, LockGuard, RedLock};

use super::held::{exclusive, unlock, vouch};
use crate::args::Args;
use crate::clock;
use crate::kind::Kind;
use crate::worker_thread::{WorkerThread, nanos};

pub fn adapt(args: &mut Args) {
    args.kind = Some(Kind::Reentrant);
}

pub fn run(clients: &[LockClient], mut thread: WorkerThread<'_>) {
    let locks = (0..thread.args.locks).map(|lock| RedLock::new(clients, &Args::key(lock)));
    let locks: Vec<RedLock> = locks.collect();
    while !thread.stop.load(Ordering::Relaxed) {
        let lock = thread.random.u32(0..thread.args.locks);
        let handle = &locks[lock as usize];
        if let Some((call, guard)) = take(&mut thread, lock, handle, None) {
            work(&mut thread, (lock, call), handle, &guard);
            unlock(&mut thread, &[(lock, call)], guard);
        }
        thread.idle(Duration::from_millis(4));
    }
}

/// Acquires the lock by a random method; inside the hold with that number, a nested level of it.
fn take(
    thread: &mut WorkerThread<'_>,
    lock: u32,
    handle: &RedLock,
    hold: Option<u64>,
) -> Option<(u64, LockGuard)> {
    let (at, wait, lease) = (exclusive(lock), thread.wait(), thread.lease());
    let method = thread.random.u8(0..3);
    let (budget, what) = match method {
        0 => (
            thread.budget_to_lock(hold),
            format!("acquire_with {lease:?}"),
        ),
        1 => (None, format!("acquire_interruptibly {lease:?}")),
        _ => (
            Some(thread.budget_to_try(wait)),
            format!("try_acquire {wait:?} {lease:?}"),
        ),
    };
    let call = thread.event_log.asks(at, budget, what);
    let result = match method {
        0 => handle.acquire_with(lease).map(Some),
        1 => handle
            .acquire_interruptibly(lease, &Interrupt::new())
            .map(Some),
        _ => handle.try_acquire(wait, lease),
    };
    match result {
        Ok(Some(guard)) => {
            thread.event_log.has(call, hold, None);
            return Some((call, guard));
        }
        Ok(None) => thread.event_log.answered(call, "held by another"),
        Err(error) => {
            let is_lost = hold.is_some() && matches!(error, Error::Lost { .. });
            thread.event_log.failed(call, &error, is_lost);
        }
    }
    None
}

fn work(
    thread: &mut WorkerThread<'_>,
    (lock, call): (u32, u64),
    handle: &RedLock,
    guard: &LockGuard,
) {
    let until = clock::now() + nanos(thread.hold_time(1));
    while vouch(thread, &[(lock, call)], guard) && clock::now() < until {
        match thread.random.u8(..) {
            0..16 => {
                if let Some((_, inner)) = take(thread, lock, handle, Some(call)) {
                    vouch(thread, &[(lock, call)], &inner);
                    unlock(thread, &[(lock, call)], inner);
                }
            }
            _ => thread.idle(Duration::from_millis(3)),
        }
    }
}
