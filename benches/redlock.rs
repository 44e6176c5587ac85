//! A free lock on a majority of servers taken and given back, beside the same scripts sent by hand to all
//! servers at once, and beside a pair on one server. Five servers and a client share two cores here, so each
//! server adds its own time: the client's core, which is idle while it waits, has two of them.

#[path = "support/mod.rs"]
mod support;

use criterion::Criterion;
use leasehold::{Lock, LockClient, RedLock};
use support::{
    Server, compare, pin_clients,
    raw_client::{LEASE_MILLIS, RawClient},
    server::{CLIENT_CORE, SERVER_CORE},
    table::{Bound, Table},
    time,
};

fn main() {
    pin_clients();
    let cores = [
        SERVER_CORE,
        SERVER_CORE,
        CLIENT_CORE,
        SERVER_CORE,
        CLIENT_CORE,
    ];
    let servers: Vec<Server> = cores.into_iter().map(Server::start_on).collect();
    let clients: Vec<LockClient> = servers.iter().map(Server::client).collect();
    let mut raw: Vec<RawClient> = servers.iter().map(RawClient::new).collect();
    let mut criterion = Criterion::default().configure_from_args();
    let mut table = Table::new();

    for count in [1, 3, 5] {
        let lock: Box<dyn Lock> = match count {
            1 => Box::new(clients[0].reentrant_lock("pair:ours")),
            _ => Box::new(RedLock::new(&clients[..count], "pair:ours")),
        };
        let what = format!("pair on {count}, to its floor");
        let pair = compare(
            &mut criterion,
            &what,
            || time(|| pair(&*lock)),
            || time(|| raw_pair(&mut raw[..count], "pair:floor")),
        );
        table.comparison(&what, &pair, Bound::AtMost(1.5));
    }
    let one = clients[0].reentrant_lock("pair:one");
    for (count, bound) in [(3, Bound::None), (5, Bound::AtMost(3.5))] {
        let lock = RedLock::new(&clients[..count], "pair:ours");
        let what = format!("pair on {count}, to a pair on one");
        let pairs = compare(
            &mut criterion,
            &what,
            || time(|| pair(&lock)),
            || time(|| pair(&one)),
        );
        table.comparison(&what, &pairs, bound);
    }

    let others: Vec<LockClient> = servers.iter().map(Server::client).collect();
    let (whole, maimed) = (
        RedLock::new(&clients, "pair:ours"),
        RedLock::new(&others, "pair:maimed"),
    );
    // Both sides run while two servers are stopped in turn: what counts is the same machine.
    let what = "pair on 5, 2 of them stopped, to 5";
    let halted = std::cell::Cell::new(false);
    let halt = |wanted: bool| {
        if halted.replace(wanted) != wanted {
            for server in &servers[3..] {
                server.signal(if wanted { "STOP" } else { "CONT" });
            }
        }
    };
    let pairs = compare(
        &mut criterion,
        what,
        || {
            halt(true);
            time(|| pair(&maimed))
        },
        || {
            halt(false);
            time(|| pair(&whole))
        },
    );
    halt(false);
    table.comparison(what, &pairs, Bound::AtMost(1.5));

    criterion.final_summary();
    table.print();
}

fn pair(lock: &dyn Lock) {
    lock.lock().expect("free");
    lock.unlock().expect("held");
}

/// Everything is sent before the first reply is read.
fn raw_pair(servers: &mut [RawClient], key: &str) {
    for server in servers.iter_mut() {
        server.begin_acquire(key, LEASE_MILLIS);
    }
    for server in servers.iter_mut() {
        server.end();
    }
    for server in servers.iter_mut() {
        server.begin_release(key);
    }
    for server in servers.iter_mut() {
        server.end();
    }
}
