use super::*;
use crate::base::parker::{Parker, pair};
use crate::local::Position;
use std::time::Duration;

/// A thread that is not one of the first.
fn wait(combiner: &Combiner, permits: u32) -> (Waiting<'_>, Parker) {
    let (unparker, parker) = pair();
    match combiner.join(permits, || &unparker) {
        Turn::Waits(waiting) => (waiting, parker),
        turn => panic!("{turn:?}"),
    }
}

fn sends(turn: Turn<'_>) -> Batch<'_> {
    match turn {
        Turn::Sends(batch) => batch,
        turn => panic!("{turn:?}"),
    }
}

fn is_done(turn: &Turn<'_>) -> bool {
    matches!(turn, Turn::Over(Outcome::Done))
}

fn fill(combiner: &Combiner) -> Vec<Batch<'_>> {
    let alone = |_| sends(combiner.join(1, || panic!("it waits")));
    (0..AT_ONCE).map(alone).collect()
}

#[test]
fn the_first_waiting_thread_sends_for_all_that_want_as_much() {
    let combiner = Combiner::default();
    let mut under_way = fill(&combiner);
    let [one, two, more, last] = [1, 1, 5, 1].map(|permits| wait(&combiner, permits));
    under_way.pop();
    assert!(one.1.sleep(Duration::ZERO) && !two.1.sleep(Duration::ZERO));
    let mut batch = sends(one.0.turn());
    assert_eq!((batch.permits, batch.threads), (1, 2));
    let Turn::Waits(two_waits) = two.0.turn() else {
        panic!("it is not served yet")
    };
    assert_eq!(batch.serve(1), 0);
    assert!(two.1.sleep(Duration::ZERO) && is_done(&two_waits.turn()));
    assert!(!more.1.sleep(Duration::ZERO), "nine are under way");
    drop(batch);
    assert_eq!(sends(more.0.turn()).permits, 5);
    drop(under_way);
    assert_eq!(sends(last.0.turn()).threads, 1);
    assert_eq!(fill(&combiner).len(), AT_ONCE as usize);
}

#[test]
fn threads_that_leave_are_passed_over() {
    let combiner = Combiner::default();
    let under_way = fill(&combiner);
    let [first, before, stays, leaves] = [(); 4].map(|()| wait(&combiner, 1).0);
    let not_sent = |turn| matches!(turn, Turn::Over(Outcome::NotSent));
    assert!(not_sent(before.leave(false)));
    drop(under_way);
    let mut batch = sends(first.turn());
    assert_eq!(batch.threads, 3);
    let Turn::Waits(leaves) = leaves.leave(false) else {
        panic!("its change is sent")
    };
    assert!(not_sent(leaves.leave(true)));
    assert_eq!(batch.serve(2), 1);
    assert!(is_done(&stays.turn()));
}

#[test]
fn the_other_threads_learn_that_the_request_has_failed() {
    let combiner = Combiner::default();
    let under_way = fill(&combiner);
    let [first, second, third] = [(); 3].map(|()| wait(&combiner, 1).0);
    drop(under_way);
    let mut batch = sends(first.turn());
    batch.serve(1);
    batch.end(&Outcome::NotSent);
    assert!(is_done(&second.turn()));
    assert!(matches!(third.turn(), Turn::Over(Outcome::NotSent)));
}

/// Those that came after the request, too, so that none of them is passed by a later one.
#[test]
fn refused_threads_are_queued_in_the_order_in_which_they_came() {
    let (combiner, queue) = (Combiner::default(), WaitQueue::default());
    let mut under_way = fill(&combiner);
    let [first, leaves, second, other] = [1, 1, 1, 2].map(|permits| wait(&combiner, permits));
    under_way.pop();
    let batch = sends(first.0.turn());
    let last = wait(&combiner, 1);
    let Turn::Waits(leaves) = leaves.0.turn() else {
        panic!("its change is sent")
    };
    leaves.leave(true);
    let first = batch.refuse(&pair().0, &queue);
    assert_eq!(first.position(), Position::First);
    let mut places = Vec::new();
    for ((waiting, parker), ahead) in [second, other, last].into_iter().zip([1, 2, 4]) {
        assert!(parker.sleep(Duration::ZERO), "it is woken");
        let Turn::Over(Outcome::Queued(number)) = waiting.turn() else {
            panic!("it is queued")
        };
        let place = queue.queued(number);
        let position = place.position();
        assert!(matches!(position, Position::Behind { ahead: found, .. } if found == ahead));
        places.push(place);
    }
    drop((first, places));
    assert!(!queue.is_used());
}

#[test]
fn threads_that_are_not_served_are_queued_without_the_one_that_sent() {
    let (combiner, queue) = (Combiner::default(), WaitQueue::default());
    let under_way = fill(&combiner);
    let [first, second, third] = [(); 3].map(|()| wait(&combiner, 1).0);
    drop(under_way);
    let mut batch = sends(first.turn());
    batch.serve(1);
    batch.refuse_others(&queue);
    assert!(is_done(&second.turn()));
    let Turn::Over(Outcome::Queued(number)) = third.turn() else {
        panic!("it is queued")
    };
    assert_eq!(queue.queued(number).position(), Position::First);
}

#[test]
fn permits_are_handed_over_to_the_first_waiting_thread_if_it_wants_as_many() {
    let combiner = Combiner::default();
    assert!(!combiner.hand_over(1), "no thread waits");
    let mut under_way = fill(&combiner);
    let [first, second] = [1, 2].map(|permits| wait(&combiner, permits));
    assert!(!combiner.hand_over(1), "Redis has granted no permits");
    let granted = |moment| combiner.0.lock().granted = Some(moment);
    granted(Moment::now().before(SLICE));
    assert!(!combiner.hand_over(1), "a slice has passed");
    granted(Moment::NEVER.before(SLICE));
    assert!(!combiner.hand_over(2));
    assert!(combiner.hand_over(1) && first.1.sleep(Duration::ZERO));
    assert!(is_done(&first.0.turn()));
    assert!(matches!(
        second.0.leave(false),
        Turn::Over(Outcome::NotSent)
    ));
    assert!(!combiner.hand_over(2), "it has left");
    combiner.0.lock().granted = None;
    under_way[0].granted();
    drop(under_way);
    assert!(combiner.0.lock().granted.is_some());
}

#[test]
fn a_batch_adds_at_most_what_a_number_can_be() {
    let combiner = Combiner::default();
    let under_way = fill(&combiner);
    let [first, second] = [(); 2].map(|()| wait(&combiner, LARGEST).0);
    drop(under_way);
    assert_eq!(sends(first.turn()).threads, 1);
    assert_eq!(sends(second.turn()).threads, 1);
}
