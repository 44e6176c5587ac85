//! A connection that cannot be opened does not affect those that are open.

pub mod watchdog;

use std::collections::BTreeSet;

use crate::support::prelude::*;
use crate::support::run;

/// The number of open connections when the server accepts no more.
const OPEN: usize = 4;

/// The number of threads that share them.
const THREADS: usize = 6;

/// One line of `CLIENT LIST` for each connection of a caller, whose last command is a script.
fn callers(admin: &mut Connection) -> BTreeSet<String> {
    let mut list = redis::cmd("CLIENT");
    let list: String = list.arg("LIST").query(admin).expect("the server replies");
    let lines = list.lines().filter(|line| line.contains(" cmd=eval"));
    lines.map(str::to_owned).collect()
}

/// The ids of the connections of callers.
fn connections(admin: &mut Connection) -> BTreeSet<String> {
    let id = |line: &String| line.split(' ').next().map(str::to_owned);
    callers(admin).iter().filter_map(id).collect()
}

/// A connection whose request waits for the end of a pause has a flag.
fn is_waiting(line: &&String) -> bool {
    let flags = line.split(" flags=").nth(1);
    let flags = flags.and_then(|rest| rest.split(' ').next());
    flags.is_some_and(|flags| flags.contains('b'))
}

/// Opens this number of connections of callers, whose ids it returns.
pub fn open_links(admin: &mut Connection, client: &LockClient, links: usize) -> BTreeSet<String> {
    run(admin, "CLIENT PAUSE 600000 WRITE");
    thread::scope(|scope| {
        for at in 0..links {
            let lock = client.reentrant_lock(&format!("warm:{at}"));
            scope.spawn(move || pair(&lock));
            // A thread that comes while a connection is opened may share another one.
            eventually("the connection to be in use", || {
                callers(admin).iter().filter(is_waiting).count() == at + 1
            });
        }
        run(admin, "CLIENT UNPAUSE");
    });
    let open = connections(admin);
    assert_eq!(open.len(), links);
    open
}

/// The address of a server for its user `worker`, who may do everything.
fn user(server: &Server) -> String {
    server.run("ACL SETUSER worker on >secret ~* &* +@all");
    format!("redis://worker:secret@{}", server.address())
}

/// More threads than open connections make calls. A request that must not be repeated uses a new
/// connection if possible, and otherwise an open one.
fn goes_on(server: &Server, are_named: bool, refusal: &str) {
    let admin = &mut server.connection();
    // No renewal is due during the test, so that only callers have connections.
    let builder = builder(&server.url()).connections(THREADS as u32);
    let builder = builder.watchdog_lease(SOON.get() * 6);
    let builder = builder.name_connections(are_named);
    let client = builder.command_timeout(SOON.get()).build().unwrap();
    let before = open_links(admin, &client, OPEN);
    run(admin, refusal);
    let start = Instant::now();
    thread::scope(|scope| {
        for at in 0..THREADS {
            let lock = client.reentrant_lock(&format!("thread:{at}"));
            scope.spawn(move || (0..200).for_each(|_| pair(&lock)));
        }
    });
    let forced = client.force_unlock("free");
    assert!(!forced.expect("there are idle connections"));
    assert_eq!(connections(admin), before);
    let stats: String = redis::cmd("INFO").arg("stats").query(admin).unwrap();
    let mut lines = stats.lines();
    let refused = lines.find_map(|line| line.strip_prefix("rejected_connections:"));
    let refused: u64 = refused.expect("it is counted").trim().parse().unwrap();
    let most = start.elapsed().as_secs() * 2 + 3;
    assert!(refused <= most, "{refused} attempts to connect");
}

#[test]
fn a_server_that_accepts_no_connection_is_used_through_the_open_ones() {
    goes_on(&Server::start(), true, "CONFIG SET port 0");
}

/// The server accepts a further connection and closes it. Either the log-in or the first request
/// fails.
#[test]
fn too_many_clients_do_not_affect_open_connections() {
    for are_named in [true, false] {
        let most = format!("CONFIG SET maxclients {}", OPEN + 1);
        goes_on(&Server::start(), are_named, &most);
    }
}
