//! Behind sentinels, in a cluster, in a namespace, and with replicas.

use super::{KINDS, Kind, SEMAPHORES};
use crate::support::prelude::*;

/// Two clients share a number and wake each other. In a cluster, on several servers.
fn two_clients_share_a_number(builder: &LockClientBuilder) {
    let builder = builder.clone().watchdog_lease(LEASE.get());
    let [ours, theirs] = [(); 2].map(|()| builder.clone().build().unwrap());
    for kind in KINDS.into_iter().cycle().take(9) {
        let steps = kind.of(&ours, &unique("steps"));
        let other = steps.at(&theirs);
        steps.close(2);
        let woken = theirs.stats().wakeups_by_message;
        thread::scope(|scope| {
            let waiter = scope.spawn(|| other.wait());
            eventually("it listens", || theirs.stats().wakeups_by_message > woken);
            if kind == Kind::Latch {
                steps.open().unwrap();
            }
            stay_waiting([&waiter]);
            steps.open().unwrap();
            within(SOON.get() / 4, "a message", || {
                waiter.join().unwrap().unwrap().keep();
            });
        });
        assert_eq!(steps.left().unwrap(), 0, "{kind:?}");
    }
}

#[test]
fn in_a_cluster() {
    let shared = ClusterDeployment::shared();
    two_clients_share_a_number(&LockClient::builder_cluster(shared.urls()));
}

#[test]
fn in_a_namespace_and_with_replicas() {
    let shared = Replicated::shared();
    let builder = builder(&shared.url()).namespace("shop");
    two_clients_share_a_number(&builder.min_replicas(1, SOON.get()));
}

/// Permits that too few replicas confirm are given back. The first of the waiting threads sends the
/// requests of all.
#[test]
fn too_few_replicas_are_an_error_of_each_thread_and_no_permit_is_taken() {
    let server = Server::start();
    let hasty = builder(&server.url()).command_timeout(millis(300));
    let hasty = hasty.min_replicas(1, millis(50)).build().unwrap();
    let view = client(&server.url());
    for kind in SEMAPHORES {
        let steps = kind.of(&hasty, &unique("alone"));
        let view = steps.at(&view);
        thread::scope(|scope| {
            let waiters = [(); 3].map(|()| scope.spawn(|| steps.wait()));
            stay_waiting(&waiters);
            view.add(3).unwrap();
            for waiter in waiters {
                let result = within(SOON.get(), "a wait", || waiter.join().unwrap());
                assert_error!(result, TooFewReplicas, "{kind:?}");
            }
        });
        eventually("all are given back", || view.left().unwrap() == 3);
        for wait in [Duration::ZERO, A_WHILE.get()] {
            assert_error!(steps.wait_for(wait), TooFewReplicas, "{kind:?}");
            assert_eq!(view.left().unwrap(), 3, "{kind:?}");
        }
    }
    assert!(traffic::calls(&server)["wait"] >= 3, "it was repeated");
}
