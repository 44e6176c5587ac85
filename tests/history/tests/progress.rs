//! Threads and locks that are stuck.

use super::{WAITS_WITHOUT_FAULTS, assert_found};

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
