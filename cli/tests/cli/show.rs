//! `leasehold show`.

use std::time::Duration;

use leasehold::Lease;
use serde_json::{Value, json};

use crate::locks::{
    MINUTE, OTHER_OWNER, ask, client, client_of, command, exists, hold, object, plant, send, text,
    with_user,
};
use crate::proxy::{self, Fault};
use crate::support::deployment::ClusterDeployment;
use crate::support::server::Server;
use crate::support::timing::eventually;

#[test]
fn a_lock_is_shown_with_its_token_and_its_listeners() {
    let server = Server::start();
    let client = client(&server);
    let lock = client.fenced_lock("order:pay");
    let held = lock.try_acquire(Duration::ZERO, Lease::fixed(MINUTE));
    let held = held.unwrap().unwrap();
    let show = || object(&server, "show order:pay");
    let mut shown = show();
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
        eventually("a listener", || show()["listeners"] == 1);
        drop(held);
    });
}

#[test]
fn people_get_a_line_for_each() {
    let server = Server::start();
    plant(&server, "order:pay");
    send(&server, "PERSIST order:pay");
    let expected = format!(
        "name       order:pay\nkind       reentrant\nowner      {OTHER_OWNER}\ncount      1\n\
         ttl        never\nlisteners  0\n"
    );
    assert_eq!(text(&server, "show order:pay"), expected);
}

/// `show` prints at most 1,000 readers, and how many it left out.
#[test]
fn of_many_readers_some_are_shown() {
    let server = Server::start();
    let mut fields = redis::cmd("HSET");
    fields.arg("k").arg("mode").arg("read");
    for number in 0..3_000 {
        fields
            .arg(format!("{number:08x}-bfd3-4e6f-bba3-6f3d66cd176c:1"))
            .arg(1);
    }
    let () = server.ask(&fields);
    let shown = text(&server, "show k");
    let readers = shown.lines().filter(|line| line.starts_with("reader "));
    assert_eq!(readers.count(), 1_000);
    for line in ["readers    3000\n", "left out   2000\n"] {
        assert!(shown.contains(line), "no {line:?} in {shown}");
    }
    let object = object(&server, "show k");
    assert_eq!(object["left_out"], 2_000);
    assert_eq!(object["count"], 3_000);
    assert!(text(&server, "list").contains("read"));
    assert!(text(&server, "break --yes k").contains("3000 readers"));
    assert!(!exists(&server, "k"));
}

/// As the library says it.
#[test]
fn what_is_no_lock_is_a_wrong_type_and_stays() {
    let server = Server::start();
    for words in ["show free", "show free --json", "break --yes free"] {
        ask(&server, words).expect_refusal(1, &["no client holds free"]);
    }
    for (key, command, what) in [
        ("text", "SET text one", "a string"),
        ("user", "HSET user name Ann", "not an owner"),
        ("session", "HSET session user 1", "not an owner"),
        ("pages", "HSET pages mode read pages 7", "not an owner"),
        ("two", "HSET two a 1 b 1", "a hash of 2 fields"),
        ("mode", "HSET mode mode read name Ann", "not an owner"),
        (
            "big",
            &format!("HSET big {OTHER_OWNER} 4294967296"),
            "not a hold count",
        ),
    ] {
        send(&server, command);
        let told = client(&server).inspect(key).unwrap_err().to_string();
        assert!(told.contains(what), "{told}");
        for command in ["show", "break --yes"] {
            let output = ask(&server, &format!("{command} {key}"));
            output.expect_failure(64, &[key, "another type", &server.address(), &told]);
        }
        assert!(exists(&server, key), "{key}");
    }
    ask(&server, "show ").expect_failure(64, &["name"]);
}

/// Nothing that was read says so, and the advice for another type is to delete it.
#[test]
fn a_lock_that_is_given_back_while_it_is_looked_at_is_no_other_type() {
    let server = Server::start();
    let proxy = proxy::before(&server.address());
    // The lock is held at the first command, and released before the second.
    let mut connection = server.connection();
    proxy.on_request(move |request| {
        let change = match &*request.command() {
            "HLEN" | "EXISTS" => format!("HSET busy {OTHER_OWNER} 1"),
            "HGETALL" => "DEL busy".into(),
            _ => return Fault::Pass,
        };
        let _: u64 = command(&change).query(&mut connection).unwrap();
        Fault::Pass
    });
    for words in ["show busy", "break --yes busy"] {
        ask(&proxy.url(), words).expect_failure(1, &["no client holds busy"]);
    }
}

#[test]
fn listeners_are_left_out_where_they_may_not_be_asked_for() {
    let server = Server::start();
    plant(&server, "a");
    let url = with_user(&server, "ann", "~* +hlen +hgetall +pttl +get");
    let shown = object(&url, "show a");
    assert_eq!(shown["owner"], OTHER_OWNER);
    assert!(shown.get("listeners").is_none(), "{shown}");
}

/// The key is at the new primary already, the slot is at the old one.
#[test]
fn a_lock_that_moves_is_shown_and_freed_all_the_same() {
    let cluster = ClusterDeployment::start();
    let owner = client_of(&cluster);
    let held = hold(&owner, "order:pay");
    let show = || object(&cluster.urls(), "--cluster show order:pay");
    std::thread::scope(|scope| {
        let other = client_of(&cluster).reentrant_lock("order:pay");
        let had = scope.spawn(move || other.acquire().map(drop));
        eventually("a listener", || show()["listeners"] == 1);
        let slot = cluster.slot_of("order:pay");
        let migration = cluster.begin_migration(slot, cluster.another_primary(slot));
        migration.move_keys();
        let shown = show();
        let status = owner.inspect("order:pay").unwrap();
        assert_eq!(shown["owner"], status.owner.unwrap());
        // Its token, if there is one, may be at either.
        assert_eq!(shown["kind"], Value::Null, "{shown}");
        let freed = text(&cluster.urls(), "--cluster break --yes order:pay");
        assert!(freed.contains("freed order:pay"), "{freed}");
        had.join().unwrap().unwrap();
        migration.end();
    });
    assert!(held.unlock().is_err());
    let free = ask(&cluster.urls(), "--cluster show order:pay");
    free.expect_failure(1, &["no client holds"]);
    let in_two_slots = ask(&cluster.urls(), "--cluster show a}b");
    in_two_slots.expect_failure(64, &["a}b", "slot"]);
}
