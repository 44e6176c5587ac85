//! Fencing tokens: when they rise, when they stay, and what is left in Redis.

use leasehold::FencedLock;

use crate::support::prelude::*;

/// Acquires and releases the lock, and returns its token.
fn token(lock: &FencedLock) -> u64 {
    let guard = lock.acquire().unwrap();
    let token = guard.fencing_token();
    guard.unlock().unwrap();
    token
}

fn token_key(name: &str) -> String {
    format!("redisson_lock_token:{{{name}}}")
}

fn last_token(server: &Server, name: &str) -> Option<u64> {
    server.ask(redis::cmd("GET").arg(token_key(name)))
}

fn set(redis: &mut Connection, name: &str, value: impl redis::ToRedisArgs) {
    let mut command = redis::cmd("SET");
    let set = command.arg(token_key(name)).arg(value);
    set.exec(redis).unwrap();
}

/// Acquires the lock as Redisson's `RFencedLock` does: see WIRE.
fn java_token(redis: &mut Connection, name: &str) -> u64 {
    redis::cmd("INCR")
        .arg(token_key(name))
        .query(redis)
        .unwrap()
}

fn server_micros(server: &Server) -> u64 {
    let (seconds, micros): (u64, u64) = server.ask(&redis::cmd("TIME"));
    seconds * 1_000_000 + micros
}

/// Also after a forced release, and after a hold of Redisson, which counts from 1.
#[test]
fn tokens_rise_from_hold_to_hold() {
    let server = Server::start();
    let name = unique("rising");
    let clients = [client(&server.url()), client(&server.url())];
    let mut redis = server.connection();
    let mut last = java_token(&mut redis, &name);
    assert_eq!(last, 1);
    for turn in 0..15 {
        let lock = clients[turn % 2].fenced_lock(&name);
        let next = match turn % 5 {
            0 | 1 => token(&lock),
            2 => on_another_thread(|| token(&lock)),
            3 => java_token(&mut redis, &name),
            _ => {
                let guard = lock.acquire().unwrap();
                clients[0].force_unlock(&name).unwrap();
                guard.fencing_token()
            }
        };
        assert!(next > last, "{next} after {last}");
        assert_eq!(last_token(&server, &name), Some(next));
        last = next;
    }
}

#[test]
fn every_level_of_a_hold_has_its_token() {
    let server = Server::start();
    let lock = client(&server.url()).fenced_lock(&unique("levels"));
    lock.lock().unwrap();
    let outer = lock.acquire().unwrap();
    let fixed = Lease::fixed(LEASE.get() * 4);
    let inner = lock.try_acquire(SOON.get(), fixed).unwrap().unwrap();
    assert_eq!(inner.fencing_token(), outer.fencing_token());
    assert_eq!(lock.hold_count(), 3);
    let first = inner.fencing_token();
    inner.unlock().unwrap();
    drop(outer);
    lock.unlock().unwrap();
    assert!(!lock.is_locked().unwrap());
    assert!(token(&lock) > first);
}

/// A client that lingers reserves tokens for the holds that may follow. If it did so while the
/// tokens are ahead of the clock, they would run away from it, and fall when Redis loses the last.
#[test]
fn reserved_tokens_stay_near_the_clock() {
    const BLOCK: u64 = 256;
    let server = Server::start();
    let client = builder(&server.url()).linger(LEASE.get() / 4);
    let name = unique("blocks");
    let lock = client.build().unwrap().fenced_lock(&name);
    // An idle grant with another lease does not suit, so each hold is granted by Redis.
    let mut leases = [LEASE.get() * 3, LEASE.get() * 6].into_iter().cycle();
    let mut granted = || {
        let lease = Lease::RENEWED.lasting(leases.next().unwrap());
        let guard = lock.acquire_with(lease).unwrap();
        let token = guard.fencing_token();
        guard.unlock().unwrap();
        (token, last_token(&server, &name).unwrap())
    };
    let mut greatest = 0;
    for _ in 0..2 {
        let before = server_micros(&server);
        let (token, last) = granted();
        assert!(token > greatest, "{token} after {greatest}");
        assert!((before..=server_micros(&server)).contains(&token));
        assert_eq!(last, token + BLOCK - 1);
        greatest = last;
        server.run("FLUSHALL");
    }
    let ahead = server_micros(&server) + 3_600_000_000;
    set(&mut server.connection(), &name, ahead);
    for next in 1..=3 {
        assert_eq!(granted(), (ahead + next, ahead + next));
    }
}

/// Otherwise a Java program would begin at 1 again.
#[test]
fn the_last_token_does_not_expire() {
    let server = Server::start();
    let client = builder(&server.url()).namespace("shop").build().unwrap();
    let lock = client.fenced_lock("pay");
    let key = "redisson_lock_token:{shop:pay}";
    let left = || -> i64 { server.ask(redis::cmd("PTTL").arg(key)) };
    assert_eq!(left(), -2);
    let first = token(&lock);
    assert_eq!(left(), -1);
    // As an older version of this library has left it.
    server.ask::<()>(redis::cmd("PEXPIRE").arg(key).arg(1_000_000));
    let next = token(&lock);
    assert_eq!(left(), -1);
    assert!(first < next && java_token(&mut server.connection(), "shop:pay") == next + 1);
    let keys = server.keys();
    assert_eq!(keys, [key]);
}

#[test]
fn a_hold_without_a_token_is_not_given_one() {
    let server = Server::start();
    let client = client(&server.url());
    let name = unique("mixed");
    let (plain, fenced) = (client.reentrant_lock(&name), client.fenced_lock(&name));
    plain.lock().unwrap();
    assert_matches!(
        fenced.acquire(),
        Err(Error::InvalidArgument {
            argument: "name",
            ..
        })
    );
    assert_eq!(plain.hold_count(), 1);
    assert_eq!(client.inspect(&name).unwrap().hold_count, 1);
    plain.unlock().unwrap();
    // In the other order every hold has a token.
    let guard = fenced.acquire().unwrap();
    plain.lock().unwrap();
    plain.unlock().unwrap();
    guard.unlock().unwrap();
    assert_eq!(last_token(&server, &name).map(|last| last > 0), Some(true));
}

/// Every value but a whole number from 0 on. Lua counts in floating point: beyond the last of these
/// numbers, the next one would be equal.
#[test]
fn without_a_token_no_lock_is_acquired_and_the_counter_stays() {
    const END: u64 = 1 << 53;
    let server = Server::start();
    let name = unique("no token");
    let lock = client(&server.url()).fenced_lock(&name);
    let mut redis = server.connection();
    set(&mut redis, &name, END - 2);
    assert_eq!(token(&lock), END - 1, "the last token");
    let [end, last] = [END, i64::MAX.unsigned_abs()].map(|number| number.to_string());
    for value in [
        "seven", "nan", "-nan", "inf", "1e400", "1e15", "0x10", " 12 ", "12abc", "", "-5", "1.5",
        &end, &last,
    ] {
        set(&mut redis, &name, value);
        let refused = lock.acquire();
        assert_matches!(refused, Err(Error::Redis { .. }), "{value:?}");
        assert_eq!(server.keys(), [token_key(&name)], "{value:?}");
        let kept: String = server.ask(redis::cmd("GET").arg(token_key(&name)));
        assert_eq!((kept.as_str(), lock.hold_count()), (value, 0));
    }
    set(&mut redis, &name, 7);
    assert!(token(&lock) > 7, "the counter works again");
}

/// Also if Redis has lost the last token, or if the clock of a new master is behind it.
#[test]
fn tokens_rise_without_the_last_one_and_by_a_clock_that_is_behind() {
    let server = Server::start();
    let name = unique("rise");
    let lock = client(&server.url()).fenced_lock(&name);
    let mut last = 0;
    for _ in 0..20 {
        let next = token(&lock);
        assert!(next > last, "{next} after {last}");
        last = next;
        server.run("FLUSHALL");
    }
    let ahead = server_micros(&server) + 3_600_000_000;
    set(&mut server.connection(), &name, ahead);
    assert_eq!([token(&lock), token(&lock)], [ahead + 1, ahead + 2]);
}
