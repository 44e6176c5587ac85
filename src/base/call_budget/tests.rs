//! The deadlines of a call, and which of them ended it.

use super::*;

fn ended() -> CallBudget<'static> {
    let budget = CallBudget::for_reply(Duration::from_millis(1));
    while !budget.call_deadline().is_past() {
        std::thread::yield_now();
    }
    budget
}

/// However long it waits: the longest wait is no special case.
#[test]
fn a_call_with_a_long_wait_gives_up_without_a_reply() {
    let timeout = Duration::from_secs(1);
    let unanswered_for = timeout * 10;
    for wait in [timeout * 3600, timeout * 1_000_000_000, Duration::MAX] {
        let budget = CallBudget::with_wait(wait, timeout, unanswered_for);
        let ten = timeout * 9..=timeout * 10;
        assert!(ten.contains(&budget.reply_deadline().left()), "{budget:?}");
        budget.set_unanswered_since(Some(Moment::now().after(timeout * 60)));
        assert!(budget.reply_deadline().left() > timeout * 60, "{budget:?}");
        assert!(budget.call_deadline().left() > timeout * 3000);
        assert!(!budget.is_wait_over());
    }
    let budget = CallBudget::with_wait(timeout * 5, timeout, unanswered_for);
    assert!(budget.reply_deadline().left() <= timeout * 5, "{budget:?}");
}

#[test]
fn the_limit_of_a_call_is_what_ended_it() {
    assert_eq!(ended().time_limit(), Some(TimeLimit::Command));
    let hour = Duration::from_secs(3600);
    assert_eq!(CallBudget::for_reply(hour).time_limit(), None);
    let short = Duration::from_millis(1);
    let waited = |wait, unanswered_for| {
        let budget = CallBudget::with_wait(wait, short, unanswered_for);
        while budget.elapsed() < short * 5 {
            std::thread::yield_now();
        }
        budget.time_limit()
    };
    assert_eq!(waited(short * 5, Duration::MAX), Some(TimeLimit::Wait));
    assert_eq!(waited(Duration::MAX, short * 5), Some(TimeLimit::GiveUp));
    assert_eq!(waited(Duration::MAX, Duration::MAX), None);
}

#[test]
fn a_shared_grace_is_given_once() {
    let own = ended();
    let first = own.reply_deadline();
    while !first.is_past() {
        std::thread::yield_now();
    }
    assert!(own.reply_deadline() > first);

    let shared = ended();
    shared.share_grace();
    let end = shared.reply_deadline();
    assert_eq!(shared.reply_deadline(), end);
    assert!(shared.remaining(Duration::MAX).reply_deadline() <= end);
    while !end.is_past() {
        std::thread::yield_now();
    }
    assert_eq!(shared.reply_deadline(), end);
    assert!(shared.remaining(Duration::MAX).reply_deadline().is_past());
}
