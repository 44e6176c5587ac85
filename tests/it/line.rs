//! The line of a lock: a release calls one of the waiting clients.
//!
//! The simulation has clients that die or do not answer while they wait, and lines that are lost.

use redis::Commands;

use crate::support::prelude::*;

mod redisson;
mod strangers;
mod threads;
mod unusable;

/// An owner id of Redisson.
pub const JAVA: &str = "5cbc2e8c-0b0c-4c5e-9c0e-7d6d0a3a8d11:57";

const CLIENTS: usize = 5;

fn line(name: &str) -> String {
    format!("leasehold_line:{{{name}}}")
}

/// The places of a lock, without the mark of a call.
pub fn places(server: &Server, name: &str) -> Vec<String> {
    let all: Vec<String> = server.ask(redis::cmd("ZRANGE").arg(line(name)).arg(0).arg(-1));
    all.into_iter().filter(|place| !place.is_empty()).collect()
}

pub fn is_waiting(server: &Server, name: &str, clients: usize) -> bool {
    places(server, name).len() == clients
        && usize::try_from(in_redis::listeners(server, name)) == Ok(clients)
}

/// Adds a place that is before those of all clients.
pub fn add_place(server: &Server, name: &str, place: &str) {
    let _: u32 = server.connection().zadd(line(name), place, 1).unwrap();
}

/// A connection that listens to these channels, and answers no call.
pub fn listen(server: &Server, channels: &[String]) -> Connection {
    let mut connection = server.connection();
    let mut subscribe = redis::cmd("SUBSCRIBE");
    subscribe.arg(channels).exec(&mut connection).unwrap();
    connection
}

/// Adds the place of a client that never answers: its process is stopped, or its host has vanished
/// without closing its connections.
fn add_silent(server: &Server, name: &str) -> Connection {
    let channel = "redisson_lock__channel:silent".to_owned();
    add_place(server, name, &channel);
    listen(server, &[channel])
}

pub type Make = fn(&LockClient, &str) -> Box<dyn Lock>;

pub const PLAIN: Make = |client, name| Box::new(client.reentrant_lock(name));
const WRITE: Make = |client, name| Box::new(client.read_write_lock(name).write());
pub const FAIR: Make = |client, name| Box::new(client.fair_lock(name));
pub const READ: Make = |client, name| Box::new(client.read_write_lock(name).read());

/// A lock that is held, and that of a client that waits for it.
const KINDS: [(Make, Make); 4] = [(PLAIN, PLAIN), (WRITE, WRITE), (WRITE, READ), (READ, WRITE)];

fn hold_by(make: Make, client: &LockClient, name: &str) -> Box<dyn Lock> {
    let lock = make(client, name);
    lock.lock_with(long()).unwrap();
    lock
}

pub fn hold(client: &LockClient, name: &str) -> Box<dyn Lock> {
    hold_by(PLAIN, client, name)
}

#[test]
fn clients_get_a_lock_in_their_order_by_few_requests_each() {
    let server = Server::start();
    let name = unique("ordered");
    let held = hold(&client(&server.url()), &name);
    let (got, order) = unbounded();
    thread::scope(|scope| {
        for number in 0..CLIENTS {
            let (got, lock) = (got.clone(), client(&server.url()).reentrant_lock(&name));
            scope.spawn(move || {
                lock.lock().unwrap();
                got.send(number).unwrap();
                lock.unlock().unwrap();
            });
            eventually("it to wait", || is_waiting(&server, &name, number + 1));
        }
        let mut monitor = Monitor::of(&server);
        held.unlock().unwrap();
        let order: Vec<usize> = order.iter().take(CLIENTS).collect();
        assert_eq!(order, Vec::from_iter(0..CLIENTS));
        eventually("all to be through", || places(&server, &name).is_empty());
        let scripts = monitor.commands_but_pings().into_iter();
        let scripts = scripts.filter(|command| command == "EVALSHA").count();
        // The third one is that of a client that was not called for half a second.
        assert!(scripts <= 1 + 3 * CLIENTS, "{scripts}");
    });
}

#[test]
fn a_call_that_does_not_wait_may_take_a_lock_that_is_reserved() {
    for (holder, waiter) in KINDS {
        let server = Server::start();
        let name = unique("reserved");
        let held = hold_by(holder, &client(&server.url()), &name);
        let _silent = add_silent(&server, &name);
        held.unlock().unwrap();
        let other = waiter(&client(&server.url()), &name);
        assert!(other.try_lock(millis(0), Lease::RENEWED).unwrap());
        assert_eq!(places(&server, &name).len(), 1, "the other keeps its place");
    }
}

/// A sleep after a reply is no time without a reply. Otherwise the last request would have no time.
#[test]
fn a_client_that_is_shut_down_after_a_long_sleep_leaves_the_line() {
    let limit = millis(300);
    let server = Server::start();
    let busy = client(&server.url());
    let waits_and_leaves = |name: &str, wait: &(dyn Fn(&LockClient) -> bool + Sync)| {
        let builder = LockClient::builder(&server.url()).command_timeout(limit);
        let ours = builder.give_up_after(limit).build().unwrap();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| wait(&ours));
            eventually("it to wait", || in_redis::listeners(&server, name) > 0);
            thread::sleep(limit * 2);
            ours.shutdown(limit).unwrap();
            assert!(waiting.join().unwrap(), "{name}: it is shut down");
        });
        let is_left: bool = server.ask(redis::cmd("EXISTS").arg(line(name)));
        assert!(!is_left, "{name}: its place is left");
    };
    for (holder, waiter) in KINDS {
        let name = unique("slept");
        let held = hold_by(holder, &busy, &name);
        waits_and_leaves(&name, &|ours| {
            matches!(waiter(ours, &name).lock(), Err(Error::ShutDown { .. }))
        });
        held.unlock().unwrap();
    }
    let name = unique("permits");
    busy.semaphore(&name).add_permits(0).unwrap();
    waits_and_leaves(&name, &|ours| {
        let result = ours.semaphore(&name).acquire(1);
        matches!(result, Err(Error::ShutDown { .. }))
    });
}

/// A client of Redisson does not call the line. Its message wakes the first two clients, and no
/// others. The first of these holds has no time to live.
#[test]
fn the_first_two_clients_listen_to_a_holder_of_redisson() {
    let server = Server::start();
    let plain = vec![(JAVA.to_owned(), "1")];
    let writer = vec![("mode".to_owned(), "write"), (format!("{JAVA}:write"), "1")];
    for (waiter, fields, lease, channel) in [
        (PLAIN, plain.clone(), None, "redisson_lock__channel"),
        (PLAIN, plain, Some(600_000), "redisson_lock__channel"),
        (WRITE, writer.clone(), Some(600_000), "redisson_rwlock"),
        (READ, writer, Some(600_000), "redisson_rwlock"),
    ] {
        let name = unique("java");
        let channel = format!("{channel}:{{{name}}}");
        let _: () = server.connection().hset_multiple(&name, &fields).unwrap();
        if let Some(lease) = lease {
            let _: bool = server.connection().pexpire(&name, lease).unwrap();
        }
        thread::scope(|scope| {
            for number in 0..4 {
                let lock = waiter(&client(&server.url()), &name);
                scope.spawn(move || {
                    lock.lock().unwrap();
                    lock.unlock().unwrap();
                });
                eventually("it to wait", || places(&server, &name).len() == number + 1);
            }
            let listeners = || server.subscribers(&channel);
            eventually("two to listen", || listeners() == 2);
            throughout(A_WHILE.get(), "two listen", || listeners() == 2);
            let _: u32 = server.connection().del(&name).unwrap();
            let _: u32 = server.connection().publish(&channel, "0").unwrap();
            within(SOON.get() / 5, "all", || {
                eventually("all to be through", || places(&server, &name).is_empty());
            });
        });
    }
}

/// Many clients that wait for a lock send few requests while another client holds it. They begin and
/// end one after another, so that other tests have the processors, too.
#[test]
#[ignore = "waits for a minute"]
fn many_waiting_clients_send_few_requests() {
    const CROWD: usize = 1_000;
    const APART: Duration = Duration::from_millis(15);
    let server = Server::start();
    let name = unique("crowd");
    let held = client(&server.url()).reentrant_lock(&name);
    held.lock_with(Lease::fixed(Duration::from_secs(600)))
        .unwrap();
    let interrupts: Vec<Interrupt> = (0..CROWD).map(|_| Interrupt::new()).collect();
    thread::scope(|scope| {
        for interrupt in &interrupts {
            let client = client(&server.url());
            let lock = client.reentrant_lock(&name);
            scope.spawn(move || {
                lock.lock_interruptibly(Lease::RENEWED, interrupt)
                    .unwrap_err()
            });
            thread::sleep(APART);
        }
        eventually("all to wait", || places(&server, &name).len() == CROWD);
        let before = traffic::scripts(&server);
        thread::sleep(Duration::from_secs(60));
        let sent = traffic::scripts(&server) - before;
        for interrupt in &interrupts {
            interrupt.interrupt();
            thread::sleep(APART);
        }
        assert!(sent <= 50 * 60, "{sent} requests in a minute");
    });
    held.unlock().unwrap();
}
