//! Each rule of the protocol, broken on purpose: a promise must fall with it, or the model proves
//! nothing. The numbers are the steps of the shortest way there.

use crate::check::counterexample;
use crate::promises::{COUNTS, NO_FALSE_ALARM, OWNER, STRANGER, STUCK, TOLD};
use crate::protocol::{Planted, Protocol, Rename};

/// Asserts that the planted fault breaks the promise in so many steps, which hold without it.
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
    breaks(Planted::ReleaseUnchecked, Protocol::library(1), STRANGER, 7);
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
    let protocol = Protocol {
        rename: Rename::OncePerCall,
        ..Protocol::library(1)
    };
    breaks(Planted::OldNameBelieved, protocol, NO_FALSE_ALARM, 9);
}
