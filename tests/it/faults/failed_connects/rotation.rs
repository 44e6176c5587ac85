//! The password of the clients' user is replaced again and again.

use super::user;
use crate::support::prelude::*;
use crate::support::run;

/// Holds this number of locks while the password changes once in each `period`, and makes calls.
fn rotate(locks: usize, times: u32, period: Duration) {
    let server = &Server::start();
    let mut admin = server.connection();
    let client = builder(&user(server)).build().unwrap();
    let lock = |at: usize| client.reentrant_lock(&format!("held:{at}"));
    let guards: Vec<LockGuard> = (0..locks).map(|at| lock(at).acquire().unwrap()).collect();
    let start = Instant::now();
    for time in 1..=times {
        run(&mut admin, &format!("ACL SETUSER worker resetpass >{time}"));
        while start.elapsed() < period * time {
            pair(&client.reentrant_lock("short"));
            thread::sleep(millis(10));
        }
    }
    for guard in guards {
        guard.unlock().expect("it was held all the time");
    }
    let stats = client.stats();
    assert_eq!((stats.lost, stats.renewals_failed), (0, 0));
    assert!(stats.renewals > 0);
}

#[test]
fn locks_are_held_while_the_password_changes() {
    rotate(20, 6, millis(500));
}

#[test]
#[ignore = "takes 30 s"]
fn locks_are_held_while_the_password_changes_for_long() {
    rotate(20, 15, millis(2_000));
}
