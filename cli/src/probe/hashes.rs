//! Locks: hashes of owners and hold counts.

use redis::Value;

use super::{Found, Probe, Reply, command, time_to_live};
use crate::kinds::Kind;
use leasehold::admin::ServerError;

/// The largest hash that is read. A read-write lock has a field for each reader.
const LARGEST: i64 = 10_000;

impl Probe<'_> {
    /// What each key is, or the error reply about it. Of a hash of several fields, only the field
    /// `mode` is read, unless it is a read-write lock.
    pub(super) fn read_hashes(
        &mut self,
        keys: &[&[u8]],
        asking: bool,
    ) -> Result<Vec<Reply<Found>>, ServerError> {
        let shapes = self.run_each(keys, asking, |key| {
            let mode = command("HGET", key).arg("mode").clone();
            [command("HLEN", key), mode]
        })?;
        let shaped = keys.iter().zip(&shapes);
        let likely = shaped.filter(|(_, [length, mode])| may_be_a_lock(length, mode));
        let likely: Vec<(&[u8], _)> = likely.map(|(key, _)| (*key, self.keys(key))).collect();
        let read = self.run_each(&likely, asking, |(key, keys)| {
            [
                command("HGETALL", key),
                command("PTTL", key),
                command("GET", &keys.last_token),
                command("LLEN", &keys.queue),
            ]
        })?;
        let mut read = read.into_iter();
        let found = keys.iter().zip(shapes).map(|(key, [length, mode])| {
            let details = if may_be_a_lock(&length, &mode) {
                read.next()
            } else {
                None
            };
            match (length?, details) {
                (_, Some(details)) => self.lock(key, details, asking),
                (Value::Int(0), None) => Ok(Found::Nothing),
                _ => Ok(Found::Other),
            }
        });
        Ok(found.collect())
    }

    /// The lock that these replies describe: fields, time to live, token, and length of the queue.
    fn lock(
        &self,
        key: &[u8],
        [fields, left, token, waiting]: [Reply; 4],
        asking: bool,
    ) -> Reply<Found> {
        let (fields, left) = (fields?, left?);
        let is_empty = fields.as_sequence().is_some_and(<[Value]>::is_empty);
        let (Some(time_to_live), false) = (time_to_live(left), is_empty) else {
            return Ok(Found::Gone);
        };
        // A token that is missing here may still be at the previous server.
        let token = token.ok().filter(|token| !asking || *token != Value::Nil);
        let kind = Kind::of_hash(fields, token, waiting.ok());
        Ok(kind.map_or(Found::Other, |kind| self.row(key, kind, time_to_live)))
    }
}

/// By the number of fields, and by the field `mode` of a read-write lock. Without the permission to
/// read that field, only read-write locks are not found.
fn may_be_a_lock(length: &Reply, mode: &Reply) -> bool {
    let has_mode = match mode {
        Ok(Value::BulkString(mode)) => matches!(&mode[..], b"read" | b"write"),
        _ => false,
    };
    match length {
        Ok(Value::Int(fields)) => *fields == 1 || has_mode && *fields <= LARGEST,
        _ => false,
    }
}
