//! Locks in a program with tokio: tasks that work under a lock, permits that tasks share,
//! cancellation, and the end of the program. docs/tokio.md explains it.

mod locks;
#[path = "../support/mod.rs"]
mod support;

use std::{
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use leasehold::{LockClient, LockGuard};
use tokio::{
    runtime::{Builder, Runtime},
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{
    locks::{Permit, Waits, under_lock, under_lock_async},
    support::{Result, Server},
};

/// The largest number of threads for blocking calls.
const BLOCKING_THREADS: usize = 64;

/// How many of these may wait for locks or permits. The others are left for calls that return.
const WAITS: u32 = 32;

fn main() -> ExitCode {
    support::exit_code(run().map(|()| ExitCode::SUCCESS))
}

fn run() -> Result<()> {
    let redis = Server::find_or_start()?;
    let client = LockClient::connect(redis.url())?;
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(BLOCKING_THREADS)
        .enable_all()
        .build()?;
    let waits = Waits::new(WAITS);
    runtime.block_on(async {
        tasks_add_up(&client, &waits).await?;
        async_work_is_exclusive(&client, &waits).await?;
        permits_limit_tasks(&client, &waits).await?;
        a_wait_can_be_cancelled(&client, &waits).await
    })?;
    shut_down(runtime, &client, &LockClient::connect(redis.url())?, waits)
}

/// 100 tasks add one to a number, by a read, a pause and a write.
async fn tasks_add_up(client: &LockClient, waits: &Waits) -> Result<()> {
    let sum = Arc::new(AtomicU32::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..100 {
        let (lock, sum) = (client.reentrant_lock("tokio:sum"), Arc::clone(&sum));
        tasks.spawn(under_lock(lock, waits.clone(), move |guard: &LockGuard| {
            let before = sum.load(Ordering::SeqCst);
            thread::sleep(Duration::from_millis(1));
            guard.check()?;
            sum.store(before + 1, Ordering::SeqCst);
            Ok(())
        }));
    }
    while let Some(task) = tasks.join_next().await {
        task??;
    }
    println!("100 tasks added up to {}", sum.load(Ordering::SeqCst));
    expect(sum.load(Ordering::SeqCst) == 100, "no addition is lost")
}

/// Tasks await something while they hold the lock.
async fn async_work_is_exclusive(client: &LockClient, waits: &Waits) -> Result<()> {
    let at_work = Arc::new(AtomicU32::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..10 {
        let (lock, at_work) = (client.reentrant_lock("tokio:report"), Arc::clone(&at_work));
        tasks.spawn(under_lock_async(lock, waits.clone(), async move |guard| {
            let others = at_work.fetch_add(1, Ordering::SeqCst);
            sleep(Duration::from_millis(10)).await;
            guard.check()?;
            at_work.fetch_sub(1, Ordering::SeqCst);
            expect(others == 0, "one task at a time")
        }));
    }
    while let Some(task) = tasks.join_next().await {
        task??;
    }
    println!("10 tasks awaited something under a lock, one after the other");
    Ok(())
}

/// Tasks hold permits while they await something.
async fn permits_limit_tasks(client: &LockClient, waits: &Waits) -> Result<()> {
    let semaphore = client.leased_semaphore("tokio:mail");
    let made = semaphore.clone();
    tokio::task::spawn_blocking(move || made.set_permits(3)).await??;
    let (at_work, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let mut tasks = JoinSet::new();
    for _ in 0..100 {
        let (semaphore, waits) = (semaphore.clone(), waits.clone());
        let (at_work, most) = (Arc::clone(&at_work), Arc::clone(&most));
        tasks.spawn(async move {
            let permit = Permit::acquire(semaphore, waits).await?;
            most.fetch_max(at_work.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            sleep(Duration::from_millis(5)).await;
            permit.check()?;
            at_work.fetch_sub(1, Ordering::SeqCst);
            permit.release().await
        });
    }
    while let Some(task) = tasks.join_next().await {
        task??;
    }
    let most = most.load(Ordering::SeqCst);
    println!("100 tasks shared 3 permits; at most {most} were at work at the same time");
    expect((1..=3).contains(&most), "no more tasks than permits")
}

/// A task that is cancelled ends the wait of its blocking thread.
async fn a_wait_can_be_cancelled(client: &LockClient, waits: &Waits) -> Result<()> {
    let lock = client.reentrant_lock("tokio:held");
    let holder = holds(&lock)?;
    let wait = under_lock(lock, waits.clone(), |_| Ok(()));
    let cancelled = timeout(Duration::from_millis(200), wait).await;
    expect(cancelled.is_err(), "the lock is held")?;
    // All places are free again only after the thread has stopped waiting.
    timeout(Duration::from_secs(5), waits.all()).await??;
    println!("a cancelled task left no thread that waits");
    holder.release()
}

/// The runtime ends although a task waits for a lock of `rival`. Nothing has waited with `client`
/// before.
fn shut_down(
    runtime: Runtime,
    rival: &LockClient,
    client: &LockClient,
    waits: Waits,
) -> Result<()> {
    let holder = holds(&rival.reentrant_lock("tokio:held"))?;
    let lock = client.reentrant_lock("tokio:held");
    runtime.spawn(under_lock(lock, waits, |_| Ok(())));
    let start = Instant::now();
    // The confirmation of its subscription wakes a waiting thread.
    while client.stats().wakeups_by_message == 0 {
        expect(start.elapsed() < Duration::from_secs(10), "a thread waits")?;
        thread::sleep(Duration::from_millis(5));
    }
    let start = Instant::now();
    runtime.shutdown_timeout(Duration::from_secs(10));
    let took = start.elapsed();
    println!("the runtime ended within {took:.1?}, although a task waited");
    expect(took < Duration::from_secs(5), "no thread waits any longer")?;
    holder.release()
}

/// A thread that holds a lock until it is released.
struct Holder {
    release: mpsc::Sender<()>,
    thread: thread::JoinHandle<Result<()>>,
}

fn holds(lock: &leasehold::ReentrantLock) -> Result<Holder> {
    let lock = lock.clone();
    let (release, released) = mpsc::channel();
    let (sender, held) = mpsc::channel();
    let thread = thread::spawn(move || {
        let guard = lock.acquire()?;
        sender.send(())?;
        let _ = released.recv();
        Ok(guard.unlock()?)
    });
    held.recv()?;
    Ok(Holder { release, thread })
}

impl Holder {
    fn release(self) -> Result<()> {
        drop(self.release);
        self.thread.join().map_err(|_| "the holder panicked")?
    }
}

fn expect(condition: bool, what: &str) -> Result<()> {
    if condition {
        return Ok(());
    }
    Err(format!("expected: {what}").into())
}
