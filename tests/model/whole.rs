//! The protocol of the library for a lock, in all states.

use crate::check::{keeps, with};
use crate::protocol::Protocol;

#[test]
fn one_command_without_a_reply_breaks_no_promise() {
    let library = || Protocol::library(1);
    for protocol in [
        with(library(), |it| it.lease = 3),
        with(library(), |it| it.levels = 2),
        with(library(), |it| it.threads = [3, 2]),
        with(library(), |it| (it.lingers, it.fenced) = (false, false)),
    ] {
        keeps(protocol);
    }
}

#[test]
fn one_command_without_a_reply_and_another_failure_break_no_promise() {
    let library = || Protocol::library(1);
    for protocol in [
        with(library(), |it| it.breaks = 1),
        with(library(), |it| it.deletions = 1),
        with(library(), |it| it.crashes = 1),
    ] {
        keeps(protocol);
    }
}

#[test]
fn two_commands_without_a_reply_break_no_promise() {
    keeps(Protocol::library(2));
}

#[test]
#[ignore = "soak"]
fn several_failures_break_no_promise() {
    let library = Protocol::library;
    for protocol in [
        library(3),
        with(library(2), |it| it.deletions = 1),
        with(library(2), |it| it.crashes = 1),
        with(library(2), |it| (it.breaks, it.levels) = (2, 2)),
        with(library(1), |it| (it.deletions, it.threads) = (1, [3, 2])),
        with(library(1), |it| {
            (it.breaks, it.deletions, it.crashes, it.lease) = (1, 1, 1, 3);
        }),
    ] {
        keeps(protocol);
    }
}
