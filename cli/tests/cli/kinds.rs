//! Kinds of locks and semaphores, by the bytes that Redisson and this crate write.

use serde_json::{Value, json};

use crate::locks::{
    OTHER_OWNER, ask, client, client_of, exists, keys, names_at, object, objects_at, plant, send,
    send_all, text,
};
use crate::support::deployment::ClusterDeployment;
use crate::support::server::Server;
use crate::support::timing::eventually;
use crate::support::unique;

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

/// The fair lock `k` that is held, and for which these places wait for up to a minute.
pub fn plant_fair(server: &Server, places: &[&str]) {
    plant(server, "k");
    for (number, place) in (0..).zip(places) {
        let ends = now(server) + 30_000 + 10_000 * number;
        send(server, &format!("RPUSH redisson_lock_queue:{{k}} {place}"));
        send(
            server,
            &format!("ZADD redisson_lock_timeout:{{k}} {ends} {place}"),
        );
    }
}

/// The read lock `k` of two owners, as Redisson writes it. The first has two holds.
pub fn plant_readers(server: &Server) {
    let lease =
        |reader, number, left| format!("SET {{k}}:{reader}:rwlock_timeout:{number} 1 PX {left}");
    send_all(
        server,
        &[
            &format!("HSET k mode read {OTHER_OWNER} 2 {READER} 1"),
            "PEXPIRE k 60000",
            &lease(OTHER_OWNER, 1, 60_000),
            &lease(OTHER_OWNER, 2, 20_000),
            &lease(READER, 1, 30_000),
        ],
    );
}

/// The write lock `k`.
fn plant_writer(server: &Server) {
    send(server, &format!("HSET k mode write {OTHER_OWNER}:write 3"));
    send(server, "PEXPIRE k 60000");
}

/// A semaphore with three available permits. Two are leased, one without an end, and the lease of a
/// third one has ended.
pub fn plant_permits(server: &Server, name: &str) {
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

/// Each kind: how it is made, its object in `list` beside its name, what `show` adds to it, and
/// lines of `show` for people.
#[test]
fn each_kind_is_listed_and_shown() {
    let server = Server::start();
    let lock = |server: &Server| plant(server, "k");
    let fair = |server: &Server| plant_fair(server, &["b:0", "a:0"]);
    // A writer can read, too.
    let both = |server: &Server| {
        plant_writer(server);
        send(server, &format!("HSET k {OTHER_OWNER} 1"));
    };
    let number = |server: &Server| send(server, "SET k 5");
    let owner = &*format!("owner      {OTHER_OWNER}\n");
    let reader = &*format!("\nreader     {READER} (count 1, time to live ");
    let permits = [
        "\nleased     2\navailable  4\n",
        "\npermit     4142434445464748494a4b4c4d4e4f50 (time to live never)\n",
    ];
    let waits = [
        "waiting    2\nwaits      b:0 (time to live ",
        "waits      a:0 (time to live ",
    ];
    for (make, listed, shown, lines) in [
        (
            &lock as &dyn Fn(&Server),
            json!({"kind": "reentrant", "owner": OTHER_OWNER, "count": 1, "ttl_ms": "left"}),
            json!({"listeners": 0}),
            &["name       k\nkind       reentrant\n", owner][..],
        ),
        (
            &fair,
            json!({
                "kind": "fair", "owner": OTHER_OWNER, "count": 1, "ttl_ms": "left", "waiting": 2
            }),
            json!({"listeners": 0, "queue": [
                {"place": "b:0", "ttl_ms": "left"}, {"place": "a:0", "ttl_ms": "left"}
            ]}),
            &waits,
        ),
        (
            &plant_readers,
            json!({"kind": "read", "owner": null, "count": 3, "ttl_ms": "left", "readers": 2}),
            json!({"listeners": 0, "read_holds": [
                {"owner": OTHER_OWNER, "count": 2, "ttl_ms": "left"},
                {"owner": READER, "count": 1, "ttl_ms": "left"}
            ]}),
            &["kind       read\ncount      3\n", reader],
        ),
        (
            &plant_writer,
            json!({
                "kind": "write", "owner": OTHER_OWNER, "count": 3, "ttl_ms": "left", "readers": 0
            }),
            json!({"listeners": 0, "read_holds": []}),
            &[owner],
        ),
        (
            &both,
            json!({
                "kind": "write", "owner": OTHER_OWNER, "count": 3, "ttl_ms": "left", "readers": 1
            }),
            json!({"listeners": 0, "read_holds": [
                {"owner": OTHER_OWNER, "count": 1, "ttl_ms": "left"}
            ]}),
            &[owner],
        ),
        (
            &|server: &Server| plant_permits(server, "k"),
            json!({"kind": "permits", "owner": null, "count": 2, "ttl_ms": null, "available": 4}),
            json!({"listeners": 0, "permits": [
                {"id": "30313233343536373839616263646566", "ttl_ms": "left"},
                {"id": "4142434445464748494a4b4c4d4e4f50", "ttl_ms": null}
            ]}),
            &permits,
        ),
        (
            &number,
            json!({"kind": "number", "owner": null, "count": null, "ttl_ms": null, "number": 5}),
            json!({"listeners": 0}),
            &["name       k\nkind       number\nnumber     5\nttl        never\n"],
        ),
    ] {
        send(&server, "FLUSHALL");
        make(&server);
        let mut expected = listed;
        expected["name"] = json!("k");
        assert_eq!(only(&server, "list --all"), expected);
        for (key, value) in shown.as_object().unwrap() {
            expected[key] = value.clone();
        }
        assert_eq!(only(&server, "show k"), expected);
        let text = text(&server, "show k");
        for line in lines {
            assert!(text.contains(line), "no {line:?} in {text}");
        }
    }
}

#[test]
fn a_reader_has_the_longest_of_its_leases_and_a_read_lock_no_owner() {
    let server = Server::start();
    plant_readers(&server);
    let holds = object(&server, "show k")["read_holds"].take();
    let left = |number: usize| holds[number]["ttl_ms"].as_u64().unwrap();
    assert!(left(0) >= 40_000 && left(1) <= 30_000, "{holds}");
    let listed = text(&server, "list");
    let cells: Vec<&str> = listed.split_whitespace().collect();
    assert_eq!(cells[..4], ["k", "read", "-", "3"]);
    assert!(!text(&server, "show k").contains("owner"));
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
fn break_frees_each_kind_of_lock_and_tells_who_waits() {
    let server = Server::start();
    let fair = |server: &Server| plant_fair(server, &["b:0", "a:0"]);
    let of_one = &*format!("freed k of {OTHER_OWNER} ");
    let of_readers = "freed k of 2 readers (count 3, time to live ";
    let queue = &["redisson_lock_queue:{k}", "redisson_lock_timeout:{k}"][..];
    let (rw, channel) = ("redisson_rwlock:{k}", "redisson_lock__channel:{k}");
    let [first, second] = ["b:0", "a:0"].map(|place| format!("{channel}:{place}"));
    for (make, said, heard, left) in [
        (
            &plant_readers as &dyn Fn(&Server),
            of_readers,
            &[(rw, "1")][..],
            &[][..],
        ),
        (&plant_writer, of_one, &[(rw, "1")], &[]),
        // The first client in the queue is called.
        (&fair, of_one, &[(channel, "0"), (&first, "0")], queue),
    ] {
        make(&server);
        let published = messages(&server, &[rw, channel, &first, &second], || {
            let text = text(&server, "break --yes k");
            assert!(text.starts_with(said), "{text}");
        });
        let published: Vec<_> = published
            .iter()
            .map(|(at, text)| (&**at, &**text))
            .collect();
        assert_eq!(published, heard);
        // The leases of readers are gone, too.
        let mut keys = keys(&server);
        keys.sort();
        assert_eq!(keys, left);
    }
    ask(&server, "break --yes k").expect_failure(1, &["no client holds k"]);
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
