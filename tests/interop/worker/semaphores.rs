//! The commands of semaphores. The first word is the name.

use std::time::{Duration, Instant};

use leasehold::LockClient;
use redis::Commands;

use super::{Command, Session, median, number, sum_of_threads, word};
use crate::Result;

pub const COMMANDS: &[(&str, Command)] = &[
    ("semaphore-set", |session, words| {
        let set = semaphore(&session.client, words)?.try_set_permits(permits(words)?)?;
        Ok(set.to_string())
    }),
    ("semaphore-add", |session, words| {
        semaphore(&session.client, words)?.add_permits(word(words, 1)?.parse()?)?;
        Ok("ok".into())
    }),
    ("semaphore-acquire", |session, words| {
        semaphore(&session.client, words)?.acquire(permits(words)?)?;
        Ok("ok".into())
    }),
    // N WAIT, in milliseconds.
    ("semaphore-try", |session, words| {
        let wait = Duration::from_millis(number(words, 2)?);
        let acquired = semaphore(&session.client, words)?.try_acquire(permits(words)?, wait)?;
        Ok(acquired.to_string())
    }),
    ("semaphore-release", |session, words| {
        semaphore(&session.client, words)?.release(permits(words)?)?;
        Ok("ok".into())
    }),
    ("semaphore-available", |session, words| {
        Ok(semaphore(&session.client, words)?.available()?.to_string())
    }),
    ("semaphore-drain", |session, words| {
        Ok(semaphore(&session.client, words)?.drain()?.to_string())
    }),
    ("semaphore-contend", contend),
    // N: the median time of acquire and release, in nanoseconds.
    ("semaphore-pairs", |session, words| {
        let semaphore = semaphore(&session.client, words)?;
        median(number(words, 1)?, || {
            semaphore.acquire(1)?;
            Ok(semaphore.release(1)?)
        })
    }),
];

fn semaphore(client: &LockClient, words: &[&str]) -> Result<leasehold::Semaphore> {
    Ok(client.semaphore(word(words, 0)?))
}

fn permits(words: &[&str]) -> Result<u32> {
    Ok(word(words, 1)?.parse()?)
}

/// GAUGE LIMIT THREADS MILLISECONDS: the number of permits that were acquired. The gauge counts the
/// threads that have one, which is an error above the limit.
fn contend(session: &mut Session, words: &[&str]) -> Result<String> {
    let (client, url) = (&session.client, session.url.as_str());
    let (gauge, limit) = (word(words, 1)?, number(words, 2)?);
    let end = Instant::now() + Duration::from_millis(number(words, 4)?);
    sum_of_threads(number(words, 3)?, || {
        let semaphore = semaphore(client, words)?;
        let mut redis = redis::Client::open(url)?.get_connection()?;
        let mut count = 0;
        while Instant::now() < end {
            semaphore.acquire(1)?;
            let threads: u64 = redis.incr(gauge, 1)?;
            redis.decr::<_, _, ()>(gauge, 1)?;
            semaphore.release(1)?;
            if threads > limit {
                return Err(format!("{threads} permits").into());
            }
            count += 1;
        }
        Ok(count)
    })
}
