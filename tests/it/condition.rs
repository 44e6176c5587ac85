//! The condition of a lock: waits and notifications, between threads and between clients.

mod costs;
mod faults;
mod late;
mod levels;
pub mod processes;

use leasehold::Condition;

use crate::support::prelude::*;

/// A lock and a condition of it, of one client.
pub struct Place {
    pub client: LockClient,
    pub lock: ReentrantLock,
    pub condition: Condition,
}

impl Place {
    pub fn of(client: &LockClient, name: &str) -> Self {
        let lock = client.reentrant_lock(name);
        Self {
            client: client.clone(),
            condition: lock.condition("ready"),
            lock,
        }
    }

    /// Waits once, with a limit so that no failed test hangs.
    pub fn wait(&self) {
        let guard = self.lock.acquire().expect("Redis replies");
        let is_woken = self.condition.wait_for(SOON.get() * 2);
        assert!(is_woken.expect("Redis replies"), "no notification");
        guard.check().expect("held after the wait");
        guard.unlock().expect("held after the wait");
    }

    /// Notifies this number of threads within one hold.
    pub fn notify(&self, count: u32) {
        let guard = self.lock.acquire().expect("Redis replies");
        for _ in 0..count {
            self.condition.notify_one().expect("it is held");
        }
        guard.unlock().expect("it is held");
    }

    pub fn notify_one(&self) {
        self.notify(1);
    }

    pub fn notify_all(&self) {
        let guard = self.lock.acquire().expect("Redis replies");
        self.condition.notify_all().expect("it is held");
        guard.unlock().expect("it is held");
    }
}

/// The keys of the condition `ready` of a lock.
pub fn keys(name: &str) -> [String; 2] {
    let tagged = match name.contains('{') {
        true => name.to_owned(),
        false => format!("{{{name}}}"),
    };
    ["condition", "condition_places"].map(|key| format!("{tagged}:{key}:ready"))
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

/// A server, and the same lock of several clients.
pub struct Stage<const N: usize> {
    pub server: Server,
    pub name: String,
    pub places: [Place; N],
}

impl<const N: usize> Stage<N> {
    pub fn new() -> Self {
        let (server, name) = (Server::start(), unique("condition"));
        Self {
            places: [(); N].map(|()| Place::of(&client(&server.url()), &name)),
            server,
            name,
        }
    }

    /// The numbers of waiters that are not notified, and of all.
    pub fn waiters(&self) -> (u32, u32) {
        (
            waiting(&self.server, &self.name),
            places(&self.server, &self.name),
        )
    }

    #[track_caller]
    pub fn await_waiting(&self, count: u32) {
        await_waiting(&self.server, &self.name, count);
    }
}

/// Of several clients and of several threads of one client, in the order in which they wait.
/// Several notifications by one holder wake as many threads.
#[test]
fn as_many_threads_wake_as_were_notified_in_the_order_of_waiting() {
    let stage = Stage::<2>::new();
    let notifier = &stage.places[0];
    thread::scope(|scope| {
        let (woken, order) = unbounded();
        for number in 0..8_usize {
            let (woken, place) = (woken.clone(), &stage.places[number % 2]);
            scope.spawn(move || {
                place.wait();
                woken.send(number).unwrap();
            });
            stage.await_waiting(number as u32 + 1);
        }
        for expected in 0..5 {
            notifier.notify_one();
            assert_eq!(order.recv_timeout(SOON.get()), Ok(expected));
            throughout(millis(50), "the others wait", || order.is_empty());
        }
        notifier.notify(2);
        let mut both = [(); 2].map(|()| order.recv_timeout(SOON.get()).unwrap());
        both.sort_unstable();
        assert_eq!(both, [5, 6]);
        throughout(A_WHILE.get(), "one waits", || order.is_empty());
        notifier.notify_all();
        assert_eq!(order.recv_timeout(SOON.get()), Ok(7));
    });
}

#[test]
fn notify_all_wakes_all_of_this_condition_and_of_no_other() {
    let stage = Stage::<2>::new();
    let place = &stage.places[0];
    let other = place.lock.condition("other");
    thread::scope(|scope| {
        let one = scope.spawn(|| {
            let guard = place.lock.acquire().unwrap();
            other.wait().unwrap();
            guard.unlock().unwrap();
        });
        let all = [0, 1, 0, 1, 0, 1].map(|at: usize| {
            let place = &stage.places[at];
            scope.spawn(|| place.wait())
        });
        stage.await_waiting(6);
        place.notify_all();
        all.into_iter().for_each(|waiter| waiter.join().unwrap());
        stay_waiting([&one]);
        let guard = place.lock.acquire().unwrap();
        other.notify_one().unwrap();
        guard.unlock().unwrap();
    });
    let server = &stage.server;
    let keys: Vec<String> = server.ask(redis::cmd("KEYS").arg(format!("{{{}}}*", stage.name)));
    for key in keys {
        let left: i64 = server.ask(redis::cmd("PTTL").arg(&key));
        assert!(left >= 0, "{key} has no time to live");
    }
}

#[test]
fn a_notification_without_a_waiter_has_no_effect() {
    let stage = Stage::<1>::new();
    let place = &stage.places[0];
    let guard = place.lock.acquire().unwrap();
    place.condition.notify_one().unwrap();
    place.condition.notify_all().unwrap();
    assert!(!place.condition.wait_for(A_WHILE.get()).unwrap());
    guard.unlock().unwrap();
    assert_eq!(stage.server.ask::<u32>(&redis::cmd("DBSIZE")), 0);
}

#[test]
fn a_wait_for_a_time_ends_with_the_lock() {
    let stage = Stage::<2>::new();
    let [one, two] = &stage.places;
    let guard = one.lock.acquire().unwrap();
    let bound = A_WHILE.get() + SLIP.get();
    within(bound, "the wait", || {
        assert!(!one.condition.wait_for(A_WHILE.get()).unwrap());
    });
    guard.check().unwrap();
    assert_eq!((one.lock.hold_count(), stage.waiters()), (1, (0, 0)));
    // At the end of the time another client holds the lock, and notifies the thread or not.
    for is_notified in [false, true] {
        thread::scope(|scope| {
            scope.spawn(|| {
                stage.await_waiting(1);
                let guard = two.lock.acquire().unwrap();
                thread::sleep(A_WHILE.get() * 3);
                if is_notified {
                    two.condition.notify_one().unwrap();
                }
                guard.unlock().unwrap();
            });
            let woken = one.condition.wait_for(A_WHILE.get());
            assert_eq!(woken.unwrap(), is_notified);
            guard.check().unwrap();
        });
    }
    assert!(!one.condition.wait_for(Duration::ZERO).unwrap());
    guard.unlock().unwrap();
}

#[test]
fn a_thread_that_does_not_hold_the_lock_can_neither_wait_nor_notify() {
    let stage = Stage::<1>::new();
    let place = &stage.places[0];
    let refused = |what: &str| {
        for result in [
            place.condition.wait(),
            place.condition.notify_one(),
            place.condition.notify_all(),
        ] {
            assert_error!(result, NotHeld, "{what}");
        }
    };
    refused("free");
    let guard = place.lock.acquire().unwrap();
    on_another_thread(|| refused("held by another thread"));
    for name in ["", &"x".repeat(513)] {
        assert_error!(place.lock.condition(name).notify_one(), InvalidArgument);
    }
    guard.unlock().unwrap();
    let other = place.client.fenced_lock(place.lock.name());
    let _guard = other.acquire().unwrap();
    assert_error!(place.condition.notify_one(), InvalidArgument);
}

#[test]
fn an_interrupt_ends_a_wait_with_the_lock() {
    let stage = Stage::<1>::new();
    let place = &stage.places[0];
    let interrupt = Interrupt::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            let guard = place.lock.acquire().unwrap();
            let result = place.condition.wait_interruptibly(&interrupt);
            assert_error!(result, Interrupted);
            guard.check().unwrap();
            // Raised before: the lock is not released.
            let condition = &place.condition;
            let result = condition.wait_for_interruptibly(SOON.get(), &interrupt);
            assert_error!(result, Interrupted);
            guard.unlock().unwrap();
        });
        stage.await_waiting(1);
        interrupt.interrupt();
    });
    assert_eq!(stage.waiters(), (0, 0));
    // Notified before the interrupt: the notification counts.
    let interrupt = Interrupt::new();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let guard = place.lock.acquire().unwrap();
            let result = place.condition.wait_interruptibly(&interrupt);
            guard.unlock().unwrap();
            result
        });
        stage.await_waiting(1);
        let guard = place.lock.acquire().unwrap();
        place.condition.notify_one().unwrap();
        interrupt.interrupt();
        guard.unlock().unwrap();
        waiter.join().unwrap().unwrap();
    });
}
