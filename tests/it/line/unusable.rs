//! Lines that clients may not or cannot use, and clients that may not subscribe or hear nothing.

use super::*;

/// As before there were lines: each release wakes all of them.
#[test]
fn without_permission_for_the_line_all_clients_are_woken_and_there_is_one_warning() {
    logs::keep();
    let server = Server::start();
    for (holder, waiter) in KINDS {
        let name = unique("denied");
        let keys = [&name, "redisson_lock*", "*:rwlock_timeout:*"].map(|key| format!("~{key}"));
        let rules = [&["+@all".to_owned(), "&*".to_owned()], &keys[..]].concat();
        let url = server.with_user(rules);
        let worker = || client(&url);
        let held = hold_by(holder, &worker(), &name);
        let waiters = [worker(), worker()];
        thread::scope(|scope| {
            let waiting = waiters.each_ref().map(|client| {
                let lock = waiter(client, &name);
                scope.spawn(move || {
                    lock.lock().unwrap();
                    lock.unlock().unwrap();
                })
            });
            eventually("both to listen", || {
                in_redis::listeners(&server, &name) == 2
            });
            thread::sleep(SLIP.get());
            held.unlock().unwrap();
            within(millis(200) + SLIP.get(), "the messages", || {
                waiting
                    .into_iter()
                    .for_each(|waiting| waiting.join().unwrap());
            });
        });
        let warnings = logs::warnings_about(&name);
        assert_eq!(
            warnings.len(),
            waiters.len(),
            "one of each client: {warnings:#?}"
        );
        assert!(warnings[0].contains("leasehold_line"), "{warnings:?}");
    }
}

/// The user loses rights, or another program writes to the key of the line. Then the releases call
/// no client, also not those that are far from the head of the line.
#[test]
fn all_clients_of_a_line_that_cannot_be_used_ask_within_a_few_seconds() {
    const CROWD: usize = 12;
    let spoilt: [fn(&Server, &str); 3] = [
        |server, name| server.run(&format!("ACL SETUSER worker resetkeys ~{name}")),
        |server, _| server.run("ACL SETUSER worker -zadd -zrange -zrank -zrem -zscore"),
        |server, name| server.run(&format!("SET {} 1", line(name))),
    ];
    let wait = |(holder, waiter): (Make, Make), spoil: fn(&Server, &str)| {
        let server = Server::start();
        let url = server.with_user(&["~*", "&*", "+@all"]);
        let name = unique("spoilt");
        let held = hold_by(holder, &client(&url), &name);
        let locks: Vec<_> = (0..CROWD).map(|_| waiter(&client(&url), &name)).collect();
        thread::scope(|scope| {
            let waiting: Vec<_> = locks
                .iter()
                .map(|lock| scope.spawn(|| pair(&**lock)))
                .collect();
            eventually("all to wait", || is_waiting(&server, &name, CROWD));
            spoil(&server, &name);
            held.unlock().unwrap();
            within(millis(3_000) + SLIP.get(), "all locks", || {
                for waiting in waiting {
                    waiting.join().unwrap();
                }
            });
        });
    };
    thread::scope(|scope| {
        for spoil in spoilt {
            for kinds in &KINDS[..2] {
                scope.spawn(move || wait(*kinds, spoil));
            }
        }
    });
}

/// How often each of these locks, of a client of its own, is acquired while all always want it.
fn holds_of(locks: &[Box<dyn Lock>]) -> Vec<u32> {
    let end = Instant::now() + A_WHILE.get() * 2;
    let count = |lock: &dyn Lock| {
        let mut holds = 0;
        while Instant::now() < end {
            if lock.try_lock(SOON.get(), Lease::RENEWED).unwrap() {
                holds += 1;
                thread::sleep(Duration::from_millis(3));
                lock.unlock().unwrap();
            }
        }
        holds
    };
    thread::scope(|scope| {
        let workers: Vec<_> = locks
            .iter()
            .map(|lock| scope.spawn(|| count(&**lock)))
            .collect();
        let holds = workers.into_iter().map(|worker| worker.join().unwrap());
        holds.collect()
    })
}

/// The last client may not subscribe. PUBLISH tells the scripts only whether a client listens, and
/// such a client does not.
fn has_its_share(holds: &[u32]) {
    let theirs = holds[0].min(holds[1]);
    assert!(holds[2] * 10 >= theirs * 3, "{holds:?}");
}

#[test]
fn a_client_that_may_not_subscribe_has_its_share_of_a_contended_lock() {
    let server = Server::start();
    let deaf = server.with_user(&["~*", "&*", "+@all", "-subscribe"]);
    // A reader contends with writers.
    for (make, make_deaf) in [(PLAIN, PLAIN), (WRITE, WRITE), (WRITE, READ), (FAIR, FAIR)] {
        let name = unique("deaf");
        let two = || [(); 2].map(|()| make(&client(&server.url()), &name));
        let without: u32 = holds_of(&two()).iter().sum();
        let [one, other] = two();
        let beside = holds_of(&[one, other, make_deaf(&client(&deaf), &name)]);
        has_its_share(&beside);
        let sum: u32 = beside.iter().sum();
        // Half of it on a machine that does nothing else.
        assert!(sum * 4 >= without, "{beside:?} beside {without}");
    }
}

/// In a cluster, the place of a client is a channel of its own for each lock.
#[test]
fn a_client_of_a_cluster_that_may_not_subscribe_has_its_share_of_a_contended_lock() {
    let cluster = ClusterDeployment::start();
    for server in cluster.nodes() {
        server.run("ACL SETUSER worker reset on >secret ~* +@all allchannels -ssubscribe");
    }
    let builder = LockClient::builder_cluster(cluster.urls());
    let deaf = builder.clone().credentials(Some("worker"), "secret");
    let name = unique("deaf");
    let locks = [builder.clone(), builder, deaf];
    has_its_share(&holds_of(
        &locks.map(|one| PLAIN(&one.build().unwrap(), &name)),
    ));
}
