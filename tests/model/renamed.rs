//! A remedy for what late copies do to counts and to deleted locks: no retry repeats the owner name
//! of an earlier copy, so that whatever is late finds nothing under the name it carries.

use crate::check::{broken, counterexample};
use crate::promises::TOLD;
use crate::protocol::{Protocol, Rename};

fn renamed(rename: Rename, unanswered: u8) -> Protocol {
    Protocol {
        rename,
        ..Protocol::library(unanswered)
    }
}

#[test]
fn retries_under_fresh_names_break_no_promise() {
    let protocol = Protocol {
        renewals: false,
        ..renamed(Rename::OncePerCall, 1)
    };
    assert_eq!(broken(protocol), [""; 0]);
}

/// To rename only afterwards is too late for a lock that is deleted meanwhile.
#[test]
fn a_late_acquire_revives_a_deleted_hold_unless_each_retry_has_a_name_of_its_own() {
    for rename in [Rename::AtOnce, Rename::AtNextRenewal] {
        let protocol = Protocol {
            deletions: 1,
            ..renamed(rename, 1)
        };
        let found = counterexample(protocol, TOLD);
        assert!(found.is_some(), "{rename:?} was to break \"{TOLD}\"");
    }
}

#[test]
#[ignore = "takes minutes; a quarter of that with --release"]
fn retries_under_fresh_names_break_no_promise_with_a_deletion_and_renewals() {
    for rename in [Rename::OncePerCall, Rename::EachRetry] {
        let protocol = Protocol {
            deletions: 1,
            ..renamed(rename, 1)
        };
        assert_eq!(broken(protocol), [""; 0], "{rename:?}");
    }
}

#[test]
#[ignore = "takes minutes; a quarter of that with --release"]
fn retries_under_fresh_names_break_no_promise_with_two_commands_unanswered() {
    for rename in [Rename::OncePerCall, Rename::EachRetry] {
        let protocol = Protocol {
            renewals: false,
            ..renamed(rename, 2)
        };
        assert_eq!(broken(protocol), [""; 0], "{rename:?}");
    }
}
