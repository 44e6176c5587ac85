//! The sentinels do not reply, and the master accepts no connection: the open ones are used.

use super::of_sentinel;
use crate::faults::failed_connects::open_links;
use crate::support::prelude::*;
use crate::support::run;

#[test]
fn open_connections_to_the_master_outlast_the_sentinels() {
    let deployment = SentinelDeployment::start();
    let master = deployment.master();
    let mut admin = master.connection();
    let builder = of_sentinel(&deployment).watchdog_lease(millis(3_000));
    let client = builder.command_timeout(SOON.get() / 4).build().unwrap();
    let open = open_links(&mut admin, &client, 2);
    for sentinel in deployment.sentinels() {
        sentinel.pause();
    }
    run(&mut admin, "CONFIG SET requirepass other");
    let killed = open.first().unwrap().replace('=', " ");
    run(&mut admin, &format!("CLIENT KILL {killed}"));
    let guard = client.reentrant_lock("lock").acquire().unwrap();
    pair(&client.reentrant_lock("another"));
    eventually("renewals", || client.stats().renewals >= 3);
    guard.unlock().unwrap();
    assert_eq!(client.stats().lost, 0);
}
