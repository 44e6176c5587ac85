//! The promises of `docs/promises.md`, which must hold in every state, and situations that must
//! occur in some state, so that the promises are really tested.

use stateright::Property;

use crate::client::{Client, Op};
use crate::redis::{LEASE, Reply, Script};
use crate::state::State;
use crate::steps::Machine;

pub const OWNER: &str = "promise 1: a client that believes to hold the lock owns it in Redis";
pub const EXCLUSIVE: &str = "promise 1: never two holders";
pub const NOTIFIED: &str = "promise 2: a holder is notified of a loss";
pub const NO_FALSE_ALARM: &str = "promise 2: a holder is notified only of real losses";
pub const FOREIGN_RELEASE: &str = "promise 4: a late request never releases another owner's lock";
pub const NOT_STUCK: &str = "promise 4: no lock is stuck for longer than a lease";
pub const COUNTS: &str =
    "promise 4: counts agree once each nested call is answered, or one after an abandoned one";

const NESTED_LATE: &str = "a nested acquire is retried, and its first copy is late";
const RELEASE_LATE: &str = "a release is late, and its sender holds the lock again";
const COUNT_WRITTEN: &str = "the watchdog has written an unknown count";
const RENEWAL_LATE: &str = "a renewal is late, and its hold is still valid";

pub const PROMISES: [&str; 7] = [
    OWNER,
    EXCLUSIVE,
    NOTIFIED,
    NO_FALSE_ALARM,
    FOREIGN_RELEASE,
    NOT_STUCK,
    COUNTS,
];

pub fn all() -> Vec<Property<Machine>> {
    vec![
        Property::always(OWNER, |_, state| {
            clients(state).all(|(c, client)| !has_valid_hold(client) || state.owns(c))
        }),
        Property::always(EXCLUSIVE, |_, state| {
            clients(state)
                .filter(|(_, client)| has_valid_hold(client))
                .count()
                <= 1
        }),
        Property::always(NOTIFIED, |_, state| {
            let gone_for = |client: &Client| client.hold.and_then(|hold| hold.deleted);
            clients(state).all(|(_, client)| gone_for(client).is_none_or(|ticks| ticks < LEASE))
        }),
        Property::always(NO_FALSE_ALARM, |_, state: &State| !state.false_loss),
        Property::always(FOREIGN_RELEASE, |_, state: &State| !state.foreign_release),
        Property::always(NOT_STUCK, |_, state: &State| {
            state.key.is_none_or(|key| key.unheld < LEASE)
        }),
        Property::always(COUNTS, |_, state| {
            clients(state).all(|(c, client)| !count_is_known(client) || counts_agree(state, c))
        }),
        Property::sometimes("each client has a hold", |_, state| {
            // One of them has expired and is not unlocked yet.
            let standing = clients(state).filter(|(_, client)| client.stands()).count();
            standing == 1 && clients(state).all(|(_, client)| client.hold.is_some())
        }),
        Property::sometimes(NESTED_LATE, |_, state| {
            clients(state).any(|(c, client)| {
                client
                    .call
                    .is_some_and(|call| call.op == Op::Nest && call.ambiguous)
                    && is_under_way(state, c, |script| {
                        matches!(script, Script::Recount | Script::Move)
                    })
            })
        }),
        Property::sometimes(RELEASE_LATE, |_, state| {
            clients(state).any(|(c, client)| {
                client.stands() && is_under_way(state, c, |script| script == Script::Release)
            })
        }),
        Property::sometimes(COUNT_WRITTEN, |_, state| {
            clients(state).any(|(_, client)| {
                client.stands()
                    && client.watchdog.is_some_and(|request| {
                        request.command.script == Script::Move && request.reply == Some(Reply::Done)
                    })
            })
        }),
        Property::sometimes(RENEWAL_LATE, |_, state| {
            clients(state).any(|(c, client)| {
                client.stands() && is_under_way(state, c, |script| script == Script::Renew)
            })
        }),
        Property::sometimes(
            "an acquire is compensated while the other client waits",
            |_, state| {
                clients(state).any(|(c, client)| {
                    state.key_is_of(c, client.orphans)
                        && state.clients[1 - c]
                            .call
                            .is_some_and(|call| call.op == Op::Acquire)
                })
            },
        ),
    ]
}

fn clients(state: &State) -> impl Iterator<Item = (usize, &Client)> {
    state.clients.iter().enumerate()
}

/// Mutual exclusion is promised only as long as Redis keeps the key.
fn has_valid_hold(client: &Client) -> bool {
    client
        .hold
        .is_some_and(|hold| hold.stands() && hold.deleted.is_none())
}

fn is_under_way(state: &State, client: usize, of: fn(Script) -> bool) -> bool {
    let late = state
        .late
        .iter()
        .filter(|late| late.client as usize == client);
    let mut commands = late.flat_map(|late| [late.copy, late.behind]).flatten();
    commands.any(|command| of(command.script))
}

/// True if no nested call is under way and the last one was answered. Late copies do not matter.
fn count_is_known(client: &Client) -> bool {
    client.call.is_none() && !client.hold.is_some_and(|hold| hold.gave_up)
}

fn counts_agree(state: &State, client: usize) -> bool {
    match (state.clients[client].hold, state.key) {
        (Some(hold), Some(key)) if hold.stands() && state.owns(client) => key.count == hold.levels,
        _ => true,
    }
}

impl Machine {
    /// True if this situation is possible within the bounds.
    pub fn must_occur(&self, kind: &str) -> bool {
        let protocol = &self.protocol;
        match kind {
            NESTED_LATE | RELEASE_LATE => protocol.unanswered > 0 && protocol.delays,
            COUNT_WRITTEN => protocol.unanswered > 0,
            RENEWAL_LATE => protocol.unanswered > 0 && protocol.delays && protocol.renewals,
            _ => true,
        }
    }
}
