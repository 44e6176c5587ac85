//! The commands of semaphores. The first word is the name.

use std::time::Duration;

use leasehold::LockClient;

use super::{Command, contend, median, number, word};
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
    ("semaphore-contend", |session, words| {
        let semaphore = semaphore(&session.client, words)?;
        contend(
            session,
            words,
            || Ok(semaphore.acquire(1)?),
            |()| Ok(semaphore.release(1)?),
        )
    }),
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
