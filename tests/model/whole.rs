//! The protocol of the library, in all states.

use crate::check::broken;
use crate::protocol::Protocol;

#[test]
fn one_command_without_a_reply_breaks_no_promise() {
    let protocol = Protocol {
        lease: 3,
        ..Protocol::library(1)
    };
    assert_eq!(broken(protocol), [""; 0]);
}

#[test]
fn one_command_without_a_reply_on_a_broken_connection_breaks_no_promise() {
    let protocol = Protocol {
        breaks: 1,
        ..Protocol::library(1)
    };
    assert_eq!(broken(protocol), [""; 0]);
}

#[test]
fn one_command_without_a_reply_and_a_deleted_key_break_no_promise() {
    let protocol = Protocol {
        deletions: 1,
        ..Protocol::library(1)
    };
    assert_eq!(broken(protocol), [""; 0]);
}

#[test]
fn one_command_without_a_reply_and_a_crash_break_no_promise() {
    let protocol = Protocol {
        crashes: 1,
        ..Protocol::library(1)
    };
    assert_eq!(broken(protocol), [""; 0]);
}

#[test]
fn one_command_without_a_reply_breaks_no_promise_of_nested_holds() {
    let protocol = Protocol {
        levels: 2,
        ..Protocol::library(1)
    };
    assert_eq!(broken(protocol), [""; 0]);
}

#[test]
fn one_command_without_a_reply_breaks_no_promise_to_five_threads() {
    let protocol = Protocol {
        threads: [3, 2],
        ..Protocol::library(1)
    };
    assert_eq!(broken(protocol), [""; 0]);
}

#[test]
fn one_command_without_a_reply_breaks_no_promise_of_a_plain_lock_that_does_not_linger() {
    let protocol = Protocol {
        lingers: false,
        fenced: false,
        ..Protocol::library(1)
    };
    assert_eq!(broken(protocol), [""; 0]);
}

#[test]
fn two_commands_without_a_reply_break_no_promise() {
    assert_eq!(broken(Protocol::library(2)), [""; 0]);
}

#[test]
#[ignore = "soak"]
fn three_commands_without_a_reply_break_no_promise() {
    assert_eq!(broken(Protocol::library(3)), [""; 0]);
}

#[test]
#[ignore = "soak"]
fn two_commands_without_a_reply_and_a_deleted_key_break_no_promise() {
    let protocol = Protocol {
        deletions: 1,
        ..Protocol::library(2)
    };
    assert_eq!(broken(protocol), [""; 0]);
}

#[test]
#[ignore = "soak"]
fn two_commands_without_a_reply_and_a_crash_break_no_promise() {
    let protocol = Protocol {
        crashes: 1,
        ..Protocol::library(2)
    };
    assert_eq!(broken(protocol), [""; 0]);
}

#[test]
#[ignore = "soak"]
fn two_commands_without_a_reply_on_broken_connections_break_no_promise_of_nested_holds() {
    let protocol = Protocol {
        breaks: 2,
        levels: 2,
        ..Protocol::library(2)
    };
    assert_eq!(broken(protocol), [""; 0]);
}

#[test]
#[ignore = "soak"]
fn one_command_without_a_reply_and_a_deleted_key_break_no_promise_to_five_threads() {
    let protocol = Protocol {
        threads: [3, 2],
        deletions: 1,
        ..Protocol::library(1)
    };
    assert_eq!(broken(protocol), [""; 0]);
}

#[test]
#[ignore = "soak"]
fn one_failure_of_each_kind_breaks_no_promise() {
    let protocol = Protocol {
        breaks: 1,
        deletions: 1,
        crashes: 1,
        lease: 3,
        ..Protocol::library(1)
    };
    assert_eq!(broken(protocol), [""; 0]);
}
