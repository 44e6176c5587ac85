//! Works with one lock on five independent servers while three of them die.

#[path = "support/batch.rs"]
mod batch;
#[path = "support/deployments.rs"]
mod deployments;
#[allow(dead_code, reason = "this example starts five servers of its own")]
#[path = "support/mod.rs"]
mod support;
#[path = "support/timeline.rs"]
mod timeline;

use std::{
    process::ExitCode,
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use clap::Parser;
use leasehold::{Error, Lease, LockClient, RedLock};
use parking_lot::Mutex;

use crate::{
    batch::{Batch, Group, Sum, Tally, WAIT, WORK},
    deployments::Independent,
    support::Result,
    timeline::Timeline,
};

const SERVERS: usize = 5;
const THREADS: usize = 4;
/// Shorter than the downtime of the third server. It restarts without its data, so it must not
/// grant a lock whose lease on the other servers is still running.
const LEASE: Duration = Duration::from_secs(3);
/// The lease, and some time for the notification of its loss.
const LOSS_TIMEOUT: Duration = Duration::from_secs(4);
const TRY_FOR: Duration = Duration::from_millis(500);
const PAIRS: usize = 50;

/// Increments a sum under one lock on five servers while some of them die.
///
/// Starts five independent servers, and stops them at the end.
#[derive(Parser)]
struct Args {
    /// How long to run, in seconds
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(8..))]
    seconds: u64,
}

fn main() -> ExitCode {
    support::exit_code(show(&Args::parse()).map(|()| ExitCode::SUCCESS))
}

fn show(args: &Args) -> Result<()> {
    deployments::find_server()?;
    println!(
        "{THREADS} threads increment a sum under one lock on {SERVERS} independent servers. Expect:
  * two servers die: the work continues, and a held lock stays held
  * a third server dies: without a majority no thread gets the lock, and a holder is notified of
    its loss within the lease
  * the third server restarts without its data, more than a lease later: the work continues
"
    );
    let servers = Independent::start(SERVERS);
    let client = |url: String| LockClient::builder(&url).watchdog_lease(LEASE).build();
    let clients = servers.urls().into_iter().map(client);
    let clients: Vec<LockClient> = clients.collect::<leasehold::Result<_>>()?;

    let timeline = Timeline::begin();
    let phase = Duration::from_secs(args.seconds) / 5;
    let batch = Batch::start(
        timeline,
        vec![Group {
            label: "batch".into(),
            sums: vec![Box::new(Plain {
                lock: RedLock::new(&clients, "batch"),
                sum: AtomicU64::new(0),
            })],
            threads: THREADS,
        }],
    );
    let long = RedLock::new(&clients, "long").acquire()?;
    timeline.print("a second lock is acquired and held");
    time_pairs(&clients, timeline)?;

    timeline.wait_until(phase);
    servers.kill(0);
    servers.kill(1);
    timeline.print("two servers are killed");
    time_pairs(&clients, timeline)?;

    timeline.wait_until(phase * 2);
    long.check()?;
    timeline.print("the second lock is still held; a third server is killed");
    servers.kill(2);
    let reason = long.lost().recv_timeout(LOSS_TIMEOUT)?;
    timeline.print(format_args!(
        "the holder of the second lock is notified: {reason}"
    ));
    drop(long);
    match RedLock::new(&clients, "other").try_lock(TRY_FOR, Lease::RENEWED) {
        Err(error @ Error::Unavailable { .. }) => timeline.print(error),
        other => return Err(format!("expected an error without a majority, not {other:?}").into()),
    }

    timeline.wait_until(phase * 4);
    servers.start_again(2);
    timeline.print("the third server is restarted, without data");
    time_pairs(&clients, timeline)?;
    batch.await_work()?;
    timeline.wait_until(phase * 5);
    batch.end()
}

/// A sum without fencing: a lock on independent servers has no token.
struct Plain {
    lock: RedLock,
    /// Read and written separately, so it is exact only if one thread does that at a time.
    sum: AtomicU64,
}

impl Sum for Plain {
    fn add_one(&self, tally: &Mutex<Tally>) -> leasehold::Result<()> {
        let Some(guard) = self.lock.try_acquire(WAIT, Lease::RENEWED)? else {
            return Ok(());
        };
        let before = self.sum.load(Ordering::Relaxed);
        thread::sleep(WORK);
        guard.check()?;
        self.sum.store(before + 1, Ordering::Relaxed);
        tally.lock().note_done();
        guard.unlock()
    }

    fn value(&self) -> u64 {
        self.sum.load(Ordering::Relaxed)
    }
}

/// Measures how long it takes to acquire and release a free lock.
fn time_pairs(clients: &[LockClient], timeline: Timeline) -> Result<()> {
    let lock = RedLock::new(clients, "free");
    let mut times = Vec::new();
    for _ in 0..PAIRS {
        let start = Instant::now();
        lock.acquire()?.unlock()?;
        times.push(start.elapsed());
    }
    times.sort_unstable();
    let (median, longest) = (times[PAIRS / 2], times[PAIRS - 1]);
    timeline.print(format_args!(
        "lock and unlock of a free lock: median {median:.1?}, longest {longest:.1?}"
    ));
    Ok(())
}
