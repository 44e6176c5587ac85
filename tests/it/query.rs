//! Commands that Redis executes only while a lock or a permit is held. What is the same for each
//! kind of lock is in `contract::query`.

mod cluster;
mod late;

use redis::Pipeline;

use crate::support::prelude::*;

/// Adds one to a number.
fn add_one(key: &str) -> Pipeline {
    redis::pipe().incr(key, 1).ignore().to_owned()
}

fn number(server: &Server, key: &str) -> Option<u64> {
    server.ask(redis::cmd("GET").arg(key))
}

/// Asserts that the query may have been executed, and must not be repeated.
#[track_caller]
fn assert_unclear(result: &leasehold::Result<()>) {
    let Err(
        error @ Error::Query {
            executed: false, ..
        },
    ) = result
    else {
        panic!("{result:?}");
    };
    assert!(!error.is_transient());
    let text = error.to_string();
    assert!(
        text.contains("do not repeat it: Redis may have executed it"),
        "{text}"
    );
}

#[test]
fn a_query_is_sent_once_whatever_happens_to_it() {
    let proxied = ProxiedServer::new();
    let (name, key) = (unique("query"), unique("number"));
    let client = proxied
        .builder(SLIP.get())
        .watchdog_lease(SOON.get())
        .build()
        .unwrap();
    let lock = client.reentrant_lock(&name);
    for (fault, executed) in [
        (Fault::SwallowReply, true),
        (Fault::ResetBeforeReply, true),
        (Fault::CutInReply(2), true),
        (proxy_error(), true),
        (Fault::SwallowRequest, false),
        (Fault::HalfRequest, false),
    ] {
        let guard = lock.acquire().unwrap();
        let before = number(&proxied.server, &key).unwrap_or(0);
        let lost = proxied.fault_once("query", &fault);
        assert_unclear(&guard.query(&add_one(&key)));
        assert!(lost.load(Ordering::SeqCst), "{fault:?}");
        let after = number(&proxied.server, &key).unwrap_or(0);
        assert_eq!(after - before, u64::from(executed), "{fault:?}");
        guard.query::<()>(&add_one(&key)).unwrap();
        assert_eq!(number(&proxied.server, &key), Some(after + 1), "{fault:?}");
        guard.unlock().unwrap();
    }
}

/// Nothing was executed, so the query may be repeated.
#[test]
fn a_query_that_cannot_be_sent_is_transient() {
    let proxied = ProxiedServer::new();
    let client = proxied
        .builder(SLIP.get())
        .watchdog_lease(SOON.get())
        .build()
        .unwrap();
    let guard = client.reentrant_lock(&unique("query")).acquire().unwrap();
    proxied.proxy.refuse(true);
    proxied.proxy.cut_all();
    // From now on, the client knows that it has no connection.
    assert!(is_unavailable(&guard.confirm()));
    let result = guard.query::<()>(&add_one(&unique("number")));
    assert!(is_unavailable(&result), "{result:?}");
    proxied.proxy.refuse(false);
    guard.query::<()>(&add_one(&unique("number"))).unwrap();
}

/// Also the first command that would free memory is not executed.
#[test]
fn nothing_is_executed_if_redis_refuses_the_query() {
    let server = Server::start();
    let key = unique("number");
    let client = client(&server.url());
    let guard = client
        .reentrant_lock(&unique("query"))
        .acquire_with(long())
        .unwrap();
    server.limit_memory(1);
    let refused = guard.query::<()>(redis::pipe().del(&key).ignore().incr(&key, 1));
    assert_matches!(refused, Err(Error::Redis { .. }));
    server.limit_memory(0);
    assert_eq!(number(&server, &key), None);
    guard.query::<()>(&add_one(&key)).unwrap();
    assert_eq!(number(&server, &key), Some(1));
}

#[test]
fn threads_that_share_a_guard_query_one_after_another() {
    let server = Server::start();
    let (client, key) = (client(&server.url()), unique("number"));
    let guard = client
        .reentrant_lock(&unique("query"))
        .acquire_owned(Lease::RENEWED)
        .unwrap();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..20).for_each(|_| guard.query(&add_one(&key)).unwrap()));
        }
    });
    assert_eq!(number(&server, &key), Some(160));
}

#[test]
fn a_permit_is_checked_with_its_lease() {
    let server = Server::start();
    let (client, key) = (client(&server.url()), unique("number"));
    let semaphore = client.leased_semaphore(&unique("query"));
    semaphore.set_permits(2).unwrap();
    let [one, other] = [(); 2].map(|()| semaphore.acquire_with(long()).unwrap());
    one.query::<()>(&add_one(&key)).unwrap();
    other.query::<()>(&add_one(&key)).unwrap();
    one.query::<()>(&add_one(&key)).unwrap();
    // Its lease is over by the clock of the server, and its id is still there.
    let leases = format!("{{{}}}:timeout", semaphore.name());
    let ids: Vec<Vec<u8>> = server.ask(redis::cmd("ZRANGE").arg(&leases).arg(0).arg(-1));
    for id in ids {
        server.ask::<()>(redis::cmd("ZADD").arg(&leases).arg(1).arg(id));
    }
    for permit in [one, other] {
        assert_matches!(permit.query::<()>(&add_one(&key)), Err(Error::Lost { .. }));
        assert!(permit.is_lost());
    }
    assert_eq!(number(&server, &key), Some(3));
}

#[test]
fn a_number_key_of_another_type_is_named() {
    let server = Server::start();
    let (client, name) = (client(&server.url()), unique("query"));
    let guard = client.reentrant_lock(&name).acquire().unwrap();
    let number = format!("{{{name}}}:leasehold:query");
    server.run(&format!("LPUSH {number} 1"));
    let refused = guard.query::<()>(&add_one(&unique("number")));
    let Err(Error::WrongType { found, .. }) = &refused else {
        panic!("{refused:?}");
    };
    assert_eq!(*found, format!("a list in the key {number:?}"));
    guard.unlock().unwrap();
}

#[test]
fn all_of_several_permits_are_checked() {
    let server = Server::start();
    let (client, key) = (client(&server.url()), unique("number"));
    let semaphore = client.leased_semaphore(&unique("query"));
    semaphore.set_permits(3).unwrap();
    let permits = semaphore.acquire_many(3, long()).unwrap();
    permits.query::<()>(&add_one(&key)).unwrap();
    let last = permits.ids().last().unwrap().to_owned();
    assert!(semaphore.release(&last).unwrap());
    let other = semaphore.acquire().unwrap();
    // As a renewal says it, although the semaphore has other leased permits.
    assert_lost(&permits.query::<()>(&add_one(&key)), LostReason::Deleted);
    other.query::<()>(&add_one(&key)).unwrap();
    assert_eq!(number(&server, &key), Some(2));
}

/// The hash keeps the field of a reader that has died as long as there are others.
#[test]
fn a_reader_is_checked_with_its_lease() {
    let server = Server::start();
    let (name, key) = (unique("query"), unique("number"));
    let readers = [(); 2].map(|()| client(&server.url()).read_write_lock(&name).read());
    let [one, other] = readers
        .each_ref()
        .map(|reader| reader.acquire_with(long()).unwrap());
    let keys: Vec<String> = server.query(&format!("KEYS {{{name}}}:*:rwlock_timeout:*"));
    assert_eq!(keys.len(), 2);
    one.query::<()>(&add_one(&key)).unwrap();
    for key in keys {
        server.delete(&key);
    }
    for reader in [one, other] {
        assert_matches!(reader.query::<()>(&add_one(&key)), Err(Error::Lost { .. }));
    }
    assert_eq!(number(&server, &key), Some(1));
}

#[test]
fn a_redlock_has_no_query() {
    let servers = Independent::shared();
    let clients: Vec<LockClient> = servers.urls().iter().map(|url| client(url)).collect();
    let guard = RedLock::new(&clients, &unique("query")).acquire().unwrap();
    let refused = guard.query::<()>(&add_one("number"));
    let Err(Error::Config { rule, .. }) = &refused else {
        panic!("{refused:?}");
    };
    assert!(rule.contains("majority"), "{rule}");
}

/// The commands that the server does not let scripts call, and those that wait. Some may have other
/// flags in other versions.
#[test]
fn what_scripts_cannot_call_is_refused_before_anything_is_sent() {
    let server = Server::start();
    // The watchdog sends nothing, either.
    let quiet = builder(&server.url()).confirm_every(Duration::ZERO);
    let client = quiet.build().unwrap();
    let guard = client
        .reentrant_lock(&unique("query"))
        .acquire_with(long())
        .unwrap();
    let rows: Vec<Vec<redis::Value>> = server.query("COMMAND");
    let refused = rows.iter().filter_map(|row| {
        let name: String = redis::from_redis_value_ref(&row[0]).unwrap();
        let flags: Vec<String> = redis::from_redis_value_ref(&row[2]).unwrap();
        let waits = flags.iter().any(|flag| flag == "blocking") && !name.starts_with("xread");
        (waits || flags.iter().any(|flag| flag == "noscript")).then_some(name)
    });
    let refused: Vec<String> = refused.collect();
    assert!(refused.len() > 20, "{refused:?}");
    let more = [
        "select",
        "subscribe",
        "multi",
        "wait",
        "eval",
        "fcall",
        "client",
        "swapdb",
        "migrate",
    ];
    let mut monitor = Monitor::of(&server);
    let number = unique("number");
    let pipeline = |command: &[&str]| {
        let mut pipeline = add_one(&number);
        let mut refused = redis::cmd(command[0]);
        refused.arg(&command[1..]);
        pipeline.add_command(refused).to_owned()
    };
    for name in refused.iter().map(String::as_str).chain(more) {
        let refused = guard.query::<()>(&pipeline(&[name]));
        let Err(Error::InvalidArgument { value, lock, .. }) = &refused else {
            panic!("{name}: {refused:?}");
        };
        assert_eq!((&**value, lock.is_empty()), (&*name.to_uppercase(), false));
    }
    let waits = ["xread", "COUNT", "1", "block", "0", "STREAMS", "s", "0"];
    let reads = ["xread", "COUNT", "1", "STREAMS", "block", "0"];
    let mut many = redis::pipe();
    for _ in 0..257 {
        many.cmd("PING").ignore();
    }
    let long = vec!["key"; 7_001];
    let large = "x".repeat(8 << 20);
    for (what, pipeline) in [
        ("a block", pipeline(&waits)),
        ("no name", pipeline(&[""])),
        ("257 commands", many),
        ("many words", pipeline(&long)),
        ("8 MB", pipeline(&["set", "key", &large])),
    ] {
        let refused = guard.query::<()>(&pipeline);
        assert_matches!(refused, Err(Error::InvalidArgument { .. }), "{what}");
    }
    assert_eq!(monitor.commands(), [""; 0]);
    drop(monitor);
    guard.query::<()>(&pipeline(&reads)).unwrap();
    let most = [&["rpush", "list"][..], &vec!["x"; 6_998]].concat();
    guard.query::<()>(&pipeline(&most)).unwrap();
    let large = "x".repeat(8_000_000);
    guard
        .query::<()>(&pipeline(&["set", "key", &large]))
        .unwrap();
}
