//! What must hold in every state.

use stateright::{Expectation, Property};

use super::Bounds;
use super::state::{Hold, State};
use crate::redis::{OwnerIds, Script};

pub const AT_MOST_K: &str = "never more than K holds are valid at once";
pub const LEASED: &str = "a hold ends before its lease ends in Redis";
pub const CONSERVED: &str = "each permit is either available or leased";
pub const NOTIFIED: &str = "a holder is notified of a loss within a lease";
pub const FALSE_LOSS: &str = "a holder is notified only of real losses";
pub const NOT_STUCK: &str =
    "a permit is available within a lease after its last use, or after a late renewal";
pub const RELEASED: &str = "a permit is not leased after a release that got a reply";
pub const TAKEN_BACK: &str = "a late copy of an acquire is followed by its release";
pub const ONE: &str = "the copies of an acquire lease one permit";

pub const PROMISES: [&str; 9] = [
    AT_MOST_K, LEASED, CONSERVED, NOTIFIED, FALSE_LOSS, NOT_STUCK, RELEASED, TAKEN_BACK, ONE,
];

/// The valid holds of permits that no other program has released.
fn holds(state: &State) -> impl Iterator<Item = (usize, Hold)> {
    let workers = state.workers.iter().enumerate();
    let holds = workers.filter_map(|(w, worker)| Some((w, worker.hold?)));
    holds.filter(|(_, hold)| hold.gone.is_none())
}

fn by_step(promise: &'static str) -> Property<Bounds> {
    // A function without captures, as `Property` wants it.
    macro_rules! unbroken {
        ($($name:ident),+) => {
            match promise {
                $($name => |_: &Bounds, state: &State| state.broken != Some($name),)+
                _ => |_: &Bounds, _: &State| true,
            }
        };
    }
    Property {
        expectation: Expectation::Always,
        name: promise,
        condition: unbroken!(FALSE_LOSS, RELEASED, TAKEN_BACK, ONE),
    }
}

pub fn all() -> Vec<Property<Bounds>> {
    vec![
        Property::always(AT_MOST_K, |bounds: &Bounds, state: &State| {
            holds(state).count() <= bounds.permits as usize
        }),
        Property::always(LEASED, |_, state: &State| {
            holds(state).all(|(w, hold)| {
                let ids = OwnerIds::of(hold.id);
                let leased = state.redis.leases.iter();
                leased
                    .filter(|permit| permit.left > 0)
                    .any(|permit| permit.is_of(w, ids))
            })
        }),
        Property::always(CONSERVED, |bounds: &Bounds, state: &State| {
            state.redis.available + state.redis.leases.len() as i8 == bounds.permits
        }),
        Property::always(NOTIFIED, |bounds: &Bounds, state: &State| {
            let mut holds = state.workers.iter().filter_map(|worker| worker.hold);
            holds.all(|hold| hold.gone.is_none_or(|ticks| ticks < bounds.lease))
        }),
        Property::always(NOT_STUCK, |bounds: &Bounds, state: &State| {
            let mut live = state.redis.leases.iter().filter(|permit| permit.left > 0);
            live.all(|permit| permit.unused < bounds.lease)
        }),
        by_step(FALSE_LOSS),
        by_step(RELEASED),
        by_step(TAKEN_BACK),
        by_step(ONE),
        Property::sometimes("all permits are held", |bounds: &Bounds, state: &State| {
            holds(state).count() == bounds.permits as usize
        }),
        Property::sometimes("an expired permit is still in Redis", |_, state: &State| {
            state.redis.leases.iter().any(|permit| permit.left == 0)
        }),
        Property::sometimes(
            "an acquire is late while its worker holds",
            |bounds: &Bounds, state: &State| {
                bounds.unanswered == 0
                    || state.late.iter().any(|late| {
                        let is_late = late.copy.is_some_and(|copy| copy.script == Script::Acquire);
                        is_late && state.workers[late.worker as usize].hold.is_some()
                    })
            },
        ),
    ]
}
