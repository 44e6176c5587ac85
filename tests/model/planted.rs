//! Each rule of the protocol is broken once. A promise must fail, or the model proves nothing. The
//! numbers are the steps of the shortest path to the failure.

use crate::check::counterexample;
use crate::promises::{COUNTS, FOREIGN_RELEASE, NO_FALSE_ALARM, NOT_STUCK, NOTIFIED, OWNER};
use crate::protocol::{Planted, Protocol};

/// Asserts that the planted bug breaks the promise after this number of steps.
fn breaks(planted: Planted, protocol: Protocol, promise: &'static str, steps: usize) {
    let found = counterexample(protocol.with(planted), promise);
    assert_eq!(
        found,
        Some(steps),
        "{planted:?} breaks \"{promise}\": found in {found:?} steps"
    );
}

#[test]
fn without_a_fresh_owner_id_a_late_release_frees_the_next_hold() {
    breaks(
        Planted::NoFreshOwner,
        Protocol::library(1),
        FOREIGN_RELEASE,
        7,
    );
}

#[test]
fn a_release_without_an_owner_check_frees_another_clients_hold() {
    breaks(
        Planted::ReleaseUnchecked,
        Protocol::library(1),
        FOREIGN_RELEASE,
        6,
    );
}

#[test]
fn relative_counts_are_wrong_after_a_lost_reply() {
    let protocol = Protocol {
        delays: false,
        ..Protocol::library(1)
    };
    breaks(Planted::RelativeCounts, protocol, COUNTS, 8);
}

#[test]
fn a_lease_measured_from_the_reply_ends_first_in_redis() {
    breaks(Planted::LeaseFromReply, Protocol::library(0), OWNER, 5);
}

#[test]
fn a_nested_acquire_that_creates_the_key_hides_a_loss() {
    let protocol = Protocol {
        deletions: 1,
        ..Protocol::library(0)
    };
    breaks(Planted::NestedAcquiresAgain, protocol, NOTIFIED, 9);
}

#[test]
fn a_watchdog_that_renews_after_the_release_leaves_the_lock_stuck() {
    breaks(
        Planted::RenewedAfterRelease,
        Protocol::library(1),
        NOT_STUCK,
        9,
    );
}

#[test]
fn a_not_held_reply_for_an_old_owner_id_reports_a_false_loss() {
    breaks(
        Planted::OldIdTrusted,
        Protocol::library(1),
        NO_FALSE_ALARM,
        9,
    );
}

#[test]
fn an_owner_id_learned_from_the_reply_reports_a_false_loss() {
    breaks(
        Planted::IdKnownFromReply,
        Protocol::library(1),
        NO_FALSE_ALARM,
        9,
    );
}

#[test]
fn a_retry_with_the_same_owner_id_lets_a_late_copy_write_an_old_count() {
    breaks(Planted::RetriesRepeatId, Protocol::library(1), COUNTS, 10);
}

#[test]
fn a_retry_with_the_same_owner_id_lets_a_late_copy_revive_a_deleted_hold() {
    let protocol = Protocol {
        deletions: 1,
        ..Protocol::library(1)
    };
    breaks(Planted::RetriesRepeatId, protocol, NOTIFIED, 10);
}

#[test]
fn an_abandoned_call_writes_an_old_count_unless_the_next_one_takes_a_fresh_owner_id() {
    breaks(Planted::NoMoveAfterGiveUp, Protocol::library(1), COUNTS, 10);
}

#[test]
#[ignore = "soak"]
fn retries_of_an_acquire_that_share_an_owner_id_revive_a_deleted_hold() {
    let protocol = Protocol {
        deletions: 1,
        ..Protocol::library(2)
    };
    breaks(Planted::RetriesShareId, protocol, NOTIFIED, 11);
}

#[test]
#[ignore = "soak"]
fn a_late_retry_of_a_move_must_not_overwrite_a_later_count() {
    let protocol = Protocol {
        renewals: false,
        ..Protocol::library(2)
    };
    breaks(Planted::CountWrittenAgain, protocol, COUNTS, 11);
}
