//! A demonstration: a few threads use one lock through the proxy.

use std::{
    panic::resume_unwind,
    process::ExitCode,
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use crossbeam_channel::Receiver;
use leasehold::{Error, LockClient, ReentrantLock, testing::FaultProxy};
use redis::IntoConnectionInfo;
use uuid::Uuid;

use crate::{
    Faults,
    support::{self, Result, Server, Stop},
};

const THREADS: usize = 4;
const ROUNDS: u32 = 15;

/// How long a call waits for a reply that was dropped.
const COMMAND_TIMEOUT: Duration = Duration::from_millis(50);

/// The work under the lock, and the pause between two polls.
const STEP: Duration = Duration::from_millis(1);

const CLEANUP: Duration = Duration::from_secs(2);

/// Counts of all threads.
#[derive(Default)]
struct Counts {
    inside: AtomicU32,
    together: AtomicU32,
    taken: AtomicU32,
    unavailable: AtomicU64,
}

pub(crate) fn run(faults: &Faults, interrupts: &Receiver<()>) -> Result<ExitCode> {
    let server = Server::find_or_start()?;
    let address = server.url().into_connection_info()?.addr().to_string();
    let proxy = FaultProxy::start(address)?;
    let mut faults = faults.clone();
    faults.every.get_or_insert(3);
    let injected = faults.install(&proxy, false);

    let client = LockClient::builder(&proxy.url())
        .command_timeout(COMMAND_TIMEOUT)
        .build()?;
    let name = format!("leasehold:fault-proxy:{}", Uuid::new_v4());
    let (counts, start) = (Counts::default(), Instant::now());
    thread::scope(|scope| {
        let threads = [(); THREADS]
            .map(|()| scope.spawn(|| work(&client.reentrant_lock(&name), &counts, interrupts)));
        let end = |thread: thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|panic| resume_unwind(panic))
        };
        threads.into_iter().try_for_each(end)
    })?;
    if !interrupts.is_empty() {
        return Err(Stop::Interrupted.into());
    }

    let together = counts.together.into_inner();
    println!(
        "{} holds by {THREADS} threads in {:.1?}; {} faults in {} requests; {} calls timed out",
        counts.taken.into_inner(),
        start.elapsed(),
        injected.load(Ordering::Relaxed),
        proxy.requests(),
        counts.unavailable.into_inner(),
    );
    proxy.clear_rules();
    let left = is_left_behind(server.url(), &name)?;
    println!("two holders at once: {together} times; lock left in Redis: {left}");
    Ok(ExitCode::from(u8::from(together > 0 || left)))
}

/// True if the lock is still in Redis after the time for the library's background cleanup.
fn is_left_behind(url: &str, name: &str) -> Result<bool> {
    let mut redis = support::connect(url)?;
    let start = Instant::now();
    loop {
        let left: bool = redis::cmd("EXISTS").arg(name).query(&mut redis)?;
        if !left || start.elapsed() > CLEANUP {
            return Ok(left);
        }
        thread::sleep(STEP);
    }
}

fn work(lock: &ReentrantLock, counts: &Counts, interrupts: &Receiver<()>) -> leasehold::Result<()> {
    for _ in 0..ROUNDS {
        if !interrupts.is_empty() {
            break;
        }
        let guard = match lock.acquire() {
            Ok(guard) => guard,
            Err(Error::Unavailable { .. }) => {
                counts.unavailable.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            Err(error) => return Err(error),
        };
        if counts.inside.fetch_add(1, Ordering::SeqCst) > 0 {
            counts.together.fetch_add(1, Ordering::SeqCst);
        }
        counts.taken.fetch_add(1, Ordering::Relaxed);
        thread::sleep(STEP);
        counts.inside.fetch_sub(1, Ordering::SeqCst);
        match guard.unlock() {
            // The library releases the lock in the background.
            Err(Error::NotReleased { .. }) => {
                counts.unavailable.fetch_add(1, Ordering::Relaxed);
            }
            result => result?,
        }
    }
    Ok(())
}
