//! One lock on five independent servers, of which two die, and then a third.

#[path = "support/batch.rs"]
mod batch;
#[path = "support/deployments.rs"]
mod deployments;
#[allow(dead_code, reason = "its server is one; here are five")]
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
    batch::{Batch, Crew, PATIENCE, Sum, Tally, WORK},
    deployments::Independent,
    support::Result,
    timeline::Timeline,
};

const SERVERS: usize = 5;
const THREADS: usize = 4;
/// Shorter than the third server is away: it must not grant what a holder still has by the others.
const LEASE: Duration = Duration::from_secs(3);
/// The lease, and what it takes to hear of its end.
const TOLD_WITHIN: Duration = Duration::from_secs(4);
const MOMENT: Duration = Duration::from_millis(500);
const PAIRS: usize = 50;

/// Adds to a sum under a lock on five servers while they die.
///
/// Starts five servers of its own, and ends them.
#[derive(Parser)]
struct Args {
    /// How long all of it takes
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(8..))]
    seconds: u64,
}

fn main() -> ExitCode {
    support::exit_code(show(&Args::parse()).map(|()| ExitCode::SUCCESS))
}

fn show(args: &Args) -> Result<()> {
    deployments::find_server()?;
    println!(
        "{THREADS} threads add to a sum under one lock on {SERVERS} servers that know nothing of each other. What to see:
  * two servers die: work goes on, and a lock that is held stays held
  * a third dies: no majority is left, so nobody gets the lock, and who holds one is told within its lease
  * the third is back, without its data and after a lease: work goes on
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
        vec![Crew {
            label: "batch".into(),
            sums: vec![Box::new(Plain {
                lock: RedLock::new(&clients, "batch"),
                sum: AtomicU64::new(0),
            })],
            threads: THREADS,
        }],
    );
    let long = RedLock::new(&clients, "long").acquire()?;
    timeline.tell("another lock is taken, and held from here on");
    time_pairs(&clients, timeline)?;

    timeline.wait_until(phase);
    servers.kill(0);
    servers.kill(1);
    timeline.tell("two servers are killed");
    time_pairs(&clients, timeline)?;

    timeline.wait_until(phase * 2);
    long.check()?;
    timeline.tell("the lock that was taken first is held still; a third server is killed");
    servers.kill(2);
    let reason = long.lost().recv_timeout(TOLD_WITHIN)?;
    timeline.tell(format_args!("its holder is told: {reason}"));
    drop(long);
    match RedLock::new(&clients, "other").try_lock(MOMENT, Lease::RENEWED) {
        Err(error @ Error::Unavailable { .. }) => timeline.tell(error),
        other => return Err(format!("without a majority: {other:?}").into()),
    }

    timeline.wait_until(phase * 4);
    servers.start_again(2);
    timeline.tell("the third server is back, empty");
    time_pairs(&clients, timeline)?;
    batch.await_work()?;
    timeline.wait_until(phase * 5);
    batch.end()
}

/// A sum without a fence: the servers count apart, so there is no token.
struct Plain {
    lock: RedLock,
    /// Read and written apart, which is exact only if one does it at a time.
    sum: AtomicU64,
}

impl Sum for Plain {
    fn add_one(&self, tally: &Mutex<Tally>) -> leasehold::Result<()> {
        let Some(guard) = self.lock.try_acquire(PATIENCE, Lease::RENEWED)? else {
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

/// What a free lock costs as things are.
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
    timeline.tell(format_args!(
        "a free lock is taken and given back in {median:.1?}, {longest:.1?} at most"
    ));
    Ok(())
}
