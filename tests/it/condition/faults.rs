//! Lost requests, lost messages, servers that restart, and servers that do not reply.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use leasehold::{Error, LockClient};

use super::{Place, await_waiting, keys, places, waiting};
use crate::faults::proxied_server::{ProxiedServer, is_unavailable};
use crate::support::proxy::Fault;
use crate::support::server::Server;
use crate::support::timing::{A_WHILE, LEASE, SLIP, SOON, eventually, throughout, within};
use crate::support::{builder, client, unique};

const FAULTS: [Fault; 3] = [
    Fault::SwallowReply,
    Fault::ResetBeforeReply,
    Fault::SwallowRequest,
];

pub fn proxied_client(proxied: &ProxiedServer) -> LockClient {
    let builder = proxied.builder(SLIP.get());
    builder.build().expect("the settings are valid")
}

/// Two threads wait, and one notification is sent, by clients whose requests are lost once.
#[test]
fn one_lost_request_of_each_step_changes_nothing() {
    let proxied = ProxiedServer::new();
    let server = &proxied.server;
    let ours = proxied_client(&proxied);
    let theirs = proxied.rival();
    for script in [
        "condition_wait",
        "release",
        "condition_notify",
        "acquire",
        "condition_end",
    ] {
        for fault in FAULTS {
            let name = unique("condition");
            let [place, other] = [&ours, &theirs].map(|client| Place::of(client, &name));
            let woken = AtomicU32::new(0);
            let wait = |place: &Place| {
                place.wait();
                woken.fetch_add(1, Ordering::SeqCst);
            };
            thread::scope(|scope| {
                let is_first = matches!(script, "condition_wait" | "release");
                let lost = is_first.then(|| proxied.fault_once(script, &fault));
                scope.spawn(|| wait(&place));
                await_waiting(server, &name, 1);
                eventually("the lock is free", || !other.lock.is_locked().unwrap());
                scope.spawn(|| wait(&other));
                await_waiting(server, &name, 2);
                let lost = lost.unwrap_or_else(|| proxied.fault_once(script, &fault));
                place.notify_one();
                eventually("one wakes", || woken.load(Ordering::SeqCst) == 1);
                throughout(A_WHILE.get(), "one waits", || {
                    (woken.load(Ordering::SeqCst), waiting(server, &name)) == (1, 1)
                });
                assert!(lost.load(Ordering::SeqCst), "{script}: no request was sent");
                proxied.proxy.clear_rules();
                place.notify_one();
            });
            assert_eq!(places(server, &name), 0, "{fault:?} of {script}");
        }
    }
}

/// The lock stays held, and no place is left.
#[test]
fn a_wait_that_cannot_begin_leaves_the_lock_held() {
    let proxied = ProxiedServer::new();
    let client = proxied_client(&proxied);
    for fault in FAULTS {
        let name = unique("condition");
        let place = Place::of(&client, &name);
        let guard = place.lock.acquire().unwrap();
        proxied.fault_always("condition_wait", &fault);
        let result = place.condition.wait_for(SOON.get());
        assert!(is_unavailable(&result), "{result:?}");
        guard.check().unwrap();
        proxied.proxy.clear_rules();
        eventually("no place is left", || places(&proxied.server, &name) == 0);
        guard.unlock().unwrap();
    }
}

/// Without any message, a waiter learns of its notification from the renewal of its place.
#[test]
fn a_notification_without_messages_arrives_with_a_renewal() {
    let proxied = ProxiedServer::new();
    let ours = proxied_client(&proxied);
    let name = unique("condition");
    let place = Place::of(&ours, &name);
    proxied.proxy.on_message(|_, _| false);
    thread::scope(|scope| {
        let waiter = scope.spawn(|| place.wait());
        await_waiting(&proxied.server, &name, 1);
        let other = Place::of(&proxied.rival(), &name);
        within(LEASE.get() + SLIP.get(), "the wake-up", || {
            other.notify_one();
            waiter.join().unwrap();
        });
    });
}

/// All waiting threads wake up, which is a spurious wake-up.
#[test]
fn waiters_wake_up_when_redis_has_lost_the_keys() {
    let server = Server::start();
    let clients = [client(&server.url()), client(&server.url())];
    for restart in [false, true] {
        let name = unique("condition");
        thread::scope(|scope| {
            for number in 0..4 {
                let place = Place::of(&clients[number % 2], &name);
                scope.spawn(move || place.wait());
            }
            await_waiting(&server, &name, 4);
            let lock = clients[0].reentrant_lock(&name);
            eventually("the lock is free", || !lock.is_locked().unwrap());
            match restart {
                true => server.restart_empty(),
                false => server.ask::<()>(&redis::cmd("FLUSHALL")),
            }
        });
    }
}

/// The places of all waiting threads of a client are renewed together.
#[test]
fn a_key_of_another_type_ends_no_wait_of_another_condition() {
    let server = Server::start();
    let client = client(&server.url());
    let names = [unique("condition"), unique("condition")];
    let [broken, whole] = names.each_ref().map(|name| Place::of(&client, name));
    thread::scope(|scope| {
        let ended = scope.spawn(|| broken.wait());
        let waiter = scope.spawn(|| whole.wait());
        names
            .iter()
            .for_each(|name| await_waiting(&server, name, 1));
        let key = &keys(&names[0])[1];
        server.ask::<()>(redis::cmd("SET").arg(key).arg("text"));
        ended.join().unwrap();
        throughout(LEASE.get() * 2, "the other waits", || !waiter.is_finished());
        whole.notify_one();
        waiter.join().unwrap();
        assert_eq!(server.ask::<String>(redis::cmd("GET").arg(key)), "text");
    });
}

/// Its guards are not held any more, and another wait is refused.
#[test]
fn a_thread_that_cannot_acquire_the_lock_again_gets_an_error() {
    let proxied = ProxiedServer::new();
    let (ours, theirs) = (proxied_client(&proxied), proxied.rival());
    let name = unique("condition");
    let [place, other] = [&ours, &theirs].map(|client| Place::of(client, &name));
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let outer = place.lock.acquire().unwrap();
            place.lock.lock().unwrap();
            let result = place.condition.wait();
            assert!(is_unavailable(&result), "{result:?}");
            assert!(matches!(outer.check(), Err(Error::NotHeld { .. })));
            assert_eq!(place.lock.hold_count(), 0);
            for result in [place.lock.unlock(), place.condition.wait(), outer.unlock()] {
                assert!(matches!(result, Err(Error::NotHeld { .. })), "{result:?}");
            }
        });
        await_waiting(&proxied.server, &name, 1);
        let next = scope.spawn(|| other.wait());
        await_waiting(&proxied.server, &name, 2);
        proxied.fault_always("acquire", &Fault::SwallowRequest);
        other.notify_one();
        waiter.join().unwrap();
        // The notification that it could not take goes to the next thread.
        within(LEASE.get() * 2, "the next one", || next.join().unwrap());
        proxied.proxy.clear_rules();
        place.lock.acquire().unwrap().unlock().unwrap();
    });
}

/// A thread that is notified and cannot tell it keeps the lock. Its notification is not passed on.
#[test]
fn a_wait_ends_although_its_place_cannot_be_ended() {
    let proxied = ProxiedServer::new();
    // No place ends by its time.
    let builder = proxied.builder(SLIP.get()).watchdog_lease(LEASE.get() * 10);
    let (ours, theirs) = (builder.build().unwrap(), proxied.rival());
    let name = unique("condition");
    let [place, other] = [&ours, &theirs].map(|client| Place::of(client, &name));
    thread::scope(|scope| {
        let waiter = scope.spawn(|| place.wait());
        await_waiting(&proxied.server, &name, 1);
        scope.spawn(|| other.wait());
        await_waiting(&proxied.server, &name, 2);
        proxied.fault_always("condition_end", &Fault::SwallowRequest);
        other.notify_one();
        waiter.join().unwrap();
        proxied.proxy.clear_rules();
        eventually("its end", || places(&proxied.server, &name) == 1);
        throughout(A_WHILE.get(), "the other waits", || {
            waiting(&proxied.server, &name) == 1
        });
        other.notify_one();
    });
}

/// Places are renewed, and waiters are notified. Only new waiters are refused.
#[test]
fn a_server_without_memory_keeps_its_waiters() {
    let server = Server::start();
    // Its place outlasts those of the others, which are renewed beside it.
    let lasting = builder(&server.url()).watchdog_lease(LEASE.get() * 10);
    let clients = [
        client(&server.url()),
        lasting.build().unwrap(),
        client(&server.url()),
    ];
    let name = unique("condition");
    let [there, beside, here] = clients.each_ref().map(|client| Place::of(client, &name));
    let memory = |limit: &str| {
        let mut config = redis::cmd("CONFIG");
        server.ask::<()>(config.arg("SET").arg("maxmemory").arg(limit));
    };
    thread::scope(|scope| {
        let waiter = scope.spawn(|| there.wait());
        await_waiting(&server, &name, 1);
        let second = scope.spawn(|| beside.wait());
        await_waiting(&server, &name, 2);
        let guard = here.lock.acquire().unwrap();
        memory("1");
        throughout(LEASE.get() * 2, "they wait", || {
            waiting(&server, &name) == 2
        });
        let result = here.condition.wait();
        assert!(matches!(result, Err(Error::Redis { .. })), "{result:?}");
        guard.check().unwrap();
        here.condition.notify_one().unwrap();
        assert_eq!((waiting(&server, &name), places(&server, &name)), (1, 2));
        memory("0");
        here.condition.notify_one().unwrap();
        guard.unlock().unwrap();
        waiter.join().unwrap();
        second.join().unwrap();
    });
}
