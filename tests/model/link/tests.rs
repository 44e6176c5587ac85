//! The link in all states, and each rule broken once.

use super::machine::{Bounds, Planted};
use super::promises::{AWAITED, MATCHED, OWNER, PROMISES, READ, SETTLED};
use crate::check::{self, broken_of};

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

fn broken(bounds: Bounds) -> Vec<&'static str> {
    broken_of(bounds, &PROMISES, |_| true)
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
    check::breaks(bounds, promise);
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
