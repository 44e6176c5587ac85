//! The protocol of the library for permits with leases: in all states, and each rule broken once.

use crate::check::{breaks, keeps, with};
use crate::promises::{CONSERVED, EXCLUSIVE, NOT_STUCK, NOTIFIED, ONE, OWNER, TAKEN_BACK};
use crate::protocol::{Planted, Protocol};

fn library(unanswered: u8) -> Protocol {
    Protocol::semaphore(1, unanswered)
}

fn deleted(unanswered: u8) -> Protocol {
    with(library(unanswered), |it| it.deletions = 1)
}

#[test]
fn failures_break_no_promise() {
    keeps(Protocol::semaphore(2, 1));
    keeps(library(2));
    keeps(with(library(1), |it| it.breaks = 1));
    keeps(with(deleted(0), |it| it.crashes = 1));
}

#[test]
#[ignore = "soak"]
fn one_failure_of_each_kind_breaks_no_promise() {
    keeps(with(deleted(1), |it| (it.breaks, it.crashes) = (1, 1)));
}

#[test]
fn each_rule_is_needed() {
    for (planted, protocol, promise) in [
        (Planted::CopiesShareId, deleted(1), NOTIFIED),
        (Planted::CopyTakesAnother, Protocol::semaphore(2, 1), ONE),
        (Planted::NotTakenBack, library(1), TAKEN_BACK),
        (Planted::GrantTakenBack, library(1), OWNER),
        (Planted::ReleaseUncounted, deleted(0), CONSERVED),
        (Planted::ReleaseUncounted, library(1), EXCLUSIVE),
        (Planted::RenewalLeases, deleted(0), CONSERVED),
        (Planted::ExpiredRenewed, library(1), NOT_STUCK),
        (Planted::ExpiredTwice, library(0), EXCLUSIVE),
        (Planted::OtherClock, library(0), EXCLUSIVE),
        (Planted::LeaseFromReply, library(0), OWNER),
    ] {
        breaks(with(protocol, |it| it.planted = Some(planted)), promise);
    }
}
