//! Subscriptions that are cut repeatedly.

use super::commands_in;
use crate::faults::deployment::Deployment;
use crate::support::prelude::*;
use crate::support::run;

everywhere! {
    a_lock_changes_hands_although_subscribers_are_killed;
}

/// Cuts all subscriptions at short intervals.
fn kill_subscribers(deployment: &Deployment, every: Duration, stop: &AtomicBool) {
    let servers = deployment.all_servers().iter();
    let mut servers: Vec<_> = servers.map(Server::connection).collect();
    // At most this long, so that a failure is seen at once.
    let end = Instant::now() + SOON.get() * 2;
    while !stop.load(Ordering::Relaxed) && Instant::now() < end {
        for redis in &mut servers {
            run(redis, "CLIENT KILL TYPE pubsub");
        }
        thread::sleep(every);
    }
}

/// A lock changes hands between clients whose subscriptions are cut repeatedly. They do not retry
/// without a pause.
fn a_lock_changes_hands_although_subscribers_are_killed(deployment: &Deployment) {
    let clients = [deployment.client(), deployment.client()];
    let name = unique("hands");
    let server = deployment.server_of(&name);
    traffic::reset(server);
    let stop = AtomicBool::new(false);
    let busy = AtomicBool::new(false);
    let releases = AtomicU64::new(0);
    let start = Instant::now();
    let turns: Vec<u64> = thread::scope(|scope| {
        let killer = scope.spawn(|| kill_subscribers(deployment, millis(20), &stop));
        let workers: Vec<_> = (0..4)
            .map(|at| {
                let lock = clients[at % 2].reentrant_lock(&name);
                let (busy, stop, releases) = (&busy, &stop, &releases);
                scope.spawn(move || {
                    let mut turns = 0;
                    while !stop.load(Ordering::Relaxed) {
                        let guard = lock.acquire()?;
                        assert!(!busy.swap(true, Ordering::SeqCst), "two holders");
                        thread::sleep(millis(3));
                        busy.store(false, Ordering::SeqCst);
                        guard.unlock()?;
                        releases.fetch_add(1, Ordering::Relaxed);
                        turns += 1;
                        // The other process is next, and it knows that only by a message.
                        thread::sleep(millis(3));
                    }
                    leasehold::Result::<u64>::Ok(turns)
                })
            })
            .collect();
        thread::sleep(LEASE.get() * 4);
        stop.store(true, Ordering::Relaxed);
        killer.join().expect("no panic");
        let workers = workers.into_iter();
        workers
            .map(|worker| worker.join().expect("no panic").expect("no error"))
            .collect()
    });
    assert!(turns.iter().all(|turns| *turns > 10), "{turns:?}");
    let cut: u64 = clients.iter().map(|c| c.stats().reconnects).sum();
    assert!(cut > 10, "{cut} subscriptions were cut");
    let releases = releases.load(Ordering::Relaxed);
    let sent = commands_in(server, releases);
    let ticks = u64::try_from(start.elapsed().as_millis() / 50).expect("small");
    // Two scripts and some failed tries for each hold, and the commands of each reconnect.
    let bound = releases * 8 + 2 * ticks * 5;
    assert!(sent < bound, "{sent} commands for {releases} turns");
}
