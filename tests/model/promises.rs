//! The promises of `docs/promises.md`, which must hold in every state, and situations that must
//! occur in some state.

use crate::check::Promises;
use crate::client::{Client, Thread};
use crate::protocol::Protocol;
use crate::redis::{Lease, Script};
use crate::state::{Late, State};

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

pub fn check(protocol: &Protocol, state: &State, promises: &mut Promises) {
    let clients = || state.clients.iter().enumerate();
    let is_owner = |(c, client)| !counts_on_redis(client) || state.owns(c);
    promises.always(OWNER, clients().all(is_owner));
    let counted = state.clients.iter().filter(|it| counts_on_redis(it));
    let holding = counted
        .flat_map(|client| client.threads)
        .filter(|thread| *thread == Thread::Holding);
    promises.always(EXCLUSIVE, holding.count() <= protocol.capacity() as usize);
    let grants = || state.clients.iter().filter_map(|client| client.grant);
    let deleted = grants().filter_map(|grant| grant.deleted).max();
    promises.always(NOTIFIED, deleted.is_none_or(|ticks| ticks < protocol.lease));
    promises.of_step(state.broken);
    let leases = &state.redis.leases;
    let is_used = |lease: &Lease| lease.left == 0 || lease.unused < protocol.lease;
    promises.always(NOT_STUCK, leases.iter().all(is_used));
    let idle = grants().filter_map(|grant| grant.idle).max();
    promises.always(
        NOT_PAST_LINGER,
        idle.is_none_or(|ticks| ticks < protocol.linger()),
    );
    let leased = state.redis.available + leases.len() as i8;
    promises.always(CONSERVED, leased == protocol.capacity() as i8);

    let has = |thread| state.clients.iter().any(|client| client.has(thread));
    if protocol.has_crowd() {
        promises.sometimes("a grant was handed over", has(Thread::Handed));
        let mut clients = state.clients.iter();
        promises.sometimes(
            "a hold is lost, and another thread of its client has one",
            clients.any(|client| client.has_valid_hold() && client.has(Thread::Lost)),
        );
    }
    if protocol.lingers {
        let is_idle = |client: &Client| client.grant.is_some_and(|grant| grant.idle.is_some());
        promises.sometimes(
            "an idle grant is free to take while the other client waits",
            clients().any(|(c, client)| is_idle(client) && state.clients[1 - c].has(Thread::Front)),
        );
    }
    if protocol.unanswered > 0 {
        promises.sometimes(
            "a copy of an acquire is late, and a thread of its client has a hold",
            late(state, Script::Acquire).any(Client::has_valid_hold),
        );
        let is_taken = |late: &Late| {
            let owner = late.client as usize;
            late.copy.is_none() && state.redis.has(owner, late.behind) && !state.owns(owner)
        };
        promises.sometimes(
            "a late copy has acquired the lock, and its release is behind it",
            state.late.iter().any(is_taken),
        );
    }
    if protocol.unanswered > 0 && protocol.has_crowd() {
        promises.sometimes(
            "a renewal is late, and its grant was handed over",
            late(state, Script::Renew).any(|client| client.has(Thread::Handed)),
        );
    }
    if let Some(permits) = protocol.permits {
        let held = state.clients.iter().filter(|it| it.has_valid_hold());
        promises.sometimes("all permits are held", held.count() == usize::from(permits));
        let is_expired = leases.iter().any(|lease| lease.left == 0);
        promises.sometimes("an expired permit is still in Redis", is_expired);
    }
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
