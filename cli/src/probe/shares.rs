//! The owners that share a lock and the clients that wait for it, for `show`.

use std::time::Duration;

use super::keys::lease_left;
use super::{Probe, command, time_to_live};
use crate::kinds::{Hold, Kind, MOST, decoded, is_permit};
use crate::row::{Row, Share, hex};
use leasehold::admin::{LockKeys, ServerError};

type Shares = Result<Vec<Share>, ServerError>;

impl Probe<'_> {
    /// The clients that wait for a fair lock, in their order; the readers of a read-write lock; or
    /// the leased permits, the first to end first. Empty if the user may not read them.
    pub(crate) fn shares(&mut self, row: &Row) -> Shares {
        let keys = LockKeys::new(self.client, &row.name);
        match &row.kind {
            Kind::Lock { waiting: 1.., .. } => self.places(&keys),
            Kind::ReadWrite { readers, .. } => {
                let reader = |reader| self.reader(&keys, reader, row.time_to_live);
                readers.iter().take(MOST as usize).map(reader).collect()
            }
            Kind::Permits { .. } => self.permits(&keys),
            Kind::Lock { .. } | Kind::Number(_) => Ok(Vec::new()),
        }
    }

    fn places(&mut self, keys: &LockKeys) -> Shares {
        let queue = self.run(&command(("LRANGE", &keys.queue, 0, MOST - 1)));
        let queue: Vec<Vec<u8>> = queue.ok().and_then(decoded).unwrap_or_default();
        let Some(now) = self.clock()? else {
            return Ok(Vec::new());
        };
        let ends = self.run_each(&queue, |place| [command(("ZSCORE", &keys.places, place))])?;
        let places = queue.iter().zip(ends).map(|(place, [ends])| {
            // Without an end, the place has ended.
            let ends = ends.ok().and_then(decoded::<f64>).unwrap_or(0.0);
            let who = String::from_utf8_lossy(place).into();
            Share::new(who, None, lease_left(ends, now))
        });
        Ok(places.collect())
    }

    /// A reader with the longest lease of its holds.
    fn reader(
        &mut self,
        keys: &LockKeys,
        reader: &Hold,
        lease: Option<Duration>,
    ) -> Result<Share, ServerError> {
        let holds: Vec<u64> = (1..=reader.count.min(MOST)).collect();
        let replies = self.run_each(&holds, |hold| {
            [command(("PTTL", keys.read_lease(&reader.owner, *hold)))]
        })?;
        let lefts = replies.into_iter().flatten().flatten();
        let lefts = lefts.filter_map(time_to_live);
        // A lease that never ends is the longest.
        let longest = lefts.max_by_key(|left| left.unwrap_or(Duration::MAX));
        // Without a key of its own, a reader has the lease of the lock.
        let left = longest.unwrap_or(lease);
        Ok(Share::new(reader.owner.clone(), Some(reader.count), left))
    }

    fn permits(&mut self, keys: &LockKeys) -> Shares {
        let Some(now) = self.clock()? else {
            return Ok(Vec::new());
        };
        let from = format!("({now}");
        let leased = ("ZRANGEBYSCORE", &keys.leases, from, "+inf", "WITHSCORES");
        let leased = self.run(&command((leased, "LIMIT", 0, MOST)));
        let leased: Vec<(Vec<u8>, f64)> = leased.ok().and_then(decoded).unwrap_or_default();
        let permits = leased.iter().filter(|(id, _)| is_permit(id));
        let share = |(id, ends): &(Vec<u8>, f64)| Share::new(hex(id), None, lease_left(*ends, now));
        Ok(permits.map(share).collect())
    }
}
