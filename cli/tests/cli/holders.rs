//! In which process the holder of a lock is, as the commands tell it.

use leasehold::LockClient;
use serde_json::{Value, json};

use crate::locks::{
    OTHER_OWNER, ask, client, client_of, hold, hold_everywhere, object, objects_at, plant, text,
    with_user,
};
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

#[test]
fn the_process_of_a_holder_is_shown() {
    let server = Server::start();
    let client = client(&server);
    let guard = hold(&client, "k");
    let (process, json) = this_process(&client, "k");
    let shown = text(&server, "show k");
    assert!(
        shown.contains(&format!("holder     {process}\n")),
        "{shown}"
    );
    for words in ["show k", "list"] {
        assert_eq!(object(&server, words)["holder"], json);
    }
    // For scripts, whose columns stay.
    let listed = text(&server, "list");
    let owner = client.inspect("k").unwrap().owner.unwrap();
    let has_owner_only = listed.contains(&owner) && !listed.contains(&process);
    assert!(has_owner_only, "{listed}");
    let terminal = Terminal::start(&server.url(), "list").ends_with(0);
    assert!(terminal.contains(&process), "{terminal}");
    let freed = text(&server, "break --yes k");
    let expected = format!("freed k of {owner} ({process}; count 1");
    assert!(freed.contains(&expected), "{freed}");
    drop(guard);
}

#[test]
fn the_processes_of_readers_and_of_waiting_clients_are_shown() {
    let server = Server::start();
    let clients = [client(&server), client(&server)];
    let read = |client: &LockClient| client.read_write_lock("catalog").read().acquire();
    let readers = clients.each_ref().map(|client| read(client).unwrap());
    let (process, json) = this_process(&clients[0], "catalog");
    let shown = text(&server, "show catalog");
    let count = shown.matches(&format!("({process}; count 1")).count();
    assert_eq!(count, 2, "{shown}");
    // There is no single owner.
    assert!(!shown.contains("holder"), "{shown}");
    let shown = object(&server, "show catalog");
    assert_eq!(shown["read_holds"][1]["holder"], json);
    assert_eq!(shown["holder"], Value::Null);
    drop(readers);
}

#[test]
fn without_the_permission_and_for_redisson_the_owner_is_shown() {
    let server = Server::start();
    let client = client(&server);
    let _guard = hold(&client, "k");
    plant(&server, "java");
    let may_not = with_user(&server, "app", "~* &* +@all -client|list");
    let owner = client.inspect("k").unwrap().owner.unwrap();
    for (url, key, owner) in [(may_not, "k", &*owner), (server.url(), "java", OTHER_OWNER)] {
        let shown = ask(&url, &format!("show {key}")).expect(0);
        let has_owner_only = shown.text().contains(owner) && !shown.text().contains("holder");
        assert!(has_owner_only && shown.err.is_empty(), "{shown:?}");
        let listed = object(&url, &format!("list {key}"));
        assert_eq!(listed.get("holder"), None);
        let freed = text(&url, &format!("break --yes {key}"));
        assert!(freed.contains(&format!("{owner} (count 1")), "{freed}");
    }
}

#[test]
fn each_server_of_a_deployment_knows_the_holders_of_its_locks() {
    let cluster = ClusterDeployment::shared();
    let client = client_of(&cluster);
    let names: Vec<String> = (0..6).map(|number| format!("holders:{number}")).collect();
    let _guards: Vec<_> = names.iter().map(|name| hold(&client, name)).collect();
    let servers = Independent::start(3);
    let _guard = hold_everywhere(&servers, "k");
    for (urls, words, count) in [
        (cluster.urls(), "--cluster list holders:*", names.len()),
        (servers.urls(), "--redlock show k", 3),
    ] {
        let locks = objects_at(&urls, words);
        assert_eq!(locks.len(), count);
        for lock in locks {
            assert_eq!(lock["holder"]["process_id"], std::process::id(), "{lock}");
        }
    }
}

#[test]
fn a_waiting_run_shows_the_process() {
    let server = Server::start();
    let client = client(&server);
    let guard = hold(&client, "k");
    let (process, _) = this_process(&client, "k");
    let mut terminal = Terminal::start(&server.url(), "run k -- echo ran");
    // The owner id does not follow.
    terminal.shows(&format!(", held by {process}\r\n"));
    guard.unlock().unwrap();
    terminal.shows("ran");
    terminal.ends_with(0);
}
