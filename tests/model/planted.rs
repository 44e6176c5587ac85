//! Each rule of the protocol is broken once. A promise must fail, or the model proves nothing.

use crate::check::{breaks, with};
use crate::promises::{
    EXCLUSIVE, FALSE_LOSS, FOREIGN_RELEASE, NOT_PAST_LINGER, NOT_PAST_SLICE, NOT_STUCK, NOTIFIED,
    OWNER, RELEASED, TAKEN_BACK, TOKENS, TOLD,
};
use crate::protocol::{Planted, Protocol};

#[test]
fn each_rule_is_needed() {
    let library = Protocol::library;
    let deleted = |unanswered| with(library(unanswered), |it| it.deletions = 1);
    let nested = || with(library(0), |it| it.levels = 2);
    for (planted, protocol, promise) in [
        (Planted::OwnerIdReused, library(1), FOREIGN_RELEASE),
        (Planted::CopiesShareId, deleted(1), NOTIFIED),
        (Planted::NotTakenBack, library(1), TAKEN_BACK),
        (Planted::GrantTakenBack, library(1), FOREIGN_RELEASE),
        (Planted::ReleaseUnchecked, library(1), FOREIGN_RELEASE),
        (Planted::RenewUnchecked, deleted(0), NOTIFIED),
        (Planted::CountBelieved, nested(), FOREIGN_RELEASE),
        (Planted::CountBelieved, nested(), RELEASED),
        (Planted::LeaseFromReply, library(0), OWNER),
        (Planted::RenewedAfterRelease, library(1), NOT_STUCK),
        (Planted::StaleReplyBelieved, library(0), FALSE_LOSS),
        (Planted::LostHandedOver, deleted(0), EXCLUSIVE),
        (Planted::PassedOnWhileHeld, nested(), EXCLUSIVE),
        (Planted::LossToFormerHolder, deleted(0), TOLD),
        (Planted::HandedOverPastSlice, library(0), NOT_PAST_SLICE),
        (Planted::HandedToLeaver, library(0), NOT_STUCK),
        (Planted::UnlockUnchecked, deleted(0), FOREIGN_RELEASE),
        (Planted::IdleKept, library(0), NOT_PAST_LINGER),
        (Planted::LostIdleTaken, deleted(0), OWNER),
        (Planted::TokenTwice, library(0), TOKENS),
        (Planted::BlockExceeded, library(0), TOKENS),
    ] {
        breaks(with(protocol, |it| it.planted = Some(planted)), promise);
    }
}
