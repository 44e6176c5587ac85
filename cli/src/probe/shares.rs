//! The owners that share a lock and the clients that wait for it, for `show`.

use std::time::Duration;

use super::numbers::lease_left;
use super::{Probe, command, decoded, time_to_live};
use crate::kinds::{Hold, Kind, is_permit};
use crate::row::{Row, hex};
use leasehold::Holder;
use leasehold::admin::{LockKeys, ServerError};

/// The largest number of places or permits that is read, and of keys for one read lock.
const MOST: u64 = 1_000;

/// One of those that share a lock or a semaphore, or that wait for it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Share {
    /// The place in the queue of a fair lock, the owner of a read lock, or the id of a permit in
    /// hexadecimal.
    pub(crate) who: String,
    /// Of a reader.
    pub(crate) count: Option<u64>,
    /// `None`: it never ends.
    pub(crate) time_to_live: Option<Duration>,
    /// Its process, if it is known.
    pub(crate) holder: Option<Holder>,
}

impl Share {
    fn new(who: String, count: Option<u64>, time_to_live: Option<Duration>) -> Self {
        Self {
            who,
            count,
            time_to_live,
            holder: None,
        }
    }
}

impl Probe<'_> {
    /// The clients that wait for a fair lock, in their order; the readers of a read-write lock; or
    /// the leased permits, the first to end first. Empty if the user may not read them.
    pub(crate) fn shares(&mut self, row: &Row, asking: bool) -> Result<Vec<Share>, ServerError> {
        let keys = self.keys(&row.name);
        match &row.kind {
            Kind::Lock { waiting: 1.., .. } => self.places(&keys, asking),
            Kind::ReadWrite { readers, .. } => {
                let reader = |reader: &Hold| {
                    let longest = self.longest_lease(&keys, reader, asking)?;
                    // Without a key of its own, it has the lease of the lock.
                    let left = longest.unwrap_or(row.time_to_live);
                    Ok(Share::new(reader.owner.clone(), Some(reader.count), left))
                };
                readers.iter().map(reader).collect()
            }
            Kind::Permits { .. } => self.permits(&keys, asking),
            Kind::Lock { .. } | Kind::Number(_) => Ok(Vec::new()),
        }
    }

    fn places(&mut self, keys: &LockKeys, asking: bool) -> Result<Vec<Share>, ServerError> {
        let queue = command("LRANGE", &keys.queue).arg(0).arg(MOST - 1).clone();
        let queue = self.run_one(queue, asking).ok().and_then(decoded);
        let queue: Vec<Vec<u8>> = queue.unwrap_or_default();
        let Some(now) = self.clock()? else {
            return Ok(Vec::new());
        };
        let ends = self.run_each(&queue, asking, |place| {
            [command("ZSCORE", &keys.places).arg(place).clone()]
        })?;
        let places = queue.iter().zip(ends).map(|(place, [ends])| {
            // Without an end, the place has ended.
            let ends = ends.ok().and_then(decoded::<f64>).unwrap_or(0.0);
            let who = String::from_utf8_lossy(place).into();
            Share::new(who, None, lease_left(ends, now))
        });
        Ok(places.collect())
    }

    /// The longest lease of this reader; `None` if none of its holds has a key.
    fn longest_lease(
        &mut self,
        keys: &LockKeys,
        reader: &Hold,
        asking: bool,
    ) -> Result<Option<Option<Duration>>, ServerError> {
        let holds: Vec<u64> = (1..=reader.count.min(MOST)).collect();
        let replies = self.run_each(&holds, asking, |hold| {
            [command("PTTL", keys.read_lease(&reader.owner, *hold))]
        })?;
        let lefts = replies
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(time_to_live);
        // A lease that never ends is the longest.
        Ok(lefts.max_by_key(|left| left.unwrap_or(Duration::MAX)))
    }

    fn permits(&mut self, keys: &LockKeys, asking: bool) -> Result<Vec<Share>, ServerError> {
        let Some(now) = self.clock()? else {
            return Ok(Vec::new());
        };
        let mut leased = command("ZRANGEBYSCORE", &keys.leases);
        leased.arg(format!("({now}")).arg("+inf").arg("WITHSCORES");
        leased.arg("LIMIT").arg(0).arg(MOST);
        let leased = self.run_one(leased, asking).ok().and_then(decoded);
        let leased: Vec<(Vec<u8>, f64)> = leased.unwrap_or_default();
        let permits = leased.iter().filter(|(id, _)| is_permit(id));
        let share = |(id, ends): &(Vec<u8>, f64)| Share::new(hex(id), None, lease_left(*ends, now));
        Ok(permits.map(share).collect())
    }
}
