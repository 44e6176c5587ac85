//! The master is killed, and its replicas lack a lock.

use leasehold::FencedLock;

use super::{client_for_failovers, of_sentinel};
use crate::support::prelude::*;

/// Acquires the lock and kills the master before a replica has the lock, so that another client
/// gets it from the new master.
fn lose_a_lock(deployment: &SentinelDeployment, lock: &FencedLock) {
    let master = deployment.master();
    // From now on connections and scripts exist.
    pair(lock);
    let replicas = deployment.servers().iter();
    let replicas: Vec<_> = replicas.filter(|s| s.port() != master.port()).collect();
    replicas.iter().for_each(|replica| replica.pause());
    // From now on no write reaches a replica.
    let cut = redis::cmd("CLIENT")
        .arg(&["KILL", "TYPE", "replica"])
        .clone();
    master.ask::<()>(&cut);
    lock.lock().unwrap();
    let token = last_token(master, lock.name());
    master.kill();
    replicas.iter().for_each(|replica| replica.resume());
    let new = deployment.await_new_master(master);
    let other = client_for_failovers(of_sentinel(deployment)).fenced_lock(lock.name());
    assert!(other.try_lock(SOON.get(), long()).unwrap());
    assert!(last_token(new, lock.name()) > token);
}

fn last_token(server: &Server, name: &str) -> u64 {
    server.ask(redis::cmd("GET").arg(format!("redisson_lock_token:{{{name}}}")))
}

/// Also if the holder unlocks before the first renewal, on a connection that broke with the master.
/// Whether the old master executed the unlock is unknown.
#[test]
fn an_unlock_reports_that_a_failover_lost_the_lock() {
    let deployment = SentinelDeployment::start();
    let builder = of_sentinel(&deployment).watchdog_lease(SOON.get() * 6);
    let lock = builder.build().unwrap().fenced_lock(&unique("lost"));
    lose_a_lock(&deployment, &lock);
    let result = lock.unlock();
    let is_told = matches!(result, Err(Error::Lost { .. } | Error::NotReleased { .. }));
    assert!(is_told, "{result:?}");
}
