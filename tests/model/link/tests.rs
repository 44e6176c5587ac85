//! The link in all states, and each rule broken once.

use super::machine::{Bounds, Planted};
use super::promises::{AWAITED, MATCHED, OWNER, READ, SETTLED};
use crate::check::{breaks, keeps, with};

/// This number of threads, of requests whose deadline passes, and of times that the link breaks.
fn library(threads: usize, unanswered: u8, breaks: u8) -> Bounds {
    Bounds {
        planted: None,
        threads,
        lease: 2,
        unanswered,
        breaks,
    }
}

#[test]
fn a_failure_breaks_no_promise() {
    keeps(library(2, 1, 0));
    keeps(library(2, 0, 1));
    keeps(library(1, 1, 1));
}

#[test]
#[ignore = "soak"]
fn several_failures_break_no_promise() {
    keeps(library(2, 2, 0));
    keeps(library(1, 2, 1));
    keeps(library(3, 1, 0));
}

#[test]
fn each_rule_is_needed() {
    for (planted, unanswered, broken, promise) in [
        (Planted::EntryDropped, 1, 0, MATCHED),
        (Planted::QueueKept, 0, 1, MATCHED),
        (Planted::QueueKept, 0, 1, AWAITED),
        (Planted::NotSettled, 1, 0, SETTLED),
        (Planted::LateGrantIgnored, 1, 0, SETTLED),
        (Planted::ReleaseOvertakes, 1, 0, SETTLED),
        (Planted::ReleaseNotRepeated, 1, 1, SETTLED),
        (Planted::ReadingKept, 1, 0, READ),
        (Planted::NotWoken, 0, 0, AWAITED),
        (Planted::LeaseFromReply, 0, 0, OWNER),
    ] {
        let bounds = library(2, unanswered, broken);
        breaks(with(bounds, |it| it.planted = Some(planted)), promise);
    }
}
