//! `leasehold list`.

use std::collections::BTreeMap;
use std::io::Read;
use std::process::Stdio;
use std::time::Duration;

use leasehold::{Lease, LockClient};
use redis::Pipeline;

use crate::locks::{
    MINUTE, OTHER_OWNER, ask, ask_at, client, hold, hold_everywhere, names, objects, plant, send,
    with_long_timeout,
};
use crate::program::Output;
use crate::support::deployment::{ClusterDeployment, Independent, SentinelDeployment};
use crate::support::server::Server;
use crate::support::timing::eventually;
use crate::terminal::Terminal;

fn list(server: &Server) -> Output {
    ask(server, "list --json").expect(0)
}

#[test]
fn each_lock_is_a_line_in_the_order_of_names() {
    let server = Server::start();
    let client = client(&server);
    let pay = client.reentrant_lock("order:pay");
    let _pay = hold(&client, "order:pay");
    pay.lock_with(Lease::fixed(MINUTE)).unwrap();
    let lock = client.fenced_lock("order:ship");
    let _ship = lock
        .try_acquire(Duration::ZERO, Lease::fixed(MINUTE))
        .unwrap();
    let holder = |name| client.inspect(name).unwrap();
    eventually("both levels to be seen", || {
        holder("order:pay").hold_count == 2
    });
    let output = ask(&server, "list").expect(0);
    let lines = output.lines();
    let lines: Vec<Vec<&str>> = lines
        .iter()
        .map(|l| l.split_whitespace().collect())
        .collect();
    let owner = |name| holder(name).owner.unwrap();
    let (pays, ships) = (owner("order:pay"), owner("order:ship"));
    assert_eq!(lines[0][..4], ["order:pay", "reentrant", &pays, "2"]);
    assert_eq!(lines[1][..4], ["order:ship", "fenced", &ships, "1"]);
    let left: f64 = lines[0][4].trim_end_matches('s').parse().unwrap();
    assert!((1.0..=60.0).contains(&left), "{lines:?}");
    assert_eq!((lines.len(), lines[0].len()), (2, 5), "{lines:?}");
    assert_eq!(output.err, "");
    pay.unlock().unwrap();
}

#[test]
fn json_has_stable_keys() {
    let server = Server::start();
    plant(&server, b"a");
    send(&server, &["PERSIST a"]);
    let expected = serde_json::json!({
        "name": "a", "kind": "reentrant", "owner": OTHER_OWNER, "count": 1, "ttl_ms": null
    });
    assert_eq!(objects(&list(&server)), [expected]);
    send(&server, &["PEXPIRE a 60000"]);
    let found = objects(&list(&server));
    let left = found[0]["ttl_ms"].as_u64().unwrap();
    assert!((1..=60_000).contains(&left), "{found:?}");
}

#[test]
fn a_pattern_chooses() {
    let server = Server::start();
    for name in ["order:1", "order:2", "shop"] {
        plant(&server, name.as_bytes());
    }
    for (pattern, expected) in [
        ("order:*", &["order:1", "order:2"][..]),
        ("order:?", &["order:1", "order:2"]),
        ("*[2p]", &["order:2", "shop"]),
        ("shop", &["shop"]),
        ("sho", &[]),
    ] {
        let found = ask(&server, &format!("list {pattern} --json"));
        assert_eq!(names(&found.expect(0)), expected, "{pattern}");
    }
}

#[test]
fn what_is_no_lock_is_left_out() {
    let server = Server::start();
    for command in [
        "SET text 1",
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
    ] {
        send(&server, &[command]);
    }
    plant(&server, b"lock");
    assert_eq!(names(&list(&server)), ["lock"]);
}

/// Keys that are no locks cost a HLEN and a HGET, and only if they are hashes.
#[test]
fn ten_thousand_locks_are_found_among_fifty_thousand_other_keys() {
    const LOCKS: usize = 10_000;
    let server = Server::start();
    let mut connection = server.connection();
    for chunk in 0..LOCKS / 500 {
        let mut all = Pipeline::new();
        for number in chunk * 500..(chunk + 1) * 500 {
            all.cmd("HSET")
                .arg(format!("lock:{number:05}"))
                .arg(OTHER_OWNER)
                .arg(1);
            all.cmd("PEXPIRE")
                .arg(format!("lock:{number:05}"))
                .arg(600_000);
            for other in 0..4 {
                all.cmd("SET").arg(format!("text:{number}:{other}")).arg(1);
            }
            all.cmd("HSET")
                .arg(format!("hash:{number}"))
                .arg("a")
                .arg(1)
                .arg("b")
                .arg(2);
        }
        let () = all.exec(&mut connection).unwrap();
    }
    assert_eq!(server.ask::<usize>(&redis::cmd("DBSIZE")), LOCKS * 6);
    send(&server, &["CONFIG RESETSTAT"]);
    let expected: Vec<String> = (0..LOCKS)
        .map(|number| format!("lock:{number:05}"))
        .collect();
    let output = list(&server);
    assert_eq!(names(&output), expected);
    let calls = calls(&server);
    let of = |command| calls.get(command).copied().unwrap_or(0);
    assert_eq!(of("keys"), 0, "{calls:?}");
    assert!(
        (2 * LOCKS..2 * LOCKS + LOCKS / 10).contains(&of("hlen")),
        "{calls:?}"
    );
    assert!(
        (LOCKS..LOCKS + LOCKS / 10).contains(&of("hgetall")),
        "{calls:?}"
    );
    // One pass for the hashes, and one for the leases of permits.
    assert!(of("scan") <= 2 * (LOCKS * 6 / 500 + 50), "{calls:?}");
}

fn calls(server: &Server) -> BTreeMap<String, usize> {
    let stats: String = server.ask(redis::cmd("INFO").arg("commandstats"));
    let line = |line: &str| {
        let (command, rest) = line.strip_prefix("cmdstat_")?.split_once(':')?;
        let calls = rest.strip_prefix("calls=")?.split_once(',')?.0;
        Some((command.to_owned(), calls.parse().ok()?))
    };
    stats.lines().filter_map(line).collect()
}

#[test]
fn a_big_hash_that_is_not_a_lock_is_never_read() {
    let server = Server::start();
    let mut big = redis::cmd("HSET");
    big.arg("big");
    for field in 0..1_000 {
        big.arg(field).arg("x".repeat(100));
    }
    let () = server.ask(&big);
    send(&server, &["CONFIG RESETSTAT"]);
    assert_eq!(list(&server).text(), "");
    let calls = calls(&server);
    assert_eq!(calls.get("hlen"), Some(&1), "{calls:?}");
    assert_eq!(calls.get("hget"), Some(&1), "{calls:?}");
    assert_eq!(calls.get("hgetall"), None, "{calls:?}");
}

#[test]
fn names_are_shown_so_that_they_drive_nothing() {
    let server = Server::start();
    for name in [
        &b"\x1b[2Jgone"[..],
        b"a\nb",
        b"caf\xe9",
        "größe".as_bytes(),
        b"two words",
    ] {
        plant(&server, name);
    }
    let output = ask(&server, "list").expect(0);
    let expected = [
        r"$'\x1b[2Jgone'",
        r"$'a\x0ab'",
        r"$'caf\xe9'",
        "größe",
        "$'two words'",
    ];
    let lines = output.lines();
    for name in expected {
        assert!(
            lines.iter().any(|line| line.starts_with(name)),
            "{name} in {lines:#?}"
        );
    }
    let wanted = ["\x1b[2Jgone", "a\nb", "caf\u{fffd}", "größe", "two words"];
    let mut found = names(&list(&server));
    found.sort();
    assert_eq!(found, wanted);
}

/// Names that are no text, and names that look like the notation.
#[test]
fn what_list_prints_names_the_lock_for_the_other_commands() {
    use std::os::unix::ffi::OsStrExt;
    let server = Server::start();
    for name in [&b"caf\xe9"[..], b"two words", br"a\xe9", b"$'", b"'"] {
        plant(&server, name);
        let line = list_text(&server).remove(0);
        let (shown, _) = line.split_once("  ").unwrap();
        let argument = std::ffi::OsStr::from_bytes(name);
        // The notation, and the bytes that a shell makes of it.
        for name in [std::ffi::OsStr::new(shown), argument] {
            if name.as_bytes() == b"$'" {
                continue;
            }
            let show = with_long_timeout(&server.url()).arg("show").arg(name);
            let text = show.output().expect(0).text();
            assert!(text.starts_with(&format!("name       {shown}\n")), "{text}");
        }
        let found = objects(&list(&server)).remove(0);
        let hex = found.get("name_hex").and_then(serde_json::Value::as_str);
        let expected = (name == b"caf\xe9").then_some("636166e9");
        assert_eq!(hex, expected, "{found}");
        let broken = with_long_timeout(&server.url()).args(["break", "-y", shown]);
        let text = broken.output().expect(0).text();
        assert!(
            text.starts_with(&format!("freed {shown} of {OTHER_OWNER} ")),
            "{text}"
        );
        assert_eq!(list_text(&server), [""; 0]);
    }
    let absent = with_long_timeout(&server.url()).args(["show", r"$'caf\xe9'"]);
    absent
        .output()
        .expect_failure(1, &[r"no client holds $'caf\xe9'"]);
}

fn list_text(server: &Server) -> Vec<String> {
    ask(server, "list").expect(0).lines()
}

/// The client computes no slot of such a name.
#[test]
fn a_name_that_is_no_text_is_found_in_a_cluster() {
    let cluster = ClusterDeployment::shared();
    let tag = crate::support::unique("bytes");
    let name = [format!("{{{tag}}}").as_bytes(), b"\xe9"].concat();
    plant(cluster.primary_of(cluster.slot_of(&tag)), &name);
    let shown = format!(r"$'{{{tag}}}\xe9'");
    let ask = |args: &[&str]| {
        let program = with_long_timeout(&cluster.urls().join(",")).arg("--cluster");
        program.args(args).arg(&shown).output()
    };
    assert!(ask(&["list"]).expect(0).text().starts_with(&shown));
    ask(&["show"]).expect(0);
    ask(&["break", "-y"]).expect(0);
    ask(&["show"]).expect_failure(1, &[&shown]);
}

/// Locks come and go, and keys change their types, between one question and the next.
#[test]
fn what_changes_meanwhile_is_no_error() {
    let server = Server::start();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let asked = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut connection = server.connection();
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                for number in 0..50 {
                    let name = format!("lock:{number}");
                    let mut change = Pipeline::new();
                    change.cmd("HSET").arg(&name).arg(OTHER_OWNER).arg(1);
                    change.cmd("PEXPIRE").arg(&name).arg(1);
                    change.cmd("DEL").arg(&name);
                    change.cmd("SET").arg(&name).arg(1);
                    change.cmd("DEL").arg(&name);
                    change
                        .cmd("HSET")
                        .arg(&name)
                        .arg("a")
                        .arg(1)
                        .arg("b")
                        .arg(2);
                    change.cmd("DEL").arg(&name);
                    let () = change.exec(&mut connection).unwrap();
                }
            }
        });
        plant(&server, b"stays");
        let asked: Vec<Output> = (0..20).map(|_| ask(&server, "list --json")).collect();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        asked
    });
    for output in asked {
        let output = output.expect(0);
        assert!(names(&output).contains(&"stays".into()), "{output:?}");
    }
}

/// A key that moves from one primary to the other is one key.
#[test]
fn a_cluster_has_locks_on_all_primaries() {
    let cluster = ClusterDeployment::start();
    let client = LockClient::builder_cluster(cluster.urls()).build().unwrap();
    let expected: Vec<String> = (10..70).map(|number| format!("order:{number}")).collect();
    let _held: Vec<_> = expected.iter().map(|name| hold(&client, name)).collect();
    let shards = cluster.shards_of(&expected);
    assert!((0..3).all(|shard| shards.contains(&shard)), "{shards:?}");
    let ask = || {
        let program =
            with_long_timeout(&cluster.urls().join(",")).args(["--cluster", "list", "--json"]);
        let output = program.output().expect(0);
        assert_eq!(names(&output), expected);
        objects(&output)
    };
    let mut servers: Vec<String> = ask().iter().map(|one| one["server"].to_string()).collect();
    servers.sort();
    servers.dedup();
    assert_eq!(servers.len(), 3, "{servers:?}");
    let slot = cluster.slot_of(&expected[0]);
    let migration = cluster.begin_migration(slot, cluster.another_primary(slot));
    ask();
    migration.move_keys();
    ask();
    migration.end();
    ask();
}

/// It has a part of the locks, which is not to pass for all of them.
#[test]
fn one_server_of_a_cluster_is_not_taken_for_all() {
    let cluster = ClusterDeployment::shared();
    let urls = cluster.urls();
    let address = urls[0].trim_start_matches("redis://");
    for command in ["list", "watch"] {
        for redlock in ["no", "yes"] {
            let urls = &urls[..if redlock == "yes" { 3 } else { 1 }];
            let program = with_long_timeout(&urls.join(",")).env("LEASEHOLD_REDLOCK", redlock);
            let output = program.arg(command).output();
            let output = output.expect_failure(64, &[address, "--cluster"]);
            assert_eq!(output.text(), "");
        }
    }
}

#[test]
fn a_primary_that_is_away_is_a_failure_and_the_others_are_listed() {
    let cluster = ClusterDeployment::start();
    let client = LockClient::builder_cluster(cluster.urls()).build().unwrap();
    let all: Vec<String> = (10..70).map(|number| format!("order:{number}")).collect();
    let held: Vec<_> = all.iter().map(|name| hold(&client, name)).collect();
    let paused = cluster.pause_primary(cluster.slot_of(&all[0]));
    let program = with_long_timeout(&cluster.urls().join(","));
    let program = program.args(["--cluster", "--timeout", "2s", "list", "--json"]);
    let output = program.output().expect_failure(69, &[&paused.address()]);
    let found = names(&output);
    assert!(!found.is_empty() && found.len() < all.len(), "{found:?}");
    paused.resume();
    drop(held);
}

#[test]
fn a_redlock_is_listed_at_each_server_that_has_it() {
    let servers = Independent::start(3);
    let _held = hold_everywhere(&servers, "order:pay");
    let ask = || ask_at(&servers.urls().join(","), "--redlock list --json");
    let output = ask().expect(0);
    let at: Vec<String> = objects(&output)
        .iter()
        .map(|one| one["server"].as_str().unwrap().to_owned())
        .collect();
    let mut expected: Vec<String> = servers.servers().iter().map(Server::address).collect();
    expected.sort();
    assert_eq!(at, expected);
    assert_eq!(names(&output), ["order:pay"; 3]);
    servers.kill(0);
    let output = ask().expect(0);
    assert_eq!(names(&output).len(), 2, "{output:?}");
    assert!(
        output.err.contains(&servers.server(0).address()),
        "{output:?}"
    );
    servers.kill(1);
    let output = ask().expect_failure(69, &[&servers.server(0).address()]);
    assert_eq!(names(&output).len(), 1, "{output:?}");
}

#[test]
fn sentinels_lead_to_the_master() {
    let deployment = SentinelDeployment::shared();
    let name = crate::support::unique("listed");
    plant(deployment.master(), name.as_bytes());
    let output = with_long_timeout(&deployment.sentinel_urls().join(","))
        .args([
            "--sentinel",
            deployment.master_name(),
            "list",
            &name,
            "--json",
        ])
        .output();
    assert_eq!(names(&output.expect(0)), [name]);
    let output = ask_at(
        &deployment.sentinel_urls().join(","),
        "--sentinel unknown list",
    );
    output.expect_failure(64, &["unknown"]);
}

#[test]
fn failures_are_one_line_with_their_status() {
    let server = Server::options().password("open").start();
    let address = server.address();
    for (url, status, word) in [
        (&*format!("redis://{address}"), 69, "refused"),
        (&*format!("redis://:secret@{address}"), 69, &*address),
        ("redis://127.0.0.1:1", 69, "127.0.0.1:1"),
        ("redis://127.0.0.1:1,redis://127.0.0.1:2", 64, "--cluster"),
    ] {
        let output = ask_at(url, "list").expect_failure(status, &[word]);
        assert!(!output.err.contains("secret"), "{output:?}");
    }
    server.pause();
    let output = ask(&server, "--timeout 100ms list");
    output.expect_failure(69, &[&address, "no reply in time"]);
}

/// A user with the permission for some keys lists those. Without the permission for a command, it
/// fails.
#[test]
fn rights_decide_what_is_listed() {
    let server = Server::start();
    plant(&server, b"order:1");
    plant(&server, b"shop");
    let rights = |rights: &str| {
        send(
            &server,
            &[&format!("ACL SETUSER ann reset on >pass {rights}")],
        );
        ask_at(
            &format!("redis://ann:pass@{}", server.address()),
            "list --json",
        )
    };
    let some = rights("~order:* ~redisson_lock_token:* +scan +hlen +hgetall +pttl +get");
    assert_eq!(names(&some.expect(0)), ["order:1"]);
    let blind = rights("~* +scan +hgetall +pttl +get");
    blind.expect_failure(69, &["hlen"]);
    rights("~* +hlen +hgetall +pttl +get").expect_failure(69, &["scan"]);
}

/// It may be fenced, and it may be not.
#[test]
fn without_the_permission_for_tokens_the_kind_is_unknown() {
    let server = Server::start();
    plant(&server, b"order:1");
    send(
        &server,
        &["ACL SETUSER ann on >pass ~order:* +scan +hlen +hgetall +pttl +get"],
    );
    let url = format!("redis://ann:pass@{}", server.address());
    let ask = |args: &[&str]| with_long_timeout(&url).args(args).output().expect(0);
    let listed = ask(&["list"]).lines().remove(0);
    assert_eq!(
        listed.split_whitespace().nth(1),
        Some("unknown"),
        "{listed}"
    );
    for args in [&["list", "--json"][..], &["show", "order:1", "--json"]] {
        let found = objects(&ask(args)).remove(0);
        assert_eq!(found["kind"], serde_json::Value::Null, "{found}");
        assert_eq!(found["owner"], OTHER_OWNER, "{found}");
    }
    let shown = ask(&["show", "order:1"]).text();
    assert!(shown.contains("\nkind       unknown\n"), "{shown}");
}

/// Its reader is gone before it has written all.
#[test]
fn a_broken_pipe_is_no_failure() {
    let server = Server::start();
    let mut many = Pipeline::new();
    for number in 0..5_000 {
        many.cmd("HSET")
            .arg(format!("lock:{number}"))
            .arg(OTHER_OWNER)
            .arg(1);
    }
    let () = many.exec(&mut server.connection()).unwrap();
    let mut command = std::process::Command::new(crate::program::PATH);
    command.env("LEASEHOLD_URL", server.url()).arg("list");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut first = [0; 10];
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut first).unwrap();
    drop(out);
    let ended = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&ended.stderr), "");
    assert_eq!(ended.status.code(), Some(0));
    // The test would prove nothing if all had gone into the pipe.
    let all = list(&server);
    assert!(all.out.len() > 64 * 1024, "{}", all.out.len());
}

#[test]
fn a_full_disk_is_a_failure() {
    let server = Server::start();
    plant(&server, b"a");
    let full = std::fs::File::create("/dev/full").unwrap();
    let mut command = std::process::Command::new(crate::program::PATH);
    command.env("LEASEHOLD_URL", server.url()).arg("list");
    let ended = command.stdout(full).output().unwrap();
    assert_eq!(ended.status.code(), Some(74), "{ended:?}");
}

#[test]
fn on_a_terminal_it_is_a_table() {
    let server = Server::start();
    let terminal = Terminal::start(&server.url(), "list order:*");
    let said = terminal.ends_with(0);
    assert!(
        said.contains("no lock that matches \"order:*\" is held"),
        "{said}"
    );
    plant(&server, b"order:pay");
    let terminal = Terminal::start(&server.url(), "list --color never");
    let said = terminal.ends_with(0);
    let lines: Vec<&str> = said.lines().filter(|line| line.starts_with('│')).collect();
    let cells = |line: &str| -> Vec<String> {
        let cells = line.trim_end().trim_matches('│').split('┆');
        cells.map(|cell| cell.trim().to_owned()).collect()
    };
    assert_eq!(
        cells(lines[0]),
        ["NAME", "KIND", "OWNER", "COUNT", "TTL"],
        "{said}"
    );
    assert_eq!(
        cells(lines[1])[..4],
        ["order:pay", "reentrant", OTHER_OWNER, "1"],
        "{said}"
    );
    assert_eq!(lines.len(), 2, "{said}");
    assert!(!said.contains('\x1b'), "{said:?}");
}
