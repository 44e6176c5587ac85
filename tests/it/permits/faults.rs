//! Subscriptions that are cut or forbidden, and restarts.

use super::{KINDS, Kind};
use crate::support::prelude::*;

/// Messages are missed while there is no subscription. A new subscription makes up for that.
#[test]
fn a_killed_subscription_delays_waiting_threads_only_briefly() {
    let server = Server::start();
    let client = client(&server.url());
    for kind in KINDS {
        let steps = kind.of(&client, &unique("cut"));
        for _ in 0..2 {
            steps.close(1);
            thread::scope(|scope| {
                let waiter = scope.spawn(|| steps.wait());
                stay_waiting([&waiter]);
                server.run("CLIENT KILL TYPE PUBSUB");
                // It publishes nothing, so the client cannot miss a message.
                steps.open_silently(&server);
                within(SOON.get() / 4, "the end of the wait", || {
                    waiter.join().unwrap().unwrap().keep();
                });
            });
        }
    }
}

/// The new server knows no scripts and no numbers. A latch without a count is open, and a semaphore
/// has no permits until some are added.
#[test]
fn waiting_threads_survive_a_restart_that_loses_the_number() {
    for kind in KINDS {
        let server = Server::start();
        let (ours, theirs) = (client(&server.url()), client(&server.url()));
        let steps = kind.of(&ours, &unique("lost"));
        let waiting = steps.at(&theirs);
        steps.close(2);
        thread::scope(|scope| {
            let waiters = [
                scope.spawn(|| waiting.wait().map(Some)),
                scope.spawn(|| waiting.wait_for(SOON.get() * 6)),
            ];
            stay_waiting(&waiters);
            server.restart_empty();
            if kind != Kind::Latch {
                stay_waiting(&waiters);
                assert_eq!(steps.left().unwrap(), 0, "{kind:?}");
                steps.add(2).unwrap();
            }
            within(SOON.get() / 2, "the end of the waits", || {
                for waiter in waiters {
                    waiter.join().unwrap().unwrap().expect("a permit").keep();
                }
            });
        });
        assert_eq!(steps.left().unwrap(), 0, "{kind:?}");
    }
}
