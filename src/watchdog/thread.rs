//! The renewal loop: sleep, collect what is due, ask Redis for all of it at once, tell the results.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use redis::{ErrorKind, RedisError, ServerErrorKind};

use super::{Id, Orphan, Renew, Schedule, Shared, Step};
use crate::base::clock::Moment;
use crate::base::key::LockKey;
use crate::error::{LostReason, Permission};
use crate::observe::{Observer, tell};
use crate::request::BatchClient;
use crate::script::{self, Call, Renewal, Verdict};
use crate::transport::permission::missing_permission;
use crate::transport::retry_action::RetryAction;

/// Locks in one script call: few calls for many locks, yet none that keeps Redis busy for long.
const BATCH: usize = 250;

/// Withdrawals between two looks at what is due.
const ORPHANS: usize = 50;

/// The longest sleep while anything is watched. A sleep does not count the time that the machine
/// is suspended, as leases do; this bounds how long after waking up that stays unnoticed.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// After a panic.
const AFTER_PANIC: Duration = Duration::from_millis(100);

pub(super) struct WatchdogThread {
    pub(super) shared: Arc<Shared>,
    pub(super) batch_client: BatchClient,
    observer: Arc<Observer>,
    command_timeout: Duration,
}

/// One lock of a pass, and what is asked of Redis for it.
pub(super) type RenewalRequest = (Id, Arc<dyn Renew>, Renewal);

/// What there is to do.
struct Work {
    due: Vec<(Id, Arc<dyn Renew>)>,
    orphans: Vec<Orphan>,
    /// When the I/O for it ends.
    until: Moment,
}

impl WatchdogThread {
    pub(super) fn new(
        shared: Arc<Shared>,
        batch_client: BatchClient,
        observer: Arc<Observer>,
        command_timeout: Duration,
    ) -> Self {
        Self {
            shared,
            batch_client,
            observer,
            command_timeout,
        }
    }

    pub(super) fn run(mut self) {
        while let Some(work) = self.next_work() {
            // Should anything panic in it, what is registered stays registered, and the connection under
            // way is gone.
            let pass = catch_unwind(AssertUnwindSafe(|| self.pass(work)));
            if pass.is_err() {
                self.pause_after_panic();
            }
        }
    }

    fn pass(&mut self, work: Work) {
        let renewals = self.step_all(&work.due);
        self.renew(&renewals, work.until);
        if work.until.is_past() {
            work.orphans
                .into_iter()
                .for_each(|orphan| self.postpone(orphan));
        } else {
            self.write_counts(&work.due, work.until);
            self.release_orphans(work.orphans, !renewals.is_empty(), work.until);
        }
    }

    /// What panics once may panic every time, and what was due is still due.
    fn pause_after_panic(&self) {
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
            let mut orphans = Vec::new();
            state.orphans.retain(|orphan| {
                let later = orphan.due > now || orphans.len() == ORPHANS;
                if !later {
                    orphans.push(orphan.clone());
                }
                later
            });
            if !due.is_empty() || !orphans.is_empty() {
                // Busy, not asleep: what comes in meanwhile is seen at the next turn of the loop.
                state.asleep_until = Moment::ZERO;
                // A lock that is registered meanwhile, and due before the I/O is over, waits for it: while a server hangs, for
                // what is left of a time-out.
                let latest = now.after(self.command_timeout);
                let until = state.registry.io_end(now, latest);
                // Whoever listens for its loss is to hear of it when the lease ends, not after the I/O.
                // But leases that end one after another must leave the others time to be renewed.
                let next_end = state.registry.next_end(now, until);
                let next_end = next_end.map(|end| end.max(now.after(until.since(now) / 4)));
                return Some(Work {
                    due,
                    orphans,
                    until: next_end.map_or(until, |end| end.min(until)),
                });
            }
            let next = state.orphans.iter().map(|orphan| orphan.due);
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
    pub(super) fn step_all(&self, due: &[(Id, Arc<dyn Renew>)]) -> Vec<RenewalRequest> {
        let now = Moment::now();
        let mut renewals = Vec::with_capacity(due.len());
        for (id, target) in due {
            match guarded(|| target.step(now)) {
                Some(Step::Renew(renewal)) => renewals.push((*id, Arc::clone(target), renewal)),
                Some(Step::Wait) => self.reschedule(*id),
                Some(Step::Over) => drop(self.forget(*id)),
                None => self.reschedule_later(*id),
            }
        }
        renewals
    }

    /// Renews in batches that are sent together, so that the whole takes one round trip and the
    /// servers' time.
    fn renew(&mut self, renewals: &[RenewalRequest], until: Moment) {
        let mut together: BTreeMap<u16, Vec<&RenewalRequest>> = BTreeMap::new();
        for asked in renewals {
            let number = self.batch_client.batch(&asked.2.key);
            together.entry(number).or_default().push(asked);
        }
        let batches = together.values().flat_map(|locks| locks.chunks(BATCH));
        let again = self.renew_batches(&batches.collect::<Vec<_>>(), until);
        let again: Vec<&[&RenewalRequest]> =
            again.iter().flat_map(|batch| batch.chunks(1)).collect();
        self.renew_batches(&again, until);
    }

    /// Answers with the batches that were refused for one lock of theirs: each lock alone may be renewed.
    fn renew_batches<'a>(
        &mut self,
        batches: &[&'a [&'a RenewalRequest]],
        until: Moment,
    ) -> Vec<&'a [&'a RenewalRequest]> {
        let requests: Vec<(&LockKey, Call)> = batches
            .iter()
            .map(|batch| {
                let renewals = batch.iter().map(|(.., renewal)| renewal);
                (&batch[0].2.key, script::renew(renewals))
            })
            .collect();
        let counters = &self.observer.counters;
        counters.renewal_calls.add(requests.len() as u64);
        let replies = self.batch_client.ask(&requests, until);
        let mut again = Vec::new();
        let mut failures: Vec<(RedisError, Vec<&RenewalRequest>)> = Vec::new();
        for (&batch, (reply, asked)) in batches.iter().zip(replies) {
            let error = match reply {
                Ok(reply) => match script::verdicts(&reply, batch.len()) {
                    Ok(verdicts) => {
                        self.apply_verdicts(batch, &verdicts, asked);
                        continue;
                    }
                    Err(error) => error,
                },
                Err(error) => error,
            };
            if batch.len() > 1 && is_for_one_lock(&error) {
                again.push(batch);
                continue;
            }
            // One failure of one server is told once.
            match failures.last_mut() {
                Some((last, locks)) if last.to_string() == error.to_string() => {
                    locks.extend(batch);
                }
                _ => failures.push((error, batch.to_vec())),
            }
        }
        for (error, locks) in failures {
            self.fail(&locks, &error);
        }
        again
    }

    /// Tells each lock of a batch what Redis says of it.
    pub(super) fn apply_verdicts(
        &self,
        batch: &[&RenewalRequest],
        verdicts: &[Verdict],
        asked: Moment,
    ) {
        for ((id, target, renewal), verdict) in batch.iter().zip(verdicts) {
            match verdict {
                Verdict::Done => {
                    self.observer.counters.renewals.add(1);
                    match guarded(|| target.renewed(asked, renewal)) {
                        Some(()) => self.reschedule(*id),
                        None => self.reschedule_later(*id),
                    }
                }
                Verdict::Lost(reason) => self.lose(*id, target, *reason, renewal),
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
            Some(false) => self.reschedule_later(id),
            Some(true) | None => drop(self.forget(id)),
        }
    }

    /// No clear answer: that says nothing about the locks, which are asked for again soon.
    pub(super) fn fail(&self, locks: &[&RenewalRequest], error: &RedisError) {
        let cause = error.to_string();
        let mut failed = 0;
        for (id, target, _) in locks {
            if !self.is_watched(*id) {
                continue;
            }
            failed += 1;
            guarded(|| target.not_renewed(&cause));
            self.reschedule_later(*id);
        }
        if failed == 0 {
            return;
        }
        let counters = &self.observer.counters;
        if RetryAction::is_reply(error) {
            counters.renewals_failed.add(failed);
        } else {
            counters.renewals_unknown.add(failed);
        }
        let node = self.batch_client.name(&locks[0].2.key);
        tell(move || {
            tracing::warn!(
                %node,
                locks = failed,
                cause,
                "renewals failed; they are tried again"
            );
        });
    }

    fn is_watched(&self, id: Id) -> bool {
        self.shared.state.lock().registry.contains(id)
    }

    fn reschedule(&self, id: Id) {
        self.shared.reschedule(id, schedule_of);
    }

    /// After a try that failed: the target is due as it says, but not at once again.
    fn reschedule_later(&self, id: Id) {
        let now = Moment::now();
        self.shared.reschedule(id, |target| {
            let schedule = schedule_of(target);
            schedule.not_before(now.after(schedule.retry))
        });
    }

    fn forget(&self, id: Id) -> Option<Arc<dyn Renew>> {
        self.shared.state.lock().registry.remove(id)
    }
}

/// Whether it may be for one key of many: the user may not touch it, or it is on its way to another
/// server of the cluster while others are not. The others may be renewed.
fn is_for_one_lock(error: &RedisError) -> bool {
    match error.kind() {
        ErrorKind::Server(ServerErrorKind::TryAgain) => true,
        _ => missing_permission(error) == Some(Permission::Key),
    }
}

fn schedule_of(target: &dyn Renew) -> Schedule {
    guarded(|| target.schedule()).unwrap_or_else(|| Schedule {
        due: Moment::now().after(AFTER_PANIC),
        ends: Moment::NEVER,
        lease: None,
        retry: AFTER_PANIC,
    })
}

/// Runs a target's own code; `None` if it panicked.
pub(super) fn guarded<T>(code: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(code)).ok()
}
