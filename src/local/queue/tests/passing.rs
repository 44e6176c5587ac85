//! Threads that pass a thread that waits for several locks.

use super::*;

#[test]
fn a_thread_passes_one_that_cannot_have_all_its_locks() {
    let queue = queue();
    let holder = held(&queue, "b", 1, 0, 0);
    let both = wait(&queue, &["a", "b"], 2);
    for thread in [1, 3] {
        let passing = held(&queue, "a", thread, 0, 0);
        let behind = wait(&queue, &["a"], 4);
        assert_eq!(
            unlock(&queue, &[&passing], NO_LINGER),
            [Unlocked::HandedOver],
            "also if it waits"
        );
        drop(behind.claim());
        assert!(!both.is_woken());
    }
    // The holder of `b` gives it back first, and then `a`.
    let passing = held(&queue, "a", 1, 20, 0);
    for hold in [&holder, &passing] {
        assert!(both.claim().is_none());
        assert_eq!(unlock(&queue, &[hold], NO_LINGER), [Unlocked::Last]);
        queue.close(&[(hold, None)]);
    }
    assert!(both.is_woken() && both.claim().is_some());
}

#[test]
fn a_thread_that_can_have_all_its_locks_is_not_passed() {
    let queue = queue();
    let holds = ["a", "b"].map(|name| held(&queue, name, 1, 20, 0));
    let both = wait(&queue, &["a", "b"], 2);
    let behind = wait(&queue, &["a"], 3);
    assert_eq!(
        unlock(&queue, &[&holds[0], &holds[1]], NO_LINGER),
        [Unlocked::Last, Unlocked::Last]
    );
    // One after the other, and `behind` would have `a`.
    queue.close(&[(&holds[0], None), (&holds[1], None)]);
    assert!(both.is_woken() && !behind.is_woken());
    drop(both.claim());
    assert!(behind.is_woken());
    drop(behind.claim());
    assert!(queue.is_empty());
}

#[test]
fn a_thread_that_keeps_its_place_is_passed_only_by_those_that_it_waits_for() {
    let queue = queue();
    let holders = ["b", "c"].into_iter().zip([1, 3]);
    let holders = holders.map(|(name, thread)| held(&queue, name, thread, 20, 0));
    let holders: Vec<_> = holders.collect();
    let both = wait(&queue, &["a", "b"], 2);
    both.keeps_place(true);
    drop(claim(&queue, &["a"], 1));
    assert!(enter(&queue, &["a"], 3).claim.is_none());
    // H holds `b` and wants `c`; X holds `c`, and wants `a` behind M, which wants `a` and `b`.
    let (h, x) = (wait(&queue, &["c"], 1), wait(&queue, &["a"], 3));
    both.keeps_place(false);
    queue.look_again(&both.waiter);
    assert!(x.is_woken(), "each of them continues");
    drop(x.claim());
    for (hold, next) in [(&holders[1], &h), (&holders[0], &both)] {
        unlock(&queue, &[hold], NO_LINGER);
        queue.close(&[(hold, None)]);
        assert!(next.is_woken());
        drop(next.claim());
    }
    assert!(queue.is_empty());
}

/// A thread of the client waits for all names that another one unlocks, and for one more.
#[test]
fn the_unlock_of_many_locks_looks_at_each_a_few_times() {
    for (shares_slice, is_wanted_free) in [(true, false), (true, true), (false, false)] {
        let looks = [50, 100].map(|count: u32| {
            let queue = queue();
            let names: Vec<String> = (0..count).map(|at| format!("{at}")).collect();
            let mut wanted: Vec<&str> = names.iter().map(String::as_str).collect();
            let age = if shares_slice { 0 } else { 20 };
            let hold = |name: &&str| held(&queue, name, 1, age, 0);
            let holds: Vec<Arc<Hold>> = wanted.iter().map(hold).collect();
            let other = (!is_wanted_free).then(|| held(&queue, "other", 3, 0, 0));
            wanted.push("other");
            let all = wait(&queue, &wanted, 2);
            let looks = || all.waiter.looks.load(std::sync::atomic::Ordering::Relaxed);
            let before = looks();
            unlock(&queue, &holds.iter().collect::<Vec<_>>(), NO_LINGER);
            let closed: Vec<_> = holds.iter().map(|hold| (hold, None)).collect();
            queue.close(&closed);
            let looks = looks() - before;
            assert_eq!(all.is_woken(), is_wanted_free);
            drop((all.claim(), other));
            looks
        });
        assert!(looks[1] <= 6 * 100, "{looks:?}");
    }
}

/// All of them cease to keep their places, and look, at the same moment.
#[test]
fn one_of_many_threads_that_wait_for_the_same_locks_looks_at_them() {
    let queue = queue();
    let other = held(&queue, "other", 1, 0, 0);
    let all: Vec<Waiting> = (2..12)
        .map(|number| wait(&queue, &["a", "b", "other"], number))
        .collect();
    let looks = || -> usize {
        let looks = all.iter().map(|one| &one.waiter.looks);
        looks
            .map(|looks| looks.load(std::sync::atomic::Ordering::Relaxed))
            .sum()
    };
    for _ in 0..2 {
        let end = Moment::now();
        let counts: Vec<usize> = all
            .iter()
            .map(|one| {
                let before = looks();
                queue.look_unless_done_since(&one.waiter, |_| end);
                looks() - before
            })
            .collect();
        assert!(counts[0] > 0, "{counts:?}");
        assert!(counts[1..].iter().all(|&count| count == 0), "{counts:?}");
    }
    drop(other);
}

/// Another client holds `a`.
#[test]
fn a_thread_that_waits_for_one_of_its_locks_gives_the_others_to_other_threads() {
    let queue = queue();
    let mut both = claim(&queue, &["a", "b"], 1);
    let (of_a, of_b) = (wait(&queue, &["a"], 2), wait(&queue, &["b"], 3));
    both.give_way(&lock("a"));
    assert!(of_b.is_woken() && !of_a.is_woken());
    assert!(!both.regain(Moment::now()), "another thread has it");
    drop(of_b.claim());
    assert!(both.regain(Moment::now()));
    assert!(enter(&queue, &["b"], 3).claim.is_none(), "until then");

    // An idle grant has to be taken or released first.
    both.give_way(&lock("a"));
    let hold = held(&queue, "b", 3, 0, 0);
    assert_eq!(
        unlock(&queue, &[&hold], Duration::from_secs(1)),
        [Unlocked::Idle]
    );
    assert!(!both.regain(Moment::now()));
    drop(both.give_up());
    assert!(of_a.is_woken());
    drop((of_a.claim(), both));
}

/// It has to wait for `b`, without the ticket of `a`, but before the threads that came later.
#[test]
fn a_thread_that_does_not_get_its_tickets_back_is_the_next() {
    let queue = queue();
    let mut both = claim(&queue, &["a", "b"], 1);
    both.give_way(&lock("a"));
    let holder = held(&queue, "b", 2, 20, 0);
    let behind = wait(&queue, &["b"], 3);
    assert!(!both.regain(Moment::now()));
    drop(both.give_up());
    drop(claim(&queue, &["a"], 2));
    let both = wait_again(&queue, &["a", "b"], 1);
    assert_eq!(unlock(&queue, &[&holder], NO_LINGER), [Unlocked::Last]);
    queue.close(&[(&holder, None)]);
    assert!(both.is_woken() && !behind.is_woken());
    drop(both.claim());
    assert!(behind.is_woken());
    drop(behind.claim());
    assert!(queue.is_empty());
}

#[test]
fn a_thread_that_gives_up_keeps_the_tickets_that_no_other_thread_gets() {
    let queue = queue();
    let held = claim(&queue, &["c"], 4);
    let mut both = claim(&queue, &["a", "b"], 1);
    let next = wait(&queue, &["b"], 2);
    assert!(both.is_wanted_by_others());
    assert_eq!(both.leave_to_others()[..], [lock("b")]);
    let next = queue.claim_of(&next.waiter).expect("the ticket");
    assert!(next.is_inherited);
    let several = wait(&queue, &["a", "c"], 3);
    assert_eq!(
        both.leave_to_others()[..],
        [lock("b")],
        "it cannot have both"
    );
    drop(next);
    assert!(both.leave_to_others().is_empty());
    assert!(enter(&queue, &["b"], 5).claim.is_none(), "it is kept");
    drop(held);
    assert!(queue.claim_of(&several.waiter).is_none());
    drop(both);
    assert!(queue.claim_of(&several.waiter).is_some());
}
