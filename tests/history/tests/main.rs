//! The violations that the checker of the torture program finds in a log, and what it must not
//! report.
//!
//! The logs are minimal. Their times are in milliseconds.

#[path = "../checker/mod.rs"]
mod checker;
mod kinds;
mod left_over;
mod lost_lines;
#[path = "../record.rs"]
mod record;
mod results;
mod waits;

use std::time::Duration;

use checker::{Bounds, Violation};
use record::{Event, Record};

const BOUNDS: Bounds = Bounds {
    permits: None,
    longest_lease: Duration::from_millis(300),
    idle: Duration::from_millis(1000),
    settled: Duration::from_millis(500),
    line_noticed: Duration::from_millis(1300),
    log_in: Duration::from_millis(3000),
    reuse: Duration::from_millis(30),
    answered: Duration::from_millis(150),
    delivered: Duration::from_millis(100),
    slip: Duration::from_millis(100),
};

/// Process 1 holds lock 0, then process 2.
const TWO_IN_TURN: &str = "
    10 1 1 asks 1 0 0 lock
    12 1 1 has 1 5
    20 1 1 vouches 1
    15 2 1 asks 1 0 0 lock
    22 2 1 has 1 6
    30 2 1 vouches 1";

fn found(log: &str) -> Vec<&'static str> {
    found_with(&BOUNDS, log)
}

fn found_with(bounds: &Bounds, log: &str) -> Vec<&'static str> {
    let violations = checker::check(&records(log), bounds).violations;
    violations.iter().map(Violation::kind).collect()
}

fn records(log: &str) -> Vec<Record> {
    let lines = log.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut records: Vec<Record> = lines
        .map(|line| {
            let mut record = Record::parse(line).unwrap_or_else(|| panic!("not a record: {line}"));
            assert_eq!(record.to_string(), line, "written as it is read");
            record.at *= 1_000_000;
            if let Event::Deleted { from, .. }
            | Event::FailedOver { from, .. }
            | Event::ClockSet { from, .. }
            | Event::Waiting { from, .. } = &mut record.event
            {
                *from *= 1_000_000;
            }
            if let Event::FailedOver { apart, .. } = &mut record.event {
                *apart *= 1_000_000;
            }
            record
        })
        .collect();
    records.sort_by_key(|record| record.at);
    records
}

#[track_caller]
fn assert_found(log: &str, kinds: &[&str]) {
    assert_eq!(found(log), kinds);
}

#[test]
fn a_violation_in_one_record_is_found() {
    for (record, kind) in [
        ("10 1 1 wrong 1 it is not held", "wrong result"),
        ("10 0 0 died 1", "worker died"),
        ("100 1 0 kept 90000000", "kept by hand-overs"),
    ] {
        assert_found(record, &[kind]);
    }
}

#[test]
fn two_holders_are_found() {
    // Holders one after the other are no violation.
    assert_found(TWO_IN_TURN, &[]);
    // Two holders at the same time are found.
    let log = format!("{TWO_IN_TURN}\n 23 1 1 vouches 1");
    assert_found(&log, &["two holders"]);
    let violations = checker::check(&records(&log), &BOUNDS).violations;
    let Violation::TwoHolders { overlap, .. } = violations[0] else {
        panic!("{violations:?}");
    };
    assert_eq!(overlap, Duration::from_millis(1));
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

#[test]
fn tokens_rise() {
    // A token that is not greater is found.
    // The waiting holder knows only that it came later.
    let waits = TWO_IN_TURN.replace("15 2 1", "11 2 1");
    assert_found(&waits, &[]);
    assert_found(&waits.replace("has 1 6", "has 1 5"), &["token fell"]);
    // A token of an unchecked hold must rise too.
    let log = "
        10 1 1 asks 1 0 0 lock
        12 1 1 has 1 7
        15 2 1 asks 1 0 0 lock
        22 2 1 has 1 6";
    assert_found(log, &["token fell"]);
    // Both acquired at the same time, so either may have been first.
    assert_found(&log.replace("15 2 1", "11 2 1"), &[]);
    // A nested acquire with a token of its own is found.
    let log = "
        10 1 1 asks 1 0 0 acquire
        12 1 1 has 1 7
        13 1 1 asks 2 0 0 acquire
        14 1 1 has-again 2 1 7";
    assert_found(log, &[]);
    assert_found(&log.replace("2 1 7", "2 1 8"), &["token changed"]);
    // A token given twice is found. Also if neither was confirmed.
    let log = "
        12 1 1 held 1 0 10000000 5 0
        13 1 2 held 1 0 11000000 5 0";
    assert_found(log, &["token fell"]);
    // Two masters may have granted them, but not long after the failover.
    assert_found(&format!("{log}\n 20 0 0 failed-over 0 9 9"), &[]);
    assert_found(
        &format!("{log}\n 20 0 0 failed-over 0 14 14"),
        &["token fell"],
    );
    assert_found(&format!("{log}\n 20 0 0 deleted 0 9 0"), &["token fell"]);
}

const WAITS_WITHOUT_FAULTS: &str = "
    50 0 0 calm
    10 1 1 asks 1 0 0 lock
    1100 1 1 has 1 0
    1200 0 0 storm";

#[test]
fn a_free_lock_with_a_waiter_is_found() {
    // A free lock with a waiter is found.
    assert_found(WAITS_WITHOUT_FAULTS, &["lock stuck"]);
    // A lock that is held meanwhile is not stuck.
    let log = format!(
        "{WAITS_WITHOUT_FAULTS}
        300 2 1 asks 1 0 0 lock
        400 2 1 has 1 0
        500 2 1 vouches 1"
    );
    assert_found(&log, &[]);
    // A wait during faults is no stuck lock.
    assert_found(&WAITS_WITHOUT_FAULTS.replace("50 0 0", "150 0 0"), &[]);
    // A lock that stays free in a settled calm is found. After a calm of a second, the bound is
    // half a second.
    let free = |until: u64| {
        format!(
            "0 0 0 calm
            900 1 1 asks 1 0 0 lock
            {until} 1 1 has 1 5
            5000 0 0 end"
        )
    };
    assert_found(&free(1400), &[]);
    assert_found(&free(1800), &["lock stuck"]);
}

#[test]
fn a_lock_is_free_for_longer_if_a_dead_client_was_called_or_no_client_released_it() {
    let free = |until: u64, before: &str| {
        format!(
            "{before}
            100 0 0 calm
            1200 1 1 asks 1 0 0 lock
            {until} 1 1 has 1 5
            5000 0 0 end"
        )
    };
    // Half a second for a dead client that could not subscribe, or one that does not wait any more.
    let dead = "
        10 2 0 client a
        20 0 0 not-subscribed 0 a
        30 0 0 killed 2";
    assert_found(&free(2200, dead), &[]);
    assert_found(&free(2200, &dead.replace("killed 2", "note 2")), &[]);
    assert_found(&free(2201, dead), &["lock stuck"]);
    for other in [
        dead.replace("subscribed 0", "subscribed 1"),
        dead.replace("killed 2", "note 2") + "\n 90 2 1 asks 1 0 5000 try_lock 5s",
        format!("{dead}\n 40 0 0 not-subscribed 0"),
    ] {
        assert_found(&free(2200, &other), &["lock stuck"]);
    }
    // Two seconds after a hold whose lease may have ended.
    let lost = "
        40 2 1 asks 1 0 0 acquire Lease { length: Some(300ms), renewals: None }
        50 2 1 has 1 4
        60 2 1 vouches 1
        80 2 1 asks 2 0 0 unlock
        90 2 1 answered 2 lost";
    assert_found(&free(3700, lost), &[]);
    assert_found(&free(3701, lost), &["lock stuck"]);
    for other in [
        lost.replace("renewals: None", "renewals: Unlimited"),
        lost.replace("answered 2 lost", "answered 2 unlocked"),
    ] {
        assert_found(&free(2200, &other), &["lock stuck"]);
    }
}

#[test]
fn a_call_that_takes_longer_than_its_budget_is_found() {
    // A call that takes longer than its budget is found.
    let log = "
        10 1 1 asks 1 0 200 try_lock
        311 1 1 answered 1 held";
    assert_found(log, &["thread stuck"]);
    assert_found(&log.replace("311", "310"), &[]);
    // The time of a stopped process does not count.
    let log = "
        10 1 1 asks 1 0 200 try_lock
        20 0 0 pauses 1
        520 0 0 continued 1
        811 1 1 answered 1 held";
    assert_found(log, &["thread stuck"]);
    assert_found(&log.replace("811", "810"), &[]);
    // The time of an unscheduled thread does not count.
    let log = "
        10 1 1 asks 1 0 200 try_lock
        811 1 1 answered 1 held
        811 1 1 starved 1 500000000";
    assert_found(log, &["thread stuck"]);
    assert_found(&log.replace("811", "810"), &[]);
    // A call that never ends is found.
    let log = "
        10 1 1 asks 1 0 0 lock
        20 0 0 end";
    assert_found(log, &["thread stuck"]);
    let killed = format!("{log}\n 15 0 0 killed 1");
    assert_found(&killed, &[]);
    // The conductor records this for each worker that has not ended in time.
    let lingers = format!("{log}\n 21 0 0 lingers 1");
    assert_found(&lingers, &["thread stuck", "worker lingers"]);
}

#[test]
fn a_log_in_that_is_refused_long_after_a_change_of_the_password_is_found() {
    let log = "
        5 0 0 rotates
        20 1 1 refused 1 WRONGPASS
        3020 1 1 refused 2 WRONGPASS
        9000 2 1 refused 1 WRONGPASS";
    assert_found(log, &[]);
    let late = log.replace("3020", "3021");
    assert_found(&late, &["wrong result"]);
    // The password was not changed before.
    assert_found(&log.replace("5 0 0", "21 0 0"), &["wrong result"]);
    // It was changed again, or the process was paused.
    assert_found(&format!("{late}\n 3000 0 0 rotates"), &[]);
    let paused = format!("{late}\n 30 0 0 pauses 1\n 31 0 0 continued 1");
    assert_found(&paused, &[]);
}

#[test]
fn the_delay_of_a_busy_machine_does_not_count() {
    let log = "
        10 1 1 asks 1 0 200 try_lock
        311 1 1 answered 1 held";
    // A thread that only slept was woken 20 ms late, and a call is scheduled many times.
    for process in [0, 1] {
        let busy = format!("{log}\n 200 {process} 0 late 20000000");
        assert_found(&busy, &[]);
    }
    let elsewhere = format!("{log}\n 200 2 0 late 20000000");
    assert_found(&elsewhere, &["thread stuck"]);
    let before = format!("{log}\n 10 1 0 late 5000000");
    assert_found(&before, &["thread stuck"]);
    // The thread was late because its process was stopped, which is already counted.
    let stopped = "
        10 1 1 asks 1 0 200 try_lock
        20 0 0 pauses 1
        120 0 0 continued 1
        121 1 0 late 100000000
        500 1 1 answered 1 held";
    assert_found(stopped, &["thread stuck"]);
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
