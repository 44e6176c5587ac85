//! Results of calls that do not agree with the holds.

use super::{BOUNDS, Bounds, assert_found, found_with};

/// Process 1 holds the lock from 1210 to 1400, in a calm.
const HOLDS: &str = "
    0 0 0 calm
    1200 1 1 asks 1 0 0 lock
    1210 1 1 has 1 0
    1400 1 1 vouches 1
    1399 1 1 asks 2 0 0 unlock
    1401 1 1 answered 2 unlocked
    2000 0 0 storm";

#[test]
fn a_hold_that_was_granted_within_another_is_found() {
    // The second hold is never confirmed.
    let within = format!(
        "{HOLDS}
        1300 2 1 asks 1 0 0 lock
        1310 2 1 has 1 0"
    );
    assert_found(&within, &["two holders"]);
    // Its call may have been executed before the first hold, or after it.
    assert_found(&within.replace("1300 2 1", "1209 2 1"), &[]);
    assert_found(&within.replace("1310 2 1", "1401 2 1"), &[]);
    // It is nested, or the key was deleted.
    assert_found(
        &within
            .replace(" 2 1 asks", " 1 2 asks")
            .replace(" 2 1 has", " 1 2 has"),
        &["two holders"],
    );
    assert_found(&format!("{within}\n 1290 0 0 deleted 0 1290 0"), &[]);
    // Both read, or one of them.
    let reads = format!("{within}\n 1200 1 1 reads 1");
    assert_found(&reads, &["reader beside a writer"]);
    assert_found(&format!("{reads}\n 1300 2 1 reads 1"), &[]);
}

#[test]
fn a_held_lock_that_is_said_to_be_free_is_found() {
    let asks = |what: &str, answer: &str| {
        format!(
            "{HOLDS}
            1300 2 1 asks 1 0 90 {what}
            1310 2 1 answered 1 {answer}"
        )
    };
    for what in ["is_locked", "force_unlock"] {
        assert_found(&asks(what, "true"), &[]);
        let free = asks(what, "false");
        assert_found(&free, &["wrong result"]);
        assert_found(&free.replace("1310 2 1", "1401 2 1"), &[]);
        assert_found(&free.replace("1300 2 1", "1209 2 1"), &[]);
        // The new master does not have the lock, or the old one is asked.
        let failed_over = "1290 0 0 failed-over 0 1290 1290";
        assert_found(&format!("{free}\n {failed_over}"), &[]);
    }
    // A permit is held.
    let bounds = Bounds {
        permits: Some(2),
        ..BOUNDS
    };
    assert_eq!(found_with(&bounds, &asks("available", "1")), [""; 0]);
    assert_eq!(
        found_with(&bounds, &asks("available", "2")),
        ["wrong result"]
    );
}

#[test]
fn a_free_lock_that_is_said_to_be_held_is_found() {
    // A grant is kept for 30 ms, and a call may return 100 ms late.
    let asks = |at: u32, what: &str, answer: &str| {
        let answered = at + 10;
        format!(
            "{HOLDS}
            {at} 2 1 asks 1 0 90 {what}
            {answered} 2 1 answered 1 {answer}"
        )
    };
    for (what, answer) in [
        ("try_lock 0ns", "held by another"),
        ("is_locked", "true"),
        ("force_unlock", "true"),
    ] {
        assert_found(&asks(1531, what, answer), &[]);
        let held = asks(1532, what, answer);
        assert_found(&held, &["wrong result"]);
        // Another thread wanted it.
        assert_found(
            &format!("{held}\n 1500 3 1 asks 1 0 20 try_lock 0ns\n 1510 3 1 answered 1 lost"),
            &[],
        );
        // A request from before the calm may be executed late.
        assert_found(
            &held.replace("0 0 0 calm", "310 0 0 calm"),
            &["wrong result"],
        );
        assert_found(&held.replace("0 0 0 calm", "1310 0 0 calm"), &[]);
    }
    // The lock was kept after the hold.
    let kept = asks(1532, "is_locked", "true").replace(" unlock\n", " unlock_after 5ms\n");
    assert_found(&kept, &[]);
    assert_found(&kept.replace(" 2 1 a", " 1 1 a"), &[]);
    // A part of several locks, of which another one is held.
    let busy = asks(1532, "try_acquire 0ns", "held by another");
    assert_found(&format!("{busy}\n 1532 2 1 together 1 0 1"), &[]);
    // Readers are in no reader's way.
    let reads = format!("{HOLDS}\n 1200 1 1 reads 1\n 1399 1 1 reads 2");
    let reads = format!(
        "{reads}
        1345 2 1 reads 1
        1345 2 1 asks 1 0 90 try_lock 0ns
        1355 2 1 answered 1 held by another"
    );
    assert_found(&reads, &["wrong result"]);
    assert_found(&reads.replace("1345 2 1 reads 1", ""), &[]);
    // But their locks can be freed by any thread.
    let frees = reads.replace("1345 2 1 reads 1", "");
    let frees = frees.replace("try_lock 0ns", "force_unlock");
    let frees = frees.replace("held by another", "true");
    assert_found(&frees, &[]);
    // More permits than there are, or all of them.
    let bounds = Bounds {
        permits: Some(2),
        ..BOUNDS
    };
    let needs = |permits: u32| format!("1532 2 1 needs 1 {permits}\n{busy}");
    assert_eq!(found_with(&bounds, &needs(3)), [""; 0]);
    assert_eq!(found_with(&bounds, &needs(2)), ["wrong result"]);
    let available = |number: &str| found_with(&bounds, &asks(1532, "available", number));
    assert_eq!(available("1"), ["wrong result"]);
    assert_eq!(available("2"), [""; 0]);
}

#[test]
fn a_hold_that_is_lost_without_a_reason_is_found() {
    let lost = HOLDS.replace("unlocked", "lost: its lease ended");
    assert_found(&lost, &["wrong result"]);
    // Its lease is not renewed, or its key was deleted.
    let fixed = lost.replace(
        "0 lock\n",
        "0 lock_with Lease { length: None, renewals: Left(1) }\n",
    );
    assert_found(&fixed, &[]);
    assert_found(&format!("{lost}\n 1300 0 0 deleted 0 1300 0"), &[]);
    // Faults.
    assert_found(&lost.replace("0 0 0 calm", "1150 0 0 calm"), &[]);
    let paused = format!("{lost}\n 1300 0 0 pauses 1\n 1310 0 0 continued 1");
    assert_found(&paused, &[]);
    // The call released several locks, of which another one was lost.
    assert_found(&format!("{lost}\n 1399 1 1 together 2 0 1"), &[]);
    // Its thread has vouched for its read lock, and the write lock around it was lost.
    let other = format!("{lost}\n 1200 1 1 reads 1");
    assert_found(&other, &[]);
    assert_found(&other.replace(" unlock\n", " downgrade\n"), &[]);
    let read = format!("{other}\n 1399 1 1 reads 2");
    assert_found(&read, &["wrong result"]);
    let write = lost.replace(" unlock\n", " downgrade\n");
    assert_found(&format!("{write}\n 1399 1 1 reads 2"), &["wrong result"]);
    // The client was shut down.
    assert_found(
        &lost.replace("its lease ended", "its client was shut down"),
        &[],
    );
}
