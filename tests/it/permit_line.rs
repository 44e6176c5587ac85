//! The line of the clients that wait for permits, of both kinds of semaphores.

use std::sync::{Mutex, mpsc};
use std::thread::Scope;

use crate::permits::{Kind, Permit, SEMAPHORES};
use crate::support::prelude::*;
use crate::support::traffic::scripts;

/// The longest time from a release until a waiting client has the permit.
const WAKE_UP: Millis = Millis(100);

/// The scores of places are larger: microseconds since 1970.
const WAITING: u64 = 1_700_000_000_000_000;

/// Takes a permit, which stays taken.
fn take(kind: Kind, client: &LockClient, name: &str, wait: Duration) -> bool {
    let permit = kind.of(client, name).wait_for(wait).unwrap();
    permit.map(Permit::keep).is_some()
}

/// A name of which clients wait for permits.
struct Line {
    server: Server,
    name: String,
    /// The number of each client that has got a permit.
    granted: mpsc::Sender<usize>,
    grants: Mutex<mpsc::Receiver<usize>>,
}

impl Line {
    fn new() -> Self {
        let (granted, grants) = mpsc::channel();
        Self {
            server: Server::start(),
            name: unique("line"),
            granted,
            grants: Mutex::new(grants),
        }
    }

    fn key(&self) -> String {
        format!("leasehold_line:{{{}}}", self.name)
    }

    fn places(&self) -> usize {
        self.server
            .ask(redis::cmd("ZCOUNT").arg(self.key()).arg(WAITING).arg("inf"))
    }

    /// A client that does not answer, at the head of the line.
    fn add_place(&self, channel: &str) {
        self.server
            .run(&format!("ZADD {} {WAITING} {channel}", self.key()));
    }

    /// Starts a client that waits for a permit. Returns when it is in the line.
    fn wait<'a>(&'a self, scope: &'a Scope<'a, '_>, kind: Kind, number: usize) {
        let before = self.places();
        let granted = self.granted.clone();
        scope.spawn(move || {
            let client = client(&self.server.url());
            if take(kind, &client, &self.name, SOON.get()) {
                granted.send(number).unwrap();
            }
        });
        eventually("it is in the line", || self.places() > before);
    }

    fn has_none_granted(&self) -> bool {
        self.grants.lock().unwrap().try_recv().is_err()
    }

    /// The next client that gets a permit.
    fn next(&self) -> usize {
        let grants = self.grants.lock().unwrap();
        grants.recv_timeout(SOON.get()).unwrap()
    }
}

#[test]
fn a_release_calls_as_many_clients_as_permits_are_free_in_their_order() {
    const CLIENTS: usize = 8;
    for kind in SEMAPHORES {
        let line = Line::new();
        let ours = client(&line.server.url());
        kind.of(&ours, &line.name).add(1).unwrap();
        assert!(take(kind, &ours, &line.name, Duration::ZERO));
        thread::scope(|scope| {
            for number in 0..CLIENTS {
                line.wait(scope, kind, number);
            }
            // Each has asked again after its subscription.
            thread::sleep(SLIP.get());
            let before = scripts(&line.server);
            let (mut order, mut all_answer) = (Vec::new(), true);
            for permits in [1, 1, 3, 1, 2] {
                let called = Instant::now();
                kind.of(&ours, &line.name).add(permits).unwrap();
                let mut granted: Vec<_> = (0..permits).map(|_| line.next()).collect();
                granted.sort_unstable();
                order.extend(granted);
                // A client that does not answer for half a second loses its place.
                all_answer &= called.elapsed() < Duration::from_millis(400);
            }
            if !all_answer {
                order.sort_unstable();
            }
            assert_eq!(order, (0..CLIENTS).collect::<Vec<_>>(), "{kind:?}");
            if !all_answer {
                return;
            }
            // When the client leaves that listens, another one asks twice.
            let sent = scripts(&line.server) - before;
            assert!(sent <= 5 + CLIENTS as u64 + 2 * 3, "{kind:?}: {sent}");
        });
        assert_eq!(line.places(), 0);
    }
}

#[test]
fn clients_that_are_gone_are_passed_at_once_and_those_that_do_not_answer_soon() {
    for kind in SEMAPHORES {
        let line = Line::new();
        let ours = client(&line.server.url());
        kind.of(&ours, &line.name).add(0).unwrap();
        for gone in 0..10 {
            line.add_place(&format!("gone-{gone}"));
        }
        thread::scope(|scope| {
            line.wait(scope, kind, 1);
            let released = Instant::now();
            kind.of(&ours, &line.name).add(1).unwrap();
            line.next();
            let took = released.elapsed();
            assert!(took < WAKE_UP.get(), "{kind:?}: {took:?}");
            assert_eq!(line.places(), 0);

            let mut stopped = line.server.connection();
            let mut stopped = stopped.as_pubsub();
            stopped.subscribe("stopped").unwrap();
            line.add_place("stopped");
            line.wait(scope, kind, 2);
            let released = Instant::now();
            kind.of(&ours, &line.name).add(1).unwrap();
            stopped.get_message().unwrap();
            line.next();
            let took = released.elapsed();
            assert!(took < millis(5_000), "{kind:?}: {took:?}");
        });
    }
}

#[test]
fn a_client_that_gives_up_leaves_the_line_and_the_next_one_is_called() {
    for kind in SEMAPHORES {
        let line = Line::new();
        let ours = client(&line.server.url());
        kind.of(&ours, &line.name).add(0).unwrap();
        assert!(!take(kind, &ours, &line.name, A_WHILE.get()));
        assert_eq!(line.places(), 0, "{kind:?}");
        let interrupt = Interrupt::new();
        thread::scope(|scope| {
            let steps = kind.of(&ours, &line.name);
            let interrupted = &interrupt;
            let first = scope.spawn(move || {
                let limit = Some(SOON.get());
                steps.wait_interruptibly(limit, interrupted)
            });
            eventually("it is in the line", || line.places() == 1);
            line.wait(scope, kind, 1);
            // Without a message.
            line.server.run(&format!("INCR {}", line.name));
            let interrupted = Instant::now();
            interrupt.interrupt();
            assert_error!(first.join().unwrap(), Interrupted, "{kind:?}");
            line.next();
            assert!(interrupted.elapsed() < WAKE_UP.get(), "{kind:?}");
        });
    }
}

#[test]
fn a_client_that_needs_several_permits_is_not_overtaken_by_those_behind_it() {
    let line = Line::new();
    let ours = client(&line.server.url());
    let permits = ours.semaphore(&line.name);
    permits.add_permits(1).unwrap();
    assert!(permits.try_acquire(1, Duration::ZERO).unwrap());
    let theirs = client(&line.server.url());
    thread::scope(|scope| {
        let several = scope.spawn(|| theirs.semaphore(&line.name).try_acquire(3, SOON.get()));
        eventually("it is in the line", || line.places() == 1);
        line.wait(scope, Kind::Semaphore, 1);
        for _ in 0..2 {
            permits.add_permits(1).unwrap();
            // For longer than a permit is reserved for a client that does not ask.
            throughout(millis(800), "both wait", || {
                !several.is_finished() && line.has_none_granted()
            });
        }
        assert!(
            permits.try_acquire(1, Duration::ZERO).unwrap(),
            "it does not wait"
        );
        let called = Instant::now();
        permits.add_permits(2).unwrap();
        // A client that does not answer for half a second loses its place.
        eventually("an answer", || {
            several.is_finished() || called.elapsed() > Duration::from_millis(400)
        });
        permits.add_permits(1).unwrap();
        line.next();
        permits.add_permits(3).unwrap();
        assert!(several.join().unwrap().unwrap());
    });
    assert_eq!((line.places(), permits.available().unwrap()), (0, 3));
}

/// Otherwise no client of the line would hear of permits that a client of Redisson gives back.
#[test]
fn a_wait_that_ends_without_a_reply_leaves_no_client_that_listens() {
    for (kind, script) in [
        (Kind::Semaphore, "take_permits"),
        (Kind::Leased, "permit_acquire"),
    ] {
        let proxied = ProxiedServer::new();
        let name = unique("silent");
        let waiter = proxied.builder(SLIP.get()).build().unwrap();
        kind.of(&proxied.rival(), &name).add(0).unwrap();
        let in_line = || -> u32 {
            let mut members = redis::cmd("ZCARD");
            let line = format!("leasehold_line:{{{name}}}");
            proxied.server.ask(members.arg(line))
        };
        thread::scope(|scope| {
            let waiting = scope.spawn(|| kind.of(&waiter, &name).wait_for(SLIP.get() * 2));
            eventually("a place, and a client that listens", || in_line() == 2);
            proxied.fault_always(script, &Fault::SwallowRequest);
            is_unavailable(&waiting.join().unwrap());
        });
        eventually("an empty line", || in_line() == 0);
    }
}
