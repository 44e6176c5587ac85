//! The watchdog confirms what is held, so that a holder learns soon that its lock is gone. The
//! leases are much longer than the tests, so nothing is due but confirmations. `faults::renewal` and
//! `faults::hangs` have what can fail in a renewal.

use crate::support::prelude::*;
use crate::support::traffic::{reset, scripts};

fn long() -> Duration {
    SOON.get() * 6
}

fn confirming(server: &Server, every: Duration) -> LockClient {
    let builder = builder(&server.url()).watchdog_lease(long());
    builder.confirm_every(every).build().unwrap()
}

fn held(client: &LockClient, name: &str, lease: Lease) -> LockGuard {
    client.reentrant_lock(name).acquire_with(lease).unwrap()
}

/// The scripts that were called by their hashes since the last call.
fn by_hash(monitor: &mut Monitor) -> impl Iterator<Item = String> + use<> {
    let lines = monitor.lines().into_iter();
    lines.filter(|line| line.contains("\"EVALSHA\""))
}

/// However the locks end, and whichever lease they have.
#[test]
fn a_holder_learns_within_about_a_second_that_its_lock_is_gone() {
    type End = fn(&Server);
    let ends: [End; 3] = [
        |server| {
            let operator = client(&server.url());
            for name in ["renewed", "fixed"] {
                assert!(operator.force_unlock(name).unwrap());
            }
        },
        |server| server.ask(redis::cmd("DEL").arg("renewed").arg("fixed")),
        |server| server.ask(&redis::cmd("FLUSHALL")),
    ];
    let servers = ends.map(|end| (Server::start(), end));
    let held = servers.each_ref().map(|(server, end)| {
        let client = builder(&server.url()).build().unwrap();
        let renewed = held(&client, "renewed", Lease::RENEWED.lasting(long()));
        let fixed = held(&client, "fixed", Lease::fixed(long()));
        end(server);
        (Instant::now(), [renewed, fixed])
    });
    // The one second, and the delay of a busy machine.
    let bound = Duration::from_secs(1) + millis(500);
    for (gone, guards) in &held {
        for guard in guards {
            let left = (*gone + bound).saturating_duration_since(Instant::now());
            let loss = guard.lost().recv_timeout(left);
            assert_eq!(loss, Ok(LostReason::Deleted), "{guard:?}");
        }
    }
}

/// Each call has 250 locks, and each lock is in every fourth one.
#[test]
fn the_cost_of_a_thousand_locks_is_a_call_in_each_interval() {
    let server = Server::start();
    let every = millis(100);
    let client = confirming(&server, every);
    let names: Vec<String> = (0..1000).map(|at| format!("lock:{at}")).collect();
    let _guard = client.multi_lock(&names).acquire().unwrap();
    let mut monitor = Monitor::of(&server);
    let (start, mut calls) = (Instant::now(), Vec::<String>::new());
    eventually("nine calls", || {
        calls.extend(by_hash(&mut monitor));
        calls.len() >= 9
    });
    // A call that was late may be followed by one that is in time.
    let (took, least) = (start.elapsed(), every * (calls.len() as u32 - 2));
    assert!(took >= least, "{} calls in {took:?}", calls.len());
    // The server does not know the script at the first one.
    for four in calls[1..9].chunks(4) {
        let words = four.iter().flat_map(|call| call.split('"'));
        let confirmed: HashSet<&str> = words.filter(|word| word.starts_with("lock:")).collect();
        assert_eq!(confirmed.len(), 1000);
    }
}

#[test]
fn short_holds_cost_no_confirmation_even_if_they_share_a_grant() {
    let server = Server::start();
    let every = millis(250);
    for linger in [Duration::ZERO, long() / 4] {
        let builder = builder(&server.url()).watchdog_lease(long());
        let client = builder.confirm_every(every).linger(linger).build().unwrap();
        let lock = client.reentrant_lock("lock");
        pair(&lock);
        reset(&server);
        let before = client.stats();
        let (start, mut longest) = (Instant::now(), Duration::ZERO);
        while start.elapsed() < every * 5 / 2 {
            let guard = lock.acquire().unwrap();
            let acquired = Instant::now();
            guard.unlock().unwrap();
            longest = longest.max(acquired.elapsed());
        }
        let stats = client.stats();
        let needed = stats.acquisitions - before.acquisitions + stats.releases - before.releases;
        let sent = scripts(&server);
        assert!(sent == needed || longest > every, "{sent}, not {needed}");
    }
}

#[test]
fn without_confirmations_nothing_is_sent_before_the_renewal() {
    let server = Server::start();
    let never = confirming(&server, Duration::ZERO);
    let often = confirming(&server, Duration::from_millis(100));
    let (silent, _confirmed) = (
        held(&never, "silent", Lease::RENEWED),
        held(&often, "confirmed", Lease::RENEWED),
    );
    let mut monitor = Monitor::of(&server);
    let mut calls = Vec::new();
    eventually("ten confirmations", || {
        calls.extend(by_hash(&mut monitor));
        calls.len() >= 10
    });
    assert!(calls.iter().all(|call| call.contains("confirmed")));
    server.delete("silent");
    silent.check().unwrap();
    assert!(silent.confirm().is_err());
}
