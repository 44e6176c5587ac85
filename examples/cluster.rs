//! Locks of many names in a cluster, of which a primary dies and a slot moves.

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
    time::{Duration, Instant},
};

use clap::Parser;
use leasehold::{LockClient, ReentrantLock};

use crate::{
    batch::{Batch, Crew},
    deployments::{ClusterDeployment, Server},
    store::Fenced,
    support::Result,
    timeline::Timeline,
};

const NAMES: usize = 64;
const THREADS: usize = 4;
const LEASE: Duration = Duration::from_secs(6);
/// Work is seen to go on for so long.
const AFTERWARDS: Duration = Duration::from_secs(2);
/// How long a slot is on its way.
const MOVE: Duration = Duration::from_secs(1);

/// Adds to sums under 64 locks in a cluster, kills a primary, and moves a slot.
///
/// Starts three primaries, each with a replica, and ends them.
#[derive(Parser)]
struct Args {
    /// How long the batch runs; longer if the failover is not over then
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u64).range(4..))]
    seconds: u64,
}

fn main() -> ExitCode {
    support::exit_code(show(&Args::parse()).map(|()| ExitCode::SUCCESS))
}

fn show(args: &Args) -> Result<()> {
    deployments::find_server()?;
    println!(
        "{NAMES} sums, each under a fenced lock of its own, in a cluster of three primaries (a, b, c) with a replica
each. {THREADS} threads for the locks of each primary. What to see:
  * while a is dead, nothing is done under its locks, until its replica is elected; b and c go on
  * while a slot moves from b to c, a plain lock in it goes on being taken and held. A fenced one has two keys,
    which Redis refuses meanwhile if one is missing: whoever wants it waits for the end of the move
  * the sums are exact, as they take no write of a holder after they have seen a later one
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
    let crews = ["a", "b", "c"].into_iter().zip(&names);
    let crews = crews.map(|(label, names)| {
        timeline.tell(format_args!("{label}: {} locks", names.len()));
        let sum = |name: &String| Fenced::under(client.fenced_lock(name));
        Crew {
            label: label.into(),
            sums: names.iter().map(sum).collect(),
            threads: THREADS,
        }
    });
    let batch = Batch::start(timeline, crews.collect());

    timeline.wait_until(end / 5);
    let killed = Instant::now();
    cluster.kill_primary(in_a);
    timeline.tell("a is killed");
    let new = cluster.await_failover(in_a).address();
    let after = killed.elapsed().as_secs_f64();
    timeline.tell(format_args!(
        "its replica, {new}, has its place, after {after:.2} s"
    ));

    timeline.wait_until(end / 5 * 3);
    // In the slot of that name, but of one key.
    let plain = client.reentrant_lock(&format!("{{{}}}:plain", names[1][0]));
    move_slot(&cluster, in_b, cluster.primary_of(in_c), &plain, timeline)?;
    batch.await_work()?;
    std::thread::sleep(AFTERWARDS);
    timeline.wait_until(end);
    batch.end()
}

/// Those that are in the first primary, in the second, and in the third.
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

/// With a lock in it that is held when that begins, and taken again and again on the way.
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
    timeline.tell(format_args!("slot {slot} is on its way from b to c"));
    guard.unlock()?;
    let (begin, mut pairs) = (Instant::now(), 0);
    while begin.elapsed() < MOVE {
        lock.acquire()?.unlock()?;
        pairs += 1;
    }
    let guard = lock.acquire()?;
    migration.move_keys();
    migration.end();
    timeline.tell(format_args!(
        "slot {slot} has moved; a lock in it was taken {pairs} times on the way"
    ));
    guard.check()?;
    guard.unlock()?;
    Ok(())
}
