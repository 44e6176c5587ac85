//! The line of the clients that wait for permits, of both kinds of semaphores. The simulation has
//! clients that die, do not answer, or need more permits than are free.

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

    /// How many clients wait for a call.
    fn places(&self) -> usize {
        self.server
            .ask(redis::cmd("ZCOUNT").arg(self.key()).arg(WAITING).arg("inf"))
    }

    /// A client that does not answer, at the head of the line.
    fn add_place(&self, channel: &str) {
        self.server
            .run(&format!("ZADD {} {WAITING} {channel}", self.key()));
    }

    fn has_place(&self, channel: &str) -> bool {
        let place: Option<f64> = self
            .server
            .ask(redis::cmd("ZSCORE").arg(self.key()).arg(channel));
        place.is_some()
    }

    fn is_gone(&self) -> bool {
        self.server.ask::<u32>(redis::cmd("EXISTS").arg(self.key())) == 0
    }

    /// Starts a client that waits for a permit. Returns when it is in the line and listens, so that
    /// it keeps its place.
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
        let mut last = redis::cmd("ZRANGE");
        last.arg(self.key()).arg(-1).arg(-1);
        eventually("it listens", || {
            let last: Vec<String> = self.server.ask(&last);
            let listeners = redis::cmd("PUBSUB").arg("NUMSUB").arg(&last).to_owned();
            let listeners: Vec<redis::Value> = self.server.ask(&listeners);
            matches!(listeners[..], [_, redis::Value::Int(1..)])
        });
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

/// No client has set the number yet, or Redis has lost it.
#[test]
fn clients_keep_their_places_while_there_is_no_number() {
    for kind in SEMAPHORES {
        let line = Line::new();
        thread::scope(|scope| {
            for number in 0..4 {
                line.wait(scope, kind, number);
            }
            // Beyond the first looks of all, and the time to answer a call.
            throughout(Duration::from_secs(3), "all keep their places", || {
                line.places() == 4
            });
            let ours = client(&line.server.url());
            for number in 0..4 {
                kind.of(&ours, &line.name).add(1).unwrap();
                assert_eq!(line.next(), number, "{kind:?}");
            }
        });
    }
}

#[test]
fn a_client_that_may_not_subscribe_leaves_the_line_when_it_gives_up() {
    let line = Line::new();
    let user = line.server.with_user(&["~*", "&*", "+@all", "-subscribe"]);
    let theirs = client(&user).semaphore(&line.name);
    theirs.add_permits(0).unwrap();
    let interrupt = Interrupt::new();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| theirs.acquire_interruptibly(1, &interrupt));
        let is_marked = || -> bool {
            let mut members = redis::cmd("ZRANGE");
            let all: Vec<String> = line.server.ask(members.arg(line.key()).arg(0).arg(-1));
            all.iter().any(|member| member.starts_with('~'))
        };
        eventually("it to wait without calls", is_marked);
        interrupt.interrupt();
        assert_error!(waiting.join().unwrap(), Interrupted);
        eventually("an empty line", || line.is_gone());
    });
}

#[test]
fn a_client_that_gives_up_leaves_the_line_and_the_next_one_is_called() {
    for kind in SEMAPHORES {
        let line = Line::new();
        let ours = client(&line.server.url());
        kind.of(&ours, &line.name).add(0).unwrap();
        assert!(!take(kind, &ours, &line.name, A_WHILE.get()));
        assert_eq!(line.places(), 0, "{kind:?}");
        while !gives_up_before_a_look(kind) {}
    }
}

/// False on a machine so busy that the watchdog looked after the line before the client gave up, two
/// seconds after the client had entered it: then the client has got the permit.
fn gives_up_before_a_look(kind: Kind) -> bool {
    let line = Line::new();
    let ours = client(&line.server.url());
    kind.of(&ours, &line.name).add(0).unwrap();
    let interrupt = &Interrupt::new();
    thread::scope(|scope| {
        let (steps, began) = (kind.of(&ours, &line.name), Instant::now());
        let limit = Some(SOON.get());
        let first = scope.spawn(move || steps.wait_interruptibly(limit, interrupt));
        eventually("it is in the line", || line.places() == 1);
        line.wait(scope, kind, 1);
        // Without a message.
        line.server.run(&format!("INCR {}", line.name));
        let interrupted = Instant::now();
        interrupt.interrupt();
        let given_up = first.join().unwrap();
        if given_up.is_ok() && began.elapsed() > Duration::from_millis(1_900) {
            kind.of(&ours, &line.name).add(1).unwrap();
            line.next();
            return false;
        }
        assert_error!(given_up, Interrupted, "{kind:?}");
        line.next();
        assert!(interrupted.elapsed() < WAKE_UP.get(), "{kind:?}");
        true
    })
}

#[test]
fn permits_are_reserved_for_a_client_that_may_not_subscribe() {
    for kind in SEMAPHORES {
        let line = Line::new();
        let ours = client(&line.server.url());
        kind.of(&ours, &line.name).add(0).unwrap();
        line.add_place("~deaf");
        thread::scope(|scope| {
            line.wait(scope, kind, 1);
            let released = Instant::now();
            kind.of(&ours, &line.name).add(1).unwrap();
            assert!(line.has_place("~deaf"));
            throughout(Duration::from_millis(300), "it is reserved", || {
                line.has_none_granted() || released.elapsed() > Duration::from_millis(450)
            });
            line.next();
            assert!(released.elapsed() >= Duration::from_millis(500));
        });
        assert!(line.is_gone());
    }
}

#[test]
fn a_client_has_one_place_although_it_may_not_subscribe_any_more() {
    for kind in SEMAPHORES {
        let line = Line::new();
        let ours = client(&line.server.url());
        kind.of(&ours, &line.name).add(0).unwrap();
        assert!(!take(kind, &ours, &line.name, A_WHILE.get()));
        let mut channels = redis::cmd("PUBSUB");
        let channels = channels.arg("CHANNELS").arg("redisson_lock__channel:*");
        let [place]: [String; 1] = line.server.ask(channels);
        let deaf = format!("~{place}");
        line.add_place(&deaf);
        thread::scope(|scope| {
            let waiting = scope.spawn(|| take(kind, &ours, &line.name, SOON.get()));
            eventually("its new place", || line.has_place(&place));
            assert!(!line.has_place(&deaf));
            kind.of(&ours, &line.name).add(1).unwrap();
            assert!(waiting.join().unwrap());
        });
    }
}

/// The clock was set back, or that of a new master is behind.
#[test]
fn a_new_place_is_the_last_one() {
    for kind in SEMAPHORES {
        let line = Line::new();
        let ours = client(&line.server.url());
        kind.of(&ours, &line.name).add(0).unwrap();
        let later = 2 * WAITING;
        line.server
            .run(&format!("ZADD {} {later} later", line.key()));
        thread::scope(|scope| {
            line.wait(scope, kind, 1);
            let last: Vec<(String, f64)> = line.server.ask(
                redis::cmd("ZRANGE")
                    .arg(line.key())
                    .arg(-2)
                    .arg(-1)
                    .arg("WITHSCORES"),
            );
            assert_eq!(last[0].0, "later");
            assert!(last[1].1 > last[0].1, "{last:?}");
            kind.of(&ours, &line.name).add(1).unwrap();
            line.next();
        });
    }
}
