//! The renewal loop: sleeps, collects the targets that are due, sends all their requests together,
//! and passes the replies to the targets.

use std::sync::Arc;
use std::time::Duration;

use redis::{ErrorKind, RedisError, ServerErrorKind};

use super::{
    AFTER_PANIC, Orphan, Phase, Renew, Renewal, Schedule, Shared, Step, TargetId, WatchdogState,
    guarded,
};
use crate::base::{Active, Moment};
use crate::error::{LostReason, Permission};
use crate::observe::{Observer, tell};
use crate::protocol::{self, Verdict};
use crate::request::RedisClient;
use crate::script::Call;
use crate::subscriber::Subscriber;
use crate::transport::links::Purpose;
use crate::transport::permission::missing_permission;
use crate::transport::retry_action::RetryAction;

/// The most locks in one script call, or permits of several grants: enough to make few calls, and
/// few enough that no call blocks Redis for long.
pub(super) const BATCH: usize = 250;

/// The most orphans that are released in one pass while there may be renewals.
const ORPHANS: usize = 50;

/// The most orphans that are released together.
pub(super) const ORPHANS_AT_END: usize = 1_000;

/// The longest sleep while a target is registered. Leases run while the machine is suspended, but a
/// sleep does not. This bounds how late an expired lease is noticed after the machine resumes.
const LONGEST_SLEEP: Duration = Duration::from_millis(750);

pub(super) struct WatchdogThread {
    pub(super) shared: Arc<Shared>,
    pub(super) redis: Arc<RedisClient>,
    pub(super) subscriber: Arc<Subscriber>,
    pub(super) observer: Arc<Observer>,
    pub(super) command_timeout: Duration,
}

/// A target and the renewal that it needs.
#[derive(Clone)]
pub(super) struct RenewalRequest {
    pub(super) id: TargetId,
    pub(super) target: Arc<dyn Renew>,
    pub(super) renewal: Renewal,
    /// The number of permits of the target; 1 for a lock.
    pub(super) permits: usize,
}

/// What one pass of the loop has to do.
pub(super) struct Work {
    due: Vec<(TargetId, Arc<dyn Renew>)>,
    orphans: Vec<Orphan>,
    /// Orphans whose leases are over. They are dropped without the mutex.
    _over: Vec<Orphan>,
    /// Lines may be due.
    looks: bool,
    /// The deadline for its I/O.
    until: Moment,
}

impl WatchdogThread {
    pub(super) fn run(mut self) {
        // After a panic all targets stay registered, and the connection in use is dropped.
        loop {
            match guarded(|| self.next_work().map(|work| self.pass(work))) {
                Some(Some(())) => {}
                Some(None) => break,
                None => {
                    let Shared { state, changed, .. } = &*self.shared;
                    changed.wait_for(&mut state.lock(), AFTER_PANIC);
                }
            }
        }
        let is_dropped = self.shared.state.lock().phase == Phase::Dropped;
        if is_dropped {
            guarded(|| self.release_at_end());
        }
    }

    pub(super) fn pass(&mut self, work: Work) {
        let _active = Active::by_own_thread(&self.redis.clock);
        let renewals = self.collect_renewals(&work.due);
        // First the renewals: without them, leases end.
        self.renew(&renewals, work.until);
        self.confirm(work.until);
        if work.until.is_past() {
            let postpone = |orphan| self.postpone(orphan);
            work.orphans.into_iter().for_each(postpone);
        } else {
            self.release_orphans(work.orphans, !renewals.is_empty(), work.until);
        }
        if work.looks {
            // Last: a server that does not reply to them does not delay the others.
            self.look(work.until);
        }
    }

    /// Sleeps until there is something to do. Returns `None` when the client is dropped, and when
    /// all is released after a shutdown.
    pub(super) fn next_work(&self) -> Option<Work> {
        let mut state = self.shared.state.lock();
        state.orphans_in_pass.clear();
        while !self.is_over(&mut state) {
            // First, because a noted target may be due.
            Shared::read_noted(&mut state);
            let now = Moment::now();
            if let Some(work) = self.take_work(&mut state, now) {
                return Some(work);
            }
            let next = state.orphans.next().into_iter();
            let looks = self.next_look(&state);
            let next = next.chain(self.shared.first_due(&state)).chain(looks).min();
            // New targets have to be confirmed, too.
            let longest = LONGEST_SLEEP.min(self.shared.confirm_every);
            state.asleep_until = next.map_or(Moment::NEVER, |due| due.min(now.after(longest)));
            let sleep = state.asleep_until.since(now);
            self.shared.changed.wait_for(&mut state, sleep);
        }
        None
    }

    /// What is due at `now`, if anything is.
    pub(super) fn take_work(&self, state: &mut WatchdogState, now: Moment) -> Option<Work> {
        let due = state.registry.due(now);
        let most_orphans = match state.phase {
            Phase::Open => ORPHANS,
            _ => ORPHANS_AT_END,
        };
        let (orphans, over) = state.orphans.take_due(now, most_orphans);
        let confirms = self.shared.next_confirmation(state) <= now;
        let looks = self.next_look(state).is_some_and(|next| next <= now);
        if due.is_empty() && orphans.is_empty() && over.is_empty() && !confirms && !looks {
            return None;
        }
        state.orphans_in_pass = orphans.iter().map(|orphan| orphan.key.clone()).collect();
        // Not asleep: an insertion during the pass needs no wake-up.
        state.asleep_until = Moment::ZERO;
        // A target that is registered during the pass waits until the I/O is over.
        let latest = now.after(self.command_timeout);
        let io_end = state.registry.io_end(now, latest);
        // A holder must be notified of its loss when the lease ends, not after the I/O. But if
        // leases end one after another, the others still need time for their renewals.
        let next_end = state.registry.next_end(now, io_end).unwrap_or(io_end);
        let until = next_end.max(now.after(io_end.since(now) / 4)).min(io_end);
        Some(Work {
            due,
            orphans,
            _over: over,
            looks,
            until,
        })
    }

    /// When the next line is due. No line is due after a shutdown: the thread then releases what is
    /// left.
    fn next_look(&self, state: &WatchdogState) -> Option<Moment> {
        let next = self.shared.lines.lock().next;
        (state.phase == Phase::Open && next != Moment::NEVER).then_some(next)
    }

    /// True if the thread has to end. Decides and records the end after a shutdown under one mutex,
    /// so no orphan is queued after the decision.
    fn is_over(&self, state: &mut WatchdogState) -> bool {
        let is_done = || state.orphans.is_empty() && self.shared.calls.is_empty();
        if state.phase == Phase::Closing && is_done() {
            state.phase = Phase::Ended;
            self.shared.changed.notify_all();
        }
        matches!(state.phase, Phase::Dropped | Phase::Ended)
    }

    /// Handles each target that is due. Returns the renewals to send.
    pub(super) fn collect_renewals(
        &self,
        due: &[(TargetId, Arc<dyn Renew>)],
    ) -> Vec<RenewalRequest> {
        let now = Moment::now();
        let mut renewals = Vec::with_capacity(due.len());
        for (id, target) in due {
            match guarded(|| target.next_step(now)) {
                Some(Step::Renew(renewal)) => renewals.push(RenewalRequest {
                    id: *id,
                    target: Arc::clone(target),
                    renewal,
                    permits: target.permits(),
                }),
                Some(Step::Release(call)) => self.release(*id, target, call),
                Some(Step::Wait) => self.shared.reschedule(*id),
                Some(Step::Forget) => self.shared.forget(*id),
                None => self.reschedule_later(*id),
            }
        }
        renewals
    }

    /// Removes a target that no thread uses, and releases it with the orphans.
    fn release(&self, id: TargetId, target: &Arc<dyn Renew>, call: Call) {
        let orphan = Orphan::of(Arc::clone(target), call);
        // First, so that no renewal follows the release.
        self.shared.forget(id);
        self.shared.release_orphan(orphan);
        self.observer.counters.releases.add(1);
    }

    /// Sends the renewals in batches, all together, so that they take one round trip and the time
    /// that the servers need. If Redis refuses a batch because of one of its locks, its locks are
    /// renewed one by one.
    fn renew(&mut self, renewals: &[RenewalRequest], until: Moment) {
        // The renewals of different kinds of locks are different scripts.
        let place = |one: &&RenewalRequest| (self.slot_of(one), one.renewal.call.order());
        let mut sorted: Vec<&RenewalRequest> = renewals.iter().collect();
        sorted.sort_by_key(place);
        let mut batches: Vec<Vec<&RenewalRequest>> = Vec::new();
        for one in sorted {
            match batches.last_mut() {
                Some(batch) if self.fits_into(batch, one) => batch.push(one),
                _ => batches.push(vec![one]),
            }
        }
        let failed = self.renew_batches(&batches, until);
        let is_for_one =
            |(error, batch): &(_, Vec<&RenewalRequest>)| batch.len() > 1 && is_for_one_lock(error);
        let (again, mut failed): (Vec<_>, Vec<_>) = failed.into_iter().partition(is_for_one);
        let again = again.into_iter().flat_map(|(_, batch)| batch);
        let again: Vec<Vec<&RenewalRequest>> = again.map(|one| vec![one]).collect();
        failed.extend(self.renew_batches(&again, until));
        // The same failure of several batches is logged once.
        failed.dedup_by(|(error, batch), (last, locks)| {
            let is_same = error.to_string() == last.to_string();
            if is_same {
                locks.append(batch);
            }
            is_same
        });
        for (error, locks) in failed {
            self.fail(&locks, &error);
        }
    }

    fn renew_batches<'a>(
        &mut self,
        batches: &[Vec<&'a RenewalRequest>],
        until: Moment,
    ) -> Vec<(RedisError, Vec<&'a RenewalRequest>)> {
        if batches.is_empty() {
            return Vec::new();
        }
        self.observer
            .counters
            .renewal_calls
            .add(batches.len() as u64);
        let (done, failed) = self.send(batches, until);
        if done > 0 {
            self.observer.counters.renewals.add(done);
        }
        failed
    }

    /// Sends each batch as one script call. Passes Redis' verdicts to the targets. Returns how many
    /// of them are still held, and the batches without a clear reply.
    pub(super) fn send<'a>(
        &mut self,
        batches: &[Vec<&'a RenewalRequest>],
        until: Moment,
    ) -> (u64, Vec<(RedisError, Vec<&'a RenewalRequest>)>) {
        let requests = batches.iter().map(|batch| {
            let calls = batch[1..].iter().map(|one| &one.renewal.call);
            let joined = calls.fold(batch[0].renewal.call.clone(), Call::join);
            (batch[0].target.key(), joined)
        });
        let replies = self
            .redis
            .request_many(Purpose::Watchdog, requests.collect(), until);
        let (mut done, mut failed) = (0, Vec::new());
        for (batch, (reply, asked)) in batches.iter().zip(replies) {
            match reply.and_then(|reply| protocol::verdicts(&reply, batch.len())) {
                Ok(verdicts) => done += self.apply_verdicts(batch, &verdicts, asked),
                Err(error) => failed.push((error, batch.clone())),
            }
        }
        (done, failed)
    }

    /// Renewals can be in one script call only if this is the same for their locks.
    pub(super) fn slot_of(&self, one: &RenewalRequest) -> u16 {
        self.redis.topology.batch(one.target.key())
    }

    /// Passes Redis' verdicts to the targets of a batch. Returns how many of them are still held.
    pub(super) fn apply_verdicts(
        &self,
        batch: &[&RenewalRequest],
        verdicts: &[Verdict],
        asked: Moment,
    ) -> u64 {
        let mut done = 0;
        for (one, verdict) in batch.iter().zip(verdicts) {
            let RenewalRequest {
                id,
                target,
                renewal,
                ..
            } = one;
            match verdict {
                Verdict::Lost(reason) => self.lose(*id, target, *reason),
                Verdict::Done { .. } => {
                    done += 1;
                    match guarded(|| target.renewed(asked, renewal)) {
                        Some(()) => self.shared.reschedule(*id),
                        None => self.reschedule_later(*id),
                    }
                }
            }
        }
        done
    }

    /// Notifies a target of its loss. Ignores a target that was removed meanwhile: its holder
    /// released the lock.
    pub(super) fn lose(&self, id: TargetId, target: &Arc<dyn Renew>, reason: LostReason) {
        if self.is_watched(id) {
            guarded(|| target.lost(reason));
            self.shared.forget(id);
        }
    }

    /// Handles renewals without a clear reply: they are repeated soon, because the locks may still
    /// be held.
    pub(super) fn fail(&self, locks: &[&RenewalRequest], error: &RedisError) {
        let cause = error.to_string();
        let mut failed = 0;
        for one in locks.iter().filter(|one| self.is_watched(one.id)) {
            failed += 1;
            guarded(|| one.target.not_renewed(&one.renewal, &cause));
            self.reschedule_later(one.id);
        }
        if failed == 0 {
            return;
        }
        let counters = &self.observer.counters;
        if RetryAction::is_refusal(error) {
            counters.renewals_failed.add(failed);
        } else {
            counters.renewals_unknown.add(failed);
        }
        let node = self.redis.topology.name(locks[0].target.key());
        tell(move || {
            tracing::warn!(
                %node,
                locks = failed,
                cause,
                "renewals failed; they will be repeated"
            );
        });
    }

    /// Reads the target's schedule after a failure, but postpones it by the target's pause.
    fn reschedule_later(&self, id: TargetId) {
        let now = Moment::now();
        let later = |schedule: Schedule| schedule.not_before(now.after(schedule.retry));
        self.shared.reschedule_as(id, later);
    }

    fn is_watched(&self, id: TargetId) -> bool {
        self.shared.state.lock().registry.contains(id)
    }
}

/// True if the error may concern one key of a batch only: the user has no permission for that key,
/// or the key is being moved to another server of the cluster.
fn is_for_one_lock(error: &RedisError) -> bool {
    let is_moving = error.kind() == ErrorKind::Server(ServerErrorKind::TryAgain);
    // The key beside the lock that has the lease of a reader.
    let is_elsewhere = |text: &str| text.contains("a non local key");
    is_moving
        || error.detail().is_some_and(is_elsewhere)
        || missing_permission(error) == Some(Permission::Key)
}
