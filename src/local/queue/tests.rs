use super::*;
use crate::base::parker::pair;
use crate::local::hold::tests::hold;
use std::time::Duration;

fn thread(number: u64) -> ThreadId {
    ThreadId::numbered(number)
}

fn ticket(queue: &Arc<LocalQueue>, key: &Arc<str>, number: u64) -> Ticket {
    match queue.enter(key, thread(number)) {
        QueueEntry::Front(ticket) => ticket,
        other => panic!("{other:?}"),
    }
}

/// Returns true if the thread is the first to wait for a hold.
fn enqueue(queue: &Arc<LocalQueue>, key: &Arc<str>, number: u64, unparker: &Unparker) -> bool {
    match queue.enqueue(key, thread(number), unparker) {
        Enqueued::Queued { first } => first,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_ticket_is_passed_on_in_order() {
    let queue = Arc::new(LocalQueue::default());
    let key: Arc<str> = "k".into();
    let first = ticket(&queue, &key, 1);
    let (second_unparker, second) = pair();
    let (third_unparker, third) = pair();
    enqueue(&queue, &key, 2, &second_unparker);
    enqueue(&queue, &key, 3, &third_unparker);
    // A later thread does not overtake them.
    assert!(matches!(queue.enter(&key, thread(4)), QueueEntry::Queued));

    drop(first);
    assert!(second.sleep(Duration::ZERO));
    assert!(!third.sleep(Duration::ZERO));
    assert!(queue.take_ticket(&key, thread(3)).is_none());
    let second = queue.take_ticket(&key, thread(2)).unwrap();

    drop(second);
    assert!(third.sleep(Duration::ZERO));
    drop(queue.take_ticket(&key, thread(3)));
    assert!(
        queue.is_empty(),
        "nothing is left of a lock that no thread wants"
    );
}

#[test]
fn the_next_thread_inherits_the_time_without_a_reply() {
    let queue = Arc::new(LocalQueue::default());
    let key: Arc<str> = "k".into();
    let first = ticket(&queue, &key, 1);
    let since = first.begin_request();
    let (unparker, _parker) = pair();
    enqueue(&queue, &key, 2, &unparker);
    enqueue(&queue, &key, 3, &unparker);
    assert_eq!(queue.unanswered_since(&key), Some(since));

    drop(first);
    let second = queue.take_ticket(&key, thread(2)).unwrap();
    assert_eq!(second.begin_request(), since);
    second.replied();
    assert_eq!(queue.unanswered_since(&key), None);
    drop(second);
    let third = queue.take_ticket(&key, thread(3)).unwrap();
    assert!(third.begin_request() > since);
}

#[test]
fn a_ticket_passed_on_to_a_thread_that_leaves_is_not_lost() {
    let queue = Arc::new(LocalQueue::default());
    let key: Arc<str> = "k".into();
    let first = ticket(&queue, &key, 1);
    let (unparker, _parker) = pair();
    enqueue(&queue, &key, 2, &unparker);
    drop(first);
    assert!(queue.leave(&key, thread(2)).is_some());
    assert!(queue.is_empty());
}

#[test]
fn a_thread_that_has_left_the_queue_is_skipped() {
    let queue = Arc::new(LocalQueue::default());
    let key: Arc<str> = "k".into();
    let first = ticket(&queue, &key, 1);
    let (unparker, _parker) = pair();
    enqueue(&queue, &key, 2, &unparker);
    assert!(queue.leave(&key, thread(2)).is_none());
    drop(first);
    assert!(queue.is_empty());
}

#[test]
fn a_lost_hold_passes_its_ticket_on_and_is_kept_until_it_is_unlocked() {
    let queue = Arc::new(LocalQueue::default());
    let hold = hold(&queue, thread(1));
    let key = Arc::clone(hold.key().key());
    ticket(&queue, &key, 1).keep(Arc::clone(&hold));
    assert!(matches!(queue.enter(&key, thread(1)), QueueEntry::Held(_)));
    assert!(matches!(queue.enter(&key, thread(2)), QueueEntry::Queued));

    queue.lost(&hold);
    let second = ticket(&queue, &key, 2);
    assert!(matches!(queue.enter(&key, thread(1)), QueueEntry::Held(_)));

    queue.close(&hold);
    assert!(matches!(queue.enter(&key, thread(1)), QueueEntry::Queued));
    drop(second);
    assert!(queue.is_empty());
}

#[test]
fn closing_a_hold_passes_its_ticket_on() {
    let queue = Arc::new(LocalQueue::default());
    let hold = hold(&queue, thread(1));
    let key = Arc::clone(hold.key().key());
    ticket(&queue, &key, 1).keep(Arc::clone(&hold));
    let (unparker, parker) = pair();
    enqueue(&queue, &key, 2, &unparker);
    queue.close(&hold);
    assert!(parker.sleep(Duration::ZERO));
    assert!(queue.hold_of(&key, thread(1)).is_none());
    drop(queue.take_ticket(&key, thread(2)));
    assert!(queue.is_empty());
}

#[test]
fn a_thread_that_waits_for_a_reply_is_woken_by_it() {
    type Reply = fn(Ticket, Arc<Hold>);
    let replies: [Reply; 3] = [
        |ticket, _| ticket.replied(),
        |ticket, _| ticket.unreplicated(1),
        |ticket, hold| ticket.keep(hold),
    ];
    for reply in replies {
        let queue = Arc::new(LocalQueue::default());
        let hold = hold(&queue, thread(1));
        let key = Arc::clone(hold.key().key());
        let first = ticket(&queue, &key, 1);
        let ((unparker, parker), (other_unparker, other)) = (pair(), pair());
        enqueue(&queue, &key, 2, &other_unparker);
        enqueue(&queue, &key, 3, &unparker);
        queue.await_reply(&key, thread(3), &unparker);
        reply(first, Arc::clone(&hold));
        assert!(parker.sleep(Duration::ZERO));
        assert!(queue.leave(&key, thread(3)).is_none());
        queue.close(&hold);
        assert!(other.sleep(Duration::ZERO));
        drop(queue.take_ticket(&key, thread(2)));
        assert!(queue.is_empty());
    }
}

#[test]
fn a_thread_that_gets_the_ticket_waits_for_no_reply() {
    let queue = Arc::new(LocalQueue::default());
    let key: Arc<str> = "k".into();
    let first = ticket(&queue, &key, 1);
    let (unparker, parker) = pair();
    enqueue(&queue, &key, 2, &unparker);
    queue.await_reply(&key, thread(2), &unparker);
    drop(first);
    assert!(parker.sleep(Duration::ZERO));
    queue.take_ticket(&key, thread(2)).unwrap().replied();
    assert!(!parker.sleep(Duration::ZERO), "its own reply");
}

#[test]
fn a_hold_knows_whether_threads_wait_for_it() {
    let queue = Arc::new(LocalQueue::default());
    let hold_of = |number| hold(&queue, thread(number));
    let (one, two) = (hold_of(1), hold_of(2));
    let key = Arc::clone(one.key().key());
    let (unparker, _parker) = pair();
    ticket(&queue, &key, 1).keep(Arc::clone(&one));
    assert!(!one.is_awaited());
    assert!(enqueue(&queue, &key, 2, &unparker), "the first");
    assert!(!enqueue(&queue, &key, 3, &unparker));
    assert!(one.is_awaited());
    queue.leave(&key, thread(2));
    assert!(one.is_awaited());
    queue.leave(&key, thread(3));
    assert!(!one.is_awaited());
    assert!(enqueue(&queue, &key, 2, &unparker), "the first again");
    enqueue(&queue, &key, 3, &unparker);

    queue.close(&one);
    let ticket = queue.take_ticket(&key, thread(2)).unwrap();
    assert!(
        !enqueue(&queue, &key, 4, &unparker),
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
