//! The promises of `docs/promises.md`, which must hold in every state, and situations that must
//! occur in some state, so that the promises are really tested.

use stateright::Property;

use crate::client::{Client, Thread};
use crate::protocol::Protocol;
use crate::redis::Script;
use crate::state::State;
use crate::steps::Machine;

pub const OWNER: &str = "promise 1: a hold ends before its lease ends in Redis";
pub const EXCLUSIVE: &str = "promise 1: two holds are never valid at once";
pub const NOTIFIED: &str = "promise 2: a holder is notified of a loss within a lease";
pub const TOLD: &str =
    "promise 2: the thread that has the hold is notified, also after a hand-over";
pub const FALSE_LOSS: &str = "promise 2: a holder is notified only of real losses";
pub const FOREIGN_RELEASE: &str = "promise 4: a release never ends another grant";
pub const NOT_STUCK: &str = "promise 4: Redis is free within one lease after the last use";
pub const RELEASED: &str = "promise 4: a lock is free after a release that got a reply";
pub const TAKEN_BACK: &str = "promise 4: a late copy of an acquire is followed by its release";
pub const NOT_PAST_SLICE: &str = "hand-over: no grant is handed over after its slice";
pub const NOT_PAST_LINGER: &str = "lingering: an idle grant is released by its deadline";
pub const TOKENS: &str = "tokens are unique and rise from hold to hold";

pub const PROMISES: [&str; 12] = [
    OWNER,
    EXCLUSIVE,
    NOTIFIED,
    TOLD,
    FALSE_LOSS,
    FOREIGN_RELEASE,
    NOT_STUCK,
    RELEASED,
    TAKEN_BACK,
    NOT_PAST_SLICE,
    NOT_PAST_LINGER,
    TOKENS,
];

const IDLE: &str = "an idle grant is free to take while the other client waits";
const ACQUIRE_LATE: &str = "a copy of an acquire is late, and a thread of its client has a hold";
const RENEWAL_LATE: &str = "a renewal is late, and its grant was handed over";
const RELEASE_BEHIND: &str = "a late copy has acquired the lock, and its release is behind it";
const LOST: &str = "a hold is lost, and another thread of its client has one";

pub fn all() -> Vec<Property<Machine>> {
    vec![
        Property::always(OWNER, |_, state| {
            clients(state).all(|(c, client)| !counts_on_redis(client) || state.owns(c))
        }),
        Property::always(EXCLUSIVE, |_, state| {
            let counted = clients(state).filter(|(_, client)| counts_on_redis(client));
            let threads = counted.flat_map(|(_, client)| client.threads);
            threads.filter(|thread| *thread == Thread::Holding).count() <= 1
        }),
        Property::always(NOTIFIED, |machine: &Machine, state: &State| {
            clients(state).all(|(_, client)| {
                let deleted = client.grant.and_then(|grant| grant.deleted);
                deleted.is_none_or(|ticks| ticks < machine.protocol.lease)
            })
        }),
        Property::always(TOLD, |_, state: &State| !state.broken.has(TOLD)),
        Property::always(FALSE_LOSS, |_, state: &State| !state.broken.has(FALSE_LOSS)),
        Property::always(FOREIGN_RELEASE, |_, state: &State| {
            !state.broken.has(FOREIGN_RELEASE)
        }),
        Property::always(NOT_STUCK, |machine: &Machine, state: &State| {
            state
                .redis
                .key
                .is_none_or(|key| key.unused < machine.protocol.lease)
        }),
        Property::always(RELEASED, |_, state: &State| !state.broken.has(RELEASED)),
        Property::always(TAKEN_BACK, |_, state: &State| !state.broken.has(TAKEN_BACK)),
        Property::always(NOT_PAST_SLICE, |_, state: &State| {
            !state.broken.has(NOT_PAST_SLICE)
        }),
        Property::always(NOT_PAST_LINGER, |machine: &Machine, state: &State| {
            let mut grants = clients(state).filter_map(|(_, client)| client.grant);
            grants.all(|grant| {
                grant
                    .idle
                    .is_none_or(|ticks| ticks < machine.protocol.linger())
            })
        }),
        Property::always(TOKENS, |_, state: &State| !state.broken.has(TOKENS)),
        Property::sometimes("a grant was handed over", |_, state| {
            clients(state).any(|(_, client)| client.has(Thread::Handed))
        }),
        Property::sometimes(IDLE, |_, state| {
            clients(state).any(|(c, client)| {
                client.grant.is_some_and(|grant| grant.idle.is_some())
                    && state.clients[1 - c].has(Thread::Front)
            })
        }),
        Property::sometimes(LOST, |_, state| {
            clients(state).any(|(_, client)| client.has_valid_hold() && client.has(Thread::Lost))
        }),
        Property::sometimes(ACQUIRE_LATE, |_, state| {
            clients(state).any(|(c, client)| {
                client.has_valid_hold()
                    && state.late.iter().any(|late| {
                        late.is_of(c)
                            && late.copy.is_some_and(|copy| copy.script == Script::Acquire)
                    })
            })
        }),
        Property::sometimes(RENEWAL_LATE, |_, state| {
            clients(state).any(|(c, client)| {
                client.has(Thread::Handed)
                    && state.late.iter().any(|late| {
                        late.is_of(c) && late.copy.is_some_and(|copy| copy.script == Script::Renew)
                    })
            })
        }),
        Property::sometimes(RELEASE_BEHIND, |_, state: &State| {
            state.late.iter().any(|late| {
                let owner = late.client as usize;
                late.copy.is_none()
                    && state.redis.key_is_of(owner, late.behind)
                    && !state.owns(owner)
            })
        }),
    ]
}

fn clients(state: &State) -> impl Iterator<Item = (usize, &Client)> {
    state.clients.iter().enumerate()
}

/// True for a valid hold of a key that Redis has kept. Mutual exclusion is promised for no other.
fn counts_on_redis(client: &Client) -> bool {
    client.has_valid_hold() && client.grant.is_some_and(|grant| grant.deleted.is_none())
}

impl Protocol {
    /// True if this situation is possible within the bounds.
    pub fn allows(&self, situation: &str) -> bool {
        match situation {
            IDLE => self.lingers,
            ACQUIRE_LATE | RENEWAL_LATE | RELEASE_BEHIND => self.unanswered > 0,
            _ => true,
        }
    }
}
