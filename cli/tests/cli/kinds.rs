//! Kinds of locks and semaphores, by the bytes that Redisson and this crate write.

use serde_json::{Value, json};

use crate::locks::{
    OTHER_OWNER, ask, client, client_of, exists, keys, names, names_at, object, objects_at, plant,
    send, send_all, text, with_user,
};
use crate::support::deployment::ClusterDeployment;
use crate::support::server::Server;
use crate::support::timing::eventually;
use crate::support::unique;

const UUID: &str = "6ba7b810-9dad-11d1-80b4-00c04fd430c8";
const READER: &str = "7ba7b810-9dad-11d1-80b4-00c04fd430c8:3";

/// The only object that is found. Times are removed, after a check that they are sound.
#[track_caller]
fn only(server: &Server, words: &str) -> Value {
    let mut objects = objects_at(server, words);
    assert_eq!(objects.len(), 1, "{objects:#?}");
    let mut object = objects.remove(0);
    check_times(&mut object);
    object
}

#[track_caller]
fn check_times(value: &mut Value) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                if key == "ttl_ms" && !value.is_null() {
                    assert!((1..=60_000).contains(&value.as_u64().unwrap()), "{value}");
                    *value = json!("left");
                }
                check_times(value);
            }
        }
        Value::Array(all) => all.iter_mut().for_each(check_times),
        _ => {}
    }
}

/// The server's time in milliseconds.
fn now(server: &Server) -> u64 {
    server.ask::<(u64, u64)>(&redis::cmd("TIME")).0 * 1_000
}

/// A fair lock that is held, and for which these places wait for up to a minute.
fn plant_fair(server: &Server, name: &str, places: &[&str]) {
    plant(server, name);
    for (number, place) in (0..).zip(places) {
        let ends = now(server) + 30_000 + 10_000 * number;
        send(
            server,
            &format!("RPUSH redisson_lock_queue:{{{name}}} {place}"),
        );
        let key = format!("redisson_lock_timeout:{{{name}}}");
        send(server, &format!("ZADD {key} {ends} {place}"));
    }
}

/// The read lock `catalog` of two owners, as Redisson writes it. The first has two holds.
fn plant_readers(server: &Server) {
    let lease = |reader, number, left| {
        format!("SET {{catalog}}:{reader}:rwlock_timeout:{number} 1 PX {left}")
    };
    send_all(
        server,
        &[
            &format!("HSET catalog mode read {OTHER_OWNER} 2 {READER} 1"),
            "PEXPIRE catalog 60000",
            &lease(OTHER_OWNER, 1, 60_000),
            &lease(OTHER_OWNER, 2, 20_000),
            &lease(READER, 1, 30_000),
        ],
    );
}

fn plant_writer(server: &Server) {
    let hold = format!("HSET catalog mode write {OTHER_OWNER}:write 3");
    send_all(server, &[&hold, "PEXPIRE catalog 60000"]);
}

/// A semaphore with three available permits. Two are leased, one without an end, and the lease of a
/// third one has ended.
fn plant_permits(server: &Server, name: &str) {
    let leases = format!("{{{name}}}:timeout");
    let ends = now(server) + 50_000;
    send_all(
        server,
        &[
            &format!("SET {name} 3"),
            &format!("ZADD {leases} 1 ended-ended-ende"),
            &format!("ZADD {leases} {ends} 0123456789abcdef"),
            &format!("ZADD {leases} 922337203685477 ABCDEFGHIJKLMNOP"),
        ],
    );
}

#[test]
fn a_fair_lock_shows_who_waits_in_order() {
    let server = Server::start();
    plant_fair(&server, "till", &["b:0", "a:0"]);
    let expected = json!({
        "name": "till", "kind": "fair", "owner": OTHER_OWNER, "count": 1, "ttl_ms": "left",
        "waiting": 2
    });
    assert_eq!(only(&server, "list"), expected);
    let shown = only(&server, "show till");
    let queue = json!([
        { "place": "b:0", "ttl_ms": "left" }, { "place": "a:0", "ttl_ms": "left" }
    ]);
    assert_eq!((&shown["queue"], &shown["listeners"]), (&queue, &json!(0)));
    let text = text(&server, "show till");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!([lines[1], lines[5]], ["kind       fair", "waiting    2"]);
    for (line, place) in lines[6..].iter().zip(["b:0", "a:0"]) {
        let expected = format!("waits      {place} (time to live ");
        assert!(line.starts_with(&expected), "{text}");
    }
}

/// The library's own lock, with a thread of another client that waits.
#[test]
fn a_fair_lock_of_the_library_is_shown_as_such_also_in_a_cluster() {
    let server = Server::start();
    let cluster = ClusterDeployment::shared();
    let name = unique("kinds");
    for (urls, options, clients) in [
        (vec![server.url()], "", [client(&server), client(&server)]),
        (
            cluster.urls(),
            "--cluster ",
            [(); 2].map(|()| client_of(&cluster)),
        ),
    ] {
        let [holder, waiter] = clients.map(|client| client.fair_lock(&name));
        let held = holder.acquire().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| drop(waiter.acquire()));
            eventually("a place in the queue", || {
                let shown = object(&urls, &format!("{options}show {name}"));
                let listed = object(&urls, &format!("{options}list {name}*"));
                let place = shown["queue"][0]["place"].as_str();
                place.is_some_and(|place| place.ends_with(":0"))
                    && shown["kind"] == "fair"
                    && shown["listeners"] == 1
                    && listed["waiting"] == 1
            });
            drop(held);
        });
    }
}

#[test]
fn a_read_lock_shows_each_reader() {
    let server = Server::start();
    plant_readers(&server);
    let expected = json!({
        "name": "catalog", "kind": "read", "owner": null, "count": 3, "ttl_ms": "left",
        "readers": 2
    });
    assert_eq!(only(&server, "list"), expected);
    let listed = text(&server, "list");
    let cells: Vec<&str> = listed.split_whitespace().collect();
    assert_eq!(cells[..4], ["catalog", "read", "-", "3"]);

    let holds = object(&server, "show catalog")["read_holds"].take();
    for (number, owner, count, lefts) in [
        // The longest of its leases.
        (0, OTHER_OWNER, 2, 40_000..=60_000),
        (1, READER, 1, 1..=30_000),
    ] {
        let hold = &holds[number];
        assert_eq!(
            (&hold["owner"], &hold["count"]),
            (&json!(owner), &json!(count))
        );
        assert!(lefts.contains(&hold["ttl_ms"].as_u64().unwrap()), "{holds}");
    }
    let text = text(&server, "show catalog");
    let reader = format!("reader     {READER} (count 1, time to live ");
    assert!(text.contains(&reader), "{text}");
    assert!(!text.contains("owner"), "{text}");
}

#[test]
fn a_write_lock_shows_its_writer() {
    let server = Server::start();
    plant_writer(&server);
    let expected = json!({
        "name": "catalog", "kind": "write", "owner": OTHER_OWNER, "count": 3, "ttl_ms": "left",
        "readers": 0
    });
    assert_eq!(only(&server, "list"), expected);
    // A writer can read, too.
    send(&server, &format!("HSET catalog {OTHER_OWNER} 1"));
    let shown = only(&server, "show catalog");
    assert_eq!(
        (&shown["kind"], &shown["readers"]),
        (&json!("write"), &json!(1))
    );
    assert_eq!(shown["read_holds"][0]["owner"], OTHER_OWNER);
}

#[test]
fn a_semaphore_shows_its_leased_permits() {
    let server = Server::start();
    plant_permits(&server, "api");
    let expected = json!({
        "name": "api", "kind": "permits", "owner": null, "count": 2, "ttl_ms": null,
        "available": 4
    });
    assert_eq!(only(&server, "list"), expected);
    let permits = json!([
        { "id": "30313233343536373839616263646566", "ttl_ms": "left" },
        { "id": "4142434445464748494a4b4c4d4e4f50", "ttl_ms": null }
    ]);
    assert_eq!(only(&server, "show api")["permits"], permits);
    let text = text(&server, "show api");
    assert!(text.contains("\nleased     2\navailable  4\n"), "{text}");
    let permit = "permit     4142434445464748494a4b4c4d4e4f50 (time to live never)\n";
    assert!(text.contains(permit), "{text}");
}

/// The keys of their leases do not match the pattern themselves.
#[test]
fn semaphores_are_chosen_by_their_names() {
    let server = Server::start();
    for name in ["api:a", "api:b", "jobs"] {
        plant_permits(&server, name);
    }
    send(&server, "SET {api}:c 0");
    send(
        &server,
        "ZADD {api}:c:timeout 99999999999999 0123456789abcdef",
    );
    for (pattern, expected) in [
        ("*", &["api:a", "api:b", "jobs", "{api}:c"][..]),
        ("api:*", &["api:a", "api:b"]),
        ("{*", &["{api}:c"]),
        ("*timeout", &[]),
    ] {
        let found = names_at(&server, &format!("list {pattern}"));
        assert_eq!(found, expected, "{pattern}");
    }
}

#[test]
fn numbers_are_listed_on_request() {
    let server = Server::start();
    send_all(
        &server,
        &[
            "SET tickets 5",
            "SET latch -1 PX 60000",
            "SET text one",
            &format!("SET long {}", "1".repeat(50)),
            "SET redisson_lock_token:{a} 7",
            &format!("SET redisson_unlock_latch:{{a}}:{UUID} 1"),
        ],
    );
    plant_readers(&server);
    plant_permits(&server, "api");
    assert_eq!(names_at(&server, "list"), ["api", "catalog"]);
    let all = objects_at(&server, "list --all");
    assert_eq!(names(&all), ["api", "catalog", "latch", "tickets"]);
    assert_eq!(all[0]["kind"], "permits");
    let expected = json!({
        "name": "tickets", "kind": "number", "owner": null, "count": null, "ttl_ms": null,
        "number": 5
    });
    assert_eq!(all[3], expected);
    let text = text(&server, "show tickets");
    let expected = "name       tickets\nkind       number\nnumber     5\nttl        never\n";
    assert!(text.starts_with(expected), "{text}");
}

/// Permissions for plain locks alone: nothing that belongs to other kinds is an error.
#[test]
fn permissions_decide_which_kinds_are_seen() {
    let server = Server::start();
    plant_fair(&server, "a", &["b:0"]);
    plant_readers(&server);
    plant_permits(&server, "api");
    for (rules, expected) in [
        ("~* +scan +hlen +hgetall +pttl +get", &["reentrant"][..]),
        ("+hget +llen", &["fair", "read"]),
        ("+time +zcount +zrange", &["fair", "permits", "read"]),
    ] {
        let found = objects_at(&with_user(&server, "ann", rules), "list");
        let kinds: Vec<&str> = found.iter().flat_map(|one| one["kind"].as_str()).collect();
        assert_eq!(kinds, expected);
    }
}

/// What arrives on these channels during a change.
fn messages(server: &Server, channels: &[&str], change: impl FnOnce()) -> Vec<(String, String)> {
    let mut connection = server.connection();
    let mut published = connection.as_pubsub();
    for channel in channels.iter().chain(&["end"]) {
        published.subscribe(channel).unwrap();
    }
    change();
    send(server, "PUBLISH end 0");
    let heard = std::iter::from_fn(|| {
        let message = published.get_message().unwrap();
        let channel = message.get_channel_name().to_owned();
        (channel != "end").then(|| (channel, message.get_payload().unwrap()))
    });
    heard.collect()
}

#[test]
fn break_frees_a_read_write_lock_and_tells_who_waits() {
    let server = Server::start();
    let channel = "redisson_rwlock:{catalog}";
    let of_writer = format!("freed catalog of {OTHER_OWNER} ");
    for (plant, said) in [
        (
            plant_readers as fn(&Server),
            "freed catalog of 2 readers (count 3, time to live ",
        ),
        (plant_writer, &of_writer),
    ] {
        plant(&server);
        let heard = messages(&server, &[channel], || {
            let text = text(&server, "break --yes catalog");
            assert!(text.starts_with(said), "{text}");
        });
        assert_eq!(heard, [(channel.to_owned(), "1".to_owned())]);
        // With the leases of its readers.
        assert!(keys(&server).is_empty());
    }
    ask(&server, "break --yes catalog").expect_failure(1, &["no client holds catalog"]);
}

#[test]
fn break_tells_the_first_client_in_the_queue() {
    let server = Server::start();
    plant_fair(&server, "till", &["b:0", "a:0"]);
    let channel = "redisson_lock__channel:{till}";
    let [first, second] = ["b:0", "a:0"].map(|place| format!("{channel}:{place}"));
    let heard = messages(&server, &[channel, &first, &second], || {
        ask(&server, "break --yes till").expect(0);
    });
    let of = |name: &str| (name.to_owned(), "0".to_owned());
    assert_eq!(heard, [of(channel), of(&first)]);
    assert!(!exists(&server, "till") && exists(&server, "redisson_lock_queue:{till}"));
}

#[test]
fn break_refuses_what_is_no_lock_and_says_what_it_is() {
    let server = Server::start();
    plant_permits(&server, "api");
    send(&server, "SET tickets 5");
    let words = ["api", "semaphore", "2 leased permits", "leasehold show api"];
    ask(&server, "break --yes api").expect_failure(64, &words);
    let words = ["tickets", "the number 5", "semaphore or a latch"];
    ask(&server, "break --yes tickets").expect_failure(64, &words);
    assert!(exists(&server, "{api}:timeout") && exists(&server, "tickets"));
}
