//! The commands of semaphores whose permits have a lease. The first word is the name.

use std::time::Duration;

use leasehold::{Lease, LockClient, PermitGuard};

use super::{Command, Session, contend, median, number, word};
use crate::Result;

pub const COMMANDS: &[(&str, Command)] = &[
    ("leased-set", |session, words| {
        let permits = word(words, 1)?.parse()?;
        let set = semaphore(&session.client, words)?.try_set_permits(permits)?;
        Ok(set.to_string())
    }),
    ("leased-add", |session, words| {
        semaphore(&session.client, words)?.add_permits(word(words, 1)?.parse()?)?;
        Ok("ok".into())
    }),
    // LEASE, in milliseconds; the lease 0 is renewed. The id of the permit.
    ("leased-acquire", |session, words| {
        let lease = lease(number(words, 1)?);
        let permit = semaphore(&session.client, words)?.acquire_with(lease)?;
        Ok(keep(session, permit))
    }),
    // WAIT LEASE, in milliseconds; the lease 0 is renewed. The id of the permit, or null.
    ("leased-try", |session, words| {
        let wait = Duration::from_millis(number(words, 1)?);
        let lease = lease(number(words, 2)?);
        let permit = semaphore(&session.client, words)?.try_acquire(wait, lease)?;
        Ok(permit.map_or_else(|| "null".into(), |permit| keep(session, permit)))
    }),
    // ID
    ("leased-release", |session, words| {
        let id = word(words, 1)?;
        let permit = session.permits.remove(id).ok_or("no such permit")?;
        permit.release()?;
        Ok("true".into())
    }),
    ("leased-available", |session, words| {
        Ok(semaphore(&session.client, words)?.available()?.to_string())
    }),
    ("leased-contend", |session, words| {
        let semaphore = semaphore(&session.client, words)?;
        contend(
            session,
            words,
            || Ok(semaphore.acquire()?),
            |permit| Ok(permit.release()?),
        )
    }),
    // N: the median time of acquire and release, in nanoseconds.
    ("leased-pairs", |session, words| {
        let semaphore = semaphore(&session.client, words)?;
        median(number(words, 1)?, || Ok(semaphore.acquire()?.release()?))
    }),
];

fn semaphore(client: &LockClient, words: &[&str]) -> Result<leasehold::LeasedSemaphore> {
    Ok(client.leased_semaphore(word(words, 0)?))
}

fn lease(millis: u64) -> Lease {
    match millis {
        0 => Lease::RENEWED,
        millis => Lease::fixed(Duration::from_millis(millis)),
    }
}

/// Keeps the permit until it is released, and returns its id.
fn keep(session: &mut Session, permit: PermitGuard) -> String {
    let id = permit.id().to_owned();
    session.permits.insert(id.clone(), permit);
    id
}
