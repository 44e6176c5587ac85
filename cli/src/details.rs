//! The owners that share a lock and the clients that wait for it, for `show`.

use std::time::Duration;

use redis::{Cmd, Value};

use super::kinds::{Kind, is_permit};
use super::probe::{Probe, command, decoded, lease_left};
use super::row::{Row, hex};
use leasehold::Holder;
use leasehold::admin::{LockKeys, ServerError};

/// The largest number of places or permits that is read, and of keys for one read lock.
const MOST: u64 = 1_000;

/// One of those that share a lock or a semaphore, or that wait for it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Share {
    /// The place in the queue of a fair lock, the owner of a read lock, or the id of a permit in
    /// hexadecimal.
    pub(super) who: String,
    /// Of a reader.
    pub(super) count: Option<u64>,
    /// `None`: it never ends.
    pub(super) time_to_live: Option<Duration>,
    /// Its process, if it is known.
    pub(super) holder: Option<Holder>,
}

impl Probe<'_> {
    /// The clients that wait for a fair lock, in their order; the readers of a read-write lock; or
    /// the leased permits, the first to end first. Empty if the user may not read them.
    pub(super) fn shares(&mut self, row: &Row, asking: bool) -> Result<Vec<Share>, ServerError> {
        let keys = self.keys(&row.name);
        match &row.kind {
            Kind::Lock { waiting: 1.., .. } => self.places(&keys, asking),
            Kind::ReadWrite { readers, .. } => {
                let mut shares = Vec::new();
                for reader in readers {
                    let time_to_live =
                        self.longest_lease(&keys, &reader.owner, reader.count, asking)?;
                    shares.push(Share {
                        who: reader.owner.clone(),
                        count: Some(reader.count),
                        // Without a key of its own, it has the lease of the lock.
                        time_to_live: time_to_live.unwrap_or(row.time_to_live),
                        holder: None,
                    });
                }
                Ok(shares)
            }
            Kind::Permits { .. } => self.permits(&keys, asking),
            Kind::Lock { .. } | Kind::Number(_) => Ok(Vec::new()),
        }
    }

    fn places(&mut self, keys: &LockKeys, asking: bool) -> Result<Vec<Share>, ServerError> {
        let mut queue = command("LRANGE", &keys.queue);
        queue.arg(0).arg(MOST - 1);
        let queue: Vec<Vec<u8>> = self.reply_to(queue, asking)?.unwrap_or_default();
        let Some(now) = self.clock()? else {
            return Ok(Vec::new());
        };
        let end = |place| command("ZSCORE", &keys.places).arg(place).clone();
        let ends = self.run_all(queue.iter().map(end).collect(), asking)?;
        let share = |(place, ends): (&Vec<u8>, Result<Value, ServerError>)| {
            // Without an end, the place has ended.
            let ends = ends.ok().and_then(decoded::<f64>).unwrap_or(0.0);
            Share {
                who: String::from_utf8_lossy(place).into(),
                count: None,
                time_to_live: lease_left(ends, now),
                holder: None,
            }
        };
        Ok(queue.iter().zip(ends).map(share).collect())
    }

    /// The longest lease of this reader; `None` if none of its holds has a key.
    fn longest_lease(
        &mut self,
        keys: &LockKeys,
        owner: &str,
        count: u64,
        asking: bool,
    ) -> Result<Option<Option<Duration>>, ServerError> {
        let left = |hold| command("PTTL", keys.read_lease(owner, hold));
        let replies = self.run_all((1..=count.min(MOST)).map(left).collect(), asking)?;
        let lefts = replies
            .into_iter()
            .filter_map(Result::ok)
            .filter_map(decoded::<i64>);
        let longest = lefts
            .filter(|left| *left != -2)
            .max_by_key(|left| left.cast_unsigned());
        Ok(longest.map(|left| u64::try_from(left).ok().map(Duration::from_millis)))
    }

    fn permits(&mut self, keys: &LockKeys, asking: bool) -> Result<Vec<Share>, ServerError> {
        let Some(now) = self.clock()? else {
            return Ok(Vec::new());
        };
        let mut leased = command("ZRANGEBYSCORE", &keys.leases);
        leased.arg(format!("({now}")).arg("+inf").arg("WITHSCORES");
        leased.arg("LIMIT").arg(0).arg(MOST);
        let leased: Vec<(Vec<u8>, f64)> = self.reply_to(leased, asking)?.unwrap_or_default();
        let permits = leased.iter().filter(|(id, _)| is_permit(id));
        let share = |(id, ends): &(Vec<u8>, f64)| Share {
            who: hex(id),
            count: None,
            time_to_live: lease_left(*ends, now),
            holder: None,
        };
        Ok(permits.map(share).collect())
    }

    /// The reply, unless Redis refuses.
    fn reply_to<T: redis::FromRedisValue>(
        &mut self,
        command: Cmd,
        asking: bool,
    ) -> Result<Option<T>, ServerError> {
        let reply = self.run_all(vec![command], asking)?.pop();
        Ok(reply.and_then(Result::ok).and_then(decoded))
    }
}
