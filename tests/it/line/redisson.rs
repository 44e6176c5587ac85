//! Clients beside clients of Redisson, which call no client: the first one that waits and lives
//! listens to their releases, although no message has let it ask. A client that releases a lock
//! leaves it to those that listen.

use super::*;

/// A client of Redisson takes the lock, as soon as it is free.
fn take(server: &Server, name: &str, kind: Make) {
    let is = |other: Make| std::ptr::fn_addr_eq(kind, other);
    let mut take = redis::pipe();
    take.atomic().del(name).ignore();
    if is(WRITE) {
        let owner = format!("{JAVA}:write");
        take.hset(name, "mode", "write").hset(name, owner, 1);
    } else if is(READ) {
        let lease = format!("{{{name}}}:{JAVA}:rwlock_timeout:1");
        take.hset(name, "mode", "read").hset(name, JAVA, 1);
        take.pset_ex(lease, 1, 600_000);
    } else {
        take.hset(name, JAVA, 1);
    }
    take.pexpire(name, 600_000);
    take.exec(&mut server.connection()).unwrap();
}

/// The channel on which a client of Redisson publishes its release.
fn channel(name: &str, kind: Make) -> String {
    let is_plain = std::ptr::fn_addr_eq(kind, PLAIN);
    let prefix = if is_plain {
        "redisson_lock__channel"
    } else {
        "redisson_rwlock"
    };
    format!("{prefix}:{{{name}}}")
}

fn listeners(server: &Server, channel: &str) -> u32 {
    let (_, listeners): (String, u32) = server.ask(redis::cmd("PUBSUB").arg("NUMSUB").arg(channel));
    listeners
}

/// The client gets the lock at once when it is released.
fn gets_it_after_a_release(server: &Server, name: &str, kind: Make, waiting: impl FnOnce()) {
    let channel = channel(name, kind);
    eventually("it to listen", || listeners(server, &channel) == 1);
    let mut release = redis::pipe();
    release.atomic().del(name).publish(channel, "0");
    release.exec(&mut server.connection()).unwrap();
    within(millis(100) + SLIP.get(), "the lock", waiting);
}

/// The lock was released, and a client of Redisson has taken it before the call arrived, which was
/// lost.
#[test]
fn a_client_whose_call_was_lost_hears_of_a_release() {
    for (holder, waiter) in KINDS {
        let server = Server::start();
        let name = unique("uncalled");
        let _held = hold_by(holder, &client(&server.url()), &name);
        let lock = waiter(&client(&server.url()), &name);
        thread::scope(|scope| {
            let waiting = scope.spawn(|| lock.lock());
            eventually("it to wait", || is_waiting(&server, &name, 1));
            take(&server, &name, holder);
            gets_it_after_a_release(&server, &name, holder, || {
                waiting.join().unwrap().unwrap();
            });
        });
    }
}

/// They have died, or are stopped: then they keep their subscriptions.
#[test]
fn a_client_behind_others_that_do_not_answer_hears_of_a_release() {
    for (holder, waiter) in [KINDS[0], KINDS[1], KINDS[3]] {
        for is_stopped in [false, true] {
            let server = Server::start();
            let name = unique("behind");
            take(&server, &name, holder);
            let mut connection = server.connection();
            let mut connection = connection.as_pubsub();
            for number in 0..3 {
                let place = format!("redisson_lock__channel:silent:{number}");
                add_place(&server, &name, &place);
                if is_stopped {
                    connection.subscribe(place).unwrap();
                }
            }
            let lock = waiter(&client(&server.url()), &name);
            thread::scope(|scope| {
                let waiting = scope.spawn(|| lock.lock());
                eventually("it to wait", || places(&server, &name).len() == 4);
                gets_it_after_a_release(&server, &name, holder, || {
                    waiting.join().unwrap().unwrap();
                });
            });
        }
    }
}

/// Each look of another client calls it, every two seconds, not each time that its time to answer is
/// over, which is half a second.
#[test]
fn a_first_client_that_answers_is_called_rarely() {
    const PERIOD: Duration = Duration::from_secs(6);
    for (holder, waiter) in [KINDS[0], KINDS[3]] {
        let server = Server::start();
        let name = unique("answers");
        take(&server, &name, holder);
        let place = "redisson_lock__channel:first";
        add_place(&server, &name, place);
        let mut connection = server.connection();
        let mut connection = connection.as_pubsub();
        connection.subscribe(place).unwrap();
        connection.set_read_timeout(Some(millis(100))).unwrap();
        let lock = waiter(&client(&server.url()), &name);
        thread::scope(|scope| {
            let waiting = scope.spawn(|| lock.lock());
            eventually("it to be in the line", || places(&server, &name).len() == 2);
            let (began, mut calls) = (Instant::now(), 0);
            while began.elapsed() < PERIOD {
                if connection.get_message().is_ok() {
                    calls += 1;
                    // As the script does it to which the client sends its request.
                    server.ask::<u32>(redis::cmd("ZREM").arg(line(&name)).arg(""));
                }
            }
            server.run(&format!("ZREM {} {place}", line(&name)));
            server.run(&format!("DEL {name}"));
            let mut call = redis::cmd("PUBLISH");
            call.arg(&places(&server, &name)[0])
                .arg(format!("called {name}"));
            call.exec(&mut server.connection()).unwrap();
            waiting.join().unwrap().unwrap();
            assert!((1..=5).contains(&calls), "{calls} calls");
        });
    }
}

type Release<'a> = &'a dyn Fn(&str);

/// Whether a thread releases the lock when its hold ends, a thread that cannot use the idle grant,
/// or the watchdog.
#[test]
fn a_client_lets_those_pass_that_listen_to_any_release() {
    let server = Server::start();
    let ours = builder(&server.url()).linger(A_WHILE.get());
    let (lingers, ours) = (ours.build().unwrap(), client(&server.url()));
    let release_by_watchdog = |name: &str| {
        drop(ours.reentrant_lock(name).acquire_owned(Lease::RENEWED));
        eventually("the release", || !server.has(name));
    };
    let unlock = |client: &LockClient, name: &str| {
        client
            .reentrant_lock(name)
            .acquire()
            .unwrap()
            .unlock()
            .unwrap();
    };
    let releases: [(&LockClient, Release); 3] = [
        (&ours, &|name| unlock(&ours, name)),
        (&lingers, &|name| unlock(&lingers, name)),
        (&ours, &|name| {
            release_by_watchdog(name);
            // Until the watchdog has handled the reply.
            release_by_watchdog(&unique("next"));
        }),
    ];
    for (at, (client, release)) in releases.into_iter().enumerate() {
        let name = unique("left");
        let _listening = listen(&server, &[channel(&name, PLAIN)]);
        release(&name);
        let lock = client.reentrant_lock(&name);
        let begun = Instant::now();
        lock.acquire_with(Lease::fixed(A_WHILE.get() * 10))
            .unwrap()
            .unlock()
            .unwrap();
        let took = begun.elapsed();
        // The pause for a hold of another client, which no setting changes.
        assert!(took >= Duration::from_millis(4), "{at}: {took:?}");
    }
}
