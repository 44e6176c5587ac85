//! Threads that wait for a permit.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use leasehold::{Error, Interrupt, Lease, LockClient};

use super::view::View;
use super::{counts, semaphore};
use crate::support::server::Server;
use crate::support::timing::{A_WHILE, LEASE, SLIP, SOON, eventually, millis, throughout, within};
use crate::support::traffic::Monitor;
use crate::support::{builder, unique};

/// With leases that no test waits for.
fn long(server: &Server) -> LockClient {
    let builder = builder(&server.url()).watchdog_lease(LEASE.get() * 60);
    builder.build().unwrap()
}

/// They are woken by messages, and one of them listens for all.
#[test]
fn waiting_threads_get_a_released_permit_soon_and_send_nothing_meanwhile() {
    let server = Server::start();
    let name = unique("wait");
    let (holder, waiter) = (long(&server), long(&server));
    let holder = holder.leased_semaphore(&name);
    holder.try_set_permits(1).unwrap();
    let guard = holder.acquire().unwrap();
    let semaphore = waiter.leased_semaphore(&name);
    thread::scope(|scope| {
        let waiting: Vec<_> = (0..3)
            .map(|_| scope.spawn(|| semaphore.acquire().unwrap().release().unwrap()))
            .collect();
        let mut monitor = Monitor::of(&server);
        eventually("a subscription", || {
            View::of(&server, &name).listeners() == 1
        });
        eventually("the threads to sleep", || {
            thread::sleep(millis(50));
            monitor.commands().is_empty()
        });
        guard.release().unwrap();
        for thread in waiting {
            thread.join().unwrap();
        }
    });
    let stats = waiter.stats();
    assert_eq!((stats.acquisitions, stats.wakeups_by_timeout), (3, 0));
    assert_eq!(counts(&holder), (1, 1));
}

#[test]
fn threads_of_a_client_get_permits_in_the_order_of_their_calls() {
    let server = Server::start();
    let name = unique("order");
    let (holder, waiter) = (long(&server), long(&server));
    let holder = holder.leased_semaphore(&name);
    holder.try_set_permits(1).unwrap();
    let guard = holder.acquire().unwrap();
    let semaphore = waiter.leased_semaphore(&name);
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for place in 0..4 {
            let thread = scope.spawn({
                let (semaphore, next) = (&semaphore, &next);
                move || {
                    let guard = semaphore.acquire().unwrap();
                    assert_eq!(next.fetch_add(1, Ordering::SeqCst), place);
                    guard.release().unwrap();
                }
            });
            throughout(A_WHILE.get(), "it waits", || !thread.is_finished());
        }
        guard.release().unwrap();
    });
    assert_eq!(next.into_inner(), 4);
}

/// All that one message announces.
#[test]
fn added_permits_wake_as_many_threads() {
    let server = Server::start();
    let name = unique("added");
    let (setter, waiter) = (long(&server), long(&server));
    let semaphore = waiter.leased_semaphore(&name);
    thread::scope(|scope| {
        let waiting: Vec<_> = (0..5)
            .map(|_| scope.spawn(|| semaphore.acquire().unwrap()))
            .collect();
        let mut view = View::of(&server, &name);
        eventually("a subscription", || view.listeners() == 1);
        let took = Instant::now();
        setter.leased_semaphore(&name).set_permits(5).unwrap();
        let guards: Vec<_> = waiting.into_iter().map(|w| w.join().unwrap()).collect();
        assert!(took.elapsed() < LEASE.get(), "{:?}", took.elapsed());
        assert_eq!(counts(&semaphore), (0, 5));
        drop(guards);
    });
}

#[test]
fn a_wait_ends_in_time_without_a_permit() {
    let server = Server::start();
    let semaphore = semaphore(&server, &unique("late"), 1);
    let guard = semaphore.acquire().unwrap();
    thread::scope(|scope| {
        for wait in [0, 100, 300] {
            let semaphore = &semaphore;
            scope.spawn(move || {
                let wait = millis(wait);
                let start = Instant::now();
                let none = semaphore.try_acquire(wait, Lease::RENEWED).unwrap();
                assert!(none.is_none());
                let took = start.elapsed();
                assert!(
                    took >= wait && took < wait + SLIP.get(),
                    "{wait:?}: {took:?}"
                );
            });
        }
    });
    guard.release().unwrap();
    assert_eq!(counts(&semaphore), (1, 1));
}

#[test]
fn a_wait_is_interrupted_and_the_next_thread_goes_on() {
    let server = Server::start();
    let semaphore = semaphore(&server, &unique("interrupt"), 1);
    let guard = semaphore.acquire().unwrap();
    let interrupt = Interrupt::new();
    thread::scope(|scope| {
        let first = scope.spawn(|| semaphore.acquire_interruptibly(Lease::RENEWED, &interrupt));
        throughout(A_WHILE.get(), "it waits", || !first.is_finished());
        let second = scope.spawn(|| semaphore.acquire().unwrap().release().unwrap());
        throughout(A_WHILE.get(), "it waits", || !second.is_finished());
        within(SLIP.get(), "the interrupt", || {
            interrupt.interrupt();
            let result = first.join().unwrap();
            assert!(
                matches!(result, Err(Error::Interrupted { .. })),
                "{result:?}"
            );
        });
        guard.release().unwrap();
        second.join().unwrap();
    });
    // Also before the call, although a permit is available.
    let wait = SOON.get();
    let result = semaphore.try_acquire_interruptibly(wait, Lease::RENEWED, &interrupt);
    assert!(
        matches!(result, Err(Error::Interrupted { .. })),
        "{result:?}"
    );
    let guard = semaphore.try_acquire_interruptibly(wait, Lease::RENEWED, &Interrupt::new());
    assert!(guard.unwrap().is_some());
    assert_eq!(counts(&semaphore), (1, 1));
}

/// Its request may succeed while other threads of its client wait.
#[test]
fn a_call_that_does_not_wait_asks_redis_although_other_threads_wait() {
    let server = Server::start();
    let name = unique("pass");
    let client = long(&server);
    let semaphore = client.leased_semaphore(&name);
    let interrupt = Interrupt::new();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| semaphore.acquire_interruptibly(Lease::RENEWED, &interrupt));
        eventually("a subscription", || {
            View::of(&server, &name).listeners() == 1
        });
        let mut monitor = Monitor::of(&server);
        assert!(semaphore.try_acquire_now().unwrap().is_none());
        assert!(monitor.commands().contains(&"EVALSHA".to_owned()));
        // A permit without a message: only a request notices it.
        server.ask::<()>(redis::cmd("SET").arg(&name).arg(1));
        drop(
            semaphore
                .try_acquire_now()
                .unwrap()
                .expect("it is available"),
        );
        waiting.join().unwrap().unwrap().release().unwrap();
    });
    assert_eq!(counts(&semaphore), (1, 1));
}

/// Nothing announces that a lease has ended.
#[test]
fn a_waiting_thread_gets_a_permit_whose_lease_ends() {
    let server = Server::start();
    let semaphore = semaphore(&server, &unique("ends"), 1);
    let lease = LEASE.get() / 2;
    let start = Instant::now();
    let guard = semaphore.acquire_with(Lease::fixed(lease)).unwrap();
    let next = semaphore.try_acquire(SOON.get(), Lease::RENEWED).unwrap();
    let took = start.elapsed();
    assert!(next.is_some());
    assert!(
        took >= lease - Duration::from_millis(2) && took < lease + SLIP.get(),
        "{took:?}"
    );
    assert!(guard.is_lost());
}

/// The user may not subscribe, so the thread polls.
#[test]
fn without_messages_permits_change_hands() {
    let server = Server::start();
    let mut acl = redis::cmd("ACL");
    let rules = ["on", ">secret", "~*", "+@all", "-subscribe", "-publish"];
    server.ask::<()>(acl.arg("SETUSER").arg("worker").arg(&rules));
    let url = server.url().replace("://", "://worker:secret@");
    let client = || {
        let builder = builder(&url).watchdog_lease(LEASE.get() * 60);
        builder.build().unwrap()
    };
    let name = unique("deaf");
    let (holder, waiter) = (client().leased_semaphore(&name), client());
    holder.try_set_permits(1).unwrap();
    let guard = holder.acquire().unwrap();
    thread::scope(|scope| {
        let semaphore = waiter.leased_semaphore(&name);
        let waiting = scope.spawn(move || semaphore.acquire().unwrap().release().unwrap());
        throughout(A_WHILE.get(), "it waits", || !waiting.is_finished());
        guard.release().unwrap();
        within(LEASE.get() * 2, "the next poll", || waiting.join().unwrap());
    });
}
