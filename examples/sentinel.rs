//! A batch of work continues after its master dies and the sentinels elect another one.

#[path = "support/batch.rs"]
mod batch;
#[path = "support/deployments.rs"]
mod deployments;
#[path = "support/store.rs"]
mod store;
#[allow(dead_code, reason = "this example starts six servers of its own")]
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
    batch::{Batch, Group},
    deployments::{SentinelDeployment, Server},
    store::Fenced,
    support::Result,
    timeline::Timeline,
};

const THREADS: usize = 8;
const LEASE: Duration = Duration::from_secs(6);
/// The lease, and some time for the notification of its loss.
const LOSS_TIMEOUT: Duration = Duration::from_secs(7);
/// How long the work continues after the last event.
const WORK_AFTER: Duration = Duration::from_secs(2);

/// Increments a sum under one lock while the master that has the lock is killed.
///
/// Starts a master, two replicas and three sentinels, and stops them at the end.
#[derive(Parser)]
struct Args {
    /// How long to run, in seconds; longer if the election takes longer
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u64).range(4..))]
    seconds: u64,
}

fn main() -> ExitCode {
    support::exit_code(show(&Args::parse()).map(|()| ExitCode::SUCCESS))
}

fn show(args: &Args) -> Result<()> {
    deployments::find_server()?;
    println!(
        "{THREADS} threads increment a sum under one lock on a master with two replicas and three
sentinels. The replicas are disconnected, a second lock is acquired, and the master is killed.
What to expect:
  * the work stops until the sentinels elect another master, after about 2 seconds
  * the holder of the second lock is notified that it is lost, because no replica had it
  * the sum is exact, because it rejects a write with a smaller token than it has seen
"
    );
    let deployment = SentinelDeployment::start();
    let client = LockClient::builder_sentinel(deployment.sentinel_urls(), deployment.master_name())
        .watchdog_lease(LEASE)
        .build()?;

    let timeline = Timeline::begin();
    let end = Duration::from_secs(args.seconds);
    timeline.print(format_args!(
        "the master is {}",
        deployment.master().address()
    ));
    let batch = Batch::start(
        timeline,
        vec![Group {
            label: "batch".into(),
            sums: vec![Fenced::under(client.fenced_lock("batch"))],
            threads: THREADS,
        }],
    );
    timeline.wait_until(end / 4);

    let unreplicated = client.reentrant_lock("unreplicated");
    disconnect_replicas(&deployment);
    let guard = unreplicated.acquire()?;
    timeline.print("the replicas are disconnected, then a second lock is acquired");
    let killed = Instant::now();
    let old = deployment.kill_master();
    for replica in deployment.servers() {
        if replica.port() != old.port() {
            replica.resume();
        }
    }
    timeline.print(format_args!("{} is killed", old.address()));
    let new = deployment.await_new_master(old);
    let after = killed.elapsed().as_secs_f64();
    timeline.print(format_args!(
        "the new master is {}, after {after:.2} s",
        new.address()
    ));
    let reason = guard.lost().recv_timeout(LOSS_TIMEOUT)?;
    timeline.print(format_args!(
        "the holder of the second lock is notified: {reason}"
    ));
    batch.await_work()?;
    thread::sleep(WORK_AFTER);
    timeline.wait_until(end);
    batch.end()
}

/// Pauses the replicas and closes their connections, so that they receive no more writes.
fn disconnect_replicas(deployment: &SentinelDeployment) {
    let master = deployment.master();
    let is_replica = |server: &&Server| server.port() != master.port();
    for replica in deployment.servers().iter().filter(is_replica) {
        replica.pause();
    }
    master.ask::<()>(redis::cmd("CLIENT").arg("KILL").arg("TYPE").arg("replica"));
}
