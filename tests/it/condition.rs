//! The condition of a lock: waits and notifications, between threads and between clients.

mod costs;
mod deployments;
mod faults;
mod late;
mod levels;
pub mod processes;

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use crossbeam_channel::unbounded;
use leasehold::{Condition, Error, Interrupt, LockClient, ReentrantLock};

use crate::support::server::Server;
use crate::support::timing::{A_WHILE, LEASE, SLIP, SOON, eventually, millis, throughout, within};
use crate::support::{client, unique};

/// A lock and a condition of it.
pub struct Place {
    pub lock: ReentrantLock,
    pub condition: Condition,
}

impl Place {
    pub fn of(client: &LockClient, name: &str) -> Self {
        let lock = client.reentrant_lock(name);
        let condition = lock.condition("ready");
        Self { lock, condition }
    }

    /// Waits once, with a limit so that no failed test hangs.
    pub fn wait(&self) {
        let guard = self.lock.acquire().expect("Redis replies");
        let is_woken = self.condition.wait_for(SOON.get() * 2);
        assert!(is_woken.expect("Redis replies"), "no notification");
        guard.check().expect("held after the wait");
        guard.unlock().expect("held after the wait");
    }

    pub fn notify_one(&self) {
        let guard = self.lock.acquire().expect("Redis replies");
        self.condition.notify_one().expect("it is held");
        guard.unlock().expect("it is held");
    }

    pub fn notify_all(&self) {
        let guard = self.lock.acquire().expect("Redis replies");
        self.condition.notify_all().expect("it is held");
        guard.unlock().expect("it is held");
    }
}

/// The keys of the condition `ready` of a lock.
pub fn keys(name: &str) -> [String; 3] {
    let tagged = match name.contains('{') {
        true => name.to_owned(),
        false => format!("{{{name}}}"),
    };
    ["condition", "condition_places", "condition_call"].map(|key| format!("{tagged}:{key}:ready"))
}

/// The number of waiters that are not notified.
pub fn waiting(server: &Server, name: &str) -> u32 {
    server.ask(redis::cmd("ZCARD").arg(&keys(name)[0]))
}

/// The number of waiters, also of those that are notified and do not have the lock yet.
pub fn places(server: &Server, name: &str) -> u32 {
    server.ask(redis::cmd("ZCARD").arg(&keys(name)[1]))
}

#[track_caller]
pub fn await_waiting(server: &Server, name: &str, count: u32) {
    eventually("the waiters", || waiting(server, name) == count);
}

#[test]
fn a_notification_wakes_a_waiter_of_another_client_and_of_the_same() {
    let server = Server::start();
    let clients = [client(&server.url()), client(&server.url())];
    for waiter in &clients {
        let name = unique("condition");
        let [there, here] = [waiter, &clients[0]].map(|client| Place::of(client, &name));
        thread::scope(|scope| {
            let waits = scope.spawn(|| there.wait());
            await_waiting(&server, &name, 1);
            eventually("a wait releases the lock", || {
                !here.lock.is_locked().unwrap()
            });
            throughout(A_WHILE.get(), "it waits", || !waits.is_finished());
            within(SLIP.get() * 2, "the notification", || {
                here.notify_one();
                waits.join().unwrap();
            });
        });
        assert!(!here.lock.is_locked().unwrap());
        assert_eq!((waiting(&server, &name), places(&server, &name)), (0, 0));
    }
}

#[test]
fn a_wait_without_a_limit_ends_with_a_notification() {
    let server = Server::start();
    let client = client(&server.url());
    let name = unique("condition");
    let place = Place::of(&client, &name);
    thread::scope(|scope| {
        scope.spawn(|| {
            let guard = place.lock.acquire().unwrap();
            place.condition.wait().unwrap();
            guard.unlock().unwrap();
        });
        await_waiting(&server, &name, 1);
        place.notify_one();
    });
}

/// It keeps its place for as long as another thread holds the lock.
#[test]
fn a_notified_thread_keeps_its_notification_until_it_has_the_lock() {
    let server = Server::start();
    let clients = [client(&server.url()), client(&server.url())];
    let name = unique("condition");
    let [there, here] = clients.each_ref().map(|client| Place::of(client, &name));
    thread::scope(|scope| {
        let waiters = [scope.spawn(|| there.wait()), scope.spawn(|| there.wait())];
        await_waiting(&server, &name, 2);
        let guard = here.lock.acquire().unwrap();
        here.condition.notify_one().unwrap();
        throughout(LEASE.get() * 3, "one is notified, and one waits", || {
            (waiting(&server, &name), places(&server, &name)) == (1, 2)
        });
        guard.unlock().unwrap();
        eventually("one wakes", || {
            waiters.iter().any(thread::ScopedJoinHandle::is_finished)
        });
        assert_eq!(waiting(&server, &name), 1);
        here.notify_one();
    });
}

/// Of several clients and of several threads of one client, in the order in which they wait.
#[test]
fn notify_one_wakes_exactly_one_in_the_order_of_waiting() {
    let server = Server::start();
    let clients = [client(&server.url()), client(&server.url())];
    let name = unique("condition");
    let notifier = Place::of(&clients[0], &name);
    thread::scope(|scope| {
        let (woken, order) = unbounded();
        for number in 0..6 {
            let woken = woken.clone();
            let place = Place::of(&clients[number % 2], &name);
            scope.spawn(move || {
                place.wait();
                woken.send(number).unwrap();
            });
            await_waiting(&server, &name, number as u32 + 1);
        }
        for expected in 0..6 {
            notifier.notify_one();
            assert_eq!(order.recv_timeout(SOON.get()), Ok(expected));
            throughout(millis(50), "the others wait", || order.is_empty());
        }
    });
}

/// Several notifications by one holder wake as many threads.
#[test]
fn as_many_threads_wake_as_were_notified() {
    let server = Server::start();
    let client = client(&server.url());
    let name = unique("condition");
    let place = Place::of(&client, &name);
    let woken = AtomicU32::new(0);
    thread::scope(|scope| {
        for _ in 0..5 {
            scope.spawn(|| {
                place.wait();
                woken.fetch_add(1, Ordering::SeqCst);
            });
        }
        await_waiting(&server, &name, 5);
        let guard = place.lock.acquire().unwrap();
        for _ in 0..3 {
            place.condition.notify_one().unwrap();
        }
        assert_eq!((waiting(&server, &name), places(&server, &name)), (2, 5));
        guard.unlock().unwrap();
        eventually("three wake", || woken.load(Ordering::SeqCst) == 3);
        throughout(A_WHILE.get(), "two wait", || {
            woken.load(Ordering::SeqCst) == 3
        });
        place.notify_all();
    });
}

#[test]
fn notify_all_wakes_all_of_this_condition_and_of_no_other() {
    let server = Server::start();
    let clients = [client(&server.url()), client(&server.url())];
    let name = unique("condition");
    let place = Place::of(&clients[0], &name);
    let other = place.lock.condition("other");
    thread::scope(|scope| {
        let one = scope.spawn(|| {
            let guard = place.lock.acquire().unwrap();
            other.wait().unwrap();
            guard.unlock().unwrap();
        });
        let all: Vec<_> = (0..6)
            .map(|number| {
                let place = Place::of(&clients[number % 2], &name);
                scope.spawn(move || place.wait())
            })
            .collect();
        await_waiting(&server, &name, 6);
        place.notify_all();
        all.into_iter().for_each(|waiter| waiter.join().unwrap());
        throughout(A_WHILE.get(), "the other waits", || !one.is_finished());
        let guard = place.lock.acquire().unwrap();
        other.notify_one().unwrap();
        guard.unlock().unwrap();
    });
    let keys: Vec<String> = server.ask(redis::cmd("KEYS").arg(format!("{{{name}}}*")));
    for key in keys {
        let left: i64 = server.ask(redis::cmd("PTTL").arg(&key));
        assert!(left >= 0, "{key} has no time to live");
    }
}

#[test]
fn a_notification_without_a_waiter_has_no_effect() {
    let server = Server::start();
    let client = client(&server.url());
    let name = unique("condition");
    let place = Place::of(&client, &name);
    let guard = place.lock.acquire().unwrap();
    place.condition.notify_one().unwrap();
    place.condition.notify_all().unwrap();
    assert!(!place.condition.wait_for(A_WHILE.get()).unwrap());
    guard.unlock().unwrap();
    let keys: Vec<String> = server.ask(redis::cmd("KEYS").arg("*"));
    assert!(keys.is_empty(), "{keys:?}");
}

#[test]
fn a_wait_for_a_time_ends_with_the_lock() {
    let server = Server::start();
    let clients = [client(&server.url()), client(&server.url())];
    let name = unique("condition");
    let [one, two] = clients.each_ref().map(|client| Place::of(client, &name));
    let guard = one.lock.acquire().unwrap();
    let bound = A_WHILE.get() + SLIP.get();
    within(bound, "the wait", || {
        assert!(!one.condition.wait_for(A_WHILE.get()).unwrap());
    });
    guard.check().unwrap();
    assert_eq!((one.lock.hold_count(), places(&server, &name)), (1, 0));
    // At the end of the time another client holds the lock.
    thread::scope(|scope| {
        let holder = scope.spawn(|| {
            await_waiting(&server, &name, 1);
            let guard = two.lock.acquire().unwrap();
            thread::sleep(A_WHILE.get() * 3);
            guard.unlock().unwrap();
        });
        assert!(!one.condition.wait_for(A_WHILE.get()).unwrap());
        guard.check().unwrap();
        holder.join().unwrap();
    });
    // It is notified after the end of its time, before it has the lock.
    thread::scope(|scope| {
        let notifier = scope.spawn(|| {
            await_waiting(&server, &name, 1);
            let guard = two.lock.acquire().unwrap();
            thread::sleep(A_WHILE.get() * 3);
            two.condition.notify_one().unwrap();
            guard.unlock().unwrap();
        });
        assert!(one.condition.wait_for(A_WHILE.get()).unwrap());
        notifier.join().unwrap();
    });
    assert!(!one.condition.wait_for(Duration::ZERO).unwrap());
    guard.unlock().unwrap();
}

#[test]
fn a_thread_that_does_not_hold_the_lock_can_neither_wait_nor_notify() {
    let server = Server::start();
    let client = client(&server.url());
    let place = Place::of(&client, &unique("condition"));
    let condition = &place.condition;
    let refused = |what: &str| {
        let calls = [
            condition.wait(),
            condition.wait_for(A_WHILE.get()).map(drop),
            condition.notify_one(),
            condition.notify_all(),
        ];
        for result in calls {
            assert!(
                matches!(result, Err(Error::NotHeld { .. })),
                "{what}: {result:?}"
            );
        }
    };
    refused("free");
    let guard = place.lock.acquire().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| refused("held by another thread"));
    });
    guard.unlock().unwrap();
    for name in ["", &"x".repeat(513)] {
        let guard = place.lock.acquire().unwrap();
        let result = place.lock.condition(name).notify_one();
        assert!(matches!(result, Err(Error::Config { field: "name", .. })));
        guard.unlock().unwrap();
    }
    let guard = client.fenced_lock(place.lock.name()).acquire().unwrap();
    let result = condition.notify_one();
    assert!(matches!(result, Err(Error::Config { field: "name", .. })));
    guard.unlock().unwrap();
}

#[test]
fn keys_of_another_type_are_refused_and_stay_as_they_are() {
    let server = Server::start();
    let client = client(&server.url());
    let name = unique("condition");
    let place = Place::of(&client, &name);
    let guard = place.lock.acquire().unwrap();
    for key in &keys(&name)[..2] {
        server.ask::<()>(redis::cmd("SET").arg(key).arg("text"));
        for result in [place.condition.wait(), place.condition.notify_one()] {
            let Err(Error::WrongType { found, .. }) = result else {
                panic!("{result:?}");
            };
            assert!(
                found.contains(key) && found.contains("sorted set"),
                "{found}"
            );
        }
        guard.check().unwrap();
        assert_eq!(server.ask::<String>(redis::cmd("GET").arg(key)), "text");
        server.ask::<()>(redis::cmd("DEL").arg(key));
    }
    assert!(!place.condition.wait_for(Duration::ZERO).unwrap());
    guard.unlock().unwrap();
}

#[test]
fn an_interrupt_ends_a_wait_with_the_lock() {
    let server = Server::start();
    let client = client(&server.url());
    let name = unique("condition");
    let place = Place::of(&client, &name);
    let interrupt = Interrupt::new();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let guard = place.lock.acquire().unwrap();
            let result = place.condition.wait_interruptibly(&interrupt);
            assert!(
                matches!(result, Err(Error::Interrupted { .. })),
                "{result:?}"
            );
            guard.check().unwrap();
            // Raised before: the lock is not released.
            let result = place
                .condition
                .wait_for_interruptibly(SOON.get(), &interrupt);
            assert!(
                matches!(result, Err(Error::Interrupted { .. })),
                "{result:?}"
            );
            guard.unlock().unwrap();
        });
        await_waiting(&server, &name, 1);
        interrupt.interrupt();
        waiter.join().unwrap();
    });
    assert_eq!(places(&server, &name), 0);
    // Notified before the interrupt: the notification counts.
    let interrupt = Interrupt::new();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let guard = place.lock.acquire().unwrap();
            let result = place.condition.wait_interruptibly(&interrupt);
            guard.unlock().unwrap();
            result
        });
        await_waiting(&server, &name, 1);
        let guard = place.lock.acquire().unwrap();
        place.condition.notify_one().unwrap();
        interrupt.interrupt();
        guard.unlock().unwrap();
        waiter.join().unwrap().unwrap();
    });
}
