//! Commands whose threads acquire something again and again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use redis::{Commands, Connection};

use super::{Session, millis, open};
use crate::Result;

/// Repeats `work`, and returns its median time in nanoseconds.
pub fn median(times: &str, mut work: impl FnMut() -> Result<()>) -> Result<String> {
    let mut took = Vec::new();
    for _ in 0..times.parse()? {
        let start = Instant::now();
        work()?;
        took.push(start.elapsed());
    }
    took.sort_unstable();
    let median: &Duration = took.get(took.len() / 2).ok_or("repeated no times")?;
    Ok(median.as_nanos().to_string())
}

/// Repeats `work` on several threads for a time, with the number of the repetition. Returns the sum
/// of the results.
fn repeat(
    url: &str,
    [threads, time]: [&str; 2],
    work: impl Fn(&mut Connection, u64) -> Result<u64> + Sync,
) -> Result<String> {
    let end = Instant::now() + millis(time)?;
    let threads: u64 = threads.parse()?;
    let run = || {
        let mut redis = redis::Client::open(url)?.get_connection()?;
        let mut sum = 0;
        for at in 1.. {
            if Instant::now() >= end {
                break;
            }
            sum += work(&mut redis, at)?;
        }
        Ok(sum)
    };
    let sum: u64 = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        let results = threads.into_iter().map(thread::ScopedJoinHandle::join);
        results
            .map(|result| result.map_err(|_| "a thread panicked")?)
            .sum::<Result<u64>>()
    })?;
    Ok(sum.to_string())
}

impl Session {
    /// Holds the fenced lock, and adds each token to the list while it does.
    pub fn tokens(&self, name: &str, list: &str, holds: u64) -> Result<String> {
        let lock = self.client.fenced_lock(name);
        let mut redis = redis::Client::open(self.url.as_str())?.get_connection()?;
        for _ in 0..holds {
            let guard = lock.acquire()?;
            redis.rpush::<_, _, ()>(list, format!("rust:{}", guard.fencing_token()))?;
            guard.unlock()?;
        }
        Ok("ok".into())
    }

    /// Reads and writes the counter under the lock. Returns the number of increments.
    pub fn contend(
        &self,
        [kind, name]: [&str; 2],
        counter: &str,
        threads: &str,
        time: &str,
    ) -> Result<String> {
        repeat(&self.url, [threads, time], |redis, _| {
            let guard = open(&self.client, kind, name)?.acquire()?;
            let before: Option<u64> = redis.get(counter)?;
            redis.set::<_, _, ()>(counter, before.unwrap_or(0) + 1)?;
            guard.unlock()?;
            Ok(1)
        })
    }

    /// Has the lock for some time again and again. Returns how often, and the longest wait in
    /// microseconds. With the kind mixed-N, N of 100 holds only read.
    pub fn waits(
        &self,
        [kind, name]: [&str; 2],
        threads: &str,
        time: &str,
        held: &str,
    ) -> Result<String> {
        let held = millis(held)?;
        let longest = AtomicU64::new(0);
        let count = repeat(&self.url, [threads, time], |_, _| {
            let lock = open(&self.client, kind, name)?;
            let start = Instant::now();
            let guard = lock.acquire()?;
            let micros = u64::try_from(start.elapsed().as_micros())?;
            longest.fetch_max(micros, Ordering::Relaxed);
            if !held.is_zero() {
                thread::sleep(held);
            }
            guard.unlock()?;
            Ok(1)
        })?;
        Ok(format!("{count} {}", longest.into_inner()))
    }

    /// Returns the number of writes, each of two values that are equal for all readers. Every
    /// fourth hold writes.
    pub fn read_write(&self, name: &str, key: &str, threads: &str, time: &str) -> Result<String> {
        let [first, second] = ["first", "second"].map(|part| format!("{key}:{part}"));
        repeat(&self.url, [threads, time], |redis, at| {
            let is_writing = at % 4 == 0;
            let kind = if is_writing { "write" } else { "read" };
            let guard = open(&self.client, kind, name)?.acquire()?;
            let values: [Option<u64>; 2] = [redis.get(&first)?, redis.get(&second)?];
            let [one, other] = values.map(Option::unwrap_or_default);
            if one != other {
                return Err(format!("read {one} and {other}").into());
            }
            if is_writing {
                redis.set::<_, _, ()>(&first, one + 1)?;
                redis.set::<_, _, ()>(&second, one + 1)?;
            }
            guard.unlock()?;
            Ok(u64::from(is_writing))
        })
    }

    /// GAUGE LIMIT THREADS MILLISECONDS: the number of permits that were acquired. The gauge counts
    /// the threads that have one, which is an error above the limit.
    pub fn share<P>(
        &self,
        load: &[&str],
        acquire: impl Fn() -> leasehold::Result<P> + Sync,
        release: impl Fn(P) -> leasehold::Result<()> + Sync,
    ) -> Result<String> {
        let &[gauge, limit, threads, time] = load else {
            return Err("too few words".into());
        };
        let limit: u64 = limit.parse()?;
        repeat(&self.url, [threads, time], |redis, _| {
            let permit = acquire()?;
            let holders: u64 = redis.incr(gauge, 1)?;
            redis.decr::<_, _, ()>(gauge, 1)?;
            release(permit)?;
            if holders > limit {
                return Err(format!("{holders} permits").into());
            }
            Ok(1)
        })
    }
}
