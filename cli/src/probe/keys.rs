//! Reads what keys are: locks are hashes, semaphores and latches are numbers.

use std::time::Duration;

use redis::{Cmd, Value};

use super::{Found, Probe, Reply, command, is_moved, time_to_live};
use crate::kinds::{Kind, decoded, is_permit, number};
use leasehold::admin::{LockKeys, ServerError};

/// The length of the longest number, in bytes.
const LONGEST_NUMBER: usize = 20;

/// Redisson's end of a lease that does not end.
const NEVER: i64 = 922_337_203_685_477;

/// What each key is, or the error reply about it.
type Replies = Result<Vec<Reply<Found>>, ServerError>;

impl Probe<'_> {
    /// Locks. Of a hash of several fields, only the field `mode` is read, unless it is a read-write
    /// lock.
    pub(crate) fn hashes(&mut self, names: &[&str]) -> Replies {
        let shapes = self.run_each(names, |name| {
            [command(("HLEN", name)), command(("HGET", name, "mode"))]
        })?;
        let shaped = names.iter().zip(&shapes);
        let likely = shaped.filter(|(_, [length, mode])| may_be_a_lock(length, mode));
        let likely: Vec<&str> = likely.map(|(name, _)| *name).collect();
        let client = self.client;
        let read = self.run_each(&likely, |name| {
            let keys = LockKeys::new(client, name);
            [
                command(("HGETALL", name)),
                command(("PTTL", name)),
                command(("GET", keys.last_token)),
                command(("LLEN", keys.queue)),
            ]
        })?;
        let mut read = read.into_iter();
        let found = names.iter().zip(shapes).map(|(name, [length, mode])| {
            if may_be_a_lock(&length, &mode)
                && let Some(replies) = read.next()
            {
                return self.lock(name, replies);
            }
            Ok(match length? {
                Value::Int(0) => Found::Nothing,
                _ => Found::Other,
            })
        });
        Ok(found.collect())
    }

    /// The lock that these replies describe: fields, time to live, token, and length of the queue.
    fn lock(&self, name: &str, [fields, left, token, waiting]: [Reply; 4]) -> Reply<Found> {
        let (fields, left) = (fields?, left?);
        let Some(fields) = decoded::<Vec<(String, String)>>(fields) else {
            return Ok(Found::Other);
        };
        let (Some(time_to_live), false) = (time_to_live(left), fields.is_empty()) else {
            return Ok(Found::Nothing);
        };
        // A token that is missing here may still be at the previous server.
        let token = token
            .ok()
            .filter(|token| !self.asking || *token != Value::Nil);
        let kind = Kind::of_hash(fields, token, waiting.ok());
        Ok(kind.map_or(Found::Other, |kind| self.row(name, kind, time_to_live)))
    }

    /// The semaphores with these names of which a permit is leased. A user who may not read one
    /// does not find it.
    pub(crate) fn semaphores(&mut self, names: &[&str]) -> Replies {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let Some(now) = self.clock()? else {
            return Ok(Vec::new());
        };
        let client = self.client;
        let read = self.run_each(names, |name| {
            let leases = &LockKeys::new(client, name).leases;
            [
                command(("GET", name)),
                command(("ZCOUNT", leases, "-inf", now)),
                command(("ZCOUNT", leases, format!("({now}"), "+inf")),
                command(("ZRANGE", leases, -1, -1, "WITHSCORES")),
            ]
        })?;
        let found = names.iter().zip(read).map(|(name, replies)| {
            let values: Reply<Vec<Value>> = replies.into_iter().collect();
            match values {
                Err(error) if is_moved(&error) => Err(error),
                values => {
                    let found = values
                        .ok()
                        .and_then(|values| self.semaphore(name, values, now));
                    Ok(found.unwrap_or(Found::Other))
                }
            }
        });
        Ok(found.collect())
    }

    /// The semaphore that these replies describe: permits, ended and other leases, the last lease.
    fn semaphore(&self, name: &str, values: Vec<Value>, now: i64) -> Option<Found> {
        let (free, ended, leased, last) = decoded(Value::Array(values))?;
        let (free, ended, last): (Value, i64, Vec<(Vec<u8>, f64)>) = (free, ended, last);
        let available = number(free)?.saturating_add(ended);
        let (permit, ends) = last.first()?;
        let kind = Kind::Permits { leased, available };
        (leased > 0 && is_permit(permit)).then(|| self.row(name, kind, lease_left(*ends, now)))
    }

    /// The keys that are numbers. They may be semaphores, latches, or data of other programs. Does
    /// not read long strings.
    pub(crate) fn numbers(&mut self, names: &[&str]) -> Replies {
        self.values(names, |name| command(("GETRANGE", name, 0, LONGEST_NUMBER)))
    }

    /// A number, without the permission for GETRANGE.
    pub(super) fn number(&mut self, names: &[&str]) -> Replies {
        self.values(names, |name| command(("GET", name)))
    }

    fn values(&mut self, names: &[&str], value: impl Fn(&str) -> Cmd) -> Replies {
        let read = self.run_each(names, |name| [value(name), command(("PTTL", name))])?;
        let found = names.iter().zip(read).map(|(name, [value, left])| {
            let found = number(value?).zip(time_to_live(left?));
            let row = |(number, left)| self.row(name, Kind::Number(number), left);
            Ok(found.map_or(Found::Other, row))
        });
        Ok(found.collect())
    }
}

/// True if a hash may be a lock, by the number of its fields and by the field `mode` of a read-write
/// lock. Without the permission to read that field, only read-write locks are not found.
fn may_be_a_lock(length: &Reply, mode: &Reply) -> bool {
    let has_mode = match mode {
        Ok(Value::BulkString(mode)) => matches!(&mode[..], b"read" | b"write"),
        _ => false,
    };
    matches!(length, Ok(Value::Int(fields)) if *fields == 1 || has_mode)
}

/// What is left of a lease that ends at this time; `None` if it does not end.
pub(super) fn lease_left(ends: f64, now: i64) -> Option<Duration> {
    let ends = ends as i64;
    (ends < NEVER).then(|| Duration::from_millis(u64::try_from(ends - now).unwrap_or(0)))
}
