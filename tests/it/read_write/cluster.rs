//! In a cluster, all keys of a lock are in one slot, which may move to another server.

use crate::support::prelude::*;

fn client(cluster: &ClusterDeployment) -> LockClient {
    let builder = LockClient::builder_cluster(cluster.urls());
    builder.watchdog_lease(LEASE.get() * 2).build().unwrap()
}

/// Both locks are used at each step of the move.
#[test]
fn a_lock_whose_slot_moves_stays_what_it_is() {
    let cluster = ClusterDeployment::start();
    let (ours, theirs) = (client(&cluster), client(&cluster));
    let name = unique("moves");
    let lock = ours.read_write_lock(&name);
    let (read, write) = (lock.read(), lock.write());
    let free = Duration::ZERO;
    pair(&read);
    pair(&write);

    let slot = cluster.slot_of(&name);
    let migration = cluster.begin_migration(slot, cluster.another_primary(slot));
    // The keys do not exist, so they are made at the target.
    for _ in 0..2 {
        assert!(write.try_lock(free, Lease::RENEWED).unwrap());
        read.lock().unwrap();
        write.unlock().unwrap();
        read.unlock().unwrap();
    }
    migration.move_keys();
    migration.end();

    // The keys exist, and are moved together.
    let reading = read.acquire().unwrap();
    let migration = cluster.begin_migration(slot, cluster.another_primary(slot));
    reading.confirm().unwrap();
    reading.extend(SOON.get()).unwrap();
    throughout(LEASE.get() * 3, "renewed at the source", || {
        reading.check().is_ok()
    });
    migration.move_keys();
    reading.confirm().unwrap();
    assert!(
        !theirs
            .read_write_lock(&name)
            .write()
            .try_lock(free, Lease::RENEWED)
            .unwrap()
    );
    assert!(
        theirs
            .read_write_lock(&name)
            .read()
            .try_lock(free, Lease::RENEWED)
            .unwrap()
    );
    theirs.read_write_lock(&name).read().unlock().unwrap();
    reading.unlock().unwrap();
    let writing = write.acquire().unwrap();
    migration.end();
    writing.unlock().unwrap();
    assert_eq!((ours.stats().lost, theirs.stats().lost), (0, 0));
}
