//! Semaphores: numbers, and the leases of their permits.

use std::time::Duration;

use redis::{Cmd, Value};

use super::{Found, Probe, Refusal, command, decoded, is_wrong_type, time_to_live};
use crate::kinds::{Kind, is_beside_a_lock, is_permit, number, semaphores_of};
use crate::row::Row;
use leasehold::admin::ServerError;

/// Redisson's end of a lease that does not end.
const NEVER: i64 = 922_337_203_685_477;

/// The length of the longest number, in bytes.
const LONGEST_NUMBER: usize = 20;

/// The replies that describe a semaphore.
const READS: usize = 4;

impl Probe<'_> {
    /// The semaphores whose leased permits are in these sorted sets. A user who may not read one
    /// does not find it.
    pub(crate) fn semaphores(
        &mut self,
        sets: &[Vec<u8>],
        is_wanted: &dyn Fn(&[u8]) -> bool,
    ) -> Result<Vec<Row>, ServerError> {
        let names = sets.iter().flat_map(|set| semaphores_of(set));
        let names: Vec<&[u8]> = names.filter(|name| is_wanted(name)).collect();
        let mut rows = Vec::new();
        let arriving = self.collect_semaphores(&names, false, &mut rows)?;
        self.collect_semaphores(&arriving, true, &mut rows)?;
        Ok(rows)
    }

    /// Adds the semaphores. Returns the names that need `asking`.
    fn collect_semaphores<'k>(
        &mut self,
        names: &[&'k [u8]],
        asking: bool,
        rows: &mut Vec<Row>,
    ) -> Result<Vec<&'k [u8]>, ServerError> {
        let mut arriving = Vec::new();
        for (name, found) in names.iter().zip(self.read_semaphores(names, asking)?) {
            match found {
                Err(Refusal::Moved) if !asking => arriving.push(*name),
                found => rows.extend(found.ok().flatten()),
            }
        }
        Ok(arriving)
    }

    /// The numbers among these keys. They may be semaphores, latches, or data of other programs.
    pub(crate) fn numbers(&mut self, keys: &[Vec<u8>]) -> Result<Vec<Row>, ServerError> {
        let keys: Vec<&Vec<u8>> = keys.iter().filter(|key| !is_beside_a_lock(key)).collect();
        let reads = |key| {
            let mut value = command("GETRANGE", key);
            value.arg(0).arg(LONGEST_NUMBER);
            [value, command("PTTL", key)]
        };
        let commands = keys.iter().flat_map(reads).collect();
        let mut replies = self.run_all(commands, false)?.into_iter();
        let mut rows = Vec::new();
        for key in keys {
            let (Some(value), Some(left)) = (replies.next(), replies.next()) else {
                break;
            };
            match value
                .and_then(|value| Ok((value, left?)))
                .map_err(Refusal::of)
            {
                Ok((value, left)) => rows.extend(self.number(key, value, left)),
                Err(Refusal::Moved | Refusal::NoLock) => {}
                Err(Refusal::Failure(error)) => return Err(error),
            }
        }
        Ok(rows)
    }

    /// What a key is that is not a hash.
    pub(super) fn find_number(&mut self, key: &[u8], asking: bool) -> Result<Found, ServerError> {
        let found = self.read_semaphores(&[key], asking)?.pop();
        if let Some(Ok(Some(row))) = found {
            return Ok(Found::Held(row));
        }
        let reads = vec![command("GET", key), command("PTTL", key)];
        let mut replies = self.run_all(reads, asking)?.into_iter();
        let (Some(value), Some(left)) = (replies.next(), replies.next()) else {
            return Ok(Found::Other);
        };
        let row = match (value, left) {
            (Ok(value), Ok(left)) => self.number(key, value, left),
            (Err(error), _) if !is_wrong_type(&error) => return Err(error),
            _ => None,
        };
        Ok(row.map_or(Found::Other, Found::Held))
    }

    fn number(&self, key: &[u8], value: Value, left: Value) -> Option<Row> {
        Some(Row {
            name: key.into(),
            kind: Kind::Number(number(&value)?),
            time_to_live: time_to_live(left)?,
            server: self.server.clone(),
            holder: None,
        })
    }

    /// The semaphores with these names of which a permit is leased.
    fn read_semaphores(
        &mut self,
        names: &[&[u8]],
        asking: bool,
    ) -> Result<Vec<Result<Option<Row>, Refusal>>, ServerError> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let Some(now) = self.clock()? else {
            return Ok(Vec::new());
        };
        let commands = names.iter().flat_map(|name| self.reads(name, now));
        let mut replies = self.run_all(commands.collect(), asking)?.into_iter();
        let mut found = Vec::new();
        for name in names {
            let replies: Result<Vec<Value>, ServerError> = replies.by_ref().take(READS).collect();
            found.push(match replies {
                Ok(values) => Ok(self.semaphore(name, values, now)),
                Err(error) => Err(Refusal::of(error)),
            });
        }
        Ok(found)
    }

    /// The commands whose replies describe a semaphore at this time.
    fn reads(&self, name: &[u8], now: i64) -> [Cmd; READS] {
        let leases = self.keys(name).leases;
        let of_leases = |name, from: &str, to: &str| {
            let mut command = command(name, &leases);
            command.arg(from).arg(to);
            command
        };
        let mut last = of_leases("ZRANGE", "-1", "-1");
        last.arg("WITHSCORES");
        [
            command("GET", name),
            of_leases("ZCOUNT", "-inf", &now.to_string()),
            of_leases("ZCOUNT", &format!("({now}"), "+inf"),
            last,
        ]
    }

    fn semaphore(&self, name: &[u8], values: Vec<Value>, now: i64) -> Option<Row> {
        let [value, ended, leased, last]: [Value; READS] = values.try_into().ok()?;
        let available = number(&value)?;
        let ended: i64 = decoded(ended)?;
        let leased: u64 = decoded(leased)?;
        let last: Vec<(Vec<u8>, f64)> = decoded(last)?;
        let (permit, ends) = last.first()?;
        (leased > 0 && is_permit(permit)).then(|| Row {
            name: name.into(),
            kind: Kind::Permits {
                leased,
                available: available.saturating_add(ended),
            },
            time_to_live: lease_left(*ends, now),
            server: self.server.clone(),
            holder: None,
        })
    }
}

/// What is left of a lease that ends at this time; `None` if it does not end.
pub(crate) fn lease_left(ends: f64, now: i64) -> Option<Duration> {
    let ends = ends as i64;
    (ends < NEVER).then(|| Duration::from_millis(u64::try_from(ends - now).unwrap_or(0)))
}
