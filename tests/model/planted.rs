//! Each rule of the protocol is broken once. A promise must fail, or the model proves nothing. The
//! numbers are the steps of the shortest path to the failure.

use crate::check::counterexample;
use crate::promises::{
    EXCLUSIVE, FALSE_LOSS, FOREIGN_RELEASE, NOT_PAST_LINGER, NOT_PAST_SLICE, NOT_STUCK, NOTIFIED,
    OWNER, RELEASED, TAKEN_BACK, TOKENS, TOLD,
};
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

/// With this number of commands without a reply, and one deletion.
fn deleted(unanswered: u8) -> Protocol {
    Protocol {
        deletions: 1,
        ..Protocol::library(unanswered)
    }
}

fn nested() -> Protocol {
    Protocol {
        levels: 2,
        ..Protocol::library(0)
    }
}

#[test]
fn an_old_release_frees_the_next_hold_if_owner_ids_are_reused() {
    let protocol = Protocol::library(1);
    breaks(Planted::OwnerIdReused, protocol, FOREIGN_RELEASE, 8);
}

#[test]
fn a_late_copy_of_an_acquire_revives_a_deleted_grant_if_copies_share_an_owner_id() {
    breaks(Planted::CopiesShareId, deleted(1), NOTIFIED, 11);
}

#[test]
fn a_late_copy_of_an_acquire_takes_a_free_lock_if_it_is_not_taken_back() {
    breaks(Planted::NotTakenBack, Protocol::library(1), TAKEN_BACK, 4);
}

#[test]
fn an_acquire_that_takes_back_all_its_copies_releases_its_own_grant() {
    let protocol = Protocol::library(1);
    breaks(Planted::GrantTakenBack, protocol, FOREIGN_RELEASE, 7);
}

#[test]
fn a_release_without_an_owner_check_ends_another_grant() {
    let protocol = Protocol::library(1);
    breaks(Planted::ReleaseUnchecked, protocol, FOREIGN_RELEASE, 7);
}

#[test]
fn a_renewal_without_an_owner_check_hides_a_loss() {
    breaks(Planted::RenewUnchecked, deleted(0), NOTIFIED, 12);
}

#[test]
fn a_count_that_is_believed_frees_the_lock_early() {
    breaks(Planted::CountBelieved, nested(), FOREIGN_RELEASE, 6);
}

#[test]
fn a_count_that_is_believed_leaves_the_lock_taken() {
    breaks(Planted::CountBelieved, nested(), RELEASED, 14);
}

#[test]
fn a_lease_measured_from_the_reply_ends_first_in_redis() {
    breaks(Planted::LeaseFromReply, Protocol::library(0), OWNER, 6);
}

#[test]
fn a_watchdog_that_renews_after_the_release_leaves_the_lock_stuck() {
    let protocol = Protocol::library(1);
    breaks(Planted::RenewedAfterRelease, protocol, NOT_STUCK, 8);
}

#[test]
fn a_reply_about_an_older_grant_reports_a_false_loss() {
    let protocol = Protocol::library(0);
    breaks(Planted::StaleReplyBelieved, protocol, FALSE_LOSS, 13);
}

#[test]
fn a_hand_over_of_a_lost_grant_makes_two_holders() {
    breaks(Planted::LostHandedOver, deleted(0), EXCLUSIVE, 14);
}

#[test]
fn an_inner_unlock_that_passes_the_grant_on_makes_two_holders_in_one_process() {
    breaks(Planted::PassedOnWhileHeld, nested(), EXCLUSIVE, 7);
}

#[test]
fn a_hand_over_during_a_renewal_hides_a_loss_from_the_next_holder() {
    breaks(Planted::LossToFormerHolder, deleted(0), TOLD, 10);
}

#[test]
fn a_hand_over_past_the_slice_keeps_the_lock_from_other_clients() {
    let protocol = Protocol::library(0);
    breaks(Planted::HandedOverPastSlice, protocol, NOT_PAST_SLICE, 7);
}

#[test]
fn a_grant_that_is_left_with_a_thread_that_gave_up_is_stuck() {
    breaks(Planted::HandedToLeaver, Protocol::library(0), NOT_STUCK, 11);
}

#[test]
fn an_unlock_without_a_hold_ends_the_hold_of_another_thread() {
    breaks(Planted::UnlockUnchecked, deleted(0), FOREIGN_RELEASE, 12);
}

#[test]
fn a_lingering_grant_that_is_not_released_is_found() {
    breaks(Planted::IdleKept, Protocol::library(0), NOT_PAST_LINGER, 6);
}

#[test]
fn a_lingering_grant_that_was_lost_makes_two_holders() {
    breaks(Planted::LostIdleTaken, deleted(0), OWNER, 10);
}

#[test]
fn a_token_given_twice_is_found() {
    breaks(Planted::TokenTwice, Protocol::library(0), TOKENS, 6);
}

#[test]
fn a_token_outside_its_block_is_given_twice() {
    breaks(Planted::BlockExceeded, Protocol::library(0), TOKENS, 14);
}
