use std::time::Duration;

use super::*;
use crate::base::parker::{Parker, pair};

const LATER: Duration = Duration::from_millis(1);

/// A queue in which a thread was refused.
fn refused() -> WaitQueue {
    let queue = WaitQueue::default();
    queue.enter(1).replied(false);
    queue
}

fn behind(ahead: u64) -> Position {
    Position::Behind {
        ahead,
        unanswered_since: None,
    }
}

fn is_behind(thread: &Queued<'_>, wanted: usize) -> bool {
    let position = thread.position(Moment::ZERO);
    matches!(position, Position::Behind { ahead, .. } if ahead == wanted as u64)
}

fn is_woken(parker: &Parker) -> bool {
    parker.sleep(Duration::ZERO)
}

#[test]
fn the_next_thread_is_the_first_one_and_is_woken() {
    let queue = refused();
    let parkers = [(); 3].map(|()| pair());
    let first = queue.enter(5);
    let second = queue.enter(2);
    let third = queue.enter(1);
    second.sleeps(&parkers[1].0);
    third.sleeps(&parkers[2].0);
    assert_eq!(first.position(Moment::ZERO), Position::First);
    assert_eq!(second.position(Moment::ZERO), behind(5));
    assert_eq!(
        (third.position(Moment::ZERO), queue.wanted()),
        (behind(7), 8)
    );
    drop(second);
    assert_eq!(third.position(Moment::ZERO), behind(5));
    assert!(!is_woken(&parkers[2].1));
    drop(first);
    assert!(is_woken(&parkers[2].1));
    assert_eq!(third.position(Moment::ZERO), Position::First);
    drop(third);
    assert_eq!(queue.wanted(), 0);
    assert!(queue.queue.lock().waiting.is_empty());
}

#[test]
fn several_threads_may_send_until_one_is_refused() {
    let queue = WaitQueue::default();
    let threads: Vec<_> = (0..=AT_ONCE).map(|_| queue.enter(1)).collect();
    let last = &threads[AT_ONCE];
    assert_eq!(
        threads[AT_ONCE - 1].position(Moment::ZERO),
        Position::AmongFirst
    );
    // Those before it may have their permits already.
    assert!(is_behind(last, 0));
    assert_eq!(queue.wanted(), 0);
    threads[1].replied(false);
    assert_eq!(queue.wanted(), AT_ONCE as u64 + 1);
    assert_eq!(threads[0].position(Moment::ZERO), Position::First);
    assert!(is_behind(&threads[1], 1));
}

/// Those that waited keep their order.
#[test]
fn several_threads_may_send_again_after_a_grant_at_once_if_no_thread_waits() {
    let queue = refused();
    let (first, second) = (queue.enter(1), queue.enter(1));
    assert_eq!(first.position(Moment::ZERO), Position::First);
    first.granted_at_once();
    drop(first);
    assert_eq!(second.position(Moment::ZERO), Position::First);
    second.granted_at_once();
    drop(second);
    let third = queue.enter(1);
    assert_eq!(third.position(Moment::ZERO), Position::AmongFirst);
}

#[test]
fn a_thread_that_leaves_wakes_the_one_that_may_send_instead() {
    let queue = WaitQueue::default();
    let mut threads: Vec<_> = (0..=AT_ONCE).map(|_| queue.enter(1)).collect();
    let (unparker, parker) = pair();
    threads[AT_ONCE].sleeps(&unparker);
    threads.remove(1);
    assert!(is_woken(&parker));
    assert_eq!(
        threads[AT_ONCE - 1].position(Moment::ZERO),
        Position::AmongFirst
    );
}

#[test]
fn permits_are_handed_over_to_the_first_thread_that_sleeps_and_wants_as_many() {
    let queue = refused();
    let parkers = [(); 4].map(|()| pair());
    let threads = [1, 2, 1, 1].map(|wanted| queue.enter(wanted));
    for (thread, (unparker, _)) in threads.iter().zip(&parkers) {
        thread.sleeps(unparker);
    }
    assert!(!queue.hand_over(1), "Redis has granted nothing");
    threads[0].replied(true);
    assert_eq!(threads[0].position(Moment::ZERO), Position::First);
    assert!(!queue.hand_over(1), "the first one that sleeps wants more");
    assert!(queue.hand_over(2));
    assert!(threads[1].stop_sleeping() && is_woken(&parkers[1].1));
    assert!(!threads[2].stop_sleeping(), "it is about to leave");
    assert!(queue.hand_over(1));
    assert_eq!(threads[3].position(Moment::ZERO), Position::Done);
    threads[0].sleeps(&parkers[0].0);
    assert!(queue.hand_over(1), "the first one sleeps again");
    assert_eq!(threads[0].position(Moment::ZERO), Position::Done);
}

#[test]
fn nothing_is_handed_over_to_the_last_thread_if_it_has_the_place_of_the_client() {
    let queue = refused();
    let (unparker, _parker) = pair();
    let last = queue.enter(1);
    last.replied(true);
    last.set_place(true);
    last.sleeps(&unparker);
    assert!(!queue.hand_over(1));
    let other = queue.enter(1);
    assert_eq!(other.leave(), Leaving::PlaceStays);
    assert_eq!(last.leave(), Leaving::AfterLine);
    assert!(queue.hand_over(1) && last.stop_sleeping());
    assert_eq!(last.leave(), Leaving::Done { others_wait: true });
    assert!(queue.queue.lock().waiting.is_empty());
}

#[test]
fn nothing_is_handed_over_after_a_slice() {
    let queue = refused();
    let (unparker, _parker) = pair();
    let one = queue.enter(1);
    one.sleeps(&unparker);
    let long_ago = Moment::ZERO;
    one.update(|queue, _| queue.granted = Some(long_ago));
    assert!(!queue.hand_over(1));
}

#[test]
fn one_thread_can_finish_the_wait_of_those_that_waited_before_its_request() {
    let queue = refused();
    let parkers = [(); 2].map(|()| pair());
    let first = queue.enter(0);
    let second = queue.enter(0);
    second.sleeps(&parkers[1].0);
    let (_, waiting) = first.begin_request(Moment::ZERO);
    let late = queue.enter(0);
    first.done_for(waiting);
    assert_eq!(second.position(Moment::ZERO), Position::Done);
    assert!(is_woken(&parkers[1].1));
    assert!(matches!(
        late.position(Moment::ZERO),
        Position::Behind { .. }
    ));
    drop(first);
    assert_eq!(late.position(Moment::ZERO), Position::First);
    drop(second);
    assert_eq!(late.position(Moment::ZERO), Position::First);
}

#[test]
fn too_few_replicas_are_known_to_all_threads_until_the_next_reply() {
    let queue = WaitQueue::default();
    let queued = queue.enter(1);
    assert_eq!(queue.confirmed_replicas(), None);
    queue.unreplicated(1);
    assert_eq!(queue.confirmed_replicas(), Some(1));
    queued.replied(false);
    assert_eq!(queue.confirmed_replicas(), None);
}

#[test]
fn a_failure_of_the_last_thread_does_not_count_for_the_next_one() {
    let queue = refused();
    let last = queue.enter(1);
    last.begin_request(Moment::ZERO);
    drop(last);
    let first = queue.enter(1);
    let second = queue.enter(1);
    assert_eq!(first.position(Moment::ZERO), Position::First);
    assert_eq!(second.position(Moment::ZERO), behind(1));
}

#[test]
fn the_others_know_since_when_there_is_no_reply() {
    let queue = refused();
    let first = queue.enter(1);
    let second = queue.enter(1);
    let since = |since| Position::Behind {
        ahead: 1,
        unanswered_since: since,
    };
    first.begin_request(Moment::ZERO);
    let (unanswered_since, _) = first.begin_request(Moment::ZERO.after(LATER));
    assert_eq!(unanswered_since, Moment::ZERO);
    assert_eq!(second.position(Moment::ZERO), since(Some(Moment::ZERO)));
    first.replied(false);
    assert_eq!(second.position(Moment::ZERO), since(None));
}

#[test]
fn the_time_without_a_reply_begins_again_with_the_reply_to_another_thread() {
    let queue = WaitQueue::default();
    let threads: Vec<_> = (0..=AT_ONCE).map(|_| queue.enter(1)).collect();
    let since = || match threads[AT_ONCE].position(Moment::ZERO) {
        Position::Behind {
            unanswered_since, ..
        } => unanswered_since,
        other => panic!("{other:?}"),
    };
    threads[0].position(Moment::ZERO);
    threads[1].position(Moment::ZERO);
    assert_eq!(since(), Some(Moment::ZERO));
    threads[0].replied(true);
    assert!(since().is_some_and(|since| since > Moment::ZERO));
    threads[1].replied(true);
    assert_eq!(since(), None);
}
