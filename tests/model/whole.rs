//! The protocol of the library, in all states.

use crate::check::broken;
use crate::promises::COUNTS;
use crate::protocol::Protocol;

/// Counts are the one thing that a late copy can spoil: see `walks.rs` for how.
#[test]
fn one_command_without_an_answer_breaks_no_promise_but_that_of_counts() {
    assert_eq!(broken(Protocol::library(1)), [COUNTS]);
}

#[test]
fn commands_that_are_lost_but_never_late_break_no_promise() {
    let protocol = Protocol {
        delays: false,
        renewals: false,
        ..Protocol::library(2)
    };
    assert_eq!(broken(protocol), [""; 0]);
}

#[test]
fn a_deleted_key_breaks_no_promise() {
    let protocol = Protocol {
        deletions: 1,
        ..Protocol::library(0)
    };
    assert_eq!(broken(protocol), [""; 0]);
}

#[test]
fn a_crash_breaks_no_promise() {
    let protocol = Protocol {
        crashes: 1,
        renewals: false,
        ..Protocol::library(0)
    };
    assert_eq!(broken(protocol), [""; 0]);
}

#[test]
#[ignore = "takes minutes; a quarter of that with --release"]
fn two_commands_without_an_answer_break_no_promise_but_that_of_counts() {
    let protocol = Protocol {
        renewals: false,
        ..Protocol::library(2)
    };
    assert_eq!(broken(protocol), [COUNTS]);
}

#[test]
#[ignore = "takes minutes; a quarter of that with --release"]
fn a_crash_between_renewals_breaks_no_promise() {
    let protocol = Protocol {
        crashes: 1,
        ..Protocol::library(0)
    };
    assert_eq!(broken(protocol), [""; 0]);
}
