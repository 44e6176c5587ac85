//! Subscriptions that are cut or forbidden, restarts, and too few replicas.

use super::{KINDS, Kind, SEMAPHORES};
use crate::support::prelude::*;

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

/// A waiting thread polls.
#[test]
fn without_permission_to_subscribe_waiting_still_works() {
    let server = Server::start();
    let url = server.with_user(&["~*", "&*", "+@all", "-subscribe", "-publish"]);
    for kind in KINDS {
        let theirs = client(&url);
        let steps = kind.of(&client(&server.url()), &unique("deaf"));
        let waiting = steps.at(&theirs);
        steps.close(1);
        thread::scope(|scope| {
            let waiter = scope.spawn(|| waiting.wait());
            eventually("it polls", || theirs.stats().wakeups_by_timeout > 1);
            steps.open().unwrap();
            within(SOON.get() / 4, "the next poll", || {
                waiter.join().unwrap().unwrap().keep();
            });
        });
    }
}

/// It is in no line, so each release has to wake it.
#[test]
fn without_permission_for_a_command_of_the_line_all_clients_get_a_permit_soon() {
    let server = Server::start();
    let url = server.with_user(&["~*", "&*", "+@all", "-zrank"]);
    let holder = client(&url);
    let clients = [(); 4].map(|()| client(&url));
    for kind in SEMAPHORES {
        let steps = kind.of(&holder, &unique("outside"));
        let woken = || clients.each_ref().map(|one| one.stats().wakeups_by_message);
        let before = woken();
        steps.add(1).unwrap();
        let held = steps.wait().unwrap();
        thread::scope(|scope| {
            let waiters = clients.each_ref().map(|client| {
                let steps = steps.at(client);
                scope.spawn(move || steps.give_back(steps.wait().unwrap()).unwrap())
            });
            eventually("all to be subscribed", || {
                woken().iter().zip(before).all(|(now, then)| *now > then)
            });
            stay_waiting(&waiters);
            within(millis(1_000), "all permits", || {
                steps.give_back(held).unwrap();
                waiters
                    .into_iter()
                    .for_each(|waiter| waiter.join().unwrap());
            });
        });
    }
}

/// Permits that too few replicas confirm are given back. The first of the waiting threads sends the
/// requests of all. The others only know that it has had no reply that counts.
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
            let results = waiters.map(|waiter| {
                let result = within(SOON.get(), "a wait", || waiter.join().unwrap());
                result.map(drop)
            });
            let errors = || results.iter().filter_map(|result| result.as_ref().err());
            let too_few = errors().filter(|error| matches!(error, Error::TooFewReplicas { .. }));
            let unavailable = errors().filter(|error| matches!(error, Error::Unavailable { .. }));
            let counts = (too_few.count(), unavailable.count());
            assert!(
                counts.0 >= 1 && counts.0 + counts.1 == 3,
                "{kind:?}: {results:?}"
            );
        });
        eventually("all are given back", || view.left().unwrap() == 3);
        assert_error!(steps.wait_for(Duration::ZERO), TooFewReplicas, "{kind:?}");
        eventually("it is given back", || view.left().unwrap() == 3);
    }
}
