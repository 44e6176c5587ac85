//! Lock and unlock of a free `RedLock`. The floor is the same scripts on raw connections to all
//! servers at once; a second comparison is with one server. Five servers and a client share two
//! cores, so each server adds its own time. The client's core runs two of them, because it is idle
//! while the client waits.

#[path = "support/mod.rs"]
mod support;

use criterion::Criterion;
use leasehold::{Lock, LockClient, RedLock};
use support::{
    Server, compare,
    contention::{Load, enter, windows},
    is_list, pin_clients,
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
    for (count, bound) in [(3, Bound::None), (5, Bound::AtMost(3.0))] {
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

    if !is_list() {
        eight_threads(&mut table, &clients);
    }

    let other_clients: Vec<LockClient> = servers.iter().map(Server::client).collect();
    let (complete, degraded) = (
        RedLock::new(&clients, "pair:ours"),
        RedLock::new(&other_clients, "pair:degraded"),
    );
    // The servers are stopped for each round of one side, so that the sides alternate.
    let what = "pair on 5, 2 of them stopped, to 5";
    let stopped = std::cell::Cell::new(false);
    let stop = |wanted: bool| {
        if stopped.replace(wanted) != wanted {
            for server in &servers[3..] {
                server.signal(if wanted { "STOP" } else { "CONT" });
            }
        }
    };
    let pairs = compare(
        &mut criterion,
        what,
        || {
            stop(true);
            time(|| pair(&degraded))
        },
        || {
            stop(false);
            time(|| pair(&complete))
        },
    );
    stop(false);
    table.comparison(what, &pairs, Bound::AtMost(1.5));

    criterion.final_summary();
    table.print();
}

/// Eight threads of one process on one lock of five servers, to the pairs of one thread.
fn eight_threads(table: &mut Table, clients: &[LockClient]) {
    let [eight, one] = ["threads:8", "threads:1"].map(|name| RedLock::new(clients, name));
    let [eight, one] = windows([
        (&enter(&eight), Load::empty(8)),
        (&enter(&one), Load::empty(1)),
    ]);
    let ratio = eight.per_second() / one.per_second().max(1e-9);
    let sides = [eight, one].map(|side| format!("{:.0}/s", side.per_second()));
    let what = "8 threads on 5 servers: acquisitions, to one thread's pairs";
    table.figure(what, sides.into(), (ratio, " x"), Bound::AtLeast(10.0));
}

fn pair(lock: &dyn Lock) {
    lock.lock().expect("free");
    lock.unlock().expect("held");
}

/// Sends all requests before it reads the first reply.
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
