//! What the checker finds in the logs of fair locks, read-write locks and semaphores.

use super::{BOUNDS, Bounds, TWO_IN_TURN, WAITS_WITHOUT_FAULTS, assert_found, found_with};

/// Process 1 waits in the queue from 160 on. Process 3 holds the lock until 210, then process 2.
const OVERTAKES: &str = "
    0 0 0 calm
    1 1 0 client a
    1 2 0 client b
    150 3 1 asks 1 0 0 lock
    155 3 1 has 1 0
    210 3 1 vouches 1
    160 1 1 asks 1 0 0 lock
    165 0 0 waiting 0 164 a
    190 0 0 waiting 0 189 a
    200 0 0 waiting 0 199 a
    195 2 1 asks 1 0 0 lock
    230 2 1 has 1 0
    240 0 0 waiting 0 239 a
    400 0 0 storm";

#[test]
fn a_hold_that_overtakes_a_client_in_the_queue_is_found() {
    // A hold that overtakes a client in the queue is found.
    assert_found(OVERTAKES, &["overtaken"]);
    let of_another_lock = OVERTAKES.replace("195 2 1 asks 1 0 0", "195 2 1 asks 1 1 0");
    assert_found(&of_another_lock, &[]);
    assert_found(&OVERTAKES.replace("client a", "client c"), &[]);
    // A client whose grant may be from before the wait does not overtake. It handed the lock over,
    // or the reply was late.
    let before = OVERTAKES.replace("210 3 1", "200 3 1");
    assert_found(&before, &[]);
    let of_its_own = OVERTAKES.replace(" 3 1 ", " 2 2 ");
    assert_found(&of_its_own, &[]);
    // A grant does not last for that long: 30 ms, and 100 ms until the process knew of it.
    let late = |asked: &str| {
        let log = before.replace("195 2 1", asked);
        log.replace("230 2 1", "340 2 1")
            .replace("240 0 0 waiting 0 239", "350 0 0 waiting 0 349")
    };
    assert_found(&late("330 2 1"), &[]);
    assert_found(&late("331 2 1"), &["overtaken"]);
    // A client that was first does not overtake.
    let first = OVERTAKES.replace("199 a", "199 b a");
    assert_found(&first, &[]);
    // It was seen without its place.
    let again = format!("{first}\n 209 0 0 waiting 0 208 a");
    assert_found(&again, &["overtaken"]);
    let just = format!("{first}\n 210 0 0 waiting 0 209 a");
    assert_found(&just, &[]);
    // The order is not known while faults interfere.
    assert_found(&OVERTAKES.replace("0 0 0 calm", "0 0 0 storm"), &[]);
    assert_found(&OVERTAKES.replace("0 0 0 calm", "100 0 0 calm"), &[]);
    let storm = format!("{OVERTAKES}\n 235 0 0 storm");
    assert_found(&storm, &[]);
    // A client that may not subscribe has no place to keep.
    let unsubscribed = format!("{OVERTAKES}\n 1 1 0 may-not-subscribe");
    assert_found(&unsubscribed, &[]);
    // Nor one that is not subscribed for the moment.
    let asks = |clients: &str| format!("{OVERTAKES}\n 198 0 0 not-subscribed 0 {clients}");
    assert_found(&asks("a"), &[]);
    assert_found(&asks("b"), &["overtaken"]);
    // Both were called, because a dead client before them did not answer.
    let dead = |left: u64| {
        OVERTAKES.replace(
            "200 0 0 waiting 0 199 a",
            &format!(
                "
                1 4 0 client c
                2 0 0 killed 4
                198 0 0 not-subscribed 0 c
                200 0 0 waiting 0 199 c a b
                {left} 0 0 waiting 0 {left} a b"
            ),
        )
    };
    assert_found(&dead(220), &[]);
    assert_found(&dead(220).replace("2 0 0 killed 4", ""), &["overtaken"]);
    // It still has its place.
    let kept = dead(220)
        .replace("0 220 a", "0 220 c a")
        .replace("0 239 a", "0 239 c a");
    assert_found(&kept, &["overtaken"]);
}

#[test]
fn a_client_that_may_have_left_the_queue_is_not_overtaken() {
    // A client that may have left the queue is not overtaken.
    for left in [
        "220 0 0 waiting 0 219",
        "220 0 0 waiting 0 219 b",
        "220 1 1 answered 1 unavailable",
        "220 1 1 has 1 0",
        "220 1 2 asks 1 0 100 try_lock",
        "220 1 1 held 2 0 195000000 0 0",
    ] {
        assert_found(&format!("{OVERTAKES}\n {left}"), &[]);
    }
    let other = format!("{OVERTAKES}\n 220 1 2 asks 1 1 100 try_lock");
    assert_found(&other, &["overtaken"]);
    // A client that was killed in a rush may have left the queue. The last holds of a rush are not
    // in the log of a killed process.
    let rush = OVERTAKES.replace("160 1 1 asks 1 0 0 lock", "160 1 1 asks 1 0 0 rush");
    assert_found(&rush, &[]);
    let returned = format!("{rush}\n 300 1 1 answered 1 rushed");
    assert_found(&returned, &["overtaken"]);
}

#[test]
fn a_client_that_loses_its_place_while_it_waits_is_found() {
    let log = "
        0 0 0 calm
        1 1 0 client a
        150 1 1 asks 1 0 0 try_lock 1s
        160 0 0 waiting 0 159 a
        185 0 0 waiting 0 184 a
        200 0 0 waiting 0 199 a
        230 0 0 waiting 0 229 a
        240 0 0 waiting 0 239
        400 0 0 storm";
    assert_found(log, &["place lost"]);
    // It may not have listened yet when it was called, or it may not subscribe.
    assert_found(&log.replace("230 0 0 waiting 0 229 a", ""), &[]);
    assert_found(&format!("{log}\n 1 1 0 may-not-subscribe"), &[]);
    // Its call returned, or waited no more.
    assert_found(&format!("{log}\n 250 1 1 has 1 0"), &[]);
    // It was first again after a hold. Not if that was in a rush in which it was killed: such a
    // hold is not in the log.
    let moved = "
        0 0 0 calm
        1 1 0 client a
        1 2 0 client b
        190 1 1 asks 1 0 0 rush
        200 0 0 waiting 0 199 a b
        230 0 0 waiting 0 229 a b
        240 0 0 waiting 0 239 b a
        400 0 0 storm";
    assert_found(moved, &[]);
    let returned = format!("{moved}\n 300 1 1 answered 1 rushed");
    assert_found(&returned, &["place lost"]);
    assert_found(&format!("{returned}\n 235 1 1 held 2 0 234000000 0 0"), &[]);
    assert_found(&log.replace("1s", "89ms"), &[]);
    // The order is not known while faults interfere.
    assert_found(&log.replace("0 0 0 calm", "150 0 0 calm"), &[]);
}

/// Threads of two processes read from 12 to 30 and from 22 to 30.
fn two_readers() -> String {
    let overlap = TWO_IN_TURN.replace("20 1 1 vouches", "30 1 1 vouches");
    format!("10 1 1 reads 1\n 15 2 1 reads 1\n {overlap}")
}

#[test]
fn a_reader_beside_a_writer_is_found() {
    // Readers hold a lock together.
    assert_found(&two_readers(), &[]);
    let short = "
        12 1 1 reads 1
        12 1 1 held 1 0 10000000 0 17000000
        16 1 2 reads 1
        16 1 2 held 1 0 11000000 0 18000000";
    assert_found(short, &[]);
    // A reader beside a writer is found.
    for reads in ["10 1 1 reads 1", "15 2 1 reads 1"] {
        let log = two_readers().replace(reads, "");
        assert_found(&log, &["reader beside a writer"]);
        let in_one_process = log.replace(" 2 1 ", " 1 2 ");
        assert_found(&in_one_process, &["reader beside a writer"]);
    }
    // A short read within a long one does not hide a writer.
    let log = format!(
        "{}
        90 1 1 vouches 1
        40 3 1 asks 1 0 0 lock
        41 3 1 has 1 0
        42 3 1 vouches 1",
        two_readers()
    );
    assert_found(&log, &["reader beside a writer"]);
}

#[test]
fn a_writer_can_become_a_reader() {
    let log = "
        10 1 1 asks 1 0 0 lock
        12 1 1 has 1 0
        20 1 1 reads 2
        20 1 1 asks 2 0 0 downgrade
        22 1 1 has 2 0
        30 1 1 vouches 1
        40 1 1 vouches 2";
    assert_found(log, &[]);
    // Without a downgrade, the writer would hold the lock twice.
    let twice = log.replace("20 1 1 reads 2", "");
    assert_found(&twice, &["two holders"]);
    let meanwhile = format!(
        "{log}
        31 2 1 asks 1 0 0 lock
        32 2 1 has 1 0
        33 2 1 vouches 1"
    );
    assert_found(&meanwhile, &["reader beside a writer"]);
}

#[test]
fn a_read_lock_within_a_write_lock_is_a_hold_of_its_own() {
    let log = "
        10 1 1 asks 1 0 0 lock
        12 1 1 has 1 0
        14 1 1 reads 2
        14 1 1 asks 2 0 0 lock
        16 1 1 has-again 2 1 0
        20 1 1 vouches 1
        60 1 1 vouches 2
        25 1 2 reads 1
        25 1 2 asks 1 0 0 lock
        30 1 2 has 1 0
        50 1 2 vouches 1";
    // The write lock was lost at 20, and the read lock was not.
    assert_found(log, &[]);
    let writes = log.replace("60 1 1 vouches 2", "60 1 1 vouches 1");
    assert_found(&writes, &["reader beside a writer"]);
    let other_writes = log.replace("25 1 2 reads 1", "");
    assert_found(&other_writes, &["reader beside a writer"]);
}

const TWO_PERMITS: Bounds = Bounds {
    permits: Some(2),
    ..BOUNDS
};

#[test]
fn too_many_permits_are_found() {
    // More holders than permits are found.
    let log = "
        12 1 1 held 1 0 10000000 0 30000000
        16 1 2 held 1 0 11000000 0 20000000
        21 2 1 held 1 0 11000000 0 30000000";
    assert_eq!(found_with(&TWO_PERMITS, log), [""; 0]);
    let third = log.replace("20000000", "21000000");
    assert_eq!(found_with(&TWO_PERMITS, &third), ["too many permits"]);
    let deleted = format!("{third}\n 19 0 0 deleted 0 18000000 0").replace("18000000", "18");
    assert_eq!(found_with(&TWO_PERMITS, &deleted), [""; 0]);
    // Permits are held together although none was lost.
    let together = "
        12 1 1 held 1 0 10000000 0 330000000
        16 2 1 held 1 0 11000000 0 330000000
        21 0 0 clock-set 0 11";
    assert_eq!(found_with(&TWO_PERMITS, together), [""; 0]);
    // A process takes a single permit again after its deletion. A semaphore of one permit is no
    // lock: its process does not count the permits of its threads.
    let one = Bounds {
        permits: Some(1),
        ..BOUNDS
    };
    let log = "
        12 1 1 held 1 0 10000000 0 30000000
        25 1 2 held 1 0 22000000 0 40000000";
    assert_eq!(found_with(&one, log), ["too many permits"]);
    let deleted = format!("{log}\n 20 0 0 deleted 0 18 0");
    assert_eq!(found_with(&one, &deleted), [""; 0]);
    assert_found(&deleted, &["two holders"]);
    // A free permit with a waiter is found.
    let one_is_held = format!(
        "{WAITS_WITHOUT_FAULTS}
        51 2 1 asks 1 0 0 lock
        52 2 1 has 1 0
        1150 2 1 vouches 1"
    );
    assert_found(&one_is_held, &[]);
    assert_eq!(found_with(&TWO_PERMITS, &one_is_held), ["lock stuck"]);
    let both_are_held = format!(
        "{one_is_held}
        51 2 2 asks 1 0 0 lock
        52 2 2 has 1 0
        1150 2 2 vouches 1"
    );
    assert_eq!(found_with(&TWO_PERMITS, &both_are_held), [""; 0]);
}

#[test]
fn the_permits_of_a_call_are_counted() {
    let log = "
        12 1 1 needs 1 1
        12 1 1 held 1 0 10000000 0 30000000
        16 2 1 held 1 0 11000000 0 20000000";
    assert_eq!(found_with(&TWO_PERMITS, log), [""; 0]);
    let two = log.replace("needs 1 1", "needs 1 2");
    assert_eq!(found_with(&TWO_PERMITS, &two), ["too many permits"]);
    // A semaphore with fewer free permits than a thread needs is not stuck.
    let one_is_held = format!(
        "{WAITS_WITHOUT_FAULTS}
        51 2 1 asks 1 0 0 lock
        52 2 1 has 1 0
        1150 2 1 vouches 1"
    );
    let needs_two = format!("10 1 1 needs 1 2{one_is_held}");
    assert_eq!(found_with(&TWO_PERMITS, &needs_two), [""; 0]);
    let none_is_held = needs_two.replace("1150 2 1", "60 2 1");
    assert_eq!(found_with(&TWO_PERMITS, &none_is_held), ["lock stuck"]);
}
