//! Begins the hold of what this thread has got: from Redis, from another thread, or an idle grant.

use std::sync::Arc;

use crate::core::Core;
use crate::engine::grant_request::{
    end_as_lost, note_level, release_unused, reschedule_if_earlier,
};
use crate::engine::held_lock::HeldLock;
use crate::engine::lock_call::LockCall;
use crate::engine::single_lock::SingleLock;
use crate::error::LostReason;
use crate::local::{CameWith, Claim, Grant, Granted, Hold};
use crate::watchdog::Renew;

/// The ticket is gone, because a grant that came with it was lost.
pub(crate) struct TicketLost;

/// Takes what came with the ticket: a hold that another thread has handed over, or an idle grant.
/// `None` if the lock has to be requested.
pub(crate) fn take_without_request(
    call: LockCall<'_>,
    claim: &mut Claim,
) -> Result<Option<HeldLock>, TicketLost> {
    if !claim.has_grant() {
        return Ok(None);
    }
    let LockCall { lock, budget, .. } = call;
    // The watchdog has a grant that is taken, so a shutdown ends it. But this thread may end an
    // idle grant, which it has to release in Redis, so a shutdown waits for that.
    let _ending = lock.core.watchdog.delay_shutdown();
    let (hold, is_handed_over) = match claim.take(call.terms, lock.kind) {
        CameWith::Nothing => return Ok(None),
        CameWith::HandedOver(hold) => (hold, true),
        CameWith::Idle(hold) => (hold, false),
        CameWith::Unsuited(grant) => {
            release_idle(call, &grant);
            // Others may have listened to that release.
            claim.is_alone &= !claim.has_pause();
            return Ok(None);
        }
        CameWith::Loss => return Err(TicketLost),
    };
    note_taken(&lock.core, &hold, is_handed_over);
    Ok(Some(lock.first_level(hold, budget)))
}

/// Tells the watchdog that a thread has taken a grant, which was handed over or idle.
fn note_taken(core: &Core, hold: &Hold, is_handed_over: bool) {
    let grant = hold.grant();
    if hold.is_shared() {
        // It may have a shorter lease than the other holds on the grant.
        note_level(core, hold);
    }
    // The thread that unlocked has told the watchdog when the grant is due. If the client does not
    // linger, an idle grant is that of a lock whose composite is handed over.
    if is_handed_over || core.linger.is_zero() {
        core.observer.counters.hand_overs.add(1);
    }
    if !is_handed_over && grant.is_due_earlier() {
        // The watchdog may know only when the idle grant was to be released.
        core.watchdog.reschedule(grant.id());
    } else if grant.begin_note() {
        // It confirms what is held, but not what is idle or about to be handed over.
        core.watchdog.note(grant.id());
    }
}

/// Releases a grant of this process that this call does not use. It may be of another kind.
fn release_idle(call: LockCall<'_>, grant: &Grant) {
    let SingleLock { core, .. } = call.lock;
    core.watchdog.forget(grant.id());
    let budget = call.budget.remaining(core.command_timeout);
    let (key, lease_ends) = (grant.key(), grant.lease_ends());
    let verdict = release_unused(core, key, grant.release_call(), lease_ends, &budget);
    if let Some(verdict) = verdict {
        if verdict.is_done() {
            core.observer.counters.releases.add(1);
        }
        grant.released(core.subscriber.without_own(key, verdict));
    }
}

/// Begins the hold of what Redis has granted.
pub(crate) fn keep(call: LockCall<'_>, claim: Claim, granted: Granted) -> HeldLock {
    let LockCall { lock, budget, .. } = call;
    let SingleLock {
        core,
        key,
        kind,
        id,
        ..
    } = lock;
    let hold = core.queue.begin_hold(
        id.clone(),
        key.clone(),
        kind,
        granted,
        &core.observer,
        lock.holder(),
    );
    core.observer.counters.acquisitions.add(1);
    let held = lock.first_level(hold, budget);
    if kind.has_ticket {
        for lost in claim.keep(&held.hold) {
            end_as_lost(core, &lost, LostReason::Taken);
        }
    } else {
        claim.pass_on();
    }
    watch(call, &held.hold);
    held
}

/// Makes the watchdog renew the grant of a new hold.
fn watch(call: LockCall<'_>, hold: &Hold) {
    let core = &call.lock.core;
    let grant = hold.grant();
    let (target, earliest) = (Arc::clone(&grant) as _, grant.watched_until());
    if !core.watchdog.watch(grant.id(), target, earliest) {
        // The client was shut down during the request. Other threads may share the grant already.
        grant.lose(LostReason::ShutDown);
        release_idle(call, &grant);
    } else if hold.is_shared() {
        // Another thread with a shorter lease may have joined before.
        reschedule_if_earlier(core, &grant);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::base::{CallBudget, HolderId, Moment};
    use crate::config::LockClientBuilder;
    use crate::error::Error;
    use crate::lease::Lease;
    use crate::local::{Turns, Unlocks, Waiter, Wanted};
    use crate::protocol::{Kind, PLAIN, READ};

    /// A lock of a client whose server does not exist.
    fn lock_of(kind: &'static Kind) -> SingleLock {
        let config = LockClientBuilder::from("redis://127.0.0.1:1");
        let core = Arc::new(Core::open(config.validate().unwrap()).unwrap());
        SingleLock::new(core, "lock", kind)
    }

    fn call<'a>(lock: &'a SingleLock, budget: &'a CallBudget<'a>) -> LockCall<'a> {
        let terms = Lease::RENEWED.terms("lock", lock.core.watchdog_lease);
        LockCall {
            lock,
            terms: terms.unwrap(),
            budget,
            begun: Moment::now(),
            also: &[],
        }
    }

    fn granted(call: LockCall<'_>) -> Granted {
        let now = Moment::now();
        Granted {
            owner: call.lock.new_owner(),
            asked: now,
            replied: now,
            terms: call.terms,
            lease_ends: now.after(call.terms.length()),
            tokens: 0..0,
            turns: Turns::InSlice,
        }
    }

    /// Another thread, which waits for the ticket.
    fn wait_for(call: LockCall<'_>) -> Arc<Waiter> {
        let wanted = Wanted {
            lock: call.lock.id.clone(),
            terms: call.terms,
            kind: call.lock.kind,
            also: Vec::new(),
        };
        let holder = HolderId::thread(u64::MAX / 2);
        let waiter = Waiter::new(wanted, holder, call.budget.unparker());
        assert!(call.lock.core.queue.enqueue(&waiter).is_none(), "it waits");
        waiter
    }

    /// The watchdog may have read the schedule before the thread had the hold.
    #[test]
    fn the_watchdog_has_a_note_of_a_grant_that_was_handed_over() {
        let (lock, budget) = (lock_of(&PLAIN), CallBudget::for_reply(Duration::ZERO));
        let call = call(&lock, &budget);
        let claim = lock.enter_queue(Moment::now()).claim.unwrap();
        let queue = &lock.core.queue;
        let (id, key) = (lock.id.clone(), lock.key.clone());
        let (observer, holder) = (&lock.core.observer, HolderId::current_thread());
        let hold = queue.begin_hold(id, key, lock.kind, granted(call), observer, holder);
        claim.keep(&hold);
        let other = wait_for(call);
        queue.unlock(&hold, Unlocks::Newest, Duration::ZERO);
        let mut claim = queue.claim_of(&other).unwrap();
        let Ok(Some(held)) = take_without_request(call, &mut claim) else {
            panic!("it was handed over");
        };
        assert!(!held.hold.grant().begin_note(), "there is a note");
    }

    /// Another thread gets a hold on the grant before the watchdog refuses the grant.
    #[test]
    fn a_shared_grant_that_a_shutdown_refuses_is_lost_for_all_threads() {
        let (lock, budget) = (lock_of(&READ), CallBudget::for_reply(Duration::ZERO));
        let call = call(&lock, &budget);
        let claim = lock.enter_queue(Moment::now()).claim.unwrap();
        let other = wait_for(call);
        lock.core.watchdog.release_all();
        let held = keep(call, claim, granted(call));

        let is_lost = |hold: &Hold| matches!(hold.check(), Err(Error::Lost { .. }));
        assert!(is_lost(&held.hold));
        let queue = &lock.core.queue;
        if let Some(mut claim) = queue.claim_of(&other)
            && let CameWith::HandedOver(hold) = claim.take(call.terms, lock.kind)
        {
            assert!(is_lost(&hold), "another thread believes that it reads");
        }
        assert_eq!(queue.current_grants(&lock.id).len(), 0);
    }
}
