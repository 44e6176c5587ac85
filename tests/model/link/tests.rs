//! The link in all states, and each rule broken once.

use std::time::Instant;

use stateright::{Checker, Expectation, HasDiscoveries, Model};

use super::machine::{Bounds, Planted};
use super::promises::{AWAITED, MATCHED, OWNER, PROMISES, READ, SETTLED};

/// Two threads, and this many requests whose deadline passes.
fn library(unanswered: u8) -> Bounds {
    Bounds {
        planted: None,
        threads: 2,
        lease: 2,
        unanswered,
        breaks: 0,
    }
}

fn broken_once(unanswered: u8) -> Bounds {
    Bounds {
        breaks: 1,
        ..library(unanswered)
    }
}

/// The promises that some reachable state breaks. Fails if a state that must occur is not reached.
fn broken(bounds: Bounds) -> Vec<&'static str> {
    let started = Instant::now();
    let checker = bounds.checker().spawn_bfs().join();
    let found = checker.discoveries();
    println!(
        "{} states in {:.1?}: {:?}",
        checker.unique_state_count(),
        started.elapsed(),
        checker.model()
    );
    for property in checker.model().properties() {
        let must_occur = property.expectation == Expectation::Sometimes;
        assert!(
            !must_occur || found.contains_key(property.name),
            "never seen: {}",
            property.name
        );
    }
    let promises = PROMISES.into_iter();
    promises
        .filter(|promise| found.contains_key(promise))
        .collect()
}

#[test]
fn one_abandoned_request_breaks_no_promise() {
    assert_eq!(broken(library(1)), [""; 0]);
}

#[test]
fn requests_on_a_link_that_breaks_break_no_promise() {
    assert_eq!(broken(broken_once(0)), [""; 0]);
}

#[test]
#[ignore = "soak"]
fn two_abandoned_requests_break_no_promise() {
    assert_eq!(broken(library(2)), [""; 0]);
}

#[test]
fn one_abandoned_request_on_a_link_that_breaks_breaks_no_promise_to_one_thread() {
    let bounds = Bounds {
        threads: 1,
        ..broken_once(1)
    };
    assert_eq!(broken(bounds), [""; 0]);
}

#[test]
#[ignore = "soak"]
fn two_abandoned_requests_on_a_link_that_breaks_break_no_promise_to_one_thread() {
    let bounds = Bounds {
        threads: 1,
        ..broken_once(2)
    };
    assert_eq!(broken(bounds), [""; 0]);
}

#[test]
#[ignore = "soak"]
fn one_abandoned_request_breaks_no_promise_to_three_threads() {
    let bounds = Bounds {
        threads: 3,
        ..library(1)
    };
    assert_eq!(broken(bounds), [""; 0]);
}

/// Asserts that the planted bug breaks the promise.
fn breaks(planted: Planted, bounds: Bounds, promise: &'static str) {
    let bounds = Bounds {
        planted: Some(planted),
        ..bounds
    };
    // Some bugs lengthen a queue without end, so the search ends at the first failure.
    let checker = bounds.checker();
    let checker = checker.finish_when(HasDiscoveries::AnyOf([promise].into()));
    let path = checker.spawn_bfs().join().discovery(promise);
    let steps = path.expect("the bug is found").into_actions();
    println!("{planted:?}: {promise}: {} steps: {steps:?}", steps.len());
}

#[test]
fn an_abandoned_request_that_leaves_the_queue_gives_its_reply_to_the_next_one() {
    breaks(Planted::EntryDropped, library(1), MATCHED);
}

#[test]
fn a_queue_that_outlives_its_link_takes_the_replies_of_the_next_link() {
    breaks(Planted::QueueKept, broken_once(0), MATCHED);
    breaks(Planted::QueueKept, broken_once(0), AWAITED);
}

#[test]
fn a_copy_that_is_abandoned_and_not_settled_keeps_the_lock() {
    breaks(Planted::NotSettled, library(1), SETTLED);
}

#[test]
fn a_late_grant_that_is_ignored_keeps_the_lock() {
    breaks(Planted::LateGrantIgnored, library(1), SETTLED);
}

#[test]
fn a_release_on_another_connection_is_executed_before_its_copy() {
    breaks(Planted::ReleaseOvertakes, library(1), SETTLED);
}

#[test]
fn a_release_that_is_lost_with_its_link_keeps_the_lock() {
    breaks(Planted::ReleaseNotRepeated, broken_once(1), SETTLED);
}

#[test]
fn a_thread_that_leaves_with_the_reading_leaves_the_others_waiting() {
    breaks(Planted::ReadingKept, library(1), READ);
}

#[test]
fn a_thread_that_is_not_woken_waits_for_a_reply_that_has_been_taken() {
    breaks(Planted::NotWoken, library(0), AWAITED);
}

#[test]
fn a_lease_measured_from_the_reply_ends_first_in_redis() {
    breaks(Planted::LeaseFromReply, library(0), OWNER);
}
