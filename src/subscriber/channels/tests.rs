//! What the table of channels does after each event.

use super::*;
use crate::base::parker::{Parker, pair};

fn channel() -> Arc<str> {
    "channel".into()
}

fn woken(parker: &Parker) -> bool {
    parker.sleep(Duration::ZERO)
}

#[test]
fn the_first_listener_wants_a_subscription_and_the_next_use_it() {
    let mut channels = Channels::default();
    let (one, parker) = pair();
    assert!(!channels.add(&channel(), one, Filter::All, None) && channels.is_coming("channel"));
    assert_eq!(channels.take_wanted(), [channel()]);
    assert!(channels.take_wanted().is_empty() && !channels.is_live("channel"));
    let listeners = channels.confirmed("channel", Moment::ZERO);
    listeners.iter().for_each(Unparker::unpark);
    assert!(channels.is_live("channel"));
    assert!(woken(&parker), "a confirmation wakes its listeners");
    let (two, _sleeper) = pair();
    assert!(
        channels.add(&channel(), two, Filter::All, None),
        "an earlier message"
    );
}

#[test]
fn a_message_wakes_the_listeners_of_all_locks_that_share_its_channel() {
    let mut channels = Channels::default();
    let (one, first) = pair();
    let (two, second) = pair();
    channels.add(&channel(), one, Filter::All, None);
    channels.add(&channel(), two, Filter::All, None);
    let listeners = channels.message("channel", "0", Moment::ZERO);
    let listeners = listeners.iter();
    listeners.for_each(|listener| listener.unparker.unpark());
    assert!(woken(&first) && woken(&second));
    assert!(channels.message("another", "0", Moment::ZERO).is_empty());
    // The question of a script whether this client listens.
    assert!(channels.message("channel", "", Moment::ZERO).is_empty());
}

#[test]
fn a_listener_that_expects_a_number_is_woken_by_messages_with_this_number() {
    let mut channels = Channels::default();
    let (one, _first) = pair();
    channels.add(&channel(), one, Filter::Number(12), None);
    for (text, count) in [("12", 1), ("7 12 9", 1), ("1", 0), ("123 2", 0), ("", 0)] {
        assert_eq!(
            channels.message("channel", text, Moment::ZERO).len(),
            count,
            "{text:?}"
        );
    }
}

/// The sign of a message says that its script has called the clients in the line.
#[test]
fn a_client_in_a_line_is_woken_by_messages_without_a_sign() {
    let mut channels = Channels::default();
    let (one, _first) = pair();
    channels.add(&channel(), one, Filter::ExceptCalls, None);
    for (text, count) in [("3", 1), ("+3", 0), ("-3", 1)] {
        assert_eq!(
            channels.message("channel", text, Moment::ZERO).len(),
            count,
            "{text:?}"
        );
    }
}

/// A thread that leaves the line listens for all messages, and then removes its other listener.
#[test]
fn a_thread_removes_the_listener_with_the_filter_that_it_names() {
    let (one, _first) = pair();
    for (removed, kept) in [
        (Filter::All, Filter::ExceptCalls),
        (Filter::ExceptCalls, Filter::All),
    ] {
        let mut channels = Channels::default();
        channels.add(&channel(), one.clone(), Filter::All, None);
        channels.add(&channel(), one.clone(), Filter::ExceptCalls, None);
        channels.remove(&channel(), (&one, removed), Moment::ZERO);
        assert!(channels.has("channel", (&one, kept)));
        assert!(!channels.has("channel", (&one, removed)));
        let woken = channels.message("channel", "+3", Moment::ZERO).len();
        assert_eq!(woken, usize::from(kept == Filter::All));
    }
}

#[test]
fn a_channel_that_was_never_subscribed_is_forgotten_with_its_last_listener() {
    let mut channels = Channels::default();
    let (one, _sleeper) = pair();
    channels.add(&channel(), one.clone(), Filter::All, None);
    channels.remove(&channel(), (&one, Filter::All), Moment::ZERO);
    assert!(channels.is_empty() && channels.take_wanted().is_empty());
}

#[test]
fn a_channel_that_is_not_used_any_more_when_it_is_confirmed_is_unsubscribed_later() {
    let mut channels = Channels::default();
    let (one, _sleeper) = pair();
    channels.add(&channel(), one.clone(), Filter::All, None);
    channels.take_wanted();
    channels.remove(&channel(), (&one, Filter::All), Moment::ZERO);
    channels.add(&channel(), one.clone(), Filter::All, None);
    assert!(channels.is_coming("channel"), "not confirmed");
    assert!(channels.take_wanted().is_empty(), "it is requested once");
    channels.remove(&channel(), (&one, Filter::All), Moment::ZERO);
    let unused = Moment::ZERO.after(LINGER);
    assert!(channels.expire(unused).is_empty() && !channels.is_empty());
    assert!(channels.confirmed("channel", Moment::ZERO).is_empty());
    assert_eq!(channels.expire(unused), [channel()]);
    assert!(channels.is_empty());
}

#[test]
fn a_lost_connection_wakes_all_listeners_and_wants_all_channels_again() {
    let mut channels = Channels::default();
    let (one, first) = pair();
    let (two, second) = pair();
    channels.add(&channel(), one, Filter::All, None);
    channels.add(&channel(), two, Filter::All, None);
    channels.take_wanted();
    channels.confirmed("channel", Moment::ZERO);
    channels.disconnected().iter().for_each(Unparker::unpark);
    assert!(woken(&first) && woken(&second));
    assert!(!channels.is_live("channel"));
    assert_eq!(channels.take_wanted(), [channel()]);
}

#[test]
fn an_unused_channel_lingers_and_is_then_unsubscribed() {
    let mut channels = Channels::default();
    let (one, _sleeper) = pair();
    let start = Moment::ZERO.after(Duration::from_secs(100));
    channels.add(&channel(), one.clone(), Filter::All, None);
    channels.take_wanted();
    channels.confirmed("channel", Moment::ZERO);
    channels.remove(&channel(), (&one, Filter::All), start);
    assert!(channels.expire(start.after(LINGER / 2)).is_empty());
    assert!(channels.is_live("channel"));

    // A new listener keeps it.
    channels.add(&channel(), one.clone(), Filter::All, None);
    assert!(channels.expire(start.after(LINGER * 2)).is_empty());
    channels.remove(&channel(), (&one, Filter::All), start);
    assert_eq!(channels.expire(start.after(LINGER)), [channel()]);
    assert!(!channels.is_live("channel"));
}

#[test]
fn a_channel_that_moved_away_is_forgotten_and_its_listeners_are_woken() {
    let mut channels = Channels::default();
    let (one, parker) = pair();
    channels.add(&channel(), one.clone(), Filter::All, None);
    channels.take_wanted();
    channels.confirmed("channel", Moment::ZERO);
    channels.moved("channel").iter().for_each(Unparker::unpark);
    assert!(woken(&parker));
    assert!(channels.is_empty() && !channels.has("channel", (&one, Filter::All)));
    channels.remove(&channel(), (&one, Filter::All), Moment::ZERO);
    channels.add(&channel(), one, Filter::All, None);
    assert!(channels.is_coming("channel"), "it may come back");
}

#[test]
fn a_refused_channel_is_wanted_again_after_a_pause_and_on_the_next_connection() {
    let mut channels = Channels::default();
    let (one, parker) = pair();
    channels.add(&channel(), one.clone(), Filter::All, None);
    channels.take_wanted();
    channels.refused("channel", Moment::ZERO);
    assert!(channels.take_wanted().is_empty() && !channels.is_live("channel") && !woken(&parker));
    let soon = Moment::ZERO.after(REFUSED_PAUSE / 2);
    assert!(channels.expire(soon).is_empty() && channels.take_wanted().is_empty());

    channels.disconnected();
    assert_eq!(channels.take_wanted(), [channel()]);
    channels.refused("channel", Moment::ZERO);

    // The same channel, although no thread waits at this moment.
    let then = Moment::ZERO.after(REFUSED_PAUSE);
    channels.remove(
        &channel(),
        (&one, Filter::All),
        soon.after(REFUSED_PAUSE / 2),
    );
    assert!(channels.expire(then).is_empty());
    assert_eq!(channels.take_wanted(), [channel()]);
    channels.add(&channel(), one.clone(), Filter::All, None);
    channels
        .confirmed("channel", Moment::ZERO)
        .iter()
        .for_each(Unparker::unpark);
    assert!(woken(&parker) && channels.is_live("channel"));

    // A refused channel that is not used any more is forgotten.
    channels.refused("channel", then);
    channels.remove(&channel(), (&one, Filter::All), then);
    assert!(channels.expire(then.after(REFUSED_PAUSE)).is_empty());
    assert!(channels.is_empty() && channels.take_wanted().is_empty());
}

#[test]
fn a_call_needs_no_subscription_and_is_kept_for_a_thread_that_is_about_to_listen() {
    let at = |millis| Moment::ZERO.after(Duration::from_millis(millis));
    let call: Arc<str> = "called a".into();
    let (one, parker) = pair();
    let mut channels = Channels::default();
    assert!(
        !channels.add(&call, one.clone(), Filter::All, Some(at(1))) && channels.is_coming(&call)
    );
    assert!(
        channels.take_wanted().is_empty(),
        "the control channel has its messages"
    );
    assert_eq!(channels.connected(at(2)).len(), 1);
    channels.remove(&call, (&one, Filter::All), at(2));
    assert!(channels.is_empty());
    // The request was sent before the connection was open, so a call was lost.
    let add = |channels: &mut Channels, since| {
        let added = channels.add(&call, one.clone(), Filter::All, Some(at(since)));
        channels.remove(&call, (&one, Filter::All), at(since));
        added
    };
    assert!(add(&mut channels, 2));
    assert!(!add(&mut channels, 3));
    assert!(channels.message(&call, &call, at(5)).is_empty());
    assert!(add(&mut channels, 4), "called after the request");
    assert!(!add(&mut channels, 4), "once");
    channels.message(&call, &call, at(5));
    assert!(!add(&mut channels, 6), "an earlier wait was called");
    // No thread comes.
    channels.message(&call, &call, at(7));
    assert!(channels.take_unanswered(at(6)).is_empty());
    let unanswered = channels.take_unanswered(at(7));
    assert_eq!(unanswered, [(Arc::clone(&call), Arc::clone(&call))]);
    drop(parker);
}

#[test]
fn a_call_that_was_forgotten_wakes_a_thread_that_listens_late() {
    let at = |millis| Moment::ZERO.after(Duration::from_millis(millis));
    let call: Arc<str> = "called a".into();
    let mut channels = Channels::default();
    channels.connected(at(1));
    channels.message(&call, &call, at(5));
    assert!(channels.take_unanswered(at(6)).is_empty(), "not expected");
    assert!(channels.add(&call, pair().0, Filter::All, Some(at(4))));
}

/// Each client that may publish can send calls.
#[test]
fn only_few_calls_are_kept_and_only_those_that_the_client_may_get() {
    let mut channels = Channels::default();
    channels.connected(Moment::ZERO);
    let mut taken = |word, is_expected| {
        for number in 0..3 * MOST_KEPT {
            let text: Arc<str> = format!("{word}{number}").into();
            if is_expected {
                channels.expect_call(Arc::clone(&text));
            }
            assert!(channels.message(&text, &text, Moment::ZERO).is_empty());
        }
        channels.take_unanswered(Moment::ZERO).len()
    };
    assert_eq!(taken("called ", false), 0);
    assert_eq!(taken("called ", true), MOST_KEPT);
    assert_eq!(taken("freed ", false), MOST_KEPT);
    let Expected { newer, older } = &channels.expected;
    assert!(newer.len() + older.len() <= 2 * MOST_KEPT);
    let text: Arc<str> = format!("called {}", 3 * MOST_KEPT - 1).into();
    channels.message(&text, &text, Moment::ZERO);
    assert_eq!(channels.take_unanswered(Moment::ZERO).len(), 1, "a new one");
    let text: Arc<str> = "called 0".into();
    channels.message(&text, &text, Moment::ZERO);
    assert!(
        channels.take_unanswered(Moment::ZERO).is_empty(),
        "an old one"
    );
}
