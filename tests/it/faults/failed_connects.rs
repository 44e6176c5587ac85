//! A connection that cannot be opened does not affect those that are open.

use std::collections::BTreeSet;
use std::fs::File;

use crate::support::prelude::*;
use crate::support::{connect, run};

/// The number of open connections when the server accepts no more.
const OPEN: usize = 4;

/// The number of threads that share them.
const THREADS: usize = 6;

/// The name of the master for the sentinels.
const MASTER: &str = "mymaster";

/// The number of calls of each of these threads.
const CALLS: usize = 25;

/// No renewal is due during the test, so that only callers have connections.
fn settings(url: &str) -> LockClientBuilder {
    with_long_timeouts(builder(url))
}

fn with_long_timeouts(builder: LockClientBuilder) -> LockClientBuilder {
    builder
        .connections(u32::try_from(THREADS).expect("a few"))
        .watchdog_lease(SOON.get() * 6)
        .command_timeout(SOON.get())
}

fn client(url: &str) -> LockClient {
    settings(url).build().expect("the settings are valid")
}

/// One line of `CLIENT LIST` for each connection of a caller, whose last command is a script.
fn callers(admin: &mut Connection) -> Vec<String> {
    let mut list = redis::cmd("CLIENT");
    let list: String = list.arg("LIST").query(admin).expect("the server replies");
    let lines = list.lines().filter(|line| line.contains(" cmd=eval"));
    lines.map(str::to_owned).collect()
}

/// The ids of the connections of callers.
fn connections(admin: &mut Connection) -> BTreeSet<u64> {
    let callers = callers(admin);
    let ids = callers
        .iter()
        .filter_map(|line| line.strip_prefix("id=")?.split(' ').next());
    ids.map(|id| id.parse().expect("a number")).collect()
}

/// In a cluster, all of these locks are on one server.
fn take_and_release(client: &LockClient, lock: &str) -> leasehold::Result<()> {
    let lock = client.reentrant_lock(&format!("{{one}}:{lock}"));
    let taken = lock.try_acquire(Duration::ZERO, Lease::RENEWED)?;
    taken.expect("no other thread uses this name").unlock()
}

/// Scripts wait until `UNPAUSE`.
fn pause_scripts(admin: &mut Connection) {
    let longest = SOON.get().as_millis();
    run(admin, &format!("CLIENT PAUSE {longest} WRITE"));
}

/// Waits until this many callers wait for the reply to a script, which the server shows by a flag.
fn callers_wait(admin: &mut Connection, expected: usize) {
    let waits = |line: &String| {
        let flags = line.split(" flags=").nth(1);
        let flags = flags.and_then(|rest| rest.split(' ').next());
        flags.is_some_and(|flags| flags.contains('b'))
    };
    eventually("the connections to be in use", || {
        callers(admin).iter().filter(|line| waits(line)).count() == expected
    });
}

/// Opens the connections, by as many concurrent calls.
fn open_connections(client: &LockClient, admin: &mut Connection) {
    pause_scripts(admin);
    thread::scope(|scope| {
        for at in 0..OPEN {
            scope.spawn(move || {
                take_and_release(client, &format!("warm:{at}")).expect("the server replies");
            });
        }
        callers_wait(admin, OPEN);
        run(admin, "CLIENT UNPAUSE");
    });
    assert_eq!(connections(admin).len(), OPEN);
}

/// More threads than open connections make calls, and all of them succeed.
fn shared_by_all(client: &LockClient) {
    thread::scope(|scope| {
        for at in 0..THREADS {
            scope.spawn(move || {
                for call in 0..CALLS {
                    let result = take_and_release(client, &format!("thread:{at}"));
                    result.unwrap_or_else(|error| panic!("call {call} of thread {at}: {error}"));
                }
            });
        }
    });
}

/// All calls succeed with the connections that are open when `refuse` returns.
fn goes_on(url: &str, admin: &mut Connection, refuse: impl FnOnce(&mut Connection)) -> LockClient {
    let client = client(url);
    open_connections(&client, admin);
    let before = connections(admin);
    refuse(admin);
    shared_by_all(&client);
    take_and_release(&client, "one more").expect("there are idle connections");
    assert_eq!(connections(admin), before);
    client
}

/// A request that must not be repeated uses a new connection if possible, and otherwise an open
/// one.
fn is_asked_once(client: &LockClient, admin: &mut Connection) {
    let before = connections(admin);
    let forced = client.force_unlock("free");
    assert!(!forced.expect("there are idle connections"));
    assert_eq!(connections(admin), before);
}

#[test]
fn a_server_that_accepts_no_connection_is_used_through_the_open_ones() {
    let server = Server::start();
    let admin = &mut server.connection();
    let client = goes_on(&server.url(), admin, |admin| {
        run(admin, "CONFIG SET port 0");
    });
    is_asked_once(&client, admin);
    let server = Server::start();
    let admin = &mut server.connection();
    let client = goes_on(&server.unix_url(), admin, |_| {
        std::fs::remove_file(server.socket()).expect("our own directory");
    });
    is_asked_once(&client, admin);
}

/// The role: has no file descriptor left for a further connection.
pub fn without_descriptors(arguments: &[&str]) {
    let &[deployment, urls, server] = arguments else {
        panic!("{arguments:?}")
    };
    let urls = urls.split(',');
    let client = with_long_timeouts(match deployment {
        "sentinel" => LockClient::builder_sentinel(urls, MASTER),
        "cluster" => LockClient::builder_cluster(urls),
        _ => LockClient::builder(server),
    });
    let client = client.build().expect("the settings are valid");
    let mut admin = connect(server);
    open_connections(&client, &mut admin);
    let before = connections(&mut admin);
    let open = || File::open("/dev/null").ok();
    let files: Vec<File> = std::iter::from_fn(open).collect();
    shared_by_all(&client);
    drop(files);
    assert_eq!(connections(&mut admin), before);
    child::send_line("done");
}

fn runs_out_of_descriptors(deployment: &str, urls: &[String], server: &Server) {
    let few = ["sh", "-c", "ulimit -n 64 && exec \"$@\"", "sh"];
    let arguments = [deployment, &urls.join(","), &server.url()];
    let child = Process::start_under(&few, "without_descriptors", &arguments);
    assert_eq!(child.finish(), ["done"]);
}

/// The sentinels cannot be reached either.
#[test]
fn a_process_without_file_descriptors_uses_its_open_connections() {
    let server = Server::start();
    runs_out_of_descriptors("one", &[], &server);
    let deployment = SentinelDeployment::start();
    assert_eq!(deployment.master_name(), MASTER);
    let urls = deployment.sentinel_urls();
    runs_out_of_descriptors("sentinel", &urls, deployment.master());
    let cluster = ClusterDeployment::start();
    let primary = cluster.primary_of(cluster.slot_of("{one}"));
    runs_out_of_descriptors("cluster", &cluster.urls(), primary);
}
