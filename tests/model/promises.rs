//! The promises of `docs/promises.md`, which must hold in every state, and situations that must
//! occur in some state.

use stateright::Property;

use crate::check::by_step;
use crate::client::{Client, Thread};
use crate::protocol::Protocol;
use crate::redis::Script;
use crate::state::State;

pub const OWNER: &str = "promise 1: a hold ends before its lease ends in Redis";
pub const EXCLUSIVE: &str = "promise 1: no more holds are valid at once than a lock or K permits";
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
pub const CONSERVED: &str = "permits: each is either available or leased";
pub const ONE: &str = "permits: the copies of an acquire lease one";

pub fn all() -> Vec<Property<Protocol>> {
    vec![
        Property::always(OWNER, |_, state: &State| {
            clients(state).all(|(c, client)| !counts_on_redis(client) || state.owns(c))
        }),
        Property::always(EXCLUSIVE, |protocol: &Protocol, state: &State| {
            let counted = clients(state).filter(|(_, client)| counts_on_redis(client));
            let threads = counted.flat_map(|(_, client)| client.threads);
            let holding = threads.filter(|thread| *thread == Thread::Holding);
            holding.count() <= protocol.capacity() as usize
        }),
        Property::always(NOTIFIED, |protocol: &Protocol, state: &State| {
            clients(state).all(|(_, client)| {
                let deleted = client.grant.and_then(|grant| grant.deleted);
                deleted.is_none_or(|ticks| ticks < protocol.lease)
            })
        }),
        by_step!(TOLD),
        by_step!(FALSE_LOSS),
        by_step!(FOREIGN_RELEASE),
        Property::always(NOT_STUCK, |protocol: &Protocol, state: &State| {
            let mut live = state.redis.leases.iter().filter(|lease| lease.left > 0);
            live.all(|lease| lease.unused < protocol.lease)
        }),
        by_step!(RELEASED),
        by_step!(TAKEN_BACK),
        by_step!(NOT_PAST_SLICE),
        Property::always(NOT_PAST_LINGER, |protocol: &Protocol, state: &State| {
            let idle = clients(state).filter_map(|(_, client)| client.grant?.idle);
            idle.max().is_none_or(|ticks| ticks < protocol.linger())
        }),
        by_step!(TOKENS),
        Property::always(CONSERVED, |protocol: &Protocol, state: &State| {
            state.redis.available + state.redis.leases.len() as i8 == protocol.capacity() as i8
        }),
        by_step!(ONE),
        Property::sometimes(
            "a grant was handed over",
            |protocol: &Protocol, state: &State| {
                !protocol.has_crowd()
                    || clients(state).any(|(_, client)| client.has(Thread::Handed))
            },
        ),
        Property::sometimes(
            "an idle grant is free to take while the other client waits",
            |protocol: &Protocol, state: &State| {
                !protocol.lingers
                    || clients(state).any(|(c, client)| {
                        client.grant.is_some_and(|grant| grant.idle.is_some())
                            && state.clients[1 - c].has(Thread::Front)
                    })
            },
        ),
        Property::sometimes(
            "a hold is lost, and another thread of its client has one",
            |protocol: &Protocol, state: &State| {
                !protocol.has_crowd()
                    || clients(state)
                        .any(|(_, client)| client.has_valid_hold() && client.has(Thread::Lost))
            },
        ),
        Property::sometimes(
            "a copy of an acquire is late, and a thread of its client has a hold",
            |protocol: &Protocol, state: &State| {
                protocol.unanswered == 0 || late(state, Script::Acquire).any(Client::has_valid_hold)
            },
        ),
        Property::sometimes(
            "a renewal is late, and its grant was handed over",
            |protocol: &Protocol, state: &State| {
                protocol.unanswered == 0
                    || !protocol.has_crowd()
                    || late(state, Script::Renew).any(|client| client.has(Thread::Handed))
            },
        ),
        Property::sometimes(
            "a late copy has acquired the lock, and its release is behind it",
            |protocol: &Protocol, state: &State| {
                protocol.unanswered == 0
                    || state.late.iter().any(|late| {
                        let owner = late.client as usize;
                        late.copy.is_none()
                            && state.redis.has(owner, late.behind)
                            && !state.owns(owner)
                    })
            },
        ),
        Property::sometimes(
            "all permits are held",
            |protocol: &Protocol, state: &State| {
                let held = clients(state).filter(|(_, client)| client.has_valid_hold());
                protocol
                    .permits
                    .is_none_or(|permits| held.count() == usize::from(permits))
            },
        ),
        Property::sometimes(
            "an expired permit is still in Redis",
            |protocol: &Protocol, state: &State| {
                protocol.permits.is_none() || state.redis.leases.iter().any(|lease| lease.left == 0)
            },
        ),
    ]
}

fn clients(state: &State) -> impl Iterator<Item = (usize, &Client)> {
    state.clients.iter().enumerate()
}

/// The clients of which a call of this script is late.
fn late(state: &State, script: Script) -> impl Iterator<Item = &Client> {
    let copies = state.late.iter().filter_map(|late| late.copy);
    let copies = copies.filter(move |copy| copy.script == script);
    copies.map(|copy| &state.clients[copy.client as usize])
}

/// True for a valid hold of a key that Redis has kept. Mutual exclusion is promised for no other.
fn counts_on_redis(client: &Client) -> bool {
    client.has_valid_hold() && client.grant.is_some_and(|grant| grant.deleted.is_none())
}
