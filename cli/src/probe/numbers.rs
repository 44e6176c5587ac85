//! Numbers: semaphores with the leases of their permits, and others.

use std::time::Duration;

use redis::{Cmd, Value};

use super::{Found, Probe, Reply, command, decoded, is_moved, time_to_live};
use crate::kinds::{Kind, is_permit, number};
use leasehold::admin::ServerError;

/// Redisson's end of a lease that does not end.
const NEVER: i64 = 922_337_203_685_477;

/// The length of the longest number, in bytes.
const LONGEST_NUMBER: usize = 20;

impl Probe<'_> {
    /// The keys that are numbers. Does not read long strings.
    pub(super) fn read_numbers(
        &mut self,
        keys: &[&[u8]],
        asking: bool,
    ) -> Result<Vec<Reply<Found>>, ServerError> {
        let value = |key: &[u8]| command("GETRANGE", key).arg(0).arg(LONGEST_NUMBER).clone();
        self.read_values(keys, asking, value)
    }

    /// The same of a single key, without the permission for GETRANGE.
    pub(super) fn read_number(
        &mut self,
        keys: &[&[u8]],
        asking: bool,
    ) -> Result<Vec<Reply<Found>>, ServerError> {
        self.read_values(keys, asking, |key| command("GET", key))
    }

    fn read_values(
        &mut self,
        keys: &[&[u8]],
        asking: bool,
        value: impl Fn(&[u8]) -> Cmd,
    ) -> Result<Vec<Reply<Found>>, ServerError> {
        let read = self.run_each(keys, asking, |key| [value(key), command("PTTL", key)])?;
        let found = keys.iter().zip(read).map(|(key, [value, left])| {
            let (number, left) = (number(&value?), time_to_live(left?));
            Ok(match (number, left) {
                (Some(number), Some(left)) => self.row(key, Kind::Number(number), left),
                _ => Found::Other,
            })
        });
        Ok(found.collect())
    }

    /// The semaphores with these names of which a permit is leased. A user who may not read one
    /// does not find it.
    pub(super) fn read_semaphores(
        &mut self,
        names: &[&[u8]],
        asking: bool,
    ) -> Result<Vec<Reply<Found>>, ServerError> {
        let now = match names {
            [] => None,
            _ => self.clock()?,
        };
        let Some(now) = now else {
            return Ok(Vec::new());
        };
        let named: Vec<_> = names
            .iter()
            .map(|name| (*name, self.keys(name).leases))
            .collect();
        let read = self.run_each(&named, asking, |(name, leases)| {
            let of_leases =
                |name, from: &str, to: &str| command(name, leases).arg(from).arg(to).clone();
            [
                command("GET", name),
                of_leases("ZCOUNT", "-inf", &now.to_string()),
                of_leases("ZCOUNT", &format!("({now}"), "+inf"),
                of_leases("ZRANGE", "-1", "-1").arg("WITHSCORES").clone(),
            ]
        })?;
        let found = names.iter().zip(read).map(|(name, replies)| {
            let values: Reply<Vec<Value>> = replies.into_iter().collect();
            match values {
                Ok(values) => Ok(self.semaphore(name, values, now).unwrap_or(Found::Other)),
                Err(error) if is_moved(&error) => Err(error),
                Err(_) => Ok(Found::Other),
            }
        });
        Ok(found.collect())
    }

    /// The semaphore that these replies describe: permits, ended and other leases, the last lease.
    fn semaphore(&self, name: &[u8], values: Vec<Value>, now: i64) -> Option<Found> {
        let [value, ended, leased, last] = <[Value; 4]>::try_from(values).ok()?;
        let available = number(&value)?.saturating_add(decoded(ended)?);
        let leased: u64 = decoded(leased)?;
        let last: Vec<(Vec<u8>, f64)> = decoded(last)?;
        let (permit, ends) = last.first()?;
        let kind = Kind::Permits { leased, available };
        (leased > 0 && is_permit(permit)).then(|| self.row(name, kind, lease_left(*ends, now)))
    }
}

/// What is left of a lease that ends at this time; `None` if it does not end.
pub(super) fn lease_left(ends: f64, now: i64) -> Option<Duration> {
    let ends = ends as i64;
    (ends < NEVER).then(|| Duration::from_millis(u64::try_from(ends - now).unwrap_or(0)))
}
