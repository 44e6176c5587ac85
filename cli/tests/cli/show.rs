//! `leasehold show`.

use std::time::Duration;

use leasehold::{Lease, LockClient};
use serde_json::json;

use crate::locks::{
    MINUTE, OTHER_KINDS, OTHER_OWNER, ask, ask_at, client, hold, hold_everywhere, objects, plant,
    send, with_long_timeout,
};
use crate::proxy::{self, Fault};
use crate::support::deployment::{ClusterDeployment, Independent};
use crate::support::server::Server;
use crate::support::timing::eventually;

#[test]
fn a_lock_is_shown_with_its_token_and_its_listeners() {
    let server = Server::start();
    let client = client(&server);
    let lock = client.fenced_lock("order:pay");
    let held = lock
        .try_acquire(Duration::ZERO, Lease::fixed(MINUTE))
        .unwrap()
        .unwrap();
    let ask = || {
        let output = ask(&server, "show order:pay --json");
        objects(&output.expect(0)).remove(0)
    };
    let mut shown = ask();
    // Another test is about it.
    shown["holder"].take();
    let left = shown["ttl_ms"].take();
    assert!((1..=60_000).contains(&left.as_u64().unwrap()), "{left}");
    let owner = client.inspect("order:pay").unwrap().owner.unwrap();
    let expected = json!({
        "name": "order:pay", "kind": "fenced", "owner": owner, "count": 1, "ttl_ms": null,
        "token": held.fencing_token(), "listeners": 0, "holder": null
    });
    assert_eq!(shown, expected);

    std::thread::scope(|scope| {
        let other = crate::locks::client(&server);
        scope.spawn(move || drop(other.fenced_lock("order:pay").acquire()));
        eventually("a listener", || ask()["listeners"] == 1);
        drop(held);
    });
}

#[test]
fn people_get_a_line_for_each() {
    let server = Server::start();
    plant(&server, b"order:pay");
    send(&server, &["PERSIST order:pay"]);
    let output = ask(&server, "show order:pay").expect(0);
    let expected = format!(
        "name       order:pay\nkind       reentrant\nowner      {OTHER_OWNER}\ncount      1\n\
         ttl        never\nlisteners  0\n"
    );
    assert_eq!(output.text(), expected);
}

#[test]
fn a_free_lock_has_an_exit_status_of_its_own() {
    let server = Server::start();
    for words in ["show free", "show free --json", "break --yes free"] {
        let output = ask(&server, words).expect_failure(1, &["no client holds free"]);
        assert_eq!(output.text(), "");
    }
}

/// As the library says it.
#[test]
fn what_is_no_lock_is_a_wrong_type_and_stays() {
    let server = Server::start();
    for (key, command, what) in OTHER_KINDS {
        send(&server, &[command]);
        let told = client(&server).inspect(key).unwrap_err().to_string();
        assert!(told.contains(what), "{told}");
        for command in ["show", "break --yes"] {
            let output = ask(&server, &format!("{command} {key}"));
            output.expect_failure(64, &[key, "another type", &server.address(), &told]);
        }
        assert!(server.ask::<bool>(redis::cmd("EXISTS").arg(key)), "{key}");
    }
    with_long_timeout(&server.url())
        .args(["show", ""])
        .output()
        .expect_failure(64, &["name"]);
}

/// Its owner is no UUID, and it is held all the same.
#[test]
fn a_lock_of_a_client_of_another_kind_is_shown_and_freed() {
    let server = Server::start();
    send(&server, &["HSET k other 1"]);
    for (words, told) in [("show k", "owner      other\n"), ("break -y k", "other")] {
        assert!(ask(&server, words).expect(0).text().contains(told));
    }
    assert!(!server.ask::<bool>(redis::cmd("EXISTS").arg("k")));
}

/// Nothing that was read says so, and the advice for another type is to delete it.
#[test]
fn a_lock_that_is_given_back_while_it_is_looked_at_is_no_other_type() {
    let server = Server::start();
    let proxy = proxy::before(&server.address());
    // The lock is released between two commands, but held at each first one.
    let gives_back = |times: usize| {
        let client = redis::Client::open(server.url()).unwrap();
        let mut connection = client.get_connection().unwrap();
        let mut left = times;
        proxy.on_request(move |request| {
            let change = match &*request.command() {
                "HLEN" | "EXISTS" => redis::cmd("HSET")
                    .arg("busy")
                    .arg(OTHER_OWNER)
                    .arg(1)
                    .clone(),
                "HGETALL" if left > 0 => {
                    left -= 1;
                    redis::cmd("DEL").arg("busy").clone()
                }
                _ => return Fault::Pass,
            };
            let _: u64 = change.query(&mut connection).unwrap();
            Fault::Pass
        });
    };
    for args in [&["show", "busy"][..], &["break", "--yes", "busy"]] {
        let ask = || with_long_timeout(&proxy.url()).args(args).output();
        gives_back(usize::MAX);
        ask().expect_failure(69, &["busy", "changes too quickly", "again"]);
        gives_back(4);
        let output = ask().expect(0);
        assert!(output.text().contains(OTHER_OWNER), "{output:?}");
    }
}

#[test]
fn listeners_are_left_out_where_they_may_not_be_asked_for() {
    let server = Server::start();
    plant(&server, b"a");
    send(
        &server,
        &["ACL SETUSER ann on >pass ~* +hlen +hgetall +pttl +get"],
    );
    let url = format!("redis://ann:pass@{}", server.address());
    let output = ask_at(&url, "show a --json").expect(0);
    let shown = objects(&output).remove(0);
    assert_eq!(shown["owner"], OTHER_OWNER);
    assert!(shown.get("listeners").is_none(), "{shown}");
}

#[test]
fn a_cluster_counts_those_who_listen_to_the_shard() {
    let cluster = ClusterDeployment::shared();
    let client = || LockClient::builder_cluster(cluster.urls()).build().unwrap();
    let name = crate::support::unique("shown");
    let owner = client();
    let held = hold(&owner, &name);
    let ask = || {
        let program = with_long_timeout(&cluster.urls().join(","));
        let output = program
            .args(["--cluster", "show", &name, "--json"])
            .output();
        objects(&output.expect(0)).remove(0)
    };
    assert_eq!(ask()["listeners"], 0);
    std::thread::scope(|scope| {
        let other = client().reentrant_lock(&name);
        scope.spawn(move || drop(other.acquire()));
        eventually("a listener", || ask()["listeners"] == 1);
        drop(held);
    });
}

#[test]
fn a_name_in_two_slots_is_reported() {
    let cluster = ClusterDeployment::shared();
    let program = with_long_timeout(&cluster.urls().join(","));
    let output = program.args(["--cluster", "show", "a}b"]).output();
    output.expect_failure(64, &["a}b", "slot"]);
}

/// The key is at the new primary already, the slot is at the old one.
#[test]
fn a_lock_that_moves_is_shown_and_freed_all_the_same() {
    let cluster = ClusterDeployment::start();
    let client = || LockClient::builder_cluster(cluster.urls()).build().unwrap();
    let owner = client();
    let held = hold(&owner, "order:pay");
    let ask = |args: &[&str]| {
        let program = with_long_timeout(&cluster.urls().join(",")).arg("--cluster");
        program.args(args).output()
    };
    let show = || objects(&ask(&["show", "order:pay", "--json"]).expect(0)).remove(0);
    std::thread::scope(|scope| {
        let other = client().reentrant_lock("order:pay");
        let had = scope.spawn(move || other.acquire().map(drop));
        eventually("a listener", || show()["listeners"] == 1);
        let slot = cluster.slot_of("order:pay");
        let migration = cluster.begin_migration(slot, cluster.another_primary(slot));
        migration.move_keys();
        let shown = show();
        let status = owner.inspect("order:pay").unwrap();
        assert_eq!(shown["owner"], status.owner.unwrap());
        // Its token, if there is one, may be at either.
        assert_eq!(shown["kind"], json!(null), "{shown}");
        let output = ask(&["break", "--yes", "order:pay"]).expect(0);
        assert!(output.text().contains("freed order:pay"), "{output:?}");
        had.join().unwrap().unwrap();
        migration.end();
    });
    assert!(held.unlock().is_err());
    ask(&["show", "order:pay"]).expect_failure(1, &["no client holds"]);
}

#[test]
fn a_redlock_is_shown_at_each_server_that_has_it() {
    let servers = Independent::start(3);
    let _held = hold_everywhere(&servers, "order:pay");
    servers.kill(2);
    let output = ask_at(&servers.urls().join(","), "--redlock show order:pay --json").expect(0);
    let shown = objects(&output);
    let at: Vec<&str> = shown
        .iter()
        .map(|one| one["server"].as_str().unwrap())
        .collect();
    assert_eq!(
        at,
        [servers.server(0).address(), servers.server(1).address()]
    );
}
