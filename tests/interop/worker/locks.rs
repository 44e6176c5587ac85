//! The commands of every kind of lock. The first two words are the kind and the name of the lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use leasehold::{Lease, Lock, LockClient, LockGuard};
use redis::Commands;

use super::{Command, Session, median, number, sum_of_threads, word};
use crate::Result;

pub const COMMANDS: &[(&str, Command)] = &[
    ("lock", lock),
    ("trylock", try_lock),
    ("unlock", unlock),
    ("force", force),
    ("holds", holds),
    ("lost", lost),
    ("contend", contend),
    ("waits", waits),
    ("pairs", pairs),
];

/// The longest wait for a loss.
const LONGEST: Duration = Duration::from_secs(30);

fn open(client: &LockClient, words: &[&str]) -> Result<Box<dyn Lock>> {
    let (kind, name) = (word(words, 0)?, word(words, 1)?);
    Ok(match kind {
        "plain" => Box::new(client.reentrant_lock(name)),
        "fenced" => Box::new(client.fenced_lock(name)),
        "fair" => Box::new(client.fair_lock(name)),
        "read" => Box::new(client.read_write_lock(name).read()),
        "write" => Box::new(client.read_write_lock(name).write()),
        "mixed-50" => read_or_write(client, name, 50),
        "mixed-90" => read_or_write(client, name, 90),
        // NAME,NAME
        "multi" => Box::new(client.multi_lock(name.split(','))),
        _ => return Err(format!("no such kind: {kind}").into()),
    })
}

/// The lock for one hold, of which this percentage only reads.
fn read_or_write(client: &LockClient, name: &str, reads: u32) -> Box<dyn Lock> {
    let locks = client.read_write_lock(name);
    if fastrand::u32(..100) < reads {
        Box::new(locks.read())
    } else {
        Box::new(locks.write())
    }
}

/// The levels of this thread on a lock.
fn levels<'a>(session: &'a mut Session, words: &[&str]) -> &'a mut Vec<LockGuard> {
    let lock = words.iter().take(2).copied().collect::<Vec<_>>().join(" ");
    session.guards.entry(lock).or_default()
}

fn lock(session: &mut Session, words: &[&str]) -> Result<String> {
    let guard = open(&session.client, words)?.acquire()?;
    levels(session, words).push(guard);
    Ok("ok".into())
}

/// WAIT LEASE, in milliseconds; the lease 0 is renewed.
fn try_lock(session: &mut Session, words: &[&str]) -> Result<String> {
    let [wait, lease] = [number(words, 2)?, number(words, 3)?].map(Duration::from_millis);
    let lease = if lease.is_zero() {
        Lease::RENEWED
    } else {
        Lease::fixed(lease)
    };
    let guard = open(&session.client, words)?.try_acquire(wait, lease)?;
    let acquired = guard.is_some();
    levels(session, words).extend(guard);
    Ok(acquired.to_string())
}

fn unlock(session: &mut Session, words: &[&str]) -> Result<String> {
    match levels(session, words).pop() {
        Some(guard) => guard.unlock()?,
        None => open(&session.client, words)?.unlock()?,
    }
    Ok("ok".into())
}

fn force(session: &mut Session, words: &[&str]) -> Result<String> {
    let freed = session.client.force_unlock(word(words, 1)?)?;
    Ok(freed.to_string())
}

fn holds(session: &mut Session, words: &[&str]) -> Result<String> {
    let lock = open(&session.client, words)?;
    Ok(lock.hold_count().to_string())
}

/// Waits until this thread has lost the lock, and returns the reason.
fn lost(session: &mut Session, words: &[&str]) -> Result<String> {
    let guard = levels(session, words).last().ok_or("not held")?;
    let reason = guard.lost().recv_timeout(LONGEST)?;
    Ok(format!("{reason:?}"))
}

/// COUNTER THREADS MILLISECONDS: the number of increments. The counter is read and written under
/// the lock.
fn contend(session: &mut Session, words: &[&str]) -> Result<String> {
    let (client, url) = (&session.client, session.url.as_str());
    let counter = word(words, 2)?;
    let end = Instant::now() + Duration::from_millis(number(words, 4)?);
    sum_of_threads(number(words, 3)?, || {
        let lock = open(client, words)?;
        let mut redis = redis::Client::open(url)?.get_connection()?;
        let mut count = 0;
        while Instant::now() < end {
            let guard = lock.acquire()?;
            let before: Option<u64> = redis.get(counter)?;
            redis.set::<_, _, ()>(counter, before.unwrap_or(0) + 1)?;
            guard.unlock()?;
            count += 1;
        }
        Ok(count)
    })
}

/// THREADS MILLISECONDS HELD: threads acquire the lock again and again, and have it for HELD
/// milliseconds. Returns how often, and the longest wait in microseconds. With the kind mixed-N,
/// N of 100 holds only read.
fn waits(session: &mut Session, words: &[&str]) -> Result<String> {
    let client = &session.client;
    let [time, held] = [number(words, 3)?, number(words, 4)?].map(Duration::from_millis);
    let longest = AtomicU64::new(0);
    let end = Instant::now() + time;
    let count = sum_of_threads(number(words, 2)?, || {
        let mut count = 0;
        while Instant::now() < end {
            let lock = open(client, words)?;
            let start = Instant::now();
            let guard = lock.acquire()?;
            longest.fetch_max(micros(start.elapsed()), Ordering::Relaxed);
            if !held.is_zero() {
                thread::sleep(held);
            }
            guard.unlock()?;
            count += 1;
        }
        Ok(count)
    })?;
    Ok(format!("{count} {}", longest.into_inner()))
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// N: the median time of a lock and unlock, in nanoseconds.
fn pairs(session: &mut Session, words: &[&str]) -> Result<String> {
    let lock = open(&session.client, words)?;
    median(number(words, 2)?, || {
        lock.lock()?;
        Ok(lock.unlock()?)
    })
}
