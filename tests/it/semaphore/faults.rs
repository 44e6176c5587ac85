//! Semaphores under faults: the number of permits is exact after each of them.

mod combined;
mod hangs;
mod late_copies;
mod lost_replies;

use std::thread;

use leasehold::{LockClient, Semaphore};

use crate::faults::proxied_server::ProxiedServer;
use crate::support::server::Server;
use crate::support::timing::{A_WHILE, SLIP, SOON, eventually, millis, throughout, within};
use crate::support::{builder, client, unique};

/// A client for which a lost reply costs a quarter of a second.
fn hasty(proxied: &ProxiedServer) -> LockClient {
    let client = proxied.builder(SLIP.get()).build();
    client.expect("the settings are valid")
}

/// The semaphore of a client behind the proxy, and its view without the proxy.
struct Proxied {
    proxied: ProxiedServer,
    semaphore: Semaphore,
    view: Semaphore,
}

impl Proxied {
    fn with(permits: u32) -> Self {
        let proxied = ProxiedServer::new();
        let name = unique("permits");
        let view = client(&proxied.server.url()).semaphore(&name);
        assert!(view.try_set_permits(permits).unwrap());
        let semaphore = hasty(&proxied).semaphore(&name);
        // Opens a connection, so that the first attempt of a call is sent at once.
        semaphore.available().unwrap();
        Self {
            proxied,
            semaphore,
            view,
        }
    }

    fn free(&self) -> i32 {
        self.view.available().unwrap()
    }

    /// The number of free permits is this, and stays so.
    #[track_caller]
    fn assert_stays(&self, free: i32) {
        throughout(A_WHILE.get() * 3, "the number of free permits", || {
            self.free() == free
        });
    }
}

/// Messages are missed while there is no subscription. A new subscription makes up for that.
#[test]
fn a_killed_subscription_delays_a_waiting_thread_only_briefly() {
    let server = Server::start();
    let waiting = client(&server.url()).semaphore("slots");
    thread::scope(|scope| {
        for _ in 0..3 {
            let waiter = scope.spawn(|| waiting.acquire(1));
            throughout(A_WHILE.get(), "it waits", || !waiter.is_finished());
            let kill = redis::cmd("CLIENT")
                .arg("KILL")
                .arg("TYPE")
                .arg("PUBSUB")
                .clone();
            server.ask::<()>(&kill);
            // By a program that publishes nothing, so the client cannot miss a message.
            server.ask::<()>(redis::cmd("SET").arg("slots").arg("1"));
            within(SOON.get() / 4, "a permit", || {
                waiter.join().unwrap().unwrap();
            });
        }
    });
}

/// A waiting thread polls while it may not subscribe.
#[test]
fn without_permission_to_subscribe_waiting_still_works() {
    let server = Server::start();
    let mut user = redis::cmd("ACL");
    user.arg("SETUSER").arg("worker").arg("on").arg(">secret");
    server.ask::<()>(user.arg(&["~*", "+@all", "-subscribe", "&*"]));
    let url = format!("redis://worker:secret@{}", server.address());
    let theirs = builder(&url).build().unwrap();
    let semaphore = client(&server.url()).semaphore("slots");
    let waiting = theirs.semaphore("slots");
    thread::scope(|scope| {
        let waiter = scope.spawn(|| waiting.acquire(1));
        eventually("it polls", || theirs.stats().wakeups_by_timeout > 1);
        semaphore.release(1).unwrap();
        within(SOON.get() / 4, "a permit", || {
            waiter.join().unwrap().unwrap();
        });
    });
}

/// The waiting thread continues with the new server, which knows no scripts.
#[test]
fn a_waiting_thread_survives_a_restart() {
    let server = Server::start();
    let (ours, theirs) = (client(&server.url()), client(&server.url()));
    let semaphore = super::semaphore(&ours, 0);
    let waiting = theirs.semaphore(semaphore.name());
    thread::scope(|scope| {
        let waiters = [(); 2].map(|()| scope.spawn(|| waiting.acquire(1)));
        throughout(A_WHILE.get(), "they wait", || {
            waiters.iter().all(|one| !one.is_finished())
        });
        server.restart_empty();
        throughout(millis(50), "they wait", || {
            waiters.iter().all(|one| !one.is_finished())
        });
        assert!(semaphore.try_set_permits(2).unwrap());
        within(SOON.get(), "their permits", || {
            waiters.map(|one| one.join().unwrap().unwrap())
        });
    });
    assert_eq!(semaphore.available().unwrap(), 0);
}

/// None is free until some are set, added or released.
#[test]
fn a_restart_that_loses_the_permits_leaves_none() {
    let server = Server::start();
    let (ours, theirs) = (client(&server.url()), client(&server.url()));
    let semaphore = super::semaphore(&ours, 3);
    let other = theirs.semaphore(semaphore.name());
    semaphore.acquire(2).unwrap();
    server.restart_empty();
    assert!(!other.try_acquire(1, A_WHILE.get()).unwrap());
    assert_eq!(semaphore.available().unwrap(), 0);
    thread::scope(|scope| {
        let waiter = scope.spawn(|| other.acquire(1));
        throughout(A_WHILE.get(), "it waits", || !waiter.is_finished());
        // Those that were taken before the restart.
        semaphore.release(2).unwrap();
        within(SOON.get() / 4, "a permit", || {
            waiter.join().unwrap().unwrap();
        });
    });
    assert_eq!(semaphore.available().unwrap(), 1);
    assert!(!other.try_set_permits(3).unwrap(), "it exists");
    semaphore.add_permits(1).unwrap();
    assert_eq!(other.drain().unwrap(), 2);
}
