//! Clients that were called and do not answer, and lines that are lost: who notices it, and when.

use redis::Commands;

use super::*;

/// How long the client behind this number of silent ones may wait after a release of a living
/// client.
fn longest_wait(silent: u64) -> Duration {
    let time = (RESERVED * silent + 300).min(3_000);
    Duration::from_millis(time) + SLIP.get()
}

/// Two are called together in the second round, and four in the third.
#[test]
fn a_client_behind_silent_ones_gets_a_lock_that_a_living_client_released() {
    let behind = |(holder, waiter): (Make, Make), silent: usize| {
        let server = Server::start();
        let name = unique("silent");
        let held = hold_by(holder, &client(&server.url()), &name);
        let _silent = add_silent(&server, &name, silent);
        let lock = waiter(&client(&server.url()), &name);
        thread::scope(|scope| {
            let waiting = scope.spawn(|| lock.lock());
            eventually("it to wait", || places(&server, &name).len() == silent + 1);
            held.unlock().unwrap();
            within(longest_wait(silent as u64), "the lock", || {
                waiting.join().unwrap().unwrap();
            });
        });
    };
    thread::scope(|scope| {
        for kinds in [KINDS[0], KINDS[1], KINDS[2]] {
            for silent in [1, 3, 12] {
                scope.spawn(move || behind(kinds, silent));
            }
        }
    });
}

/// No message arrives, so the looks of the waiting clients have to find each release.
#[test]
fn clients_that_hear_no_message_take_a_free_lock_within_a_few_seconds_each() {
    const CLIENTS: usize = 3;
    let hand_round = |(holder, waiter): (Make, Make)| {
        let server = Server::start();
        let name = unique("unheard");
        let proxies: Vec<_> = (0..CLIENTS)
            .map(|_| proxy::before(&server.address()))
            .collect();
        let held = hold_by(holder, &client(&server.url()), &name);
        thread::scope(|scope| {
            let waiting: Vec<_> = proxies
                .iter()
                .map(|proxy| {
                    proxy.on_message(|_, _| false);
                    let lock = waiter(&client(&proxy.url()), &name);
                    scope.spawn(move || pair(&*lock))
                })
                .collect();
            eventually("all to wait", || is_waiting(&server, &name, CLIENTS));
            held.unlock().unwrap();
            let each = millis(3_000) * u32::try_from(CLIENTS).unwrap();
            within(each + SLIP.get(), "all locks", || {
                for waiting in waiting {
                    waiting.join().unwrap();
                }
            });
        });
    };
    thread::scope(|scope| {
        for kinds in KINDS {
            scope.spawn(move || hand_round(kinds));
        }
    });
}

/// An eviction policy takes it, or another program deletes it. Meanwhile other clients use the lock.
#[test]
fn the_first_clients_of_a_lost_line_ask_within_a_few_seconds() {
    for (holder, waiter) in KINDS {
        let server = Server::start();
        let name = unique("lost");
        let (busy, waits) = (client(&server.url()), client(&server.url()));
        let held = hold_by(holder, &busy, &name);
        let lock = waiter(&waits, &name);
        thread::scope(|scope| {
            let waiting = scope.spawn(|| lock.lock());
            eventually("it to wait", || is_waiting(&server, &name, 1));
            let _: u32 = server.connection().del(line(&name)).unwrap();
            held.unlock().unwrap();
            within(millis(3_000) + SLIP.get(), "the lock", || {
                while !waiting.is_finished() {
                    if held.try_lock(millis(0), Lease::RENEWED).unwrap() {
                        held.unlock().unwrap();
                    }
                }
                waiting.join().unwrap().unwrap();
            });
        });
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

/// A server that stands still takes the last requests of calls that have ended since.
#[test]
fn places_that_calls_left_behind_cost_a_moment_each() {
    const CLIENTS: usize = 8;
    let server = Server::start();
    let name = unique("ghosts");
    let mut left = HashSet::new();
    let held = hold(&client(&server.url()), &name);
    let clients: Vec<LockClient> = (0..CLIENTS).map(|_| client(&server.url())).collect();
    let wait = |client: &LockClient, wait: Duration| {
        let lock = client.reentrant_lock(&name);
        let _ = lock.try_lock(wait, Lease::RENEWED);
    };
    thread::scope(|scope| {
        let waiting: Vec<_> = clients
            .iter()
            .map(|client| scope.spawn(|| wait(client, A_WHILE.get())))
            .collect();
        eventually("all to wait", || places(&server, &name).len() == CLIENTS);
        left.extend(places(&server, &name));
        server.pause();
        waiting
            .into_iter()
            .for_each(|waiting| waiting.join().unwrap());
        server.resume();
    });
    let channels = || -> HashSet<String> { server.ask(redis::cmd("PUBSUB").arg("CHANNELS")) };
    let lock = client(&server.url()).reentrant_lock(&name);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| lock.lock());
        eventually("it to listen", || !channels().is_subset(&left));
        // At the worst, none of the clients has left the line.
        for channel in channels() {
            let mut redis = server.connection();
            let _: u32 = redis::cmd("ZADD")
                .arg(line(&name))
                .arg("NX")
                .arg(1)
                .arg(channel)
                .query(&mut redis)
                .unwrap();
        }
        held.unlock().unwrap();
        let bound = Duration::from_millis(30 * CLIENTS as u64) + SLIP.get();
        within(bound, "the lock", || waiting.join().unwrap().unwrap());
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

/// Many clients that wait for a lock send few requests while another client holds it. They begin and
/// end one after another, so that other tests have the processors, too.
#[test]
#[ignore = "waits for a minute"]
fn many_waiting_clients_send_few_requests() {
    const CROWD: usize = 1_000;
    const APART: Duration = Duration::from_millis(15);
    let server = Server::start();
    let name = unique("crowd");
    let held = client(&server.url()).reentrant_lock(&name);
    held.lock_with(Lease::fixed(Duration::from_secs(600)))
        .unwrap();
    let interrupts: Vec<Interrupt> = (0..CROWD).map(|_| Interrupt::new()).collect();
    thread::scope(|scope| {
        for interrupt in &interrupts {
            let client = client(&server.url());
            let lock = client.reentrant_lock(&name);
            scope.spawn(move || {
                lock.lock_interruptibly(Lease::RENEWED, interrupt)
                    .unwrap_err()
            });
            thread::sleep(APART);
        }
        eventually("all to wait", || places(&server, &name).len() == CROWD);
        let before = traffic::scripts(&server);
        thread::sleep(Duration::from_secs(60));
        let sent = traffic::scripts(&server) - before;
        for interrupt in &interrupts {
            interrupt.interrupt();
            thread::sleep(APART);
        }
        assert!(sent <= 50 * 60, "{sent} requests in a minute");
    });
    held.unlock().unwrap();
}
