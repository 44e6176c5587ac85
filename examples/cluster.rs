//! Works with many locks in a cluster while a primary dies and a slot moves.

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
    time::{Duration, Instant},
};

use clap::Parser;
use leasehold::{LockClient, ReentrantLock};

use crate::{
    batch::{Batch, Group},
    deployments::{ClusterDeployment, Server},
    store::Fenced,
    support::Result,
    timeline::Timeline,
};

const NAMES: usize = 64;
const THREADS: usize = 4;
const LEASE: Duration = Duration::from_secs(6);
/// How long the work continues after the last event.
const WORK_AFTER: Duration = Duration::from_secs(2);
/// How long the slot is being moved.
const MOVE: Duration = Duration::from_secs(1);

/// Increments sums under 64 locks in a cluster, kills a primary, and moves a slot.
///
/// Starts a cluster of three primaries with a replica each, and stops it at the end.
#[derive(Parser)]
struct Args {
    /// How long to run, in seconds; longer if the failover takes longer
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u64).range(4..))]
    seconds: u64,
}

fn main() -> ExitCode {
    support::exit_code(show(&Args::parse()).map(|()| ExitCode::SUCCESS))
}

fn show(args: &Args) -> Result<()> {
    deployments::find_server()?;
    println!(
        "{NAMES} sums, each under its own fenced lock, in a cluster of three primaries (a, b, c)
with a replica each. {THREADS} threads for the locks of each primary. What to expect:
  * after the death of a, its locks are unavailable until its replica is elected; b and c go on
  * while a slot moves from b to c, a plain lock in it can be acquired and held. A fenced lock has
    two keys. Redis refuses them while only one has moved, so its threads wait for the end of the
    move
  * the sums are exact, because they reject a write with a smaller token than they have seen
"
    );
    let cluster = ClusterDeployment::start();
    let client = LockClient::builder_cluster(cluster.urls())
        .watchdog_lease(LEASE)
        .build()?;
    let names = names(&cluster);
    let [in_a, in_b, in_c] = [0, 1, 2].map(|shard| cluster.slot_of(&names[shard][0]));

    let timeline = Timeline::begin();
    let end = Duration::from_secs(args.seconds);
    let groups = ["a", "b", "c"].into_iter().zip(&names);
    let groups = groups.map(|(label, names)| {
        timeline.print(format_args!("{label}: {} locks", names.len()));
        let sum = |name: &String| Fenced::under(client.fenced_lock(name));
        Group {
            label: label.into(),
            sums: names.iter().map(sum).collect(),
            threads: THREADS,
        }
    });
    let batch = Batch::start(timeline, groups.collect());

    timeline.wait_until(end / 5);
    let killed = Instant::now();
    cluster.kill_primary(in_a);
    timeline.print("a is killed");
    let new = cluster.await_failover(in_a).address();
    let after = killed.elapsed().as_secs_f64();
    timeline.print(format_args!(
        "its replica {new} is the primary, after {after:.2} s"
    ));

    timeline.wait_until(end / 5 * 3);
    // A plain lock, which has one key, in the slot of that name.
    let plain = client.reentrant_lock(&format!("{{{}}}:plain", names[1][0]));
    move_slot(&cluster, in_b, cluster.primary_of(in_c), &plain, timeline)?;
    batch.await_work()?;
    std::thread::sleep(WORK_AFTER);
    timeline.wait_until(end);
    batch.end()
}

/// The names by the primary that has their slot.
fn names(cluster: &ClusterDeployment) -> [Vec<String>; 3] {
    let ports: Vec<u16> = cluster.primaries().iter().map(|one| one.port()).collect();
    let mut names = [const { Vec::new() }; 3];
    for name in (0..NAMES).map(|number| format!("sum:{number}")) {
        let port = cluster.primary_of(cluster.slot_of(&name)).port();
        let shard = ports.iter().position(|other| *other == port);
        names[shard.expect("all are up")].push(name);
    }
    names
}

/// Moves a slot. A lock in it is held at the start and at the end, and acquired repeatedly between.
fn move_slot(
    cluster: &ClusterDeployment,
    slot: u16,
    to: &Server,
    lock: &ReentrantLock,
    timeline: Timeline,
) -> Result<()> {
    let guard = lock.acquire()?;
    let migration = cluster.begin_migration(slot, to);
    migration.move_keys();
    timeline.print(format_args!("slot {slot} begins to move from b to c"));
    guard.unlock()?;
    let (begin, mut pairs) = (Instant::now(), 0);
    while begin.elapsed() < MOVE {
        lock.acquire()?.unlock()?;
        pairs += 1;
    }
    let guard = lock.acquire()?;
    migration.move_keys();
    migration.end();
    timeline.print(format_args!(
        "slot {slot} has moved; a lock in it was acquired {pairs} times meanwhile"
    ));
    guard.check()?;
    guard.unlock()?;
    Ok(())
}
