//! The fair lock: the order of clients, and their places in Redis.

mod dead;
mod long;
mod mixed;

use crate::support::prelude::*;

const QUEUE: &str = "redisson_lock_queue:{lock}";
const ENDS: &str = "redisson_lock_timeout:{lock}";

/// For how long a place lasts without a request, and the time between the requests of a thread that
/// waits.
const PLACE: Duration = Duration::from_secs(6);
const REFRESH: Duration = Duration::from_secs(2);

fn places(server: &Server) -> Vec<String> {
    server.ask(redis::cmd("LRANGE").arg(QUEUE).arg(0).arg(-1))
}

fn await_places(server: &Server, count: usize) {
    eventually("the places in the queue", || places(server).len() == count);
}

/// Puts a place at the end of the queue, as Redisson's `RFairLock` does.
fn queue_up(server: &Server, place: &str, life: Duration) {
    let (seconds, _): (u64, u64) = server.ask(&redis::cmd("TIME"));
    let end = seconds * 1000 + u64::try_from(life.as_millis()).unwrap();
    server.ask::<()>(redis::cmd("RPUSH").arg(QUEUE).arg(place));
    server.ask::<()>(redis::cmd("ZADD").arg(ENDS).arg(end).arg(place));
}

/// The place of this client in the queues of all fair locks.
fn place_of(client: &LockClient) -> String {
    let guard = client.reentrant_lock("another").acquire().unwrap();
    let owner = client.inspect("another").unwrap().owner.unwrap();
    guard.unlock().unwrap();
    format!("{}:0", owner.split_once(':').unwrap().0)
}

/// So threads have equal shares, whichever clients they belong to. A thread that begins to wait
/// before the reply is none of those.
#[test]
fn a_place_is_for_the_threads_that_waited_when_it_was_taken() {
    let proxied = ProxiedServer::new();
    let server = &proxied.server;
    let ours = proxied.builder(SOON.get()).build().unwrap();
    let [other, third] = [(); 2].map(|()| client(&server.url()));
    let place = place_of(&ours);
    let (sender, order) = unbounded();
    let (go, goes) = unbounded();
    let (says, tasks) = unbounded();
    // It is not handed over.
    let guard = ours.fair_lock("lock");
    let guard = guard.acquire_with(long()).unwrap();
    let wait = |client: &LockClient, name: &'static str, goes: Option<&Receiver<()>>| {
        says.send(Task::current()).unwrap();
        let guard = client.fair_lock("lock").acquire().unwrap();
        sender.send(name).unwrap();
        if let Some(goes) = goes {
            goes.recv().unwrap();
        }
        guard.unlock().unwrap();
    };
    let sleeps = |task: Task| eventually("it to wait", || task.is_asleep());
    thread::scope(|scope| {
        scope.spawn(|| wait(&other, "other", Some(&goes)));
        await_places(server, 1);
        tasks.recv().unwrap();
        for _ in 0..3 {
            scope.spawn(|| wait(&ours, "ours", None));
            sleeps(tasks.recv().unwrap());
        }
        // It arrives when the others wait.
        let slow = Fault::SplitReply {
            every: 16,
            pause: A_WHILE.get(),
        };
        proxied.fault_once("fair_acquire", &slow);
        guard.unlock().unwrap();
        eventually("the place", || places(server) == [place.as_str()]);
        scope.spawn(|| wait(&third, "third", None));
        await_places(server, 2);
        tasks.recv().unwrap();
        scope.spawn(|| wait(&ours, "late", None));
        sleeps(tasks.recv().unwrap());
        go.send(()).unwrap();
    });
    let order: Vec<&str> = order.try_iter().collect();
    assert_eq!(order, ["other", "ours", "ours", "ours", "third", "late"]);
    assert_eq!(ours.stats().hand_overs, 2);
}

/// Longer than a place lasts. A client that waits sends one request in two seconds.
/// The end of its place counts from that of the place before, which may be given up early.
#[test]
fn a_dead_client_behind_others_delays_the_next_by_one_place() {
    let server = Server::start();
    let client = client(&server.url());
    let end = |place: &str| -> u64 {
        queue_up(&server, place, PLACE * 3);
        let taken = client.fair_lock("lock").try_acquire_now().unwrap();
        assert!(taken.is_none());
        let end: u64 = server.ask(redis::cmd("ZSCORE").arg(ENDS).arg(place));
        let (seconds, _): (u64, u64) = server.ask(&redis::cmd("TIME"));
        server.ask::<()>(redis::cmd("DEL").arg(QUEUE).arg(ENDS));
        end / 1000 - seconds
    };
    assert!(end("dead:0") <= PLACE.as_secs());
    assert!(end("java:1") > PLACE.as_secs() * 2);
}

#[test]
fn a_place_is_kept_for_as_long_as_its_client_waits() {
    let server = Server::start();
    let unconfirmed = || builder(&server.url()).confirm_every(Duration::ZERO).build();
    let clients = [(); 3].map(|()| unconfirmed().unwrap());
    // Not renewed during the test, and a waiting client looks again only when the lease ends.
    let lease = long();
    let guard = clients[0].fair_lock("lock").acquire_with(lease).unwrap();
    thread::scope(|scope| {
        let mut waiting = Vec::new();
        for (number, client) in clients[1..].iter().enumerate() {
            waiting.push(scope.spawn(move || {
                let lock = client.fair_lock("lock");
                assert!(lock.try_lock(SOON.get() * 3, Lease::RENEWED).unwrap());
            }));
            await_places(&server, number + 1);
        }
        let before = places(&server);
        traffic::reset(&server);
        let start = Instant::now();
        while start.elapsed() < PLACE + REFRESH {
            assert_eq!(places(&server), before);
            thread::sleep(Duration::from_millis(100));
        }
        let sent = traffic::scripts(&server);
        assert!(sent <= 2 * 5, "{sent} scripts of two clients that wait");
        guard.unlock().unwrap();
        waiting.remove(0).join().unwrap();
        let names = places(&server);
        assert_eq!(names, before[1..]);
        clients[1].force_unlock("lock").unwrap();
        waiting.remove(0).join().unwrap();
    });
}

#[test]
fn the_bytes_are_those_of_redisson() {
    let server = Server::start();
    let (holder, other) = (client(&server.url()), client(&server.url()));
    let place = place_of(&other);
    let guard = holder.fair_lock("lock").acquire().unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| other.fair_lock("lock").lock());
        await_places(&server, 1);
        assert_eq!(places(&server), [place.as_str()]);
        let end: f64 = server.ask(redis::cmd("ZSCORE").arg(ENDS).arg(&place));
        let (seconds, _): (f64, f64) = server.ask(&redis::cmd("TIME"));
        let left = end - seconds * 1000.0;
        assert!((1_000.0..8_000.0).contains(&left), "{left} ms");
        for key in [QUEUE, ENDS] {
            let left = server.time_to_live(key);
            assert!(
                left > 3_600_000,
                "{key} must outlast the places of Java: {left}"
            );
        }
        let channel = format!("redisson_lock__channel:{{lock}}:{place}");
        eventually("the subscription", || {
            let counts: (String, u32) =
                server.ask(redis::cmd("PUBSUB").arg("NUMSUB").arg(&channel));
            counts.1 == 1
        });
        // As Redisson's unlock: the hash is deleted, and the first place is notified.
        server.delete("lock");
        server.ask::<()>(redis::cmd("PUBLISH").arg(&channel).arg("0"));
        waiting.join().unwrap().unwrap();
    });
    assert!(guard.unlock().is_err());
}

/// Redis refuses the next request of a waiting thread, and still replies.
#[test]
fn a_wait_that_is_refused_leaves_the_queue() {
    let server = Server::start();
    let (holder, other) = (client(&server.url()), client(&server.url()));
    let held = holder.fair_lock("lock").acquire().unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| other.fair_lock("lock").acquire().map(drop));
        await_places(&server, 1);
        // Both at once, so that the waiting thread does not find the lock free.
        let mut replaced = redis::pipe();
        let replaced = replaced.atomic().del("lock").hset("lock", "mode", "read");
        replaced.exec(&mut server.connection()).unwrap();
        let refused = within(SOON.get(), "the refusal", || waiting.join().unwrap());
        assert_matches!(refused, Err(Error::WrongType { .. }));
        assert_eq!(places(&server), [""; 0]);
    });
    assert!(held.unlock().is_err());
}
