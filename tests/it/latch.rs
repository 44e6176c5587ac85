//! Latches: threads wait until a count is zero. `permits` has what they share with semaphores.

use crate::support::prelude::*;

#[test]
fn a_count_goes_down_to_zero_and_can_be_set_again() {
    let server = Server::start();
    let latch = client(&server.url()).count_down_latch("loaded");
    let count = || latch.count().unwrap();
    let is_open = || latch.wait_for(Duration::ZERO).unwrap();
    assert_eq!((latch.name(), count()), ("loaded", 0));
    for _ in 0..2 {
        latch.wait().unwrap();
        assert_eq!((latch.count_down().unwrap(), is_open()), (0, true));
        assert!(latch.try_set_count(2).unwrap());
        assert!(!latch.try_set_count(5).unwrap());
        assert!(!is_open() && !latch.wait_for(A_WHILE.get()).unwrap());
        for left in [1, 0] {
            assert_eq!((latch.count_down().unwrap(), count()), (left, left));
        }
    }
    for out_of_bounds in [0, 1 << 53, u64::MAX] {
        assert_error!(latch.try_set_count(out_of_bounds), InvalidArgument);
    }
    let most = (1 << 53) - 1;
    assert!(latch.try_set_count(most).unwrap());
    assert_eq!((latch.count_down().unwrap(), count()), (most - 1, most - 1));
}

/// Of the same client, and of another one. While they wait, they send nothing.
#[test]
fn the_last_count_down_wakes_all_waiting_threads_at_once() {
    let server = Server::start();
    let clients = [client(&server.url()), client(&server.url())];
    let latch = clients[0].count_down_latch("loaded");
    assert!(latch.try_set_count(2).unwrap());
    thread::scope(|scope| {
        let wait = |number: usize| {
            let latch = clients[number % 2].count_down_latch("loaded");
            scope.spawn(move || latch.wait().unwrap())
        };
        let threads: Vec<_> = (0..20).map(wait).collect();
        eventually("both clients listen", || {
            clients.iter().all(|one| one.stats().wakeups_by_message > 0)
        });
        stay_waiting(&threads);
        let mut monitor = Monitor::of(&server);
        stay_waiting(&threads);
        assert_eq!(monitor.commands_but_pings(), [""; 0]);
        latch.count_down().unwrap();
        stay_waiting(&threads);
        within(millis(500), "the wake-up", || {
            latch.count_down().unwrap();
            threads.into_iter().for_each(|one| one.join().unwrap());
        });
        // The count-downs, and one request of each thread, which may open a connection for it.
        let mut commands = monitor.commands_but_pings();
        commands.retain(|command| command != "CLIENT");
        assert!(commands.len() <= 3 + 20, "{commands:?}");
    });
}
