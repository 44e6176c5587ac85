//! Kinds of locks and semaphores, by the bytes that Redisson and this crate write.

use serde_json::{Value, json};

use crate::locks::{OTHER_OWNER, client, names, objects, plant, send, with_long_timeout};
use crate::program::Output;
use crate::support::deployment::ClusterDeployment;
use crate::support::server::Server;

const UUID: &str = "6ba7b810-9dad-11d1-80b4-00c04fd430c8";
const READER: &str = "7ba7b810-9dad-11d1-80b4-00c04fd430c8:3";

/// A time that no lease of a test reaches, in milliseconds since 1970.
const LATE: &str = "99999999999999";

fn ask(server: &Server, args: &[&str]) -> Output {
    with_long_timeout(&server.url()).args(args).output()
}

/// The object of the only key that is found. Times are removed, after a check that they are sound.
#[track_caller]
fn only(output: Output) -> Value {
    let mut objects = objects(&output.expect(0));
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

/// A fair lock that is held, and for which these places wait for up to a minute.
fn plant_fair(server: &Server, name: &str, places: &[&str]) {
    plant(server, name.as_bytes());
    let now: (u64, u64) = server.ask(&redis::cmd("TIME"));
    for (number, place) in places.iter().enumerate() {
        let ends = now.0 * 1_000 + 30_000 + 10_000 * number as u64;
        send(
            server,
            &[
                &format!("RPUSH redisson_lock_queue:{{{name}}} {place}"),
                &format!("ZADD redisson_lock_timeout:{{{name}}} {ends} {place}"),
            ],
        );
    }
}

/// A read lock of two owners, as Redisson writes it. The first has two holds.
fn plant_readers(server: &Server, name: &str) {
    send(
        server,
        &[
            &format!("HSET {name} mode read {OTHER_OWNER} 2 {READER} 1"),
            &format!("PEXPIRE {name} 60000"),
            &format!("SET {{{name}}}:{OTHER_OWNER}:rwlock_timeout:1 1 PX 60000"),
            &format!("SET {{{name}}}:{OTHER_OWNER}:rwlock_timeout:2 1 PX 20000"),
            &format!("SET {{{name}}}:{READER}:rwlock_timeout:1 1 PX 30000"),
        ],
    );
}

fn plant_writer(server: &Server, name: &str) {
    send(
        server,
        &[
            &format!("HSET {name} mode write {OTHER_OWNER}:write 3"),
            &format!("PEXPIRE {name} 60000"),
        ],
    );
}

/// A semaphore with three available permits. Two are leased, one without an end, and the lease of a
/// third one has ended.
fn plant_permits(server: &Server, name: &str) {
    let leases = format!("{{{name}}}:timeout");
    let ends = server.ask::<(u64, u64)>(&redis::cmd("TIME")).0 * 1_000 + 50_000;
    send(
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
    let listed = only(ask(&server, &["list", "--json"]));
    let expected = json!({
        "name": "till", "kind": "fair", "owner": OTHER_OWNER, "count": 1, "ttl_ms": "left",
        "waiting": 2
    });
    assert_eq!(listed, expected);
    let shown = only(ask(&server, &["show", "till", "--json"]));
    let queue = json!([
        { "place": "b:0", "ttl_ms": "left" }, { "place": "a:0", "ttl_ms": "left" }
    ]);
    assert_eq!((&shown["queue"], &shown["listeners"]), (&queue, &json!(0)));
    let text = ask(&server, &["show", "till"]).expect(0).text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[1], "kind       fair");
    assert_eq!(lines[5], "waiting    2");
    assert!(
        lines[6].starts_with("waits      b:0 (time to live "),
        "{text}"
    );
    assert!(
        lines[7].starts_with("waits      a:0 (time to live "),
        "{text}"
    );
}

/// The library's own lock, with a thread of another client that waits.
#[test]
fn a_fair_lock_of_the_library_is_shown_as_such() {
    let server = Server::start();
    let held = client(&server).fair_lock("till").acquire().unwrap();
    std::thread::scope(|scope| {
        let other = client(&server);
        scope.spawn(move || drop(other.fair_lock("till").acquire()));
        crate::support::timing::eventually("a place in the queue", || {
            let shown = objects(&ask(&server, &["show", "till", "--json"]).expect(0)).remove(0);
            let has_place = shown["queue"][0]["place"]
                .as_str()
                .is_some_and(|place| place.ends_with(":0"));
            shown["kind"] == "fair" && has_place && shown["listeners"] == 1
        });
        drop(held);
    });
}

#[test]
fn a_read_lock_shows_each_reader() {
    let server = Server::start();
    plant_readers(&server, "catalog");
    let listed = only(ask(&server, &["list", "--json"]));
    let expected = json!({
        "name": "catalog", "kind": "read", "owner": null, "count": 3, "ttl_ms": "left",
        "readers": 2
    });
    assert_eq!(listed, expected);
    let line = ask(&server, &["list"]).expect(0).lines().remove(0);
    let cells: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(cells[..4], ["catalog", "read", "-", "3"]);

    let shown = ask(&server, &["show", "catalog", "--json"]).expect(0);
    let holds = objects(&shown).remove(0)["read_holds"].take();
    let hold = |number: usize| {
        let left = holds[number]["ttl_ms"].as_u64().unwrap();
        let rest = (&holds[number]["owner"], &holds[number]["count"]);
        (rest, left)
    };
    let (first, left) = hold(0);
    assert_eq!(first, (&json!(OTHER_OWNER), &json!(2)));
    // The longest of its leases.
    assert!((40_000..=60_000).contains(&left), "{holds}");
    let (second, left) = hold(1);
    assert_eq!(second, (&json!(READER), &json!(1)));
    assert!((1..=30_000).contains(&left), "{holds}");

    let text = ask(&server, &["show", "catalog"]).expect(0).text();
    let reader = format!("reader     {READER} (count 1, time to live ");
    assert!(text.contains(&reader), "{text}");
    assert!(!text.contains("owner"), "{text}");
}

#[test]
fn a_write_lock_shows_its_writer() {
    let server = Server::start();
    plant_writer(&server, "catalog");
    let listed = only(ask(&server, &["list", "--json"]));
    let expected = json!({
        "name": "catalog", "kind": "write", "owner": OTHER_OWNER, "count": 3, "ttl_ms": "left",
        "readers": 0
    });
    assert_eq!(listed, expected);
    // A writer can read, too.
    send(&server, &[&format!("HSET catalog {OTHER_OWNER} 1")]);
    let shown = only(ask(&server, &["show", "catalog", "--json"]));
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
    let listed = only(ask(&server, &["list", "--json"]));
    let expected = json!({
        "name": "api", "kind": "permits", "owner": null, "count": 2, "ttl_ms": null,
        "available": 4
    });
    assert_eq!(listed, expected);
    let shown = only(ask(&server, &["show", "api", "--json"]));
    let permits = json!([
        { "id": "30313233343536373839616263646566", "ttl_ms": "left" },
        { "id": "4142434445464748494a4b4c4d4e4f50", "ttl_ms": null }
    ]);
    assert_eq!(shown["permits"], permits);
    let text = ask(&server, &["show", "api"]).expect(0).text();
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
    send(&server, &["SET {api}:c 0"]);
    send(
        &server,
        &[&format!("ZADD {{api}}:c:timeout {LATE} 0123456789abcdef")],
    );
    for (pattern, expected) in [
        ("*", &["api:a", "api:b", "jobs", "{api}:c"][..]),
        ("api:*", &["api:a", "api:b"]),
        ("{*", &["{api}:c"]),
        ("*timeout", &[]),
    ] {
        let found = ask(&server, &["list", pattern, "--json"]).expect(0);
        assert_eq!(names(&found), expected, "{pattern}");
    }
}

#[test]
fn numbers_are_listed_on_request() {
    let server = Server::start();
    send(
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
    plant_readers(&server, "catalog");
    plant_permits(&server, "api");
    assert_eq!(
        names(&ask(&server, &["list", "--json"]).expect(0)),
        ["api", "catalog"]
    );
    let all = ask(&server, &["list", "--all", "--json"]).expect(0);
    assert_eq!(names(&all), ["api", "catalog", "latch", "tickets"]);
    let all = objects(&all);
    assert_eq!(all[0]["kind"], "permits");
    let expected = json!({
        "name": "tickets", "kind": "number", "owner": null, "count": null, "ttl_ms": null,
        "number": 5
    });
    assert_eq!(all[3], expected);
    let text = ask(&server, &["show", "tickets"]).expect(0).text();
    let expected = "name       tickets\nkind       number\nnumber     5\nttl        never\n";
    assert!(text.starts_with(expected), "{text}");
}

/// All kinds at once, on all primaries.
#[test]
fn a_cluster_has_all_kinds() {
    let cluster = ClusterDeployment::shared();
    let unique = crate::support::unique("kinds");
    let client = || {
        leasehold::LockClient::builder_cluster(cluster.urls())
            .build()
            .unwrap()
    };
    let held = client().fair_lock(&unique).acquire().unwrap();
    let ask = |args: &[&str]| {
        let program = with_long_timeout(&cluster.urls().join(",")).arg("--cluster");
        objects(&program.args(args).output().expect(0))
    };
    std::thread::scope(|scope| {
        let other = client();
        let name = &unique;
        scope.spawn(move || drop(other.fair_lock(name).acquire()));
        crate::support::timing::eventually("a place in the queue", || {
            let shown = ask(&["show", &unique, "--json"]).remove(0);
            let listed = ask(&["list", &format!("{unique}*"), "--json"]).remove(0);
            shown["kind"] == "fair" && shown["listeners"] == 1 && listed["waiting"] == 1
        });
        drop(held);
    });
}

/// Permissions for plain locks alone: nothing that belongs to other kinds is an error.
#[test]
fn permissions_decide_which_kinds_are_seen() {
    let server = Server::start();
    plant_fair(&server, "a", &["b:0"]);
    plant_readers(&server, "catalog");
    plant_permits(&server, "api");
    send(
        &server,
        &["ACL SETUSER ann on >pass ~* +scan +hlen +hgetall +pttl +get"],
    );
    let url = format!("redis://ann:pass@{}", server.address());
    let list = || {
        objects(
            &with_long_timeout(&url)
                .args(["list", "--json"])
                .output()
                .expect(0),
        )
    };
    let kinds = || -> Vec<String> { list().iter().map(|one| one["kind"].to_string()).collect() };
    assert_eq!(kinds(), [r#""reentrant""#]);
    send(&server, &["ACL SETUSER ann +hget +llen"]);
    assert_eq!(kinds(), [r#""fair""#, r#""read""#]);
    send(&server, &["ACL SETUSER ann +time +zcount +zrange"]);
    assert_eq!(kinds(), [r#""fair""#, r#""permits""#, r#""read""#]);
}

fn exists(server: &Server, key: &str) -> bool {
    server.ask(redis::cmd("EXISTS").arg(key))
}

/// What arrives on a channel, as far as it was published before this call.
fn messages(server: &Server, channels: &[&str], change: impl FnOnce()) -> Vec<(String, String)> {
    let mut connection = server.connection();
    let mut published = connection.as_pubsub();
    for channel in channels.iter().chain(&["end"]) {
        published.subscribe(channel).unwrap();
    }
    change();
    send(server, &["PUBLISH end 0"]);
    let mut heard = Vec::new();
    loop {
        let message = published.get_message().unwrap();
        if message.get_channel_name() == "end" {
            return heard;
        }
        let text = message.get_payload().unwrap();
        heard.push((message.get_channel_name().to_owned(), text));
    }
}

#[test]
fn break_frees_a_read_write_lock_and_tells_who_waits() {
    let server = Server::start();
    let channel = "redisson_rwlock:{catalog}";
    plant_readers(&server, "catalog");
    let heard = messages(&server, &[channel], || {
        let output = ask(&server, &["break", "--yes", "catalog"]).expect(0);
        let said = "freed catalog of 2 readers (count 3, time to live ";
        assert!(output.text().starts_with(said), "{output:?}");
    });
    assert_eq!(heard, [(channel.to_owned(), "1".to_owned())]);
    // With the leases of its readers.
    let left: Vec<String> = server.ask(redis::cmd("KEYS").arg("*"));
    assert_eq!(left, [""; 0]);

    plant_writer(&server, "catalog");
    let heard = messages(&server, &[channel], || {
        let output = ask(&server, &["break", "--yes", "catalog"]).expect(0);
        assert!(output.text().contains(OTHER_OWNER), "{output:?}");
    });
    assert_eq!(heard, [(channel.to_owned(), "1".to_owned())]);
    assert!(!exists(&server, "catalog"));
    ask(&server, &["break", "--yes", "catalog"]).expect_failure(1, &["no client holds catalog"]);
}

#[test]
fn break_tells_the_first_client_in_the_queue() {
    let server = Server::start();
    plant_fair(&server, "till", &["b:0", "a:0"]);
    let channel = "redisson_lock__channel:{till}";
    let [first, second] = ["b:0", "a:0"].map(|place| format!("{channel}:{place}"));
    let heard = messages(&server, &[channel, &first, &second], || {
        ask(&server, &["break", "--yes", "till"]).expect(0);
    });
    let of = |name: &str| (name.to_owned(), "0".to_owned());
    assert_eq!(heard, [of(channel), of(&first)]);
    assert!(!exists(&server, "till") && exists(&server, "redisson_lock_queue:{till}"));
}

#[test]
fn break_refuses_what_is_no_lock_and_says_what_it_is() {
    let server = Server::start();
    plant_permits(&server, "api");
    send(&server, &["SET tickets 5"]);
    let semaphore = ask(&server, &["break", "--yes", "api"]);
    semaphore.expect_failure(
        64,
        &["api", "semaphore", "2 leased permits", "leasehold show api"],
    );
    let number = ask(&server, &["break", "--yes", "tickets"]);
    number.expect_failure(64, &["tickets", "the number 5", "semaphore or a latch"]);
    assert!(exists(&server, "{api}:timeout") && exists(&server, "tickets"));
}
