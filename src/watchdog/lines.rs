//! The lines that this client looks after: those in which its threads wait, and those from which
//! its scripts have called another client.
//!
//! | event | the next look |
//! |---|---|
//! | a script of this client called another client | when the time to answer is over |
//! | a thread waits, and a call has no answer | when the time to answer is over |
//! | a thread waits otherwise | after two seconds; far from the head of the line, later |
//! | a look | when its reply says |
//!
//! If a thread waits because an owner holds a lock, the call was answered. In the line of a
//! semaphore, another one may have no answer, so an earlier look stays. Far from the head it is
//! postponed to a second after the request: if a line of many clients goes on, their requests do
//! what a look does.
//!
//! A look is `lua/line_look.lua`: it calls the next client if the one that was called does not
//! come. It finds out that the place of a waiting thread was lost, that a client of Redisson, which
//! calls no client, has got the lock, or that leases of permits have ended.

use std::sync::Arc;
use std::time::Duration;

use foldhash::{HashMap, HashMapExt};

use super::thread::{BATCH, WatchdogThread};
use super::{Shared, Watchdog};
use crate::base::{LockKey, Moment, Unparker};
use crate::protocol::{LookReply, look_replies};
use crate::script::{self, Call, Look};
use crate::transport::links::Purpose;

/// For how long a client that was called may answer: `RESERVED` in `lua/shared/reserved.lua`.
const RESERVED: Duration = Duration::from_millis(500);

/// After how long a thread that waits is looked after first: `SOON` in `lua/line_look.lua`.
const SOON: Duration = Duration::from_secs(2);

/// The longest time until the first look: `LATEST` in `lua/line_look.lua`.
const LATEST: Duration = Duration::from_secs(28);

/// The number of clients that look after [`SOON`], and how much later each further one does. So the
/// looks of a crowd that began to wait together are spread over half a minute.
const NEAR: u32 = 10;
const LATER: Duration = Duration::from_millis(25);

/// After how long a look is repeated that got no reply, and to when one is postponed.
const AGAIN: Duration = Duration::from_secs(1);

/// Looks that are due in the same period of this length are sent together.
const PERIOD: Duration = Duration::from_millis(50);

/// The lines by the keys of their locks. No I/O.
///
/// Its mutex protects: `next` is not later than any look. No other mutex is locked under it.
#[derive(Debug)]
pub(super) struct Lines {
    lines: HashMap<Arc<str>, Line>,
    /// When the watchdog has to look into this again. It may be earlier than the first look.
    pub(super) next: Moment,
    /// Counts the waits.
    waits: u64,
}

#[derive(Debug)]
struct Line {
    key: LockKey,
    look_at: Moment,
    /// The last look or request found a call without an answer.
    follows_call: bool,
    /// When a script of this client last called another client.
    called: Moment,
    waiter: Option<LineWaiter>,
    /// The number of the waiter's wait.
    wait: u64,
}

/// A thread of the client that waits in a line.
#[derive(Debug)]
pub(crate) struct LineWaiter {
    pub(crate) place: Arc<str>,
    /// The thread also listens to the channel for releases.
    pub(crate) listens: bool,
    /// What the thread waits for has a lease.
    pub(crate) has_lease: bool,
    pub(crate) unparker: Unparker,
}

impl Default for Lines {
    fn default() -> Self {
        Self {
            lines: HashMap::new(),
            next: Moment::NEVER,
            waits: 0,
        }
    }
}

impl Line {
    fn of(key: &LockKey) -> Self {
        Self {
            key: key.clone(),
            look_at: Moment::NEVER,
            follows_call: false,
            called: Moment::ZERO,
            waiter: None,
            wait: 0,
        }
    }

    /// Looks at this moment, or a little later together with others.
    fn set(&mut self, look_at: Moment, follows_call: bool) {
        self.look_at = look_at.after(look_at.left_of(PERIOD));
        self.follows_call = follows_call;
    }

    /// True if more than one client at a time is called and granted what it waits for. Then a grant
    /// does not show that another client has answered.
    fn is_of_permits(&self) -> bool {
        self.key.family().has_permits()
    }

    fn call(&self) -> Call {
        let waiter = self.waiter.as_ref();
        let look = Look {
            place: waiter.map(|waiter| &*waiter.place),
            follows_call: self.follows_call,
            listens: waiter.is_some_and(|waiter| waiter.listens),
            has_lease: waiter.is_some_and(|waiter| waiter.has_lease),
        };
        script::look_at_line(&self.key, &look)
    }
}

impl Lines {
    /// Changes the line of a lock. Returns when the watchdog has to wake up if that is earlier than
    /// before.
    fn change(&mut self, key: &LockKey, change: impl FnOnce(&mut Line, u64)) -> Option<Moment> {
        self.waits += 1;
        let line = self.lines.entry(Arc::clone(key.key()));
        let line = line.or_insert_with(|| Line::of(key));
        change(line, self.waits);
        let look_at = line.look_at;
        let is_earlier = look_at < self.next;
        if is_earlier {
            self.next = look_at;
        }
        is_earlier.then_some(look_at)
    }

    /// The keys and calls of the looks that are due at `now`. They are repeated if they get no
    /// reply.
    fn take_due(&mut self, now: Moment) -> Vec<(LockKey, Call)> {
        if self.next > now {
            return Vec::new();
        }
        let mut due = Vec::new();
        for line in self.lines.values_mut().filter(|line| line.look_at <= now) {
            due.push((line.key.clone(), line.call()));
            // Now, because no reply may come.
            line.set(now.after(AGAIN), line.follows_call);
        }
        let looks = self.lines.values().map(|line| line.look_at);
        self.next = looks.min().unwrap_or(Moment::NEVER);
        due
    }

    /// Records the reply to a look that was sent at `asked`. Returns the thread that has to ask,
    /// which the caller wakes without the mutex.
    fn replied(&mut self, key: &LockKey, reply: LookReply, asked: Moment) -> Option<Unparker> {
        let line = self.lines.get_mut(key.key())?;
        let woken = match (reply, &line.waiter) {
            (LookReply::Ask, Some(waiter)) => {
                let woken = waiter.unparker.clone();
                line.set(Moment::now().after(SOON), false);
                Some(woken)
            }
            (LookReply::LookAfter(time), _) => {
                line.set(asked.after(time), time <= RESERVED);
                None
            }
            (LookReply::Nothing, Some(_)) => {
                line.set(Moment::now().after(SOON), false);
                None
            }
            (LookReply::Nothing | LookReply::Ask, None) => {
                self.lines.remove(key.key());
                None
            }
        };
        let looks = self.lines.get(key.key()).map(|line| line.look_at);
        self.next = self.next.min(looks.unwrap_or(Moment::NEVER));
        woken
    }

    /// As if this time had passed.
    #[cfg(feature = "testing")]
    pub(super) fn skip(&mut self, time: Duration) {
        for line in self.lines.values_mut() {
            line.look_at = line.look_at.before(time);
        }
        self.next = self.next.before(time);
    }
}

/// A thread waits in the line of a lock. Dropped when it does not wait any more.
#[derive(Debug)]
pub(crate) struct LineWait<'a> {
    shared: &'a Shared,
    key: &'a LockKey,
    id: u64,
}

impl Watchdog {
    /// A script of this client has called a client in the line of this lock.
    pub(crate) fn called(&self, key: &LockKey) {
        self.shared.called(key);
    }

    /// A thread waits in the line of this lock, behind `rank` clients. Its request, which was sent
    /// after `asked`, was refused. `pending`: a call has no answer, and stays valid for this time.
    pub(crate) fn wait_in_line<'a>(
        &'a self,
        key: &'a LockKey,
        waiter: LineWaiter,
        rank: u32,
        asked: Moment,
        pending: Option<Duration>,
    ) -> LineWait<'a> {
        let first = (SOON + LATER * rank.saturating_sub(NEAR)).min(LATEST);
        let look_at = Moment::now().after(pending.unwrap_or(first));
        let mut id = 0;
        let earlier = self.shared.lines.lock().change(key, |line, wait| {
            id = wait;
            (line.waiter, line.wait) = (Some(waiter), wait);
            // The holder of a lock has answered the call.
            let is_answered = pending.is_none() && !line.is_of_permits() && line.called <= asked;
            if is_answered || look_at < line.look_at {
                line.set(look_at, pending.is_some());
            } else if line.is_of_permits() && rank >= NEAR {
                let postponed = line.look_at.max(Moment::now().after(AGAIN));
                line.set(postponed, line.follows_call);
            }
        });
        self.shared.look_by(earlier);
        LineWait {
            shared: &self.shared,
            key,
            id,
        }
    }
}

impl LineWait<'_> {
    /// The thread has got the lock. Unless it has permits, no other client is called now.
    pub(crate) fn granted(self) {
        let lines = &mut self.shared.lines.lock().lines;
        if let Some(line) = lines.get(self.key.key())
            && line.is_of(self.id)
            && !line.is_of_permits()
        {
            lines.remove(self.key.key());
        }
    }
}

impl Line {
    /// True if this wait is the last one, and has not ended.
    fn is_of(&self, wait: u64) -> bool {
        self.waiter.is_some() && self.wait == wait
    }
}

impl Drop for LineWait<'_> {
    fn drop(&mut self) {
        let lines = &mut self.shared.lines.lock().lines;
        if let Some(line) = lines.get_mut(self.key.key())
            && line.is_of(self.id)
        {
            line.waiter = None;
            if !line.follows_call {
                lines.remove(self.key.key());
            }
        }
    }
}

impl Shared {
    /// A script of this client has called a client in the line of this lock.
    pub(super) fn called(&self, key: &LockKey) {
        let look_at = Moment::now().after(RESERVED);
        let earlier = self.lines.lock().change(key, |line, _| {
            line.called = Moment::now();
            if look_at < line.look_at {
                line.set(look_at, true);
            }
        });
        self.look_by(earlier);
    }

    /// Wakes the thread if it would sleep beyond this moment.
    fn look_by(&self, earlier: Option<Moment>) {
        if let Some(look_at) = earlier {
            self.wake_by(self.state.lock(), look_at);
        }
    }
}

impl WatchdogThread {
    /// Looks after the lines that are due.
    pub(super) fn look(&self, until: Moment) {
        let now = Moment::now();
        let mut due = self.shared.lines.lock().take_due(now);
        let topology = &self.redis.topology;
        let slot = |(key, _): &(LockKey, Call)| topology.batch(key);
        // Neighbours can share a call.
        due.sort_by_key(slot);
        let batches: Vec<_> = due
            .chunk_by(|one, other| slot(one) == slot(other))
            .flat_map(|alike| alike.chunks(BATCH))
            .collect();
        let requests = batches.iter().filter_map(|batch| {
            let calls = batch.iter().map(|(_, call)| call.clone());
            Some((&batch[0].0, Call::joined(calls)?))
        });
        let redis = &self.redis;
        let replies = redis.request_many(Purpose::Caller, requests.collect(), until);
        for (batch, (reply, asked)) in batches.iter().zip(replies) {
            let replies = reply.and_then(|reply| look_replies(&reply, batch.len()));
            // What got no reply is repeated.
            for ((key, _), reply) in batch.iter().zip(replies.unwrap_or_default()) {
                let woken = self.shared.lines.lock().replied(key, reply, asked);
                if let Some(woken) = woken {
                    woken.unpark();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The scripts of lines and the watchdog count with the same numbers.
    #[test]
    fn the_scripts_have_the_same_times() {
        let millis = |name| Duration::from_millis(script::constant(name));
        assert_eq!(RESERVED, millis("RESERVED") / 1000);
        assert_eq!(SOON, millis("SOON"));
        assert_eq!(LATEST, millis("LATEST"));
        assert_eq!(u64::from(NEAR), script::constant("NEAR"));
        // Two looks may fail before the line is lost.
        assert!(millis("KEPT") >= (LATEST + AGAIN + PERIOD) * 3);
    }
}
