//! What must hold in every state, named as the promises that the README makes, and what must occur in
//! some state, lest the model be dead.

use stateright::Property;

use crate::client::{Client, Op};
use crate::redis::{LEASE, Reply, Script};
use crate::state::State;
use crate::steps::Machine;

pub const OWNER: &str = "promise 1: who believes to hold is the owner in Redis";
pub const ALONE: &str = "promise 1: never two holders";
pub const TOLD: &str = "promise 2: nothing is lost silently";
pub const NO_FALSE_ALARM: &str = "promise 2: a loss that is told is one";
pub const STRANGER: &str = "promise 4: a late reply never releases a stranger's lock";
pub const STUCK: &str = "promise 4: no lock is stuck for longer than a lease";
pub const COUNTS: &str = "promise 4: counts agree once nested calls are answered; after one that gave up, from the next answer on";

const NESTED_LATE: &str = "a nested acquire asks again, and its first copy is late";
const RELEASE_LATE: &str = "a release is late, and its sender holds anew";
const SETTLED: &str = "the watchdog has written a count in doubt";
const RENEWAL_LATE: &str = "a renewal is late, and its hold still stands";

pub const PROMISES: [&str; 7] = [OWNER, ALONE, TOLD, NO_FALSE_ALARM, STRANGER, STUCK, COUNTS];

pub fn all() -> Vec<Property<Machine>> {
    vec![
        Property::always(OWNER, |_, state| {
            clients(state).all(|(c, client)| !believes_with_reason(client) || state.owns(c))
        }),
        Property::always(ALONE, |_, state| {
            clients(state)
                .filter(|(_, client)| believes_with_reason(client))
                .count()
                <= 1
        }),
        Property::always(TOLD, |_, state| {
            let gone_for = |client: &Client| client.hold.and_then(|hold| hold.deleted);
            clients(state).all(|(_, client)| gone_for(client).is_none_or(|ticks| ticks < LEASE))
        }),
        Property::always(NO_FALSE_ALARM, |_, state: &State| !state.misled),
        Property::always(STRANGER, |_, state: &State| !state.freed),
        Property::always(STUCK, |_, state: &State| {
            state.key.is_none_or(|key| key.unheld < LEASE)
        }),
        Property::always(COUNTS, |_, state| {
            clients(state).all(|(c, client)| !is_answered(client) || counts_agree(state, c))
        }),
        Property::sometimes("each client holds", |_, state| {
            // One of them holds, and the other has not unlocked yet what expired.
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
        Property::sometimes(SETTLED, |_, state| {
            clients(state).any(|(_, client)| {
                client.stands()
                    && client.dog.is_some_and(|round| {
                        round.command.script == Script::Move && round.reply == Some(Reply::Done)
                    })
            })
        }),
        Property::sometimes(RENEWAL_LATE, |_, state| {
            clients(state).any(|(c, client)| {
                client.stands() && is_under_way(state, c, |script| script == Script::Renew)
            })
        }),
        Property::sometimes(
            "an acquire is taken back while the other waits",
            |_, state| {
                clients(state).any(|(c, client)| {
                    state.key_is_of(c, client.withdrawals)
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

/// The promise to be alone is made for as long as Redis keeps the key.
fn believes_with_reason(client: &Client) -> bool {
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

/// No nested call is under way, and the last one was answered. What is late is no excuse.
fn is_answered(client: &Client) -> bool {
    client.call.is_none() && !client.hold.is_some_and(|hold| hold.gave_up)
}

fn counts_agree(state: &State, client: usize) -> bool {
    match (state.clients[client].hold, state.key) {
        (Some(hold), Some(key)) if hold.stands() && state.owns(client) => key.count == hold.levels,
        _ => true,
    }
}

impl Machine {
    /// Whether a state of this kind is within the bounds.
    pub fn is_to_occur(&self, kind: &str) -> bool {
        let protocol = &self.protocol;
        match kind {
            NESTED_LATE | RELEASE_LATE => protocol.unanswered > 0 && protocol.delays,
            SETTLED => protocol.unanswered > 0,
            RENEWAL_LATE => protocol.unanswered > 0 && protocol.delays && protocol.renewals,
            _ => true,
        }
    }
}
