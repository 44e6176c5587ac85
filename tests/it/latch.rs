//! Latches: threads wait until a count is zero. `permits` has what they share with semaphores.

use crate::faults::proxied_server::load_scripts;
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
        assert_error!(latch.try_set_count(out_of_bounds), Config);
    }
    let most = (1 << 53) - 1;
    assert!(latch.try_set_count(most).unwrap());
    assert_eq!((latch.count_down().unwrap(), count()), (most - 1, most - 1));
}

/// Of the same client, and of another one.
#[test]
fn the_last_count_down_wakes_all_waiting_threads_at_once() {
    const WAITING: usize = 20;
    let server = Server::start();
    let clients = [client(&server.url()), client(&server.url())];
    load_scripts(&server);
    let latch = clients[0].count_down_latch("loaded");
    assert!(latch.try_set_count(2).unwrap());
    let mut monitor = Monitor::of(&server);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..WAITING)
            .map(|number| {
                let latch = clients[number % 2].count_down_latch("loaded");
                scope.spawn(move || {
                    latch.wait().unwrap();
                    Instant::now()
                })
            })
            .collect();
        eventually("both clients listen", || {
            clients.iter().all(|one| one.stats().wakeups_by_message > 0)
        });
        stay_waiting(&threads);
        monitor.commands();
        throughout(A_WHILE.get() * 4, "they wait", || {
            threads.iter().all(|one| !one.is_finished())
        });
        assert_eq!(monitor.commands_but_pings(), [""; 0]);
        latch.count_down().unwrap();
        stay_waiting(&threads);
        assert_eq!(monitor.commands_but_pings().len(), 1, "not at zero");
        let opened = Instant::now();
        latch.count_down().unwrap();
        for thread in threads {
            let took = thread.join().unwrap().duration_since(opened);
            assert!(took < millis(500), "{took:?}");
        }
    });
    // The count-down, and one request of each client, which may open a connection for it.
    let mut commands = monitor.commands_but_pings();
    commands.retain(|command| command != "CLIENT");
    assert_eq!(commands, ["EVALSHA"; 3]);
}
