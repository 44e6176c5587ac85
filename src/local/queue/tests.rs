use super::*;
use crate::base::parker::pair;
use crate::local::hold::tests::hold;
use std::time::Duration;

fn thread(number: u64) -> ThreadId {
    ThreadId::numbered(number)
}

fn ticket(queue: &Arc<LocalQueue>, key: &Arc<str>, number: u64) -> Ticket {
    match queue.enter(key, thread(number)) {
        Place::Ticket(ticket) => ticket,
        other => panic!("{other:?}"),
    }
}

/// Lines up; whether the thread is the first to wait for a hold.
fn line_up(queue: &Arc<LocalQueue>, key: &Arc<str>, number: u64, unparker: &Unparker) -> bool {
    match queue.line_up(key, thread(number), unparker) {
        LinedUp::Behind { first } => first,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_turn_goes_down_the_line_in_order() {
    let queue = Arc::new(LocalQueue::default());
    let key: Arc<str> = "k".into();
    let first = ticket(&queue, &key, 1);
    let (second_waker, second) = pair();
    let (third_waker, third) = pair();
    line_up(&queue, &key, 2, &second_waker);
    line_up(&queue, &key, 3, &third_waker);
    // Nobody who comes later goes before them.
    assert!(matches!(queue.enter(&key, thread(4)), Place::Behind));

    drop(first);
    assert!(second.sleep(Duration::ZERO));
    assert!(!third.sleep(Duration::ZERO));
    assert!(queue.take_turn(&key, thread(3)).is_none());
    let second = queue.take_turn(&key, thread(2)).unwrap();

    drop(second);
    assert!(third.sleep(Duration::ZERO));
    drop(queue.take_turn(&key, thread(3)));
    assert!(queue.is_empty(), "nothing is left of a name nobody wants");
}

#[test]
fn a_silence_of_redis_is_inherited_until_it_answers() {
    let queue = Arc::new(LocalQueue::default());
    let key: Arc<str> = "k".into();
    let first = ticket(&queue, &key, 1);
    let since = first.ask();
    let (unparker, _sleeper) = pair();
    line_up(&queue, &key, 2, &unparker);
    line_up(&queue, &key, 3, &unparker);
    assert_eq!(queue.unanswered(&key), Some(since));

    drop(first);
    let second = queue.take_turn(&key, thread(2)).unwrap();
    assert_eq!(second.ask(), since);
    second.answered();
    assert_eq!(queue.unanswered(&key), None);
    drop(second);
    let third = queue.take_turn(&key, thread(3)).unwrap();
    assert!(third.ask() > since);
}

#[test]
fn a_turn_that_comes_while_its_thread_leaves_is_not_lost() {
    let queue = Arc::new(LocalQueue::default());
    let key: Arc<str> = "k".into();
    let first = ticket(&queue, &key, 1);
    let (unparker, _sleeper) = pair();
    line_up(&queue, &key, 2, &unparker);
    drop(first);
    assert!(queue.leave(&key, thread(2)).is_some());
    assert!(queue.is_empty());
}

#[test]
fn a_thread_that_leaves_the_line_is_passed_over() {
    let queue = Arc::new(LocalQueue::default());
    let key: Arc<str> = "k".into();
    let first = ticket(&queue, &key, 1);
    let (unparker, _sleeper) = pair();
    line_up(&queue, &key, 2, &unparker);
    assert!(queue.leave(&key, thread(2)).is_none());
    drop(first);
    assert!(queue.is_empty());
}

#[test]
fn a_lost_hold_keeps_nobody_waiting_but_is_remembered_until_it_is_unlocked() {
    let queue = Arc::new(LocalQueue::default());
    let hold = hold(&queue, thread(1));
    let key = Arc::clone(hold.key().key());
    ticket(&queue, &key, 1).keep(Arc::clone(&hold));
    assert!(matches!(queue.enter(&key, thread(1)), Place::Mine(_)));
    assert!(matches!(queue.enter(&key, thread(2)), Place::Behind));

    queue.lost(&hold);
    let second = ticket(&queue, &key, 2);
    assert!(matches!(queue.enter(&key, thread(1)), Place::Mine(_)));

    queue.close(&hold);
    assert!(matches!(queue.enter(&key, thread(1)), Place::Behind));
    drop(second);
    assert!(queue.is_empty());
}

#[test]
fn closing_a_hold_passes_its_turn_on() {
    let queue = Arc::new(LocalQueue::default());
    let hold = hold(&queue, thread(1));
    let key = Arc::clone(hold.key().key());
    ticket(&queue, &key, 1).keep(Arc::clone(&hold));
    let (unparker, parker) = pair();
    line_up(&queue, &key, 2, &unparker);
    queue.close(&hold);
    assert!(parker.sleep(Duration::ZERO));
    assert!(queue.hold_of(&key, thread(1)).is_none());
    drop(queue.take_turn(&key, thread(2)));
    assert!(queue.is_empty());
}

#[test]
fn a_thread_that_waits_for_a_reply_is_woken_by_it() {
    type Reply = fn(Ticket, Arc<Hold>);
    let replies: [Reply; 3] = [
        |ticket, _| ticket.answered(),
        |ticket, _| ticket.unreplicated(1),
        |ticket, hold| ticket.keep(hold),
    ];
    for reply in replies {
        let queue = Arc::new(LocalQueue::default());
        let hold = hold(&queue, thread(1));
        let key = Arc::clone(hold.key().key());
        let first = ticket(&queue, &key, 1);
        let ((unparker, parker), (other_waker, other)) = (pair(), pair());
        line_up(&queue, &key, 2, &other_waker);
        line_up(&queue, &key, 3, &unparker);
        queue.await_reply(&key, thread(3), &unparker);
        reply(first, Arc::clone(&hold));
        assert!(parker.sleep(Duration::ZERO));
        assert!(queue.leave(&key, thread(3)).is_none());
        queue.close(&hold);
        assert!(other.sleep(Duration::ZERO));
        drop(queue.take_turn(&key, thread(2)));
        assert!(queue.is_empty());
    }
}

#[test]
fn a_thread_whose_turn_comes_waits_for_no_reply() {
    let queue = Arc::new(LocalQueue::default());
    let key: Arc<str> = "k".into();
    let first = ticket(&queue, &key, 1);
    let (unparker, parker) = pair();
    line_up(&queue, &key, 2, &unparker);
    queue.await_reply(&key, thread(2), &unparker);
    drop(first);
    assert!(parker.sleep(Duration::ZERO));
    queue.take_turn(&key, thread(2)).unwrap().answered();
    assert!(!parker.sleep(Duration::ZERO), "its own reply");
}

#[test]
fn a_hold_knows_whether_threads_wait_for_it() {
    let queue = Arc::new(LocalQueue::default());
    let hold_of = |number| hold(&queue, thread(number));
    let (one, two) = (hold_of(1), hold_of(2));
    let key = Arc::clone(one.key().key());
    let (unparker, _sleeper) = pair();
    ticket(&queue, &key, 1).keep(Arc::clone(&one));
    assert!(!one.is_awaited());
    assert!(line_up(&queue, &key, 2, &unparker), "the first");
    assert!(!line_up(&queue, &key, 3, &unparker));
    assert!(one.is_awaited());
    queue.leave(&key, thread(2));
    assert!(one.is_awaited());
    queue.leave(&key, thread(3));
    assert!(!one.is_awaited());
    assert!(line_up(&queue, &key, 2, &unparker), "the first again");
    line_up(&queue, &key, 3, &unparker);

    queue.close(&one);
    let ticket = queue.take_turn(&key, thread(2)).unwrap();
    assert!(
        !line_up(&queue, &key, 4, &unparker),
        "no thread has the lock"
    );
    ticket.keep(Arc::clone(&two));
    assert!(two.is_awaited(), "from the beginning");
    queue.leave(&key, thread(3));
    queue.leave(&key, thread(4));
    assert!(!two.is_awaited());
}

#[test]
fn a_lost_hold_of_a_thread_that_has_ended_is_forgotten() {
    let queue = Arc::new(LocalQueue::default());
    let hold = {
        let queue = Arc::clone(&queue);
        let take = move || hold(&queue, thread(1));
        std::thread::spawn(take).join().unwrap()
    };
    let key = Arc::clone(hold.key().key());
    ticket(&queue, &key, 1).keep(Arc::clone(&hold));
    queue.lost(&hold);
    assert!(queue.is_empty());
    assert_eq!(Arc::strong_count(&hold), 1);
}
