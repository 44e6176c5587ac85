//! Clients that die while they wait: their places do not delay the others.

use super::{ENDS, PLACE, QUEUE, await_places, place_of, places, queue_up};
use crate::support::prelude::*;

fn channel_of(place: &str) -> String {
    format!("redisson_lock__channel:{{lock}}:{place}")
}

fn end_of(server: &Server, place: &str) -> f64 {
    server.ask(redis::cmd("ZSCORE").arg(ENDS).arg(place))
}

/// Waits until Redis knows of all places that their clients listen.
fn await_listening(server: &Server) {
    eventually("the subscriptions", || {
        let places = places(server);
        places
            .iter()
            .all(|place| end_of(server, place) % 1.0 >= 0.5)
    });
}

/// Puts a place at the end of the queue of which Redis knows that its client listened.
fn queue_up_listening(server: &Server, place: &str, life: Duration) {
    queue_up(server, place, life);
    server.ask::<()>(redis::cmd("ZINCRBY").arg(ENDS).arg("0.5").arg(place));
}

/// A client does not know the end of a lease that began while it was not the first. Another one that
/// waits knows it.
#[test]
fn a_client_that_asks_again_notifies_the_first_client() {
    const LEASE: Duration = Duration::from_millis(500);
    let server = Server::start();
    let [first, second] = [(); 2].map(|()| client(&server.url()));
    let place = place_of(&first);
    queue_up(&server, "another:0", PLACE);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            first.fair_lock("lock").lock().unwrap();
            Instant::now()
        });
        await_places(&server, 2);
        eventually("its subscription", || end_of(&server, &place) % 1.0 >= 0.5);
        // The other client acquires the lock, and dies.
        let java = "11111111-1111-4111-8111-111111111111:1";
        server.ask::<()>(redis::cmd("HSET").arg("lock").arg(java).arg(1));
        let millis = u64::try_from(LEASE.as_millis()).unwrap();
        server.ask::<()>(redis::cmd("PEXPIRE").arg("lock").arg(millis));
        let free_at = Instant::now() + LEASE;
        server.ask::<()>(redis::cmd("LPOP").arg(QUEUE));
        server.ask::<()>(redis::cmd("ZREM").arg(ENDS).arg("another:0"));
        scope.spawn(|| drop(second.fair_lock("lock").acquire().unwrap()));
        let late = waiting.join().unwrap().saturating_duration_since(free_at);
        assert!(late < SLIP.get(), "{late:?}");
        first.force_unlock("lock").unwrap();
    });
}

/// A thread of Redisson enters the queue before it listens, and so does a client of this library.
#[test]
fn only_a_place_whose_client_listened_and_stopped_is_removed_early() {
    let server = Server::start();
    let client = client(&server.url());
    let mut connection = server.connection();
    let mut messages = connection.as_pubsub();
    messages.subscribe(channel_of("live:0")).unwrap();
    for (place, has_listened, is_kept) in [
        ("new:0", false, true),
        ("java:10", true, true),
        ("live:0", true, true),
        ("dead:0", true, false),
    ] {
        match has_listened {
            true => queue_up_listening(&server, place, PLACE),
            false => queue_up(&server, place, PLACE),
        }
        let granted = client.fair_lock("lock").try_acquire_now().unwrap();
        assert_eq!(granted.is_none(), is_kept, "{place}");
        assert_eq!(places(&server).len(), usize::from(is_kept), "{place}");
        drop(granted);
        server.ask::<()>(redis::cmd("DEL").arg(QUEUE).arg(ENDS));
    }
}

/// Another command counts who listens to a channel of a shard.
#[test]
fn in_a_cluster_a_dead_client_delays_the_next_by_nothing() {
    let cluster = ClusterDeployment::start();
    let server = cluster.primary_of(cluster.slot_of("lock"));
    let clients = [(); 2].map(|()| {
        let builder = LockClient::builder_cluster(cluster.urls());
        builder.watchdog_lease(LEASE.get()).build().unwrap()
    });
    let guard = clients[0].fair_lock("lock").acquire().unwrap();
    queue_up_listening(server, "dead:0", SOON.get());
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            clients[1].fair_lock("lock").lock().unwrap();
            Instant::now()
        });
        await_places(server, 2);
        await_listening(server);
        let free_at = Instant::now();
        guard.unlock().unwrap();
        let late = waiting.join().unwrap() - free_at;
        assert!(late < SLIP.get(), "{late:?}");
    });
}
