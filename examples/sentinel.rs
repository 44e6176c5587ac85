//! The master dies while a batch runs, the sentinels elect another, and work goes on there.

#[path = "support/batch.rs"]
mod batch;
#[path = "support/deployments.rs"]
mod deployments;
#[path = "support/store.rs"]
mod store;
#[allow(dead_code, reason = "its server is one; here are six")]
#[path = "support/mod.rs"]
mod support;
#[path = "support/timeline.rs"]
mod timeline;

use std::{
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use clap::Parser;
use leasehold::LockClient;

use crate::{
    batch::{Batch, Crew},
    deployments::{SentinelDeployment, Server},
    store::Fenced,
    support::Result,
    timeline::Timeline,
};

const THREADS: usize = 8;
const LEASE: Duration = Duration::from_secs(6);
/// The lease, and what it takes to hear of it.
const TOLD_WITHIN: Duration = Duration::from_secs(7);
/// Work is seen to go on for so long.
const AFTERWARDS: Duration = Duration::from_secs(2);

/// Adds to a sum under one lock while the master that has it is killed.
///
/// Starts a master, two replicas and three sentinels of its own, and ends them.
#[derive(Parser)]
struct Args {
    /// How long the batch runs; longer if the election is not over then
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u64).range(4..))]
    seconds: u64,
}

fn main() -> ExitCode {
    support::exit_code(show(&Args::parse()).map(|()| ExitCode::SUCCESS))
}

fn show(args: &Args) -> Result<()> {
    deployments::find_server()?;
    println!(
        "{THREADS} threads add to a sum, one at a time, under one lock on a master with two replicas and
three sentinels. The replicas lose touch, a second lock is taken, and the master is killed. What to see:
  * nothing is done until the sentinels have another master, after about 2 seconds; then work goes on
  * who took the second lock is told that it is lost: no replica had it
  * the sum is exact, as it takes no write of a holder after it has seen a later one
"
    );
    let deployment = SentinelDeployment::start();
    let client = LockClient::builder_sentinel(deployment.sentinel_urls(), deployment.master_name())
        .watchdog_lease(LEASE)
        .build()?;

    let timeline = Timeline::begin();
    let end = Duration::from_secs(args.seconds);
    timeline.tell(format_args!(
        "the master is {}",
        deployment.master().address()
    ));
    let batch = Batch::start(
        timeline,
        vec![Crew {
            label: "batch".into(),
            sums: vec![Fenced::under(client.fenced_lock("batch"))],
            threads: THREADS,
        }],
    );
    timeline.wait_until(end / 4);

    let unlucky = client.reentrant_lock("unlucky");
    lose_touch(&deployment);
    let guard = unlucky.acquire()?;
    timeline.tell("the replicas lose touch, and a lock is taken that they do not hear of");
    let killed = Instant::now();
    let old = deployment.kill_master();
    for replica in deployment.servers() {
        if replica.port() != old.port() {
            replica.resume();
        }
    }
    timeline.tell(format_args!("{} is killed", old.address()));
    let new = deployment.await_new_master(old);
    let after = killed.elapsed().as_secs_f64();
    timeline.tell(format_args!(
        "the sentinels have {}, after {after:.2} s",
        new.address()
    ));
    let reason = guard.lost().recv_timeout(TOLD_WITHIN)?;
    timeline.tell(format_args!(
        "the holder of the unlucky lock is told: {reason}"
    ));
    batch.await_work()?;
    thread::sleep(AFTERWARDS);
    timeline.wait_until(end);
    batch.end()
}

/// From here on the replicas hear nothing: they are stopped, and their connections cut.
fn lose_touch(deployment: &SentinelDeployment) {
    let master = deployment.master();
    let is_replica = |server: &&Server| server.port() != master.port();
    for replica in deployment.servers().iter().filter(is_replica) {
        replica.pause();
    }
    master.ask::<()>(redis::cmd("CLIENT").arg("KILL").arg("TYPE").arg("replica"));
}
