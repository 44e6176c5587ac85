use super::*;

fn at(millis: u64) -> Moment {
    Moment::ZERO.after(Duration::from_millis(millis))
}

/// The pause after a release at 1 ms, which took no time.
fn pause(yields: &mut Yields, holds: u64) -> Pause {
    yields.released((at(1), Duration::ZERO), Some(1), false, holds);
    yields.take_pause().unwrap()
}

/// This many clients listen, and refusals have named this many owners.
fn beside(listeners: u32, owners: u32) -> Yields {
    let mut yields = Yields::default();
    for _ in 0..2 {
        (0..owners).for_each(|owner| yields.refused_by(owner.to_string()));
    }
    yields.released((at(1), Duration::ZERO), Some(listeners), false, 1);
    yields
}

#[test]
fn without_listeners_the_next_request_is_made_at_once() {
    let mut yields = Yields::default();
    yields.released((at(1), Duration::from_millis(1)), Some(0), false, 1);
    assert_eq!(yields.take_pause(), None);
    assert!(yields.is_fresh());
}

#[test]
fn the_first_pause_is_as_long_as_others_need_and_at_least_some_round_trips() {
    for (took, micros) in [(0, 2500), (400, 2500), (1000, 3000), (100_000, 10_000)] {
        let mut yields = Yields::default();
        yields.released((at(1), Duration::from_micros(took)), Some(1), false, 1);
        let end = at(1).after(Duration::from_micros(micros));
        let pause = yields.take_pause().unwrap();
        assert_eq!((pause.until, pause.holds), (end, 1));
        assert_eq!(yields.take_pause(), None, "once");
        assert_eq!(
            at(1).after(pause.length),
            end,
            "so are those for further holds"
        );
    }
}

#[test]
fn each_thread_gets_the_same_share_whichever_library_it_uses() {
    // Threads here, threads and clients there, holds of a turn, and holds of others after it.
    // What is left of a hold is owed later.
    for (threads, owners, clients, turn, others) in [
        (4, 4, 1, 1, 1),
        (8, 1, 1, 8, 1),
        (1, 8, 1, 1, 8),
        (8, 3, 1, 3, 1),
        (3, 8, 1, 1, 2),
        // More holds of others pass at once, so that each client can have one of them.
        (4, 4, 2, 2, 2),
        (1, 4, 9, 1, 4),
    ] {
        let mut yields = beside(clients, owners);
        yields.granted(threads);
        assert_eq!(yields.slice(turn - 1), SLICE, "{threads} beside {owners}");
        assert_eq!(yields.slice(turn), SHORT_SLICE, "{threads} beside {owners}");
        assert_eq!(
            pause(&mut yields, turn).holds,
            others,
            "{threads} beside {owners}"
        );
    }
}

#[test]
fn short_turns_count_together() {
    let mut yields = beside(1, 1);
    let mut pauses = 0;
    for _ in 0..16 {
        yields.granted(8);
        // The next thread wants the other lock of a read-write lock.
        yields.released((at(1), Duration::ZERO), Some(1), false, 2);
        pauses += yields.take_pause().map_or(0, |pause| pause.holds);
    }
    assert_eq!(pauses, 16 * 2 / 8);
}

#[test]
fn a_hold_of_others_that_passed_without_a_pause_counts() {
    let mut yields = beside(1, 1);
    assert_eq!(pause(&mut yields, 1).holds, 1);
    // In a pause, the thread counts the holds itself.
    yields.refused_by("0".into());
    let paused = pause(&mut yields, 1);
    yields.ended(at(1), &paused);
    for _ in 0..3 {
        yields.refused_by("0".into());
    }
    yields.released((at(1), Duration::ZERO), Some(1), false, 1);
    assert_eq!(yields.take_pause(), None);
    assert_eq!(pause(&mut yields, 1).holds, 1);
}

/// A release is not published while other readers are left.
#[test]
fn those_that_listened_to_the_last_message_are_let_pass_after_a_release_without_one() {
    let mut yields = Yields::default();
    yields.released((at(1), Duration::ZERO), None, false, 1);
    assert!(yields.is_fresh() && yields.take_pause().is_none());
    let mut yields = beside(1, 4);
    for _ in 0..4 {
        yields.released((at(1), Duration::ZERO), None, false, 1);
        assert_eq!(yields.take_pause().unwrap().holds, 4);
    }
    yields.released((at(1), Duration::ZERO), Some(0), false, 1);
    assert!(yields.is_fresh() && yields.take_pause().is_none());
}

#[test]
fn a_thread_that_reads_and_writes_is_one_owner() {
    let mut yields = Yields::default();
    yields.refused_by("client:1".into());
    yields.refused_by("client:1:write".into());
    yields.released((at(1), Duration::ZERO), Some(1), false, 1);
    assert_eq!(pause(&mut yields, 1).holds, 1);
}

#[test]
fn more_holds_within_the_short_slice_do_not_cost_more_than_one_of_each_other_thread() {
    let mut yields = beside(1, 3);
    yields.granted(4);
    assert_eq!(pause(&mut yields, 1000).holds, 3);
}

#[test]
fn a_thread_that_was_never_first_is_let_pass_after_some_pauses() {
    let mut yields = beside(1, 1);
    let holds = (0..ONE_MORE_AFTER).map(|_| pause(&mut yields, 1).holds);
    assert_eq!(holds.sum::<u32>(), ONE_MORE_AFTER + 1);
}

#[test]
fn owners_are_forgotten_if_fewer_come_or_if_others_come() {
    let mut yields = beside(1, 8);
    yields.granted(1);
    for _ in 0..2 * 8 {
        let mut pause = pause(&mut yields, 1);
        pause.is_used = true;
        yields.ended(at(1), &pause);
    }
    assert_eq!(pause(&mut yields, 1).holds, 1);
    let mut yields = beside(1, 8);
    (0..KNOWN).for_each(|_| yields.refused_by("another".into()));
    yields.released((at(1), Duration::ZERO), Some(1), false, 1);
    assert_eq!(pause(&mut yields, 1).holds, 1);
}

#[test]
fn unused_yields_become_rare_and_a_used_one_ends_that() {
    let mut yields = Yields::default();
    let mut pauses = 0;
    let released = |yields: &mut Yields, millis| {
        yields.released((at(millis), Duration::ZERO), Some(1), false, 1);
        yields.take_pause()
    };
    for millis in 0..10_000 {
        if let Some(pause) = released(&mut yields, millis) {
            pauses += 1;
            yields.ended(at(millis), &pause);
        }
    }
    // Of 10 ms each.
    assert!(pauses < 10_000 / 10 / 32 + 10, "{pauses}");
    assert_eq!(yields.slice(1), SLICE);
    let pause = released(&mut yields, 10_000 + 320);
    let mut pause = pause.expect("also for a lock that is seldom released");
    pause.pass();
    yields.ended(at(10_000 + 320), &pause);
    assert!(released(&mut yields, 10_000 + 320).is_some());
    assert_eq!(yields.slice(1), SHORT_SLICE);
}

#[test]
fn an_unused_pause_makes_the_next_one_longer_and_a_used_one_shorter() {
    let mut yields = Yields::default();
    let mut length = |is_used| {
        let mut pause = pause(&mut yields, 1);
        pause.is_used = is_used;
        yields.ended(at(1), &pause);
        pause.until.since(at(1))
    };
    let first = length(false);
    assert_eq!(length(true), first * 2);
    assert_eq!(length(true), first * 2 - first * 2 / SHORTENED);
}

#[test]
fn if_a_client_was_called_the_pause_begins_with_the_call_of_this_one() {
    let mut yields = Yields::default();
    yields.released((at(1), Duration::ZERO), Some(0), true, 1);
    assert_eq!(
        yields.take_pause(),
        None,
        "only clients of this library wait"
    );
    yields.released((at(1), Duration::ZERO), Some(3), true, 1);
    assert!(yields.take_pause().unwrap().is_in_line);
    assert_eq!(yields.slice(1), SHORT_SLICE);
}

#[test]
fn clients_in_a_line_let_others_pass_together_as_often_as_one() {
    let mut yields = Yields::default();
    yields.released((at(1), Duration::ZERO), Some(1), true, 1);
    let pause = yields.take_pause().unwrap();
    for (rank, clients) in [(0, 2), (1, 2), (9, 10)] {
        let random = (0..1000).map(|random| random as f32 / 1000.0);
        let pauses = random.filter_map(|random| pause.enter_line(rank, random));
        assert_eq!(pauses.count(), 1000 / clients);
    }
    assert!(pause.enter_line(u32::MAX, 0.5).is_none());
}
