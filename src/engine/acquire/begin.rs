//! Begins the holds of what this thread has got: from Redis, from another thread, or idle grants.

use std::sync::Arc;

use super::unit::Unit;
use crate::base::call_budget::CallBudget;
use crate::base::clock::Moment;
use crate::base::list::List;
use crate::base::owner::ThreadId;
use crate::core::Core;
use crate::engine::group::{GrantRequest, release_unused};
use crate::engine::held::{HeldPart, Needed, note_level, reschedule_if_earlier};
use crate::engine::parts::{LockCall, Missing, Part, Parts};
use crate::error::LostReason;
use crate::lease::Terms;
use crate::local::{CameWith, Claim, Grant, Hold, Quorum};

/// The tickets are gone, because a grant that came with them was lost.
pub(super) struct TicketsLost;

/// Takes what came with the tickets: holds that another thread has handed over, or idle grants.
/// `None` if the lock has to be requested.
pub(super) fn take_without_request(
    call: LockCall<'_>,
    missing: &[Missing<'_>],
    claim: &mut Claim,
) -> Result<Option<List<HeldPart>>, TicketsLost> {
    if !claim.has_grants() {
        return Ok(None);
    }
    let LockCall { parts, budget, .. } = call;
    let terms: List<Terms> = missing.iter().map(|&(_, terms)| terms).collect();
    let needed = parts.needed.of(missing.len());
    let (holds, is_handed_over) = match claim.take(&terms, needed, parts.kind()) {
        CameWith::Nothing => return Ok(None),
        CameWith::HandedOver(holds) => (holds, true),
        CameWith::Idle(holds) => (holds, false),
        CameWith::Unsuited(grants) => {
            let of_part = |grant| part_of(missing, &grant).map(|part| (&part.core, grant));
            let grants: List<_> = grants.into_iter().filter_map(of_part).collect();
            release_idle(call, &grants);
            return Ok(None);
        }
        CameWith::Loss => return Err(TicketsLost),
    };
    let mut held = List::new();
    for hold in holds {
        if let Some(part) = part_of(missing, &hold.grant()) {
            note_taken(&part.core, &hold, is_handed_over);
            held.push(first_level(&part.core, hold, budget));
        }
    }
    join(parts, &held);
    Ok(Some(held))
}

/// Tells the watchdog that a thread has taken a grant, which was handed over or idle.
fn note_taken(core: &Core, hold: &Hold, is_handed_over: bool) {
    let grant = hold.grant();
    if hold.is_shared() {
        // It may have a shorter lease than the other holds on the grant.
        note_level(core, hold);
    }
    if is_handed_over {
        // The thread that unlocked has told the watchdog when the grant is due.
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

fn part_of<'a>(missing: &[Missing<'a>], grant: &Arc<Grant>) -> Option<&'a Part> {
    let mut parts = missing.iter().map(|&(part, _)| part);
    parts.find(|part| part.id == grant.lock)
}

/// Releases grants of this process that this call does not use. They may be of another kind.
fn release_idle(call: LockCall<'_>, grants: &[(&Arc<Core>, Arc<Grant>)]) {
    if grants.is_empty() {
        return;
    }
    let mut ends = Moment::ZERO;
    let mut releases = List::new();
    for (core, grant) in grants {
        core.watchdog.forget(grant.id());
        ends = ends.max(grant.lease_ends());
        let (key, call) = (grant.key(), grant.release_call());
        releases.push(GrantRequest { core, key, call });
    }
    let budget = call.budget.remaining(call.core.command_timeout);
    release_unused(releases, ends, Needed::All, &budget);
}

/// Begins the holds of what is granted.
pub(super) fn keep(call: LockCall<'_>, claim: Claim, units: &[Unit<'_>]) -> List<HeldPart> {
    let LockCall { parts, budget, .. } = call;
    let mut held = List::new();
    for unit in units {
        let Some(granted) = &unit.granted else {
            continue;
        };
        for part in &unit.parts {
            let Part { core, key, id, .. } = part;
            let place = (id.clone(), key.clone(), part.kind);
            let (observer, thread) = (&core.observer, ThreadId::current());
            let hold = core
                .queue
                .begin_hold(place, granted.clone(), observer, thread);
            core.observer.counters.acquisitions.add(1);
            held.push(first_level(core, hold, budget));
        }
    }
    // A hold that is not exclusive leaves the ticket to the next thread.
    let exclusive = if parts.kind().is_exclusive {
        &held[..]
    } else {
        &[]
    };
    claim.keep(exclusive.iter().map(|part| &part.hold));
    let mut refused: List<(&Arc<Core>, Arc<Grant>)> = List::new();
    for HeldPart { core, hold, .. } in &held {
        let grant = hold.grant();
        let (id, target, earliest) = (grant.id(), Arc::clone(&grant) as _, grant.watched_until());
        if !core.watchdog.watch(id, target, earliest) {
            refused.push((core, grant));
        } else if hold.is_shared() {
            // Another thread with a shorter lease may have joined before.
            reschedule_if_earlier(core, &grant);
        }
    }
    join(parts, &held);
    // The client was shut down during the request. Other threads may share the grant already.
    for (_, grant) in &refused {
        grant.lose(LostReason::ShutDown);
    }
    release_idle(call, &refused);
    drop(refused);
    held
}

/// The first level of a hold that this thread has got.
fn first_level(core: &Arc<Core>, hold: Arc<Hold>, budget: &CallBudget) -> HeldPart {
    hold.count_begin(&core.observer.counters, || budget.elapsed());
    HeldPart::first_level(core, hold)
}

/// Makes the holds of a majority end together.
fn join(parts: &Parts, held: &[HeldPart]) {
    if let Needed::Majority(needed) = parts.needed {
        let holds: Vec<&Arc<Hold>> = held.iter().map(|part| &part.hold).collect();
        Quorum::join(&holds, needed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::LockClientBuilder;
    use crate::deployment::Urls;
    use crate::engine::acquire::acquisition::Acquisition;
    use crate::error::Error;
    use crate::lease::Lease;
    use crate::local::{Granted, Unlocks, Waiter, Wanted};
    use crate::protocol::{PLAIN, READ};

    /// The watchdog may have read the schedule before the thread had the hold.
    #[test]
    fn the_watchdog_has_a_note_of_a_grant_that_was_handed_over() {
        let config = LockClientBuilder::new(Urls::One("redis://127.0.0.1:1".into()));
        let core = Arc::new(Core::open(config.validate().unwrap()).unwrap());
        let terms = Lease::RENEWED.terms("lock", core.watchdog_lease).unwrap();
        let part = Part::new(Arc::clone(&core), "lock", &PLAIN);
        let parts = Parts::one(part);
        let part = &parts.list[0];
        let who = (ThreadId::current(), false);
        let entered = core.queue.enter([&part.id].into_iter(), who, Moment::now());
        let now = Moment::now();
        let granted = Granted {
            owner: part.new_owner(),
            asked: now,
            replied: now,
            terms,
            tokens: 0..0,
            turns: None,
        };
        let place = (part.id.clone(), part.key.clone(), part.kind);
        let hold = core
            .queue
            .begin_hold(place, granted, &core.observer, ThreadId::current());
        entered.claim.unwrap().keep([&hold].into_iter());
        let budget = CallBudget::for_reply(Duration::ZERO);
        let wanted = Wanted {
            locks: [part.id.clone()].into_iter().collect(),
            terms: [terms].into_iter().collect(),
            needed: 1,
            kind: parts.kind(),
            is_shared: false,
        };
        let other = Waiter::new(wanted, ThreadId::numbered(u64::MAX), budget.unparker());
        assert!(core.queue.enqueue(&other, false).is_none(), "it waits");
        core.queue
            .unlock(&[(&hold, Unlocks::Newest, Duration::ZERO)]);
        let mut claim = core.queue.claim_of(&other).unwrap();
        let missing = [(part, terms)];
        let call = parts.call(&core, &budget);
        let Ok(Some(held)) = take_without_request(call, &missing, &mut claim) else {
            panic!("it was handed over");
        };
        assert!(!held[0].hold.grant().begin_note(), "there is a note");
    }

    /// Another thread gets a hold on the grant before the watchdog refuses the grant.
    #[test]
    fn a_shared_grant_that_a_shutdown_refuses_is_lost_for_all_threads() {
        let config = LockClientBuilder::new(Urls::One("redis://127.0.0.1:1".into()));
        let core = Arc::new(Core::open(config.validate().unwrap()).unwrap());
        let terms = Lease::RENEWED.terms("lock", core.watchdog_lease).unwrap();
        let part = Part::new(Arc::clone(&core), "lock", &READ);
        let lock = part.id.clone();
        let parts = Parts::one(part);
        let who = (ThreadId::current(), true);
        let entered = core.queue.enter([&lock].into_iter(), who, Moment::now());
        let budget = CallBudget::for_reply(Duration::ZERO);
        let wanted = Wanted {
            locks: [lock].into_iter().collect(),
            terms: [terms].into_iter().collect(),
            needed: 1,
            kind: parts.kind(),
            is_shared: true,
        };
        let other = Waiter::new(wanted, ThreadId::numbered(u64::MAX), budget.unparker());
        assert!(core.queue.enqueue(&other, false).is_none(), "it waits");

        let missing = [(&parts.list[0], terms)];
        let call = parts.call(&core, &budget);
        let units = Unit::of_parts(call, &missing);
        let claim = entered.claim.unwrap();
        let mut request = Acquisition::new(call, &missing, (units, claim), None);
        let now = Moment::now();
        request.units[0].granted = Some(Granted {
            owner: parts.list[0].new_owner(),
            asked: now,
            replied: now,
            terms,
            tokens: 0..0,
            turns: None,
        });
        core.watchdog.release_all();
        let held = request.keep();

        let is_lost = |hold: &Hold| matches!(hold.check(), Err(Error::Lost { .. }));
        assert!(is_lost(&held[0].hold));
        if let Some(mut claim) = core.queue.claim_of(&other)
            && let CameWith::HandedOver(holds) = claim.take(&[terms], 1, parts.kind())
        {
            assert!(is_lost(&holds[0]), "another thread believes that it reads");
        }
        let id = &parts.list[0].id;
        assert_eq!(core.queue.current_grants(id).len(), 0);
    }
}
