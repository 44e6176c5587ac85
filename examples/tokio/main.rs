//! Locks in a program with tokio: tasks that hold a lock while they await something, cancellation,
//! and the end of the program. docs/tokio.md explains it.

#[path = "../support/mod.rs"]
mod support;

use std::{
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use leasehold::{Interrupt, Lease, LockClient, OwnedGuard, ReentrantLock};
use tokio::{
    runtime::Runtime,
    sync::Semaphore,
    task::{JoinSet, spawn_blocking},
    time::{sleep, timeout},
};

use crate::support::{Result, Server};

/// How many blocking threads may wait for locks.
static WAITS: Semaphore = Semaphore::const_new(32);

/// Acquires the lock. If the future is dropped, the wait ends, or the lock is released.
async fn acquire(lock: ReentrantLock) -> Result<OwnedGuard> {
    let place = WAITS.acquire().await?;
    let cancel = Cancel::default();
    let interrupt = cancel.0.clone();
    let call = spawn_blocking(move || {
        let _place = place;
        lock.acquire_owned_interruptibly(Lease::RENEWED, &interrupt)
    });
    Ok(call.await??)
}

/// Ends a wait when it is dropped: a blocking call cannot be aborted.
#[derive(Default)]
struct Cancel(Interrupt);

impl Drop for Cancel {
    fn drop(&mut self) {
        self.0.interrupt();
    }
}

/// Adds one by a read, a pause and a write.
async fn add_one(lock: ReentrantLock, sum: Arc<AtomicU32>) -> Result<()> {
    let guard = acquire(lock).await?;
    let before = sum.load(Ordering::SeqCst);
    sleep(Duration::from_millis(1)).await;
    guard.check()?;
    sum.store(before + 1, Ordering::SeqCst);
    Ok(spawn_blocking(|| guard.unlock()).await??)
}

fn main() -> ExitCode {
    support::exit_code(run().map(|()| ExitCode::SUCCESS))
}

fn run() -> Result<()> {
    let redis = Server::find_or_start()?;
    let lock = LockClient::connect(redis.url())?.reentrant_lock("tokio:sum");
    let runtime = Runtime::new()?;
    let guard = runtime.block_on(async {
        tasks_add_up(&lock).await?;
        a_wait_can_be_cancelled(&lock).await?;
        acquire(lock.clone()).await
    })?;
    runtime.spawn(acquire(lock));
    while WAITS.available_permits() == 32 {
        thread::yield_now();
    }
    let start = Instant::now();
    runtime.shutdown_timeout(Duration::from_secs(10));
    let took = start.elapsed();
    println!("the runtime ended within {took:.1?}, although a task waited");
    assert!(took < Duration::from_secs(5), "no thread waits any longer");
    Ok(guard.unlock()?)
}

async fn tasks_add_up(lock: &ReentrantLock) -> Result<()> {
    let sum = Arc::new(AtomicU32::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..100 {
        tasks.spawn(add_one(lock.clone(), Arc::clone(&sum)));
    }
    while let Some(task) = tasks.join_next().await {
        task??;
    }
    println!("100 tasks added up to {}", sum.load(Ordering::SeqCst));
    assert_eq!(sum.load(Ordering::SeqCst), 100, "no addition is lost");
    Ok(())
}

async fn a_wait_can_be_cancelled(lock: &ReentrantLock) -> Result<()> {
    let _guard = acquire(lock.clone()).await?;
    let cancelled = timeout(Duration::from_millis(200), acquire(lock.clone())).await;
    assert!(cancelled.is_err(), "the lock is held");
    // All places are free again only after the thread has stopped waiting.
    drop(timeout(Duration::from_secs(5), WAITS.acquire_many(32)).await??);
    println!("a cancelled task left no thread that waits");
    Ok(())
}
