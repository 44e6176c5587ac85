//! `leasehold list`.

use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use leasehold::Lease;
use redis::Pipeline;
use serde_json::Value;

use crate::kinds::{plant_fair, plant_permits, plant_readers};
use crate::locks::{
    MINUTE, OTHER_OWNER, Place, ask, calls, client, client_of, hold, hold_everywhere, names,
    names_at, object, objects, objects_at, plant, send, send_all, text, with_long_timeout,
    with_user,
};
use crate::support::deployment::{ClusterDeployment, Independent, SentinelDeployment};
use crate::support::server::Server;
use crate::support::timing::eventually;
use crate::support::unique;
use crate::terminal::Terminal;

#[test]
fn each_lock_is_a_line_in_the_order_of_names() {
    let server = Server::start();
    let client = client(&server);
    let pay = client.reentrant_lock("order:pay");
    let _pay = hold(&client, "order:pay");
    pay.lock_with(Lease::fixed(MINUTE)).unwrap();
    let ship = client.fenced_lock("order:ship");
    let _ship = ship.try_acquire(Duration::ZERO, Lease::fixed(MINUTE));
    let holder = |name| client.inspect(name).unwrap();
    let is_nested = || holder("order:pay").hold_count == 2;
    eventually("both levels to be seen", is_nested);
    let output = ask(&server, "list").expect(0);
    let lines = output.lines();
    let cells = |line: &str| -> Vec<String> { line.split_whitespace().map(Into::into).collect() };
    let (first, second) = (cells(&lines[0]), cells(&lines[1]));
    let owner = |name| holder(name).owner.unwrap();
    let (pays, ships) = (owner("order:pay"), owner("order:ship"));
    assert_eq!(first[..4], ["order:pay", "reentrant", &pays, "2"]);
    assert_eq!(second[..4], ["order:ship", "fenced", &ships, "1"]);
    let left: f64 = first[4].trim_end_matches('s').parse().unwrap();
    assert!((1.0..=60.0).contains(&left), "{lines:?}");
    assert_eq!((lines.len(), first.len()), (2, 5), "{lines:?}");
    assert_eq!(output.err, "");
    pay.unlock().unwrap();
}

/// Keys that are no locks cost a HLEN and a HGET, and only if they are hashes.
#[test]
fn what_is_no_lock_is_left_out() {
    let server = Server::start();
    send_all(
        &server,
        &[
            "SET tickets 5",
            "SET latch -1 PX 60000",
            "SET text one",
            &format!("SET long {}", "1".repeat(50)),
            "SET redisson_lock_token:{a} 7",
            "SET redisson_unlock_latch:{a}:6ba7b810-9dad-11d1-80b4-00c04fd430c8 1",
            "RPUSH list 1",
            "SADD set 1",
            "ZADD sorted 1 one",
            "XADD stream * a 1",
            "HSET user name Ann",
            &format!("HSET two {OTHER_OWNER} 1 more 1"),
            &format!("HSET mode mode fast {OTHER_OWNER} 1"),
            "HSET data mode read pages 7",
            "ZADD {text}:timeout 1 notapermit",
            "ZADD {gone}:timeout 99999999999999 0123456789abcdef",
            "ZADD leasehold_line:{a} 1 place",
            &format!("HSET zero {OTHER_OWNER} 0"),
            "HSET half 6ba7b810-9dad-11d1-80b4-00c04fd430c8 1",
        ],
    );
    plant(&server, "lock");
    plant_readers(&server);
    plant_permits(&server, "api");
    assert_eq!(names_at(&server, "list"), ["api", "k", "lock"]);
    // Numbers may be semaphores or latches.
    let all = names_at(&server, "list --all");
    assert_eq!(all, ["api", "k", "latch", "lock", "tickets"]);

    send(&server, "FLUSHALL");
    let mut big = redis::cmd("HSET");
    big.arg("big");
    for field in 0..1_000 {
        big.arg(field).arg("x".repeat(100));
    }
    let () = server.ask(&big);
    send(&server, "CONFIG RESETSTAT");
    assert_eq!(text(&server, "list"), "");
    let calls = ["hlen", "hget", "hgetall"].map(|command| calls(&server, command));
    assert_eq!(calls, [1, 1, 0]);
}

#[test]
fn ten_thousand_locks_are_found_among_fifty_thousand_other_keys() {
    const LOCKS: usize = 10_000;
    let server = Server::start();
    let mut connection = server.connection();
    let numbers: Vec<usize> = (0..LOCKS).collect();
    for chunk in numbers.chunks(500) {
        let mut all = Pipeline::new();
        for number in chunk {
            let name = format!("lock:{number:05}");
            all.hset(&name, OTHER_OWNER, 1).pexpire(name, 600_000);
            for other in 0..4 {
                all.set(format!("text:{number}:{other}"), 1);
            }
            all.hset_multiple(format!("hash:{number}"), &[("a", 1), ("b", 2)]);
        }
        let () = all.exec(&mut connection).unwrap();
    }
    assert_eq!(server.ask::<usize>(&redis::cmd("DBSIZE")), LOCKS * 6);
    send(&server, "CONFIG RESETSTAT");
    let expected = numbers.iter().map(|number| format!("lock:{number:05}"));
    let expected: Vec<String> = expected.collect();
    assert_eq!(names_at(&server, "list"), expected);
    // One pass for the hashes, and one for the leases of permits.
    for (command, calls_of_it) in [
        ("keys", 0..=0),
        ("hlen", 2 * LOCKS..=2 * LOCKS + LOCKS / 10),
        ("hgetall", LOCKS..=LOCKS + LOCKS / 10),
        ("scan", 1..=2 * (LOCKS * 6 / 500 + 50)),
    ] {
        let calls = calls(&server, command);
        assert!(calls_of_it.contains(&calls), "{calls} {command}");
    }
}

/// Names that are no text, names that could drive a terminal, and names that look like the
/// notation. What is printed names the lock for the other commands.
#[test]
fn names_are_shown_so_that_they_drive_nothing_and_can_be_passed_on() {
    let server = Server::start();
    let ask = |words: &[&str]| with_long_timeout(&server).args(words).output();
    // Neither this crate nor Redisson writes such a name.
    plant(&server, b"caf\xe9");
    for (name, shown) in [
        ("\x1b[2Jgone", r"$'\x1b[2Jgone'"),
        ("a\nb", r"$'a\x0ab'"),
        ("größe", "größe"),
        ("two words", "$'two words'"),
        (r"a\xe9", r"$'a\\xe9'"),
        ("$'", r"$'$\''"),
        ("'", "'"),
    ] {
        plant(&server, name);
        let line = text(&server, "list");
        assert!(line.starts_with(&format!("{shown}  ")), "{line}");
        assert_eq!(object(&server, "list")["name"], name);
        // The notation, and what a shell makes of it.
        for argument in [shown, name] {
            if argument != "$'" {
                let output = ask(&["show", argument]).expect(0);
                let first = format!("name       {shown}\n");
                assert!(output.text().starts_with(&first), "{output:?}");
            }
        }
        let broken = ask(&["break", "-y", shown]).expect(0);
        let freed = format!("freed {shown} of {OTHER_OWNER} ");
        assert!(broken.text().starts_with(&freed), "{broken:?}");
        assert_eq!(text(&server, "list"), "");
    }
    let absent = ask(&["show", r"$'caf\xc3\xa9\x0a'"]);
    absent.expect_failure(1, &[r"no client holds $'café\x0a'"]);
    ask(&["show", r"$'caf\xe9'"]).expect_failure(64, &[r"\xNN for a byte of UTF-8"]);
}

/// Locks come and go, and keys change their types, between one question and the next.
#[test]
fn what_changes_meanwhile_is_no_error() {
    let server = Server::start();
    plant(&server, "stays");
    let stop = AtomicBool::new(false);
    let asked = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut connection = server.connection();
            while !stop.load(Relaxed) {
                for number in 0..50 {
                    let name = &format!("lock:{number}");
                    let mut change = Pipeline::new();
                    change.hset(name, OTHER_OWNER, 1).pexpire(name, 1).del(name);
                    change.set(name, 1).del(name);
                    change.hset_multiple(name, &[("a", 1), ("b", 2)]).del(name);
                    let () = change.exec(&mut connection).unwrap();
                }
            }
        });
        let asked: Vec<_> = (0..20).map(|_| ask(&server, "list --json")).collect();
        stop.store(true, Relaxed);
        asked
    });
    for output in asked {
        let found = names(&objects(&output.expect(0)));
        assert!(found.contains(&"stays".into()), "{found:?}");
    }
}

/// A key that moves from one primary to the other is one key. A primary that is away is a failure,
/// and the others are listed.
#[test]
fn a_cluster_has_locks_on_all_primaries() {
    let cluster = ClusterDeployment::start();
    let client = client_of(&cluster);
    let expected: Vec<String> = (10..70).map(|number| format!("order:{number}")).collect();
    let _held: Vec<_> = expected.iter().map(|name| hold(&client, name)).collect();
    let shards = cluster.shards_of(&expected);
    assert!((0..3).all(|shard| shards.contains(&shard)), "{shards:?}");
    let ask_all = || {
        let objects = objects_at(&cluster.urls(), "--cluster list");
        assert_eq!(names(&objects), expected);
        objects
    };
    let servers = ask_all().into_iter().map(|one| one["server"].to_string());
    let servers: std::collections::BTreeSet<String> = servers.collect();
    assert_eq!(servers.len(), 3, "{servers:?}");
    let slot = cluster.slot_of(&expected[0]);
    let migration = cluster.begin_migration(slot, cluster.another_primary(slot));
    ask_all();
    migration.move_keys();
    ask_all();
    migration.end();
    ask_all();
    let paused = cluster.pause_primary(cluster.slot_of(&expected[1]));
    let output = ask(&cluster.urls(), "--cluster --timeout 2s list --json");
    let output = output.expect_failure(69, &[&paused.address()]);
    let found = objects(&output).len();
    assert!((1..expected.len()).contains(&found), "{found:?}");
    paused.resume();
}

/// It has a part of the locks, which is not to pass for all of them.
#[test]
fn one_server_of_a_cluster_is_not_taken_for_all() {
    let cluster = ClusterDeployment::shared();
    let of_cluster = cluster.primary_of(cluster.slot_of("order:pay"));
    for command in ["list", "watch"] {
        let output = ask(&of_cluster.url(), command);
        output.expect_refusal(64, &[&of_cluster.address(), "use --cluster"]);
    }
}

#[test]
fn a_redlock_is_listed_at_each_server_that_has_it() {
    let servers = Independent::start(3);
    let _held = hold_everywhere(&servers, "order:pay");
    let list = || ask(&servers.urls(), "--redlock list --json");
    let found = objects(&list().expect(0));
    let at: Vec<&str> = found
        .iter()
        .flat_map(|one| one["server"].as_str())
        .collect();
    let mut expected: Vec<String> = servers.servers().iter().map(Server::address).collect();
    expected.sort();
    assert_eq!(at, expected);
    assert_eq!(names(&found), ["order:pay"; 3]);
    let first = servers.server(0).address();
    servers.kill(0);
    let output = list().expect(0);
    assert_eq!(objects(&output).len(), 2, "{output:?}");
    assert!(output.err.contains(&first), "{output:?}");
    servers.kill(1);
    let output = list().expect_failure(69, &[&first]);
    assert_eq!(objects(&output).len(), 1, "{output:?}");
}

#[test]
fn sentinels_lead_to_the_master() {
    let deployment = SentinelDeployment::shared();
    let name = unique("listed");
    plant(deployment.master(), &name);
    let urls = deployment.sentinel_urls();
    let list = format!("--sentinel {} list {name}", deployment.master_name());
    assert_eq!(names_at(&urls, &list), [name]);
    let unknown = ask(&urls, "--sentinel unknown list");
    unknown.expect_failure(64, &["unknown"]);
}

/// A user with the permission for some keys lists those. Without the permission for a command, it
/// fails. Without the permission for tokens, the kind is unknown: it may be fenced, or not.
#[test]
fn rights_decide_what_is_listed() {
    let server = Server::start();
    plant(&server, "order:1");
    plant(&server, "shop");
    let user = |rules: &str| with_user(&server, "ann", &format!("reset on >secret {rules}"));
    let some = user("~order:* ~redisson_lock_token:* +scan +hlen +hgetall +pttl +get");
    assert_eq!(names_at(&some, "list"), ["order:1"]);
    let blind = user("~* +scan +hgetall +pttl +get");
    ask(&blind, "list").expect_failure(69, &["hlen"]);
    let no_scan = user("~* +hlen +hgetall +pttl +get");
    ask(&no_scan, "list").expect_failure(69, &["scan"]);

    // Nothing that belongs to kinds which the user may not read is an error.
    plant_fair(&server, &["b:0"]);
    for key in ["redisson_lock_queue:{k} redisson_lock_queue:{a}", "k a"] {
        send(&server, &format!("RENAME {key}"));
    }
    plant_readers(&server);
    plant_permits(&server, "api");
    send(&server, "DEL shop order:1");
    for (rules, expected) in [
        ("~* +scan +hlen +hgetall +pttl +get", &["reentrant"][..]),
        ("+hget +llen", &["fair", "read"]),
        ("+time +zcount +zrange", &["fair", "permits", "read"]),
    ] {
        let found = objects_at(&with_user(&server, "bob", rules), "list");
        let kinds: Vec<&str> = found.iter().flat_map(|one| one["kind"].as_str()).collect();
        assert_eq!(kinds, expected);
    }

    plant(&server, "order:1");
    let no_token = user("~order:* +scan +hlen +hgetall +pttl +get");
    let listed = text(&no_token, "list");
    let kind = listed.split_whitespace().nth(1);
    assert_eq!(kind, Some("unknown"), "{listed}");
    for words in ["list", "show order:1"] {
        let found = object(&no_token, words);
        assert_eq!(found["kind"], Value::Null, "{found}");
        assert_eq!(found["owner"], OTHER_OWNER, "{found}");
    }
    let shown = text(&no_token, "show order:1");
    assert!(shown.contains("\nkind       unknown\n"), "{shown}");
}

#[test]
fn a_broken_pipe_is_no_failure_and_a_full_disk_is_one() {
    let server = Server::start();
    let mut many = Pipeline::new();
    for number in 0..5_000 {
        many.hset(format!("lock:{number}"), OTHER_OWNER, 1);
    }
    let () = many.exec(&mut server.connection()).unwrap();
    let list = || with_long_timeout(&server).arg("list");
    let (mut reader, writer) = std::io::pipe().unwrap();
    let running = list().writing_to(writer).start();
    reader.read_exact(&mut [0; 10]).unwrap();
    drop(reader);
    running.end().expect_all(0, "", "");
    // The test would prove nothing if all had gone into the pipe.
    let all = text(&server, "list");
    assert!(all.len() > 64 * 1024, "{}", all.len());

    let full = std::fs::File::create("/dev/full").unwrap();
    list().writing_to(full).output().expect(74);
}

#[test]
fn on_a_terminal_it_is_a_table() {
    let server = Server::start();
    let said = Terminal::start(&server.place(), "list order:*").ends_with(0);
    let nothing = "no lock that matches \"order:*\" is held";
    assert!(said.contains(nothing), "{said}");
    plant(&server, "order:pay");
    let said = Terminal::start(&server.place(), "list --color never").ends_with(0);
    let cells = |line: &str| -> Vec<String> {
        let cells = line.trim_end().trim_matches('│').split('┆');
        cells.map(|cell| cell.trim().to_owned()).collect()
    };
    let lines = said.lines().filter(|line| line.starts_with('│'));
    let lines: Vec<Vec<String>> = lines.map(cells).collect();
    assert_eq!(lines[0], ["NAME", "KIND", "OWNER", "COUNT", "TTL"]);
    assert_eq!(lines[1][..4], ["order:pay", "reentrant", OTHER_OWNER, "1"]);
    assert_eq!(lines.len(), 2, "{said}");
    assert!(!said.contains('\x1b'), "{said:?}");
}
