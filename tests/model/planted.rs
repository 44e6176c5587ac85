//! Each rule of the protocol, broken on purpose: a promise must fall with it, or the model proves
//! nothing. The numbers are the steps of the shortest way there.

use crate::check::counterexample;
use crate::promises::{COUNTS, NO_FALSE_ALARM, OWNER, STRANGER, STUCK, TOLD};
use crate::protocol::{Planted, Protocol};

/// Asserts that the planted fault breaks the promise in so many steps.
fn breaks(planted: Planted, protocol: Protocol, promise: &'static str, steps: usize) {
    let found = counterexample(protocol.with(planted), promise);
    assert_eq!(
        found,
        Some(steps),
        "{planted:?} breaks \"{promise}\": found in {found:?} steps"
    );
}

#[test]
fn without_a_fresh_owner_a_late_release_frees_the_next_hold() {
    breaks(Planted::NoFreshOwner, Protocol::library(1), STRANGER, 7);
}

#[test]
fn a_release_without_an_owner_check_frees_a_strangers_hold() {
    breaks(Planted::ReleaseUnchecked, Protocol::library(1), STRANGER, 6);
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
fn a_lease_that_counts_from_the_reply_is_over_before_its_holder_knows() {
    breaks(Planted::LeaseFromReply, Protocol::library(0), OWNER, 5);
}

#[test]
fn a_nested_acquire_that_takes_the_lock_anew_hides_its_loss() {
    let protocol = Protocol {
        deletions: 1,
        ..Protocol::library(0)
    };
    breaks(Planted::NestedTakesAnew, protocol, TOLD, 9);
}

#[test]
fn a_watchdog_that_does_not_forget_before_the_release_keeps_the_lock_stuck() {
    breaks(Planted::RenewedAfterRelease, Protocol::library(1), STUCK, 9);
}

#[test]
fn not_yours_must_not_be_believed_of_a_hold_that_was_renamed_meanwhile() {
    breaks(
        Planted::OldNameBelieved,
        Protocol::library(1),
        NO_FALSE_ALARM,
        9,
    );
}

#[test]
fn a_hold_must_know_a_name_before_redis_does() {
    breaks(
        Planted::NameToldByAnswer,
        Protocol::library(1),
        NO_FALSE_ALARM,
        9,
    );
}

#[test]
fn a_retry_that_repeats_the_name_lets_a_late_copy_write_an_old_count() {
    breaks(Planted::RetriesRepeatName, Protocol::library(1), COUNTS, 10);
}

#[test]
fn a_retry_that_repeats_the_name_lets_a_late_copy_revive_a_deleted_hold() {
    let protocol = Protocol {
        deletions: 1,
        ..Protocol::library(1)
    };
    breaks(Planted::RetriesRepeatName, protocol, TOLD, 10);
}

#[test]
fn what_was_given_up_writes_an_old_count_unless_the_next_change_is_a_move() {
    breaks(Planted::NoMoveAfterGiveUp, Protocol::library(1), COUNTS, 10);
}

#[test]
#[ignore = "soak"]
fn retries_of_an_acquire_that_share_a_name_revive_a_deleted_hold() {
    let protocol = Protocol {
        deletions: 1,
        ..Protocol::library(2)
    };
    breaks(Planted::RetriesShareName, protocol, TOLD, 11);
}

#[test]
#[ignore = "soak"]
fn a_late_retry_of_a_move_must_leave_a_later_count_alone() {
    let protocol = Protocol {
        renewals: false,
        ..Protocol::library(2)
    };
    breaks(Planted::CountWrittenAgain, protocol, COUNTS, 11);
}
