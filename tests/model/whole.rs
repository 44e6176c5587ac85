//! The protocol of the library, in all states.

use crate::check::broken;
use crate::protocol::Protocol;

#[test]
fn one_command_without_a_reply_breaks_no_promise() {
    assert_eq!(broken(Protocol::library(1)), [""; 0]);
}

#[test]
fn one_command_without_a_reply_and_a_deleted_key_break_no_promise() {
    let protocol = Protocol {
        deletions: 1,
        renewals: false,
        ..Protocol::library(1)
    };
    assert_eq!(broken(protocol), [""; 0]);
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
        ..Protocol::library(0)
    };
    assert_eq!(broken(protocol), [""; 0]);
}

#[test]
#[ignore = "soak"]
fn one_command_without_a_reply_a_deleted_key_and_renewals_break_no_promise() {
    let protocol = Protocol {
        deletions: 1,
        ..Protocol::library(1)
    };
    assert_eq!(broken(protocol), [""; 0]);
}

#[test]
#[ignore = "soak"]
fn two_commands_without_a_reply_break_no_promise() {
    let protocol = Protocol {
        renewals: false,
        ..Protocol::library(2)
    };
    assert_eq!(broken(protocol), [""; 0]);
}

#[test]
#[ignore = "soak"]
fn one_command_without_a_reply_and_a_crash_break_no_promise() {
    let protocol = Protocol {
        crashes: 1,
        ..Protocol::library(1)
    };
    assert_eq!(broken(protocol), [""; 0]);
}

#[test]
#[ignore = "soak"]
fn two_commands_without_a_reply_and_a_deleted_key_break_no_promise() {
    let protocol = Protocol {
        deletions: 1,
        renewals: false,
        ..Protocol::library(2)
    };
    assert_eq!(broken(protocol), [""; 0]);
}

#[test]
#[ignore = "soak"]
fn two_commands_without_a_reply_and_renewals_break_no_promise() {
    assert_eq!(broken(Protocol::library(2)), [""; 0]);
}
