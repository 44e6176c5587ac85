//! The protocol in all states, and each rule broken once.

use super::promises::{
    AT_MOST_K, CONSERVED, LEASED, NOT_STUCK, NOTIFIED, ONE, PROMISES, TAKEN_BACK,
};
use super::{Bounds, Planted};
use crate::check::{self, broken_of};

/// Two workers share one permit, and this many commands have no reply.
fn library(unanswered: u8) -> Bounds {
    Bounds {
        planted: None,
        workers: 2,
        permits: 1,
        lease: 2,
        unanswered,
        breaks: 0,
        deletions: 0,
        crashes: 0,
    }
}

fn broken(bounds: Bounds) -> Vec<&'static str> {
    broken_of(bounds, &PROMISES, |_| true)
}

#[test]
fn one_command_without_a_reply_breaks_no_promise() {
    assert_eq!(broken(library(1)), [""; 0]);
}

#[test]
#[ignore = "soak"]
fn one_command_without_a_reply_and_a_deletion_break_no_promise() {
    assert_eq!(broken(deleted(1)), [""; 0]);
}

#[test]
fn one_command_without_a_reply_on_a_broken_connection_breaks_no_promise() {
    let bounds = Bounds {
        breaks: 1,
        ..library(1)
    };
    assert_eq!(broken(bounds), [""; 0]);
}

#[test]
fn a_deletion_and_a_crash_break_no_promise() {
    let bounds = Bounds {
        crashes: 1,
        ..deleted(0)
    };
    assert_eq!(broken(bounds), [""; 0]);
}

#[test]
#[ignore = "soak"]
fn two_commands_without_a_reply_break_no_promise() {
    assert_eq!(broken(library(2)), [""; 0]);
}

#[test]
#[ignore = "soak"]
fn one_failure_of_each_kind_breaks_no_promise() {
    let bounds = Bounds {
        breaks: 1,
        crashes: 1,
        ..deleted(1)
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

fn deleted(unanswered: u8) -> Bounds {
    Bounds {
        deletions: 1,
        ..library(unanswered)
    }
}

#[test]
fn a_late_copy_hides_a_loss_if_copies_share_an_id() {
    breaks(Planted::CopiesShareId, deleted(1), NOTIFIED);
}

#[test]
fn a_copy_that_takes_another_permit_is_found() {
    let bounds = Bounds {
        permits: 2,
        ..library(1)
    };
    breaks(Planted::CopyTakesAnother, bounds, ONE);
}

#[test]
fn a_late_copy_keeps_a_permit_if_it_is_not_taken_back() {
    breaks(Planted::NotTakenBack, library(1), TAKEN_BACK);
}

#[test]
fn an_acquire_that_takes_back_all_its_copies_releases_its_own_permit() {
    breaks(Planted::GrantTakenBack, library(1), LEASED);
}

#[test]
fn a_release_without_a_check_adds_permits() {
    breaks(Planted::ReleaseUnchecked, deleted(0), CONSERVED);
    breaks(Planted::ReleaseUnchecked, library(1), AT_MOST_K);
}

#[test]
fn a_renewal_without_a_check_adds_permits() {
    breaks(Planted::RenewUnchecked, deleted(0), CONSERVED);
}

#[test]
fn a_late_renewal_of_an_expired_permit_keeps_it() {
    breaks(Planted::ExpiredRenewed, library(1), NOT_STUCK);
}

#[test]
fn an_expired_permit_that_stays_is_available_twice() {
    breaks(Planted::ExpiredTwice, library(0), AT_MOST_K);
}

#[test]
fn a_clock_that_is_ahead_takes_permits_from_their_holders() {
    breaks(Planted::OtherClock, library(0), AT_MOST_K);
}

#[test]
fn a_lease_measured_from_the_reply_ends_first_in_redis() {
    breaks(Planted::LeaseFromReply, library(0), LEASED);
}

#[test]
fn a_watchdog_that_renews_after_the_release_keeps_the_permit() {
    breaks(Planted::RenewedAfterRelease, library(1), NOT_STUCK);
}
