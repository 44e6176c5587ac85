//! Locks with two holders, and the losses that excuse them.

use super::checker;
use super::{BOUNDS, TWO_IN_TURN, assert_found, records};

#[test]
fn two_holders_are_found() {
    // Holders one after the other are no violation.
    assert_found(TWO_IN_TURN, &[]);
    // Two holders at the same time are found.
    let log = format!("{TWO_IN_TURN}\n 23 1 1 vouches 1");
    assert_found(&log, &["two holders"]);
    let violations = checker::check(&records(&log), &BOUNDS).violations;
    let message = violations[0].to_string();
    assert!(message.ends_with(" for 1ms"), "{message}");
    // For an instant.
    let log = format!("{TWO_IN_TURN}\n 22 1 1 vouches 1");
    assert_found(&log, &["two holders"]);
    // A short hold within a long one does not hide the next.
    let log = format!(
        "{TWO_IN_TURN}
        90 1 1 vouches 1
        40 3 1 asks 1 0 0 lock
        41 3 1 has 1 7
        42 3 1 vouches 1"
    );
    assert_found(&log, &["two holders", "two holders"]);
    // Holds of different locks do not conflict.
    let log = "
        10 1 1 asks 1 0 0 lock
        12 1 1 has 1 5
        30 1 1 vouches 1
        15 2 1 asks 1 1 0 lock
        22 2 1 has 1 5
        30 2 1 vouches 1";
    assert_found(log, &[]);
    // An expired hold without a check is no violation.
    // The first holder was paused: its hold lasts, but it has not checked the hold since.
    let log = format!("{TWO_IN_TURN}\n 40 1 1 answered 2 lost");
    assert_found(&log, &[]);
    // Short holds that overlap are found inside a process too.
    let in_turn = "
        12 1 1 held 1 0 10000000 5 14000000
        16 1 2 held 1 0 11000000 6 18000000";
    assert_found(in_turn, &[]);
    let both = "
        12 1 1 held 1 0 10000000 5 17000000
        16 1 2 held 1 0 11000000 6 18000000";
    assert_found(both, &["two holders"]);
}

#[test]
fn a_deleted_key_excuses_two_holders_for_a_lease() {
    // A deleted key excuses a second holder for a lease.
    let log = format!("{TWO_IN_TURN}\n 21 0 0 deleted 0 21 0\n 28 1 1 vouches 1");
    assert_found(&log, &[]);
    let log = format!("{TWO_IN_TURN}\n 21 0 0 deleted 0 21 0\n 321 1 1 vouches 1");
    assert_found(&log, &[]);
    // A deletion does not excuse an earlier overlap.
    let log = format!("{TWO_IN_TURN}\n 25 0 0 deleted 0 25 0\n 28 1 1 vouches 1");
    assert_found(&log, &["two holders"]);
    // A deletion does not excuse a hold that was granted after it.
    // It waited since before the deletion, but its token is newer.
    let log = format!(
        "{TWO_IN_TURN}
        17 0 0 deleted 0 17 5
        24 3 1 asks 1 0 0 lock
        25 3 1 has 1 7
        26 3 1 vouches 1"
    );
    assert_found(&log, &["two holders"]);
    assert_found(&log.replace("17 5", "17 0"), &[]);
    // A holder that is not notified within a lease is found.
    let log = format!("{TWO_IN_TURN}\n 21 0 0 deleted 0 21 0\n 322 1 1 vouches 1");
    assert_found(&log, &["holder not notified"]);
    // Holds of two threads of a process have no excuse. Also if its key was deleted, which a
    // second process cannot know.
    let log = format!("{TWO_IN_TURN}\n 21 0 0 deleted 0 21 0\n 28 1 1 vouches 1");
    assert_found(&log, &[]);
    let in_one = log.replace(" 2 1 ", " 1 2 ");
    assert_found(&in_one, &["two holders"]);
}

#[test]
fn a_failover_excuses_two_holders_for_a_lease() {
    let log = format!("{TWO_IN_TURN}\n 21 0 0 failed-over 0 21 21\n 28 1 1 vouches 1");
    assert_found(&log, &[]);
    assert_eq!(checker::check(&records(&log), &BOUNDS).predicted, 1);
    let clock = log.replace("failed-over 0 21 21", "clock-set 0 21");
    assert_found(&clock, &[]);
    assert_eq!(checker::check(&records(&clock), &BOUNDS).predicted, 1);
    // It does not excuse an earlier overlap.
    assert_found(
        &log.replace("21 0 0 failed-over 0 21 21", "25 0 0 failed-over 0 25 25"),
        &["two holders"],
    );
    // Two holders that both hold on.
    let log = format!("{log}\n 330 1 1 vouches 1\n 330 2 1 vouches 1");
    assert_found(&log, &["holder not notified"]);
    // A deletion that the new master does not know: the lock stays held.
    let log = "
        10 1 1 asks 1 0 0 lock
        12 1 1 has 1 5
        19 0 0 deleted 0 19 0
        21 0 0 failed-over 0 21 18
        400 1 1 vouches 1";
    assert_found(log, &[]);
    assert_found(&log.replace("21 18", "21 20"), &["holder not notified"]);
    // A lock that the new master has stays held.
    let log = "
        10 1 1 asks 1 0 0 lock
        12 1 1 has 1 5
        21 0 0 failed-over 0 21 21
        400 1 1 vouches 1";
    assert_found(log, &[]);
    assert_eq!(checker::check(&records(log), &BOUNDS).predicted, 0);
}

/// A grant that was handed over or taken again without a request, while no thread of its process
/// knew of the deletion.
#[test]
fn a_hold_that_began_on_a_deleted_grant_is_excused() {
    let log = "
        10 1 1 asks 1 0 0 lock
        12 1 1 has 1 5
        20 1 1 vouches 1
        21 0 0 deleted 0 21 9
        22 2 1 asks 1 0 0 lock
        23 2 1 has 1 10
        40 2 1 vouches 1
        30 1 2 asks 1 0 0 lock
        31 1 2 has 1 6
        35 1 2 vouches 1";
    assert_found(log, &[]);
    assert_found(
        &log.replace("1 2 has 1 6", "1 2 has 1 11"),
        &["two holders"],
    );
    let too_long = format!("{log}\n 322 1 2 vouches 1");
    assert_found(&too_long, &["holder not notified"]);
    // Without tokens, only the time tells which grant it is.
    let plain = log
        .replace("21 9", "21 0")
        .replace("has 1 5", "has 1 0")
        .replace("has 1 6", "has 1 0")
        .replace("has 1 10", "has 1 0");
    assert_found(&plain, &[]);
    let later = plain
        .replace("22 2 1", "52 2 1")
        .replace("23 2 1", "53 2 1");
    let later = later
        .replace("30 1 2", "52 1 2")
        .replace("31 1 2", "54 1 2");
    let later = later
        .replace("35 1 2", "55 1 2")
        .replace("40 2 1", "60 2 1");
    assert_found(&later, &["two holders"]);
}
