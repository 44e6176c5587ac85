//! The names of connections in `CLIENT LIST`, and which process holds a lock.

use crate::support::prelude::*;

/// The names of all connections to the server except the test's own, which has none.
fn names(server: &Server) -> Vec<String> {
    let list: String = server.ask(redis::cmd("CLIENT").arg("LIST"));
    let name = |line: &str| {
        let field = |name| line.split(' ').find_map(|field| field.strip_prefix(name));
        let is_own = field("cmd=") == Some("client|list") || field("cmd=") == Some("client");
        field("name=").filter(|_| !is_own).map(str::to_owned)
    };
    list.lines().filter_map(name).collect()
}

/// The UUID of the client that holds this lock.
fn id_of_holder(client: &LockClient, lock: &str) -> String {
    let owner = client.inspect(lock).unwrap().owner.unwrap();
    owner.split(':').next().unwrap().to_owned()
}

/// Uses all kinds of connections: of a caller, of the watchdog, and of a thread that waits.
fn use_all_connections(builder: &LockClientBuilder, server: &Server) {
    let [holder, waiter] = [(); 2].map(|()| builder.clone().build().unwrap());
    let lock = unique("named");
    let guard = holder.reentrant_lock(&lock).acquire().unwrap();
    let prefix = format!("leasehold:{}:", id_of_holder(&holder, &lock));
    let process = format!(":{}", std::process::id());
    thread::scope(|scope| {
        let waiting = scope.spawn(|| waiter.reentrant_lock(&lock).acquire()?.unlock());
        eventually("a renewal and a subscription", || {
            let (names, renewals) = (names(server), holder.stats().renewals);
            let own = names.iter().filter(|name| name.starts_with(&prefix));
            renewals > 0 && own.count() >= 2 && names.len() >= 4
        });
        for name in names(server) {
            let parts: Vec<&str> = name.split(':').collect();
            assert_eq!((parts.len(), parts[0]), (4, "leasehold"), "{name:?}");
            assert!(!parts[2].is_empty() && name.ends_with(&process), "{name:?}");
        }
        guard.unlock().unwrap();
        waiting.join().unwrap().unwrap();
    });
}

/// The name follows the log-in and the choice of the database.
#[test]
fn each_connection_of_a_client_tells_its_host_and_process() {
    let server = Server::options().password("secret").start();
    for url in [server.url(), format!("{}/3", server.url())] {
        use_all_connections(&builder(&url), &server);
    }
}

#[test]
fn the_holder_is_the_process_that_has_the_lock() {
    let server = Server::start();
    let client = client(&server.url());
    let mut process = Process::start("hold", &[&server.url(), "k"]);
    assert_eq!(process.read_line(), "held");
    let holder = client.holder("k").unwrap().expect("a holder");
    assert_eq!(holder.process_id, process.id());
    assert_eq!(Some(holder.owner), client.inspect("k").unwrap().owner);
    process.send_line("release");
    process.finish();
    assert_eq!(client.holder("k").unwrap(), None);
}

#[test]
fn an_owner_without_a_named_connection_is_unknown() {
    let server = Server::start();
    let client = client(&server.url());
    // As Redisson writes it, whose connections have no such name.
    let redisson = "6ba7b810-9dad-11d1-80b4-00c04fd430c8:17";
    server.ask::<()>(redis::cmd("HSET").arg("java").arg(redisson).arg(1));
    server.ask::<()>(redis::cmd("CLIENT").arg("SETNAME").arg("redisson"));
    assert_eq!(client.holder("java").unwrap(), None);
    let nameless = builder(&server.url()).name_connections(false);
    let nameless = nameless.build().unwrap();
    let guard = nameless.reentrant_lock("k").acquire().unwrap();
    assert_eq!(client.holder("k").unwrap(), None);
    guard.unlock().unwrap();
}
