use super::*;

fn at(millis: u64) -> Moment {
    Moment::ZERO.after(Duration::from_millis(millis))
}

/// The next pause after a release of a grant that had this many `holds`.
fn pause(yields: &mut Yields, holds: u64) -> Option<Pause> {
    yields.released(at(1), Some(1), false, holds);
    yields.take_pause(at(1))
}

/// What a client with this many threads knows, beside these listeners and owners.
fn beside(threads: usize, listeners: u32, owners: u32) -> Yields {
    let mut yields = Yields::default();
    (0..owners).for_each(|owner| yields.passed(Some(&owner.to_string())));
    yields.released(at(1), Some(listeners), false, 0);
    yields.granted(threads);
    yields
}

#[test]
fn each_thread_gets_the_same_share() {
    for (threads, listeners, owners, turn, holds) in [
        (4, 1, 4, 1, 1),
        (8, 1, 1, 8, 1),
        (1, 1, 8, 1, 8),
        (4, 1, 2, 2, 1),
        // One for each client that listens, also of those that never were the first one.
        (4, 2, 2, 4, 2),
        (1, 3, 1, 1, 3),
        (0, 1, 0, 1, 1),
    ] {
        let mut yields = beside(threads, listeners, owners);
        assert_eq!(yields.slice(turn - 1), SLICE, "{threads} beside {owners}");
        assert_eq!(yields.slice(turn), SHORT_SLICE, "{threads} beside {owners}");
        yields.released(at(1), Some(listeners), false, turn);
        let pause = yields.take_pause(at(1)).unwrap();
        assert_eq!(pause.holds, holds, "{threads} beside {owners}");
        assert_eq!(yields.take_pause(at(1)), None, "once");
    }
    let mut long = beside(4, 1, 3);
    assert_eq!(pause(&mut long, 1000).unwrap().holds, 3);
}

#[test]
fn beside_clients_of_the_line_each_thread_has_a_hold_in_every_turn() {
    let mut yields = Yields::default();
    for _ in 0..3 {
        yields.granted(6);
        assert_eq!(yields.slice(5), SLICE);
        yields.released(at(1), Some(0), true, 6);
        assert_eq!(yields.slice(6), SHORT_SLICE);
        assert_eq!(yields.take_pause(at(1)), None);
    }
}

#[test]
fn the_holds_of_turns_that_end_early_count_together() {
    let mut yields = beside(8, 1, 1);
    let mut passed = 0;
    for _ in 0..16 {
        for _ in 0..pause(&mut yields, 2).map_or(0, |pause| pause.holds) {
            yields.passed(None);
            passed += 1;
        }
    }
    assert_eq!(passed, 16 * 2 / 8);
}

#[test]
fn a_hold_of_others_that_passed_without_a_pause_counts() {
    let mut yields = beside(1, 1, 1);
    yields.passed(Some("0"));
    assert_eq!(pause(&mut yields, 1), None);
    assert_eq!(pause(&mut yields, 1).unwrap().holds, 1);
}

#[test]
fn without_listeners_there_is_no_pause() {
    for listeners in [None, Some(0)] {
        let mut yields = Yields::default();
        yields.released(at(1), listeners, false, 1);
        assert!(yields.is_fresh() && yields.take_pause(at(1)).is_none());
    }
    let mut yields = beside(1, 1, 4);
    yields.released(at(1), None, false, 1);
    assert!(yields.pause.is_some(), "as at the last published release");
}

#[test]
fn only_the_owners_of_the_last_refusals_compete() {
    let mut yields = beside(1, 1, 8);
    (0..KNOWN).for_each(|_| yields.passed(Some("thread")));
    yields.passed(Some("thread:write"));
    assert_eq!(pause(&mut yields, 2).unwrap().holds, 1);
}

#[test]
fn unused_pauses_become_rare_until_another_client_has_the_lock() {
    let mut yields = Yields::default();
    let mut pauses = 0;
    for millis in 0..10_000 {
        yields.released(at(millis), Some(1), false, 1);
        pauses += u32::from(yields.take_pause(at(millis)).is_some());
    }
    let rarest = Pause::EACH * (1 << RAREST);
    let expected = Duration::from_secs(10).div_duration_f32(rarest) as u32;
    assert!((expected..=expected + RAREST).contains(&pauses), "{pauses}");
    assert_eq!(yields.slice(1), SLICE);
    yields.passed(None);
    for _ in 0..2 {
        yields.released(at(10_000), Some(1), false, 1);
    }
    assert!(yields.pause.is_some());
    assert_eq!(yields.slice(1), SHORT_SLICE);
}

#[test]
fn if_a_client_was_called_the_pause_begins_with_the_call_of_this_one() {
    for (listeners, is_paused) in [(0, false), (3, true)] {
        let mut yields = Yields::default();
        yields.released(at(1), Some(listeners), true, 3);
        let pause = yields.take_pause(at(1));
        assert_eq!(
            pause.map(|pause| pause.is_in_line),
            is_paused.then_some(true)
        );
        assert_eq!(yields.slice(3), SHORT_SLICE);
    }
}
