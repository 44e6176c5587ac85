//! The renewal loop: sleep, collect what is due, ask Redis for all of it at once, tell the results.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use redis::{RedisError, RedisResult, Value};

use super::{Id, Renew, Schedule, Shared, Step, Withdrawal};
use crate::clock::Moment;
use crate::conn::{Advice, Node, Wire};
use crate::error::LostReason;
use crate::observe::{Observer, tell};
use crate::script::{self, Renewal, Verdict};

/// Locks in one script call: few calls for many locks, yet none that keeps Redis busy for long.
const BATCH: usize = 250;

/// Withdrawals between two looks at what is due.
const WITHDRAWALS: usize = 50;

/// The longest sleep while anything is watched. A sleep does not count the time that the machine
/// is suspended, as leases do; this bounds how long after waking up that stays unnoticed.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// After a panic.
const AFTER_PANIC: Duration = Duration::from_millis(100);

pub(super) struct Worker {
    pub(super) shared: Arc<Shared>,
    node: Arc<Node>,
    observer: Arc<Observer>,
    command_timeout: Duration,
    wire: Option<Wire>,
    /// The last attempt to use a connection failed.
    pub(super) cut_off: bool,
}

/// One lock of a pass, and what is asked of Redis for it.
type Asked = (Id, Arc<dyn Renew>, Renewal);

/// What there is to do.
struct Work {
    due: Vec<(Id, Arc<dyn Renew>)>,
    withdrawals: Vec<Withdrawal>,
    /// When the I/O for it ends.
    until: Moment,
}

impl Worker {
    pub(super) fn new(
        shared: Arc<Shared>,
        node: Arc<Node>,
        observer: Arc<Observer>,
        command_timeout: Duration,
    ) -> Self {
        Self {
            shared,
            node,
            observer,
            command_timeout,
            wire: None,
            cut_off: false,
        }
    }

    pub(super) fn run(mut self) {
        while let Some(work) = self.next_work() {
            // Should anything panic in it, what is registered stays registered, and the connection under
            // way is gone.
            let pass = catch_unwind(AssertUnwindSafe(|| self.pass(work)));
            if pass.is_err() {
                self.rest();
            }
        }
    }

    fn pass(&mut self, work: Work) {
        let renewals = self.step_all(&work.due);
        self.renew(&renewals, work.until);
        if (self.cut_off && !renewals.is_empty()) || work.until.is_past() {
            // The time for another try belongs to the renewals.
            work.withdrawals.into_iter().for_each(|w| self.put_off(w));
        } else {
            self.settle(&work.due, work.until);
            self.withdraw(work.withdrawals, work.until);
        }
    }

    /// What panics once may panic every time, and what was due is still due.
    fn rest(&self) {
        let end = Moment::now().after(AFTER_PANIC);
        let mut state = self.shared.state.lock();
        while !state.stop && !end.is_past() {
            self.shared.changed.wait_for(&mut state, end.left());
        }
    }

    /// Sleeps until there is something to do; `None`: stop.
    fn next_work(&self) -> Option<Work> {
        let mut state = self.shared.state.lock();
        loop {
            if state.stop {
                return None;
            }
            let now = Moment::now();
            let due = state.registry.due(now);
            let mut withdrawals = Vec::new();
            state.withdrawals.retain(|withdrawal| {
                let later = withdrawal.due > now || withdrawals.len() == WITHDRAWALS;
                if !later {
                    withdrawals.push(withdrawal.clone());
                }
                later
            });
            if !due.is_empty() || !withdrawals.is_empty() {
                // Busy, not asleep: what comes in meanwhile is seen at the next turn of the loop.
                state.asleep_until = Moment::ZERO;
                // A hang must leave time for more than one try.
                let shortest = state.registry.shortest_lease();
                let timeout = shortest.map_or(self.command_timeout, |lease| {
                    self.command_timeout.min(lease / 6)
                });
                let until = now.after(timeout);
                // Whoever listens for its loss is to hear of it when the lease ends, not after the I/O.
                // But leases that end one after another must leave the others time to be renewed.
                let next_end = state.registry.next_end(now, until);
                let next_end = next_end.map(|end| end.max(now.after(timeout / 4)));
                return Some(Work {
                    due,
                    withdrawals,
                    until: next_end.map_or(until, |end| end.min(until)),
                });
            }
            let next = state.withdrawals.iter().map(|w| w.due);
            let next = next.chain(state.registry.next_due()).min();
            state.asleep_until =
                next.map_or(Moment::NEVER, |due| due.min(now.after(LONGEST_SLEEP)));
            if state.asleep_until == Moment::NEVER {
                self.shared.changed.wait(&mut state);
            } else {
                let sleep = state.asleep_until.since(now);
                self.shared.changed.wait_for(&mut state, sleep);
            }
        }
    }

    /// Asks each target what it wants; those that want a renewal come back.
    fn step_all(&self, due: &[(Id, Arc<dyn Renew>)]) -> Vec<Asked> {
        let now = Moment::now();
        let mut renewals = Vec::with_capacity(due.len());
        for (id, target) in due {
            match guarded(|| target.step(now)) {
                Some(Step::Renew(renewal)) => renewals.push((*id, Arc::clone(target), renewal)),
                Some(Step::Wait(schedule)) => self.reschedule(*id, schedule),
                Some(Step::Over) => drop(self.forget(*id)),
                None => self.reschedule(*id, after_panic()),
            }
        }
        renewals
    }

    /// Renews in batches that are sent together, so that the whole takes one round trip and the
    /// server's time.
    fn renew(&mut self, renewals: &[Asked], until: Moment) {
        let batches: Vec<&[Asked]> = renewals.chunks(BATCH).collect();
        let again = self.renew_batches(&batches, until, script::Call::by_hash);
        let again = self.renew_batches(&again, until, script::Call::by_source);
        self.renew_batches(&again, until, script::Call::by_hash);
    }

    /// Answers with the batches that are worth another attempt at once: those whose script the
    /// server does not know, and each lock alone of one that was refused while others were not.
    fn renew_batches<'a>(
        &mut self,
        batches: &[&'a [Asked]],
        until: Moment,
        packed: fn(&script::Call) -> Vec<u8>,
    ) -> Vec<&'a [Asked]> {
        let mut again = Vec::new();
        if batches.is_empty() {
            return again;
        }
        let requests: Vec<u8> = batches
            .iter()
            .flat_map(|batch| packed(&script::renew(batch.iter().map(|(.., renewal)| renewal))))
            .collect();
        self.observer
            .counters
            .renewal_calls
            .add(batches.len() as u64);
        let (mut wire, asked) = match self.send(&requests, until) {
            Ok(sent) => sent,
            Err(error) => {
                self.fail(batches, &error);
                return again;
            }
        };
        let mut refused: Vec<&[Asked]> = Vec::new();
        let mut refusal = None;
        for (place, &batch) in batches.iter().enumerate() {
            match wire.receive() {
                Ok(reply) => self.settle_batch(batch, &reply, asked),
                Err(error) => match Advice::on(&error) {
                    Advice::SendSource => again.push(batch),
                    Advice::Reconnect | Advice::Crowded | Advice::Forget => {
                        // The replies after a broken one cannot be told apart any more.
                        self.fail(&batches[place..], &error);
                        return again;
                    }
                    Advice::Refuse if batch.len() > 1 && is_for_one_lock(&error) => {
                        again.extend(batch.chunks(1));
                    }
                    _ => {
                        refused.push(batch);
                        refusal = Some(error);
                    }
                },
            }
        }
        self.keep(wire);
        if let Some(error) = refusal {
            self.fail(&refused, &error);
        }
        again
    }

    /// Tells each lock of a batch what Redis says of it.
    fn settle_batch(&mut self, batch: &[Asked], reply: &Value, asked: Moment) {
        let verdicts = match script::verdicts(reply, batch.len()) {
            Ok(verdicts) => verdicts,
            Err(error) => return self.fail(&[batch], &error),
        };
        for ((id, target, renewal), verdict) in batch.iter().zip(verdicts) {
            match verdict {
                Verdict::Done => {
                    self.observer.counters.renewals.add(1);
                    let schedule = guarded(|| target.renewed(asked, renewal));
                    self.reschedule(*id, schedule.unwrap_or_else(after_panic));
                }
                Verdict::Lost(reason) => self.lose(*id, target, reason, renewal),
            }
        }
    }

    /// A lock that was forgotten meanwhile was released by its holder: then it is no loss that
    /// Redis does not have it.
    fn lose(&self, id: Id, target: &Arc<dyn Renew>, reason: LostReason, asked: &Renewal) {
        if !self.is_watched(id) {
            return;
        }
        match guarded(|| target.lost(reason, asked)) {
            Some(Some(schedule)) => self.reschedule(id, schedule),
            Some(None) | None => drop(self.forget(id)),
        }
    }

    /// No clear answer: that says nothing about the locks, which are asked for again soon.
    fn fail(&mut self, batches: &[&[Asked]], error: &RedisError) {
        self.cut_off |= !Advice::on(error).keeps_connection();
        let cause = error.to_string();
        let mut failed = 0;
        for (id, target, _) in batches.iter().copied().flatten() {
            if !self.is_watched(*id) {
                continue;
            }
            failed += 1;
            let schedule = guarded(|| target.not_renewed(&cause));
            self.reschedule(*id, schedule.unwrap_or_else(after_panic));
        }
        if failed == 0 {
            return;
        }
        let counters = &self.observer.counters;
        if Advice::is_reply(error) {
            counters.renewals_failed.add(failed);
        } else {
            counters.renewals_unknown.add(failed);
        }
        let node = self.node.name();
        tell(|| {
            tracing::warn!(
                node,
                locks = failed,
                cause,
                "renewals failed; they are tried again"
            );
        });
    }

    /// Sends requests together; where their replies come, and when they were asked for.
    pub(super) fn send(&mut self, requests: &[u8], until: Moment) -> RedisResult<(Wire, Moment)> {
        let mut wire = match self.wire.take().filter(Wire::is_fresh) {
            Some(wire) => wire,
            None => self.node.open(until.left())?,
        };
        wire.give(until.left());
        let asked = Moment::now();
        wire.send(requests)?;
        Ok((wire, asked))
    }

    /// Keeps a connection whose last exchange was answered.
    pub(super) fn keep(&mut self, wire: Wire) {
        self.wire = Some(wire);
        if std::mem::take(&mut self.cut_off) {
            self.observer.reconnected(self.node.name());
        }
    }

    fn is_watched(&self, id: Id) -> bool {
        self.shared.state.lock().registry.contains(id)
    }

    fn reschedule(&self, id: Id, schedule: Schedule) {
        self.shared.state.lock().registry.reschedule(id, schedule);
    }

    fn forget(&self, id: Id) -> Option<Arc<dyn Renew>> {
        self.shared.state.lock().registry.remove(id)
    }
}

/// Whether it is one key of many that the user may not touch: the others may be renewed.
fn is_for_one_lock(error: &RedisError) -> bool {
    error.code() == Some("NOPERM") && error.detail().is_some_and(|text| text.contains("key"))
}

fn after_panic() -> Schedule {
    Schedule {
        due: Moment::now().after(AFTER_PANIC),
        ends: Moment::NEVER,
        lease: None,
    }
}

/// Runs a target's own code; `None` if it panicked.
pub(super) fn guarded<T>(code: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(code)).ok()
}
