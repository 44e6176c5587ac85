use std::time::Duration;

use super::*;
use crate::base::parker::{Parker, pair};

const LATER: Duration = Duration::from_millis(1);

fn key(name: &str) -> LockKey {
    LockKey::new("", name)
}

fn behind(ahead: u64) -> Position {
    Position::Behind {
        ahead,
        unanswered_since: None,
    }
}

fn is_woken(parker: &Parker) -> bool {
    parker.sleep(Duration::ZERO)
}

#[test]
fn the_next_thread_is_the_first_one_and_is_woken() {
    let queues = WaitQueues::default();
    let key = key("a");
    let parkers = [(); 3].map(|()| pair());
    let first = queues.enter(&key, 5, true);
    let second = queues.enter(&key, 2, true);
    let third = queues.enter(&key, 1, true);
    second.sleeps(&parkers[1].0);
    third.sleeps(&parkers[2].0);
    assert_eq!(first.position(), Position::First);
    assert_eq!(second.position(), behind(5));
    assert_eq!((third.position(), queues.wanted(&key)), (behind(7), 8));
    drop(second);
    assert_eq!(third.position(), behind(5));
    assert!(!is_woken(&parkers[2].1));
    drop(first);
    assert!(is_woken(&parkers[2].1));
    assert_eq!(third.position(), Position::First);
    drop(third);
    assert_eq!(queues.wanted(&key), 0);
    assert!(queues.state.lock().queues.is_empty());
}

#[test]
fn several_threads_may_send_until_one_is_refused_and_after_a_grant_at_once() {
    let queues = WaitQueues::default();
    let key = key("a");
    let threads: Vec<_> = (0..=AT_ONCE)
        .map(|_| queues.enter(&key, 1, false))
        .collect();
    let (unparker, parker) = pair();
    let last = &threads[AT_ONCE];
    last.sleeps(&unparker);
    assert_eq!(threads[AT_ONCE - 1].position(), Position::AmongFirst);
    assert_eq!(last.position(), behind(AT_ONCE as u64));
    assert_eq!(
        queues.wanted(&key),
        0,
        "those before it may have their permits already"
    );
    threads[1].refused();
    assert_eq!(queues.wanted(&key), AT_ONCE as u64 + 1);
    assert_eq!(threads[0].position(), Position::First);
    assert_eq!(threads[1].position(), behind(1));
    threads[0].granted_at_once();
    assert_eq!(threads[1].position(), Position::AmongFirst);
    assert!(!is_woken(&parker), "it may not send");
    drop(threads);
    assert!(queues.state.lock().queues.is_empty());
}

#[test]
fn a_thread_that_leaves_wakes_the_one_that_may_send_instead() {
    let queues = WaitQueues::default();
    let key = key("a");
    let mut threads: Vec<_> = (0..=AT_ONCE)
        .map(|_| queues.enter(&key, 1, false))
        .collect();
    let (unparker, parker) = pair();
    threads[AT_ONCE].sleeps(&unparker);
    threads.remove(1);
    assert!(is_woken(&parker));
    assert_eq!(threads[AT_ONCE - 1].position(), Position::AmongFirst);
}

#[test]
fn permits_are_handed_over_to_the_first_thread_that_sleeps_and_wants_as_many() {
    let queues = WaitQueues::default();
    let key = key("a");
    let parkers = [(); 4].map(|()| pair());
    let threads = [1, 2, 1, 1].map(|wanted| queues.enter(&key, wanted, true));
    for (thread, (unparker, _)) in threads.iter().zip(&parkers) {
        thread.sleeps(unparker);
    }
    assert!(!queues.hand_over(&key, 1), "Redis has granted nothing");
    threads[0].replied(true);
    assert_eq!(threads[0].position(), Position::First);
    assert!(
        !queues.hand_over(&key, 1),
        "the first one that sleeps wants more"
    );
    assert!(queues.hand_over(&key, 2));
    assert!(threads[1].is_done() && is_woken(&parkers[1].1));
    assert!(!threads[2].is_done(), "it is about to leave");
    assert!(queues.hand_over(&key, 1));
    assert_eq!(threads[3].position(), Position::Done);
    threads[0].sleeps(&parkers[0].0);
    assert!(queues.hand_over(&key, 1), "the first one sleeps again");
    assert_eq!(threads[0].position(), Position::Done);
}

#[test]
fn nothing_is_handed_over_to_the_last_thread_if_it_has_the_place_of_the_client() {
    let queues = WaitQueues::default();
    let key = key("a");
    let (unparker, _parker) = pair();
    let last = queues.enter(&key, 1, true);
    last.replied(true);
    last.set_place(true, None);
    last.sleeps(&unparker);
    assert!(!queues.hand_over(&key, 1));
    let other = queues.enter(&key, 1, true);
    assert_eq!(other.leave(), Leaving::PlaceStays);
    assert_eq!(last.leave(), Leaving::AfterLine);
    assert!(queues.hand_over(&key, 1) && last.is_done());
    assert_eq!(last.leave(), Leaving::Done { others_wait: false });
    assert!(queues.state.lock().queues.is_empty());
}

#[test]
fn nothing_is_handed_over_after_a_slice() {
    let queues = WaitQueues::default();
    let key = key("a");
    let (unparker, _parker) = pair();
    let one = queues.enter(&key, 1, true);
    one.sleeps(&unparker);
    let long_ago = Moment::ZERO;
    one.update(|queue, _| queue.granted = Some(long_ago));
    assert!(!queues.hand_over(&key, 1));
}

#[test]
fn one_thread_can_finish_the_wait_of_those_that_waited_before_its_request() {
    let queues = WaitQueues::default();
    let key = key("a");
    let parkers = [(); 2].map(|()| pair());
    let first = queues.enter(&key, 0, true);
    let second = queues.enter(&key, 0, true);
    second.sleeps(&parkers[1].0);
    let (_, waiting) = first.begin_request(Moment::ZERO);
    let late = queues.enter(&key, 0, true);
    first.done_for(waiting);
    assert_eq!(second.position(), Position::Done);
    assert!(is_woken(&parkers[1].1));
    assert!(matches!(late.position(), Position::Behind { .. }));
    drop(first);
    assert_eq!(late.position(), Position::First);
    drop(second);
    assert_eq!(late.position(), Position::First);
}

#[test]
fn only_the_first_thread_reports_to_the_others_that_too_few_replicas_confirmed() {
    let queues = WaitQueues::default();
    let key = key("a");
    let [outside, first, second] = [(); 3].map(|()| pair().0);
    let queued = queues.enter(&key, 1, true);
    let other = queues.enter(&key, 1, true);
    queued.sleeps(&first);
    other.sleeps(&second);
    queues.unreplicated(&key, &outside, 1);
    queues.unreplicated(&key, &second, 1);
    assert_eq!(queues.confirmed_replicas(&key), None);
    queues.unreplicated(&key, &first, 1);
    assert_eq!(queues.confirmed_replicas(&key), Some(1));
    queued.replied(false);
    assert_eq!(queues.confirmed_replicas(&key), None);
}

/// A latch can be used again: its waiting threads have slept through the end of their queue.
#[test]
fn a_thread_whose_queue_was_removed_is_not_taken_for_one_of_the_next_queue() {
    let queues = WaitQueues::default();
    let key = key("a");
    let first = queues.enter(&key, 0, true);
    let second = queues.enter(&key, 0, true);
    let (_, waiting) = first.begin_request(Moment::ZERO);
    first.done_for(waiting);
    drop(first);
    assert!(queues.state.lock().queues.is_empty());
    let third = queues.enter(&key, 0, true);
    let fourth = queues.enter(&key, 0, true);
    assert_eq!(second.position(), Position::Done);
    drop(second);
    assert_eq!(third.position(), Position::First);
    assert_eq!(fourth.position(), behind(0));
}

#[test]
fn the_others_know_since_when_there_is_no_reply() {
    let queues = WaitQueues::default();
    let key = key("a");
    let first = queues.enter(&key, 1, true);
    let second = queues.enter(&key, 1, true);
    let since = |since| Position::Behind {
        ahead: 1,
        unanswered_since: since,
    };
    first.begin_request(Moment::ZERO);
    let (unanswered_since, _) = first.begin_request(Moment::ZERO.after(LATER));
    assert_eq!(unanswered_since, Moment::ZERO);
    assert_eq!(second.position(), since(Some(Moment::ZERO)));
    first.replied(false);
    assert_eq!(second.position(), since(None));
}

#[test]
fn the_time_without_a_reply_begins_again_with_the_reply_to_another_thread() {
    let queues = WaitQueues::default();
    let key = key("a");
    let threads: Vec<_> = (0..=AT_ONCE)
        .map(|_| queues.enter(&key, 1, false))
        .collect();
    let since = || match threads[AT_ONCE].position() {
        Position::Behind {
            unanswered_since, ..
        } => unanswered_since,
        other => panic!("{other:?}"),
    };
    threads[0].begin_request(Moment::ZERO);
    threads[1].begin_request(Moment::ZERO);
    assert_eq!(since(), Some(Moment::ZERO));
    threads[0].replied(true);
    assert!(since().is_some_and(|since| since > Moment::ZERO));
    threads[1].replied(true);
    assert_eq!(since(), None);
}
