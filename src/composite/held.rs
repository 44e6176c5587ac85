//! What a call has acquired: a level of one lock, or of several.

use std::sync::Arc;
use std::time::Duration;

use foldhash::HashSet;

use super::grouped::{GrantRequest, request_each};
use super::needed::{Needed, are_of_this_process, combine, reached, slowest};
use super::quorum::Quorum;
use crate::base::{CallBudget, Subscription};
use crate::core::Core;
use crate::engine::{Ended, HeldLock, Release};
use crate::error::{LostReason, Result};
use crate::local::{Hold, LockId, Unlocks};

/// For how long a grant stays with this client while a thread that was given another lock of the
/// same composite may take it.
const TAKEN_WITHIN: Duration = Duration::from_millis(500);

/// What a call has acquired. Dropping it releases nothing.
pub(crate) enum Held {
    One(HeldLock),
    Several {
        levels: Vec<HeldLock>,
        needed: Needed,
    },
}

impl From<HeldLock> for Held {
    fn from(level: HeldLock) -> Self {
        Self::One(level)
    }
}

impl Held {
    /// Levels of which all are needed.
    pub(super) fn all(levels: Vec<HeldLock>) -> Self {
        let needed = Needed::All;
        Self::Several { levels, needed }
    }

    pub(crate) fn levels(&self) -> &[HeldLock] {
        match self {
            Self::One(level) => std::slice::from_ref(level),
            Self::Several { levels, .. } => levels,
        }
    }

    /// The number of levels that must be held.
    fn count_needed(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Several { levels, needed } => needed.of(levels.len()),
        }
    }

    fn cores(&self) -> impl Iterator<Item = &Arc<Core>> {
        self.levels().iter().map(|level| &level.core)
    }

    /// True if it belongs to a guard and to no thread.
    pub(crate) fn is_owned(&self) -> bool {
        self.levels()
            .iter()
            .any(|level| level.hold.holder.is_guard())
    }

    pub(crate) fn is_of_this_process(&self) -> bool {
        are_of_this_process(self.cores())
    }

    /// The budget of a call, by the client with the longest timeouts.
    pub(crate) fn budget(&self, of: fn(&Core) -> CallBudget<'static>) -> CallBudget<'static> {
        let core = slowest(self.cores());
        core.map_or_else(|| CallBudget::for_reply(Duration::ZERO), |core| of(core))
    }

    /// Fails unless the lock is held.
    pub(crate) fn check(&self) -> Result<()> {
        self.check_each(HeldLock::check)
    }

    /// Fails unless the lock is held. Ends no hold whose lease has run out.
    pub(crate) fn check_unchanged(&self) -> Result<()> {
        self.check_each(|level| level.left().map(drop))
    }

    fn check_each(&self, check: impl Fn(&HeldLock) -> Result<()>) -> Result<()> {
        match self {
            Self::One(level) => check(level),
            Self::Several { levels, .. } => combine(levels.iter().map(check), self.count_needed()),
        }
    }

    /// For how long the lock is held without another renewal. Ends no hold.
    pub(crate) fn left(&self) -> Duration {
        let left = |level: &HeldLock| level.left().unwrap_or_default();
        let lefts = self.levels().iter().map(left).collect();
        reached(lefts, self.count_needed()).unwrap_or_default()
    }

    /// Prolongs each lease to at least this many milliseconds. With 0, Redis only confirms that it
    /// has the locks. What Redis does not have any more ends as lost.
    pub(crate) fn extend(&self, millis: u64, budget: &CallBudget) -> Result<()> {
        match self {
            Self::One(level) => level.extend(millis, budget),
            Self::Several { levels, needed } => {
                let levels: Vec<_> = levels.iter().map(|level| (level, millis)).collect();
                extend(&levels, *needed, budget)
            }
        }
    }

    /// Releases the lock. A release without a reply goes on in the background. `budget` is made
    /// only if Redis is asked.
    pub(crate) fn release(&self, budget: impl FnOnce() -> CallBudget<'static>) -> Result<()> {
        match self {
            Self::One(level) => level.release(budget),
            Self::Several { levels, needed } => {
                levels.iter().try_for_each(HeldLock::check_process)?;
                let holds: Vec<_> = levels.iter().map(|one| (&one.core, &one.hold)).collect();
                let unlocks = |at: usize| Unlocks::Level(levels[at].level);
                release(&holds, unlocks, *needed, budget)
            }
        }
    }

    /// Releases an owned hold without a request of this thread. The watchdogs send what is needed.
    pub(crate) fn release_dropped(&self) -> Result<()> {
        // The first lock last: when it is handed over, the others are free for the same thread.
        let levels = self.levels().iter().rev();
        let results = levels.map(HeldLock::release_dropped);
        combine(results.collect::<Vec<_>>().into_iter(), self.count_needed())
    }

    /// A channel that gets one message when the lock is lost. `quorum` is kept for that.
    pub(crate) fn subscribe_to_loss(
        &self,
        quorum: &std::sync::OnceLock<Arc<Quorum>>,
    ) -> Subscription<LostReason> {
        let is_same_process = self.is_of_this_process();
        if let [first, others @ ..] = self.levels()
            && (others.is_empty() || !is_same_process)
        {
            return first.hold.subscribe_to_loss(is_same_process);
        }
        let holds = || self.levels().iter().map(|level| &level.hold);
        let observe = || Quorum::observe(holds(), self.count_needed());
        quorum.get_or_init(observe).subscribe_to_loss()
    }
}

/// Prolongs the lease of each level to at least its milliseconds, in one step.
pub(super) fn extend(
    levels: &[(&HeldLock, u64)],
    needed: Needed,
    budget: &CallBudget,
) -> Result<()> {
    let checks: Vec<Result<()>> = levels.iter().map(|(level, _)| level.check()).collect();
    let live = levels
        .iter()
        .zip(&checks)
        .filter(|(_, check)| check.is_ok());
    let renewals = live.map(|((level, millis), _)| level.to_renew(*millis));
    let renewals: Vec<_> = renewals.collect();
    let requests = renewals.iter().map(|renewing| GrantRequest {
        core: renewing.core,
        key: renewing.grant.key(),
        call: renewing.renewal.call.clone(),
    });
    let requests: Vec<GrantRequest<'_>> = requests.collect();
    let replies = request_each(&requests.iter().collect::<Vec<_>>(), needed, budget);
    let ended = renewals.iter().zip(replies);
    let mut renewed = ended.map(|(renewing, reply)| renewing.end(reply));
    let results = levels.iter().zip(checks).map(|((level, _), check)| {
        check?;
        renewed.next().unwrap_or(Ok(()))?;
        level.hold.check()
    });
    combine(results, needed.of(levels.len()))
}

/// Unlocks levels of these holds, and releases in Redis what Redis has to release. A release
/// without a reply goes on in the background.
///
/// A thread that wants some of these locks, too, may wait for the first one in the local queue. If
/// that is handed over to it, those others that it wants stay with this client for a moment.
pub(super) fn release<'a>(
    holds: &[(&'a Arc<Core>, &'a Arc<Hold>)],
    unlocks: impl Fn(usize) -> Unlocks,
    needed: Needed,
    budget: impl FnOnce() -> CallBudget<'static>,
) -> Result<()> {
    let Some((first, first_hold)) = holds.first() else {
        return Ok(());
    };
    let wanted: HashSet<LockId> = first.queue.next_wants(first_hold).into_iter().collect();
    let stays = |at: usize| at > 0 && wanted.contains(&holds[at].1.lock);
    // The first lock last: when it is handed over, the others are free for the same thread.
    let releases = holds.iter().enumerate().rev().map(|(at, (core, hold))| {
        let linger = match stays(at) {
            true => core.linger.max(TAKEN_WITHIN),
            false => core.linger,
        };
        Release::begin(core, hold, unlocks(at), linger)
    });
    let mut releases: Vec<Release<'a>> = releases.collect();
    releases.reverse();
    if !releases[0].is_handed_over() {
        // Its turn may have ended meanwhile. Then no thread is about to take the others.
        let stayed = releases.iter_mut().enumerate();
        let stayed = stayed.filter(|(at, _)| stays(*at));
        stayed.for_each(|(_, release)| release.end_idle());
    }
    // A release with its request, if Redis has to release the lock.
    let part = |release: Release<'a>| {
        let call = release.call();
        let (core, key) = (release.core(), release.hold().key());
        let request = call.map(|call| GrantRequest { core, key, call });
        (release, request)
    };
    let parts: Vec<_> = releases.into_iter().map(part).collect();
    let requests = parts.iter().filter_map(|(_, request)| request.as_ref());
    let requests: Vec<&GrantRequest<'_>> = requests.collect();
    let budget = (!requests.is_empty()).then(budget);
    // What needs no request is released.
    let wanted = needed.less(parts.len() - requests.len());
    let request = |budget| request_each(&requests, wanted, budget);
    let mut replies = budget.as_ref().map(request).unwrap_or_default().into_iter();
    let replied = parts.into_iter().map(|(release, request)| {
        let reply = request.and_then(|_| replies.next());
        (release, reply)
    });
    let replied: Vec<_> = replied.collect();
    // The first ticket passes on last, so the thread that gets it finds the others free.
    let ended = replied.into_iter().rev();
    let ended = ended.map(|(release, reply)| release.end(reply.zip(budget.as_ref())));
    // All have ended before the first of them calls code of the application.
    let mut ended: Vec<_> = ended.collect();
    ended.reverse();
    let results: Vec<Result<()>> = ended.into_iter().map(Ended::report).collect();
    let needed = needed.of(results.len());
    combine(results.into_iter(), needed)
}
