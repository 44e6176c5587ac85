//! Confirmations: so that a holder learns within about a second that its lock was deleted.
//!
//! While a thread holds a lock, the watchdog asks Redis once in each interval whether it still has
//! the lock. A confirmation is a renewal for 0 ms: the script only reads, so it is sent to no
//! replica and is written to no file of the server. The cost does not depend on how many locks are
//! held: in each interval, the watchdog sends at most one script call to each server, with the
//! locks that have been unconfirmed for the longest time. So the more locks there are, the more
//! rarely each is confirmed, and at the latest by its renewal, or after two thirds of its lease.

use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};

use super::thread::{BATCH, RenewalRequest, Unconfirmed, WatchdogThread};
use super::{Shared, TargetId, Watchdog, guarded};
use crate::base::clock::Moment;
use crate::base::key::LockKey;
use crate::protocol::{self, Verdict};
use crate::script::Call;

/// Locks with the same group may share a script call: the number of their batch, and their script.
type Group = (u16, usize);

/// The script calls that one confirmation of everything takes: which of them each lock is in.
#[derive(Debug, Default)]
struct Turns {
    /// The number of calls to each server.
    calls: HashMap<Arc<str>, u32>,
    /// The last call of each group at each server, and the number of its locks.
    last: HashMap<(Arc<str>, Group), (u32, usize)>,
}

impl Turns {
    /// The number of the call that confirms the next lock of this group: 0 for the first call to
    /// this server.
    fn next(&mut self, server: Arc<str>, group: Group) -> u32 {
        let calls = self.calls.entry(Arc::clone(&server)).or_insert(0);
        let (turn, locks) = self.last.entry((server, group)).or_insert((*calls, 0));
        if *locks == BATCH {
            (*turn, *locks) = (*calls, 0);
        }
        if *locks == 0 {
            *calls += 1;
        }
        *locks += 1;
        *turn
    }
}

impl WatchdogThread {
    /// Confirms the targets that are in the first script call to each server, if one of all is due,
    /// and computes when each of the others is confirmed.
    pub(super) fn confirm(&mut self, mut unconfirmed: Vec<Unconfirmed>, until: Moment) {
        let every = self.shared.confirm_every;
        let now = Moment::now();
        let from = self.shared.state.lock().confirm_from;
        let is_due = |(since, ..): &Unconfirmed| since.after(every) <= now;
        if from > now || until <= now || !unconfirmed.iter().any(is_due) {
            self.wait_until(from, unconfirmed);
            return;
        }
        // Locks that would be due soon come with those that are.
        let soon = now.after(every / 2);
        let later = unconfirmed.extract_if(.., |(since, ..)| since.after(every) > soon);
        let later: Vec<Unconfirmed> = later.collect();
        self.wait_until(from, later);
        unconfirmed.sort_unstable_by_key(|&(since, id, _)| (since, id));
        let mut turns = Turns::default();
        let mut first: HashMap<Arc<str>, Vec<RenewalRequest>> = HashMap::new();
        for (_, id, target) in unconfirmed {
            let Some(Some(renewal)) = guarded(|| target.confirmation()) else {
                self.reschedule(id);
                continue;
            };
            let server = self.batch_client.name(&renewal.key);
            let group = (self.batch_client.batch(&renewal.key), renewal.call.order());
            match turns.next(Arc::clone(&server), group) {
                0 => first.entry(server).or_default().push((id, target, renewal)),
                turn => self.postpone_confirmation(id, now.after(every * turn)),
            }
        }
        // A server that did not reply lately is asked after the pauses of its circuit breaker.
        first.retain(|_, locks| {
            let skips = self.batch_client.skips(&locks[0].2.key);
            if skips {
                let again = now.after(every);
                locks
                    .iter()
                    .for_each(|(id, ..)| self.postpone_confirmation(*id, again));
            }
            !skips
        });
        if !first.is_empty() {
            self.shared.state.lock().confirm_from = now.after(every);
            self.send_confirmations(&first.into_values().collect::<Vec<_>>(), until);
        }
    }

    /// Sends one script call to each server. Without a clear reply the locks are confirmed later: a
    /// confirmation that fails is no failed renewal.
    fn send_confirmations(&mut self, calls: &[Vec<RenewalRequest>], until: Moment) {
        let joined = |locks: &Vec<RenewalRequest>| {
            Call::joined(locks.iter().map(|(.., renewal)| renewal.call.clone()))
        };
        let requests = calls
            .iter()
            .filter_map(|locks| Some((&locks.first()?.2.key, joined(locks)?)));
        let replies = self.batch_client.request(requests.collect(), until);
        for (locks, (reply, asked)) in calls.iter().zip(replies) {
            let verdicts = reply.and_then(|reply| protocol::verdicts(&reply, locks.len()));
            let Ok(verdicts) = verdicts else {
                locks.iter().for_each(|(id, ..)| self.reschedule_later(*id));
                continue;
            };
            for ((id, target, renewal), verdict) in locks.iter().zip(verdicts) {
                match verdict {
                    Verdict::Lost(reason) => self.lose(*id, target, reason),
                    Verdict::Done { .. } => match guarded(|| target.renewed(asked, renewal)) {
                        Some(()) => self.reschedule(*id),
                        None => self.reschedule_later(*id),
                    },
                }
            }
        }
    }

    /// Reads the schedules of these targets. None of them is confirmed before `from`.
    fn wait_until(&self, from: Moment, targets: Vec<Unconfirmed>) {
        for (_, id, _) in targets {
            self.postpone_confirmation(id, from);
        }
    }

    fn postpone_confirmation(&self, id: TargetId, earliest: Moment) {
        self.shared
            .reschedule(id, |schedule| schedule.confirmed_from(earliest));
    }
}

impl Watchdog {
    /// Makes the thread confirm the lock with this key at once.
    pub(crate) fn confirmer(&self) -> Box<dyn Fn(&str) + Send + Sync> {
        let shared = Arc::clone(&self.shared);
        Box::new(move |lock| shared.confirm_now(|key| &**key.key() == lock))
    }
}

impl Shared {
    /// Makes the thread confirm these locks at once.
    pub(super) fn confirm_now(&self, is_meant: impl Fn(&LockKey) -> bool) {
        let mut targets = self.state.lock().registry.due(Moment::NEVER);
        targets.retain(|(_, target)| is_meant(target.key()));
        for (id, target) in targets {
            target.confirm_now();
            self.reschedule(id, |schedule| schedule);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_has_the_locks_of_one_group_at_one_server() {
        let mut turns = Turns::default();
        let mut next = |server: &str, group| turns.next(server.into(), group);
        for turn in 0..3 {
            for _ in 0..BATCH {
                assert_eq!(next("one", (0, 1)), turn);
            }
        }
        // Another script, or another slot, is another call.
        assert_eq!([next("one", (0, 2)), next("one", (7, 1))], [3, 4]);
        assert_eq!([next("one", (0, 1)), next("one", (0, 2))], [5, 3]);
        assert_eq!(next("two", (0, 1)), 0);
    }
}
