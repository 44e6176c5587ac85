//! The protocol of the library for a lock and for permits with leases: in all states, and each rule
//! broken once. A promise must fail then, or the model proves nothing.

use crate::check::{breaks, keeps, with};
use crate::promises::{
    CONSERVED, EXCLUSIVE, FALSE_LOSS, FOREIGN_RELEASE, NOT_PAST_LINGER, NOT_PAST_SLICE, NOT_STUCK,
    NOTIFIED, ONE, OWNER, RELEASED, TAKEN_BACK, TOKENS, TOLD,
};
use crate::protocol::{Planted, Protocol};

fn lock(unanswered: u8, change: fn(&mut Protocol)) -> Protocol {
    with(Protocol::library(unanswered), change)
}

fn permit(unanswered: u8, change: fn(&mut Protocol)) -> Protocol {
    with(Protocol::semaphore(1, unanswered), change)
}

fn as_it_is(_: &mut Protocol) {}

fn deleted(protocol: &mut Protocol) {
    protocol.deletions = 1;
}

fn nested(protocol: &mut Protocol) {
    protocol.levels = 2;
}

#[test]
fn one_command_without_a_reply_breaks_no_promise() {
    keeps(lock(1, |it| it.lease = 3));
    keeps(lock(1, nested));
    keeps(lock(1, |it| it.threads = [3, 2]));
    keeps(lock(1, |it| (it.lingers, it.fenced) = (false, false)));
}

#[test]
fn two_failures_break_no_promise() {
    keeps(lock(1, |it| it.breaks = 1));
    keeps(lock(1, deleted));
    keeps(lock(1, |it| it.crashes = 1));
    keeps(lock(2, as_it_is));
}

#[test]
#[ignore = "soak"]
fn several_failures_break_no_promise() {
    keeps(lock(3, as_it_is));
    keeps(lock(2, deleted));
    keeps(lock(2, |it| it.crashes = 1));
    keeps(lock(2, |it| (it.breaks, it.levels) = (2, 2)));
    keeps(lock(1, |it| (it.deletions, it.threads) = (1, [3, 2])));
    let each = |it: &mut Protocol| (it.breaks, it.deletions, it.crashes) = (1, 1, 1);
    keeps(lock(1, each));
    keeps(permit(1, each));
}

#[test]
fn failures_break_no_promise_about_permits() {
    keeps(Protocol::semaphore(2, 1));
    keeps(permit(2, as_it_is));
    keeps(permit(1, |it| it.breaks = 1));
    keeps(permit(0, |it| (it.deletions, it.crashes) = (1, 1)));
}

#[test]
fn each_rule_is_needed() {
    for (planted, protocol, promise) in [
        (Planted::OwnerIdReused, lock(1, as_it_is), FOREIGN_RELEASE),
        (Planted::CopiesShareId, lock(1, deleted), NOTIFIED),
        (Planted::NotTakenBack, lock(1, as_it_is), TAKEN_BACK),
        (Planted::GrantTakenBack, lock(1, as_it_is), FOREIGN_RELEASE),
        (
            Planted::ReleaseUnchecked,
            lock(1, as_it_is),
            FOREIGN_RELEASE,
        ),
        (Planted::RenewUnchecked, lock(0, deleted), NOTIFIED),
        (Planted::CountBelieved, lock(0, nested), FOREIGN_RELEASE),
        (Planted::CountBelieved, lock(0, nested), RELEASED),
        (Planted::LeaseFromReply, lock(0, as_it_is), OWNER),
        (Planted::RenewedAfterRelease, lock(1, as_it_is), NOT_STUCK),
        (Planted::StaleReplyBelieved, lock(0, as_it_is), FALSE_LOSS),
        (Planted::LostHandedOver, lock(0, deleted), EXCLUSIVE),
        (Planted::PassedOnWhileHeld, lock(0, nested), EXCLUSIVE),
        (Planted::LossToFormerHolder, lock(0, deleted), TOLD),
        (
            Planted::HandedOverPastSlice,
            lock(0, as_it_is),
            NOT_PAST_SLICE,
        ),
        (Planted::HandedToLeaver, lock(0, as_it_is), NOT_STUCK),
        (Planted::UnlockUnchecked, lock(0, deleted), FOREIGN_RELEASE),
        (Planted::IdleKept, lock(0, as_it_is), NOT_PAST_LINGER),
        (Planted::LostIdleTaken, lock(0, deleted), OWNER),
        (Planted::TokenTwice, lock(0, as_it_is), TOKENS),
        (Planted::BlockExceeded, lock(0, as_it_is), TOKENS),
        (Planted::CopiesShareId, permit(1, deleted), NOTIFIED),
        (Planted::CopyTakesAnother, Protocol::semaphore(2, 1), ONE),
        (Planted::NotTakenBack, permit(1, as_it_is), TAKEN_BACK),
        (Planted::GrantTakenBack, permit(1, as_it_is), OWNER),
        (Planted::ReleaseUncounted, permit(0, deleted), CONSERVED),
        (Planted::ReleaseUncounted, permit(1, as_it_is), EXCLUSIVE),
        (Planted::RenewalLeases, permit(0, deleted), CONSERVED),
        (Planted::ExpiredRenewed, permit(1, as_it_is), NOT_STUCK),
        (Planted::ExpiredTwice, permit(0, as_it_is), EXCLUSIVE),
        (Planted::OtherClock, permit(0, as_it_is), EXCLUSIVE),
        (Planted::LeaseFromReply, permit(0, as_it_is), OWNER),
    ] {
        breaks(with(protocol, |it| it.planted = Some(planted)), promise);
    }
}
