//! A few threads that share a lock through the proxy.

use std::{
    panic::resume_unwind,
    process::ExitCode,
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use crossbeam_channel::Receiver;
use leasehold::{Error, LockClient, ReentrantLock};
use redis::IntoConnectionInfo;
use uuid::Uuid;

use crate::{
    Faults,
    proxy::Proxy,
    support::{self, Result, Server, Stop},
};

const THREADS: usize = 4;
const ROUNDS: u32 = 15;

/// What a reply that never arrives costs.
const COMMAND_TIMEOUT: Duration = Duration::from_millis(50);

/// What is done while the lock is held, and between two looks.
const STEP: Duration = Duration::from_millis(1);

const PUT_RIGHT: Duration = Duration::from_secs(2);

/// What the threads saw.
#[derive(Default)]
struct Seen {
    inside: AtomicU32,
    together: AtomicU32,
    taken: AtomicU32,
    unanswered: AtomicU64,
}

pub(crate) fn run(faults: &Faults, interrupts: &Receiver<()>) -> Result<ExitCode> {
    let server = Server::find_or_start()?;
    let address = server.url().into_connection_info()?.addr().to_string();
    let proxy = Proxy::before(&address);
    let mut faults = faults.clone();
    faults.every.get_or_insert(3);
    let count = faults.rule(&proxy, false);

    let client = LockClient::builder(&proxy.url())
        .command_timeout(COMMAND_TIMEOUT)
        .build()?;
    let name = format!("leasehold:fault-proxy:{}", Uuid::new_v4());
    let (seen, start) = (Seen::default(), Instant::now());
    thread::scope(|scope| {
        let threads = [(); THREADS]
            .map(|()| scope.spawn(|| work(&client.reentrant_lock(&name), &seen, interrupts)));
        let end = |thread: thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|panic| resume_unwind(panic))
        };
        threads.into_iter().try_for_each(end)
    })?;
    if !interrupts.is_empty() {
        return Err(Stop::Interrupted.into());
    }

    let together = seen.together.into_inner();
    println!(
        "{} rounds of {THREADS} threads in {:.1?}: {} of {} requests met a fault, {} calls had no answer in time",
        seen.taken.into_inner(),
        start.elapsed(),
        count.load(Ordering::Relaxed),
        proxy.requests(),
        seen.unanswered.into_inner(),
    );
    proxy.calm();
    let left = is_left_behind(server.url(), &name)?;
    println!("two holders at once: {together} times; a lock left behind: {left}");
    Ok(ExitCode::from(u8::from(together > 0 || left)))
}

/// What had no answer in time is put right in the background.
fn is_left_behind(url: &str, name: &str) -> Result<bool> {
    let mut redis = support::connect(url)?;
    let start = Instant::now();
    loop {
        let left: bool = redis::cmd("EXISTS").arg(name).query(&mut redis)?;
        if !left || start.elapsed() > PUT_RIGHT {
            return Ok(left);
        }
        thread::sleep(STEP);
    }
}

fn work(lock: &ReentrantLock, seen: &Seen, interrupts: &Receiver<()>) -> leasehold::Result<()> {
    for _ in 0..ROUNDS {
        if !interrupts.is_empty() {
            break;
        }
        let guard = match lock.acquire() {
            Ok(guard) => guard,
            Err(Error::Unavailable { .. }) => {
                seen.unanswered.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            Err(error) => return Err(error),
        };
        if seen.inside.fetch_add(1, Ordering::SeqCst) > 0 {
            seen.together.fetch_add(1, Ordering::SeqCst);
        }
        seen.taken.fetch_add(1, Ordering::Relaxed);
        thread::sleep(STEP);
        seen.inside.fetch_sub(1, Ordering::SeqCst);
        match guard.unlock() {
            // It goes on in the background.
            Err(Error::Unavailable { .. }) => {
                seen.unanswered.fetch_add(1, Ordering::Relaxed);
            }
            result => result?,
        }
    }
    Ok(())
}
