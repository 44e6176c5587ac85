//! In which process the holder of a lock is, as the commands tell it.

use leasehold::LockClient;
use redis::Cmd;
use serde_json::{Value, json};

use crate::locks::{OTHER_OWNER, client, hold, objects, plant, with_long_timeout};
use crate::program::Output;
use crate::support::deployment::{ClusterDeployment, Independent};
use crate::support::server::Server;
use crate::terminal::Terminal;

/// This process, as text and as JSON.
fn this_process(client: &LockClient, lock: &str) -> (String, Value) {
    let holder = client.holder(lock).unwrap().expect("this process");
    assert_eq!(holder.process_id, std::process::id());
    let json = json!({"host": holder.host, "process_id": holder.process_id});
    (holder.to_string(), json)
}

#[track_caller]
fn run(url: &str, args: &[&str]) -> Output {
    with_long_timeout(url).args(args).output().expect(0)
}

fn object(url: &str, args: &[&str]) -> Value {
    objects(&run(url, args)).remove(0)
}

#[test]
fn the_process_of_a_holder_is_shown() {
    let server = Server::start();
    let client = client(&server);
    let guard = hold(&client, "k");
    let (text, json) = this_process(&client, "k");
    let url = &server.url();
    let shown = run(url, &["show", "k"]).text();
    assert!(shown.contains(&format!("holder     {text}\n")), "{shown}");
    assert_eq!(object(url, &["show", "k", "--json"])["holder"], json);
    assert_eq!(object(url, &["list", "--json"])["holder"], json);
    // For scripts, whose columns stay.
    let listed = run(url, &["list"]).text();
    let owner = client.inspect("k").unwrap().owner.unwrap();
    assert!(
        listed.contains(&owner) && !listed.contains(&text),
        "{listed}"
    );
    let terminal = Terminal::start(url, "list").ends_with(0);
    assert!(terminal.contains(&text), "{terminal}");
    let freed = run(url, &["break", "--yes", "k"]).text();
    let expected = format!("freed k of {owner} ({text}; count 1");
    assert!(freed.contains(&expected), "{freed}");
    drop(guard);
}

#[test]
fn the_processes_of_readers_and_of_waiting_clients_are_shown() {
    let server = Server::start();
    let clients = [client(&server), client(&server)];
    let readers = clients.each_ref().map(|client| {
        let lock = client.read_write_lock("catalog");
        lock.read().acquire().unwrap()
    });
    let (text, json) = this_process(&clients[0], "catalog");
    let shown = run(&server.url(), &["show", "catalog"]).text();
    assert_eq!(
        shown.matches(&format!("({text}; count 1")).count(),
        2,
        "{shown}"
    );
    // There is no single owner.
    assert!(!shown.contains("holder"), "{shown}");
    let shown = object(&server.url(), &["show", "catalog", "--json"]);
    assert_eq!(shown["read_holds"][1]["holder"], json);
    assert_eq!(shown["holder"], Value::Null);
    drop(readers);
}

#[test]
fn without_the_permission_and_for_redisson_the_owner_is_shown() {
    let server = Server::start();
    let client = client(&server);
    let _guard = hold(&client, "k");
    plant(&server, b"java");
    let mut acl = Cmd::new();
    acl.arg(&["ACL", "SETUSER", "app", "on", ">pw", "~*", "&*", "+@all"]);
    server.ask::<()>(acl.arg("-client|list"));
    let may_not = format!("redis://app:pw@{}", server.address());
    let owner = client.inspect("k").unwrap().owner.unwrap();
    for (url, key, owner) in [(may_not, "k", &*owner), (server.url(), "java", OTHER_OWNER)] {
        let shown = run(&url, &["show", key]);
        assert!(shown.text().contains(owner), "{shown:?}");
        assert!(!shown.text().contains("holder"), "{shown:?}");
        assert_eq!(shown.err, "");
        assert!(
            object(&url, &["list", key, "--json"])
                .get("holder")
                .is_none()
        );
        let freed = run(&url, &["break", "--yes", key]).text();
        assert!(freed.contains(&format!("{owner} (count 1")), "{freed}");
    }
}

#[test]
fn each_server_of_a_deployment_knows_the_holders_of_its_locks() {
    let cluster = ClusterDeployment::shared();
    let urls = cluster.urls();
    let client = LockClient::builder_cluster(&urls).build().unwrap();
    let names: Vec<String> = (0..6).map(|number| format!("holders:{number}")).collect();
    let guards: Vec<_> = names.iter().map(|name| hold(&client, name)).collect();
    let listed = with_long_timeout(&urls.join(","));
    let listed = listed
        .args(["--cluster", "list", "holders:*", "--json"])
        .output();
    let listed = objects(&listed.expect(0));
    assert_eq!(listed.len(), names.len());
    for lock in listed {
        assert_eq!(lock["holder"]["process_id"], std::process::id(), "{lock}");
    }
    drop(guards);

    let servers = Independent::start(3);
    let guard = crate::locks::hold_everywhere(&servers, "k");
    let shown = with_long_timeout(&servers.urls().join(","));
    let shown = shown.args(["--redlock", "show", "k", "--json"]).output();
    let shown = objects(&shown.expect(0));
    assert_eq!(shown.len(), 3);
    for lock in shown {
        assert_eq!(lock["holder"]["process_id"], std::process::id(), "{lock}");
    }
    drop(guard);
}

#[test]
fn a_waiting_run_shows_the_process() {
    let server = Server::start();
    let client = client(&server);
    let guard = hold(&client, "k");
    let (text, _) = this_process(&client, "k");
    let mut terminal = Terminal::start(&server.url(), "run k -- echo ran");
    terminal.shows(&format!(", held by {text}"));
    guard.unlock().unwrap();
    // The owner id does not follow.
    assert_eq!(terminal.shows("\r\x1b[K"), "");
    terminal.shows("ran");
    terminal.ends_with(0);
}
