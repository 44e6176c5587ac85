//! Locks: hashes of owners and hold counts.

use redis::{Cmd, Value};

use super::{Found, Probe, Refusal, Reply, command, is_forbidden, time_to_live};
use crate::kinds::Kind;
use crate::row::Row;
use leasehold::admin::ServerError;

/// The largest hash that is read. A read-write lock has a field for each reader.
const LARGEST: i64 = 10_000;

/// What the number of fields of a hash, and its field `mode`, say about it.
enum Shape {
    OneField,
    Fields,
    WithMode,
    Settled(Result<Found, ServerError>),
}

impl Probe<'_> {
    /// Those of the keys that are locks. This includes keys that are still moving to this server.
    pub(crate) fn locks(&mut self, keys: &[Vec<u8>]) -> Result<Vec<Row>, ServerError> {
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let mut rows = Vec::new();
        let arriving = self.collect_locks(&keys, false, &mut rows)?;
        self.collect_locks(&arriving, true, &mut rows)?;
        Ok(rows)
    }

    /// Adds the locks. Returns the keys that need `asking`.
    fn collect_locks<'k>(
        &mut self,
        keys: &[&'k [u8]],
        asking: bool,
        rows: &mut Vec<Row>,
    ) -> Result<Vec<&'k [u8]>, ServerError> {
        let mut arriving = Vec::new();
        for (key, found) in keys.iter().zip(self.read_hashes(keys, asking)?) {
            match found.map_err(Refusal::of) {
                Ok(Found::Held(row)) => rows.extend(Some(row).filter(|row| row.kind.is_certain())),
                Err(Refusal::Moved) if !asking => arriving.push(*key),
                Ok(_) | Err(Refusal::Moved | Refusal::NoLock) => {}
                Err(Refusal::Failure(error)) => return Err(error),
            }
        }
        Ok(arriving)
    }

    /// What each key is, or the error reply about it. Of a hash of several fields, only the field
    /// `mode` is read, unless it is a read-write lock.
    pub(super) fn read_hashes(
        &mut self,
        keys: &[&[u8]],
        asking: bool,
    ) -> Result<Vec<Result<Found, ServerError>>, ServerError> {
        let lengths = keys.iter().map(|key| command("HLEN", key)).collect();
        let replies = self.run_all(lengths, asking)?.into_iter();
        let mut shapes: Vec<Shape> = replies.map(Shape::of_length).collect();
        self.read(keys, &mut shapes, asking)?;
        self.read(keys, &mut shapes, asking)?;
        let settled = |shape| match shape {
            Shape::Settled(found) => found,
            _ => Ok(Found::Other),
        };
        Ok(shapes.into_iter().map(settled).collect())
    }

    /// Reads what is next about each key that is not settled, all at once.
    fn read(
        &mut self,
        keys: &[&[u8]],
        shapes: &mut [Shape],
        asking: bool,
    ) -> Result<(), ServerError> {
        let each = keys.iter().zip(&*shapes);
        let commands = each.flat_map(|(key, shape)| self.next_commands(key, shape));
        let commands: Vec<Cmd> = commands.collect();
        let mut replies = self.run_all(commands, asking)?.into_iter();
        for (key, shape) in keys.iter().zip(shapes) {
            let mut next = || replies.next().unwrap_or(Ok(Value::Nil));
            *shape = match shape {
                Shape::Settled(_) => continue,
                Shape::Fields => Shape::of_mode(next()),
                Shape::OneField => {
                    let read = [next(), next(), next(), next()];
                    Shape::Settled(self.lock(key, read, asking))
                }
                Shape::WithMode => {
                    let read = [next(), next(), Ok(Value::Nil), Ok(Value::Nil)];
                    Shape::Settled(self.lock(key, read, asking))
                }
            };
        }
        Ok(())
    }

    fn next_commands(&self, key: &[u8], shape: &Shape) -> Vec<Cmd> {
        match shape {
            Shape::Settled(_) => Vec::new(),
            Shape::Fields => vec![command("HGET", key).arg("mode").clone()],
            Shape::WithMode => vec![command("HGETALL", key), command("PTTL", key)],
            Shape::OneField => {
                let keys = self.keys(key);
                vec![
                    command("HGETALL", key),
                    command("PTTL", key),
                    command("GET", keys.last_token),
                    command("LLEN", keys.queue),
                ]
            }
        }
    }

    /// The lock that these replies describe: fields, time to live, token, and length of the queue.
    fn lock(
        &self,
        key: &[u8],
        [fields, left, token, waiting]: [Reply; 4],
        asking: bool,
    ) -> Result<Found, ServerError> {
        let (fields, left) = (fields?, left?);
        let is_empty = fields.as_sequence().is_some_and(<[Value]>::is_empty);
        let left = time_to_live(left);
        let (Some(time_to_live), false) = (left, is_empty) else {
            return Ok(Found::Gone);
        };
        // A token that is missing here may still be at the previous server.
        let token = token.ok().filter(|token| !asking || *token != Value::Nil);
        let kind = Kind::of_hash(fields, token, waiting.ok());
        Ok(kind.map_or(Found::Other, |kind| {
            Found::Held(Row {
                name: key.into(),
                kind,
                time_to_live,
                server: self.server.clone(),
                holder: None,
            })
        }))
    }
}

impl Shape {
    fn of_length(reply: Reply) -> Self {
        match reply {
            Ok(Value::Int(0)) => Self::Settled(Ok(Found::Nothing)),
            Ok(Value::Int(1)) => Self::OneField,
            Ok(Value::Int(2..=LARGEST)) => Self::Fields,
            Ok(_) => Self::Settled(Ok(Found::Other)),
            Err(error) => Self::Settled(Err(error)),
        }
    }

    fn of_mode(reply: Reply) -> Self {
        match reply {
            Ok(Value::BulkString(mode)) if [&b"read"[..], b"write"].contains(&&mode[..]) => {
                Self::WithMode
            }
            Ok(_) => Self::Settled(Ok(Found::Other)),
            // Without this permission, only read-write locks are not found.
            Err(error) if is_forbidden(&error) => Self::Settled(Ok(Found::Other)),
            Err(error) => Self::Settled(Err(error)),
        }
    }
}
