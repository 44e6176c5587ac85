//! What must hold in every state.

use stateright::Property;

use super::machine::Bounds;
use super::state::{Client, Holder, Phase, Reply, State};

pub const EXCLUSIVE: &str = "two clients never hold the lock at once";
pub const CALLED: &str = "a free lock is taken without a timer while the first place answers";
pub const ONE_TIMER: &str = "a free lock is taken after one timer of the waiting clients";
pub const KEPT: &str = "a client that waits and answers keeps its place";
pub const ONCE: &str = "a client that does not answer, or does not wait, is called once";
pub const ORDER: &str = "a waiting client does not pass another one that was before it";

pub const PROMISES: [&str; 6] = [EXCLUSIVE, CALLED, ONE_TIMER, KEPT, ONCE, ORDER];

pub const TAKEN_BY_JAVA: &str = "Java takes a lock that is reserved";
pub const RESERVED: &str = "a free lock is refused";
pub const WITHOUT_PLACE: &str = "a client waits without a place for a free lock";

pub fn all() -> Vec<Property<Bounds>> {
    vec![
        Property::always(EXCLUSIVE, |_, state: &State| {
            let holders = (0..).zip(&state.clients);
            let mut holders = holders.filter(|(_, client)| client.phase == Phase::Holds);
            holders.all(|(c, _)| state.holder == Some(Holder::Ours(c)))
        }),
        Property::always(CALLED, |_, state: &State| {
            state.silent || !state.is_free_and_waited_for() || !state.is_quiet() || !is_due(state)
        }),
        Property::always(ONE_TIMER, |_, state: &State| {
            state.polls < 2 || !state.is_free_and_waited_for()
        }),
        Property::always(KEPT, |_, state: &State| state.broken != Some(KEPT)),
        Property::always(ONCE, |_, state: &State| {
            let is_reserved = state.holder.is_none() && state.mark.is_some();
            state.broken != Some(ONCE)
                && (!is_reserved
                    || cannot_answer(state)
                    || state.first().is_none_or(Client::waits)
                    || !state.is_quiet())
        }),
        Property::always(ORDER, |_, state: &State| state.broken != Some(ORDER)),
        Property::sometimes(TAKEN_BY_JAVA, |bounds, state: &State| {
            !bounds.has_java || state.mark.is_some() && state.holder == Some(Holder::Java)
        }),
        Property::sometimes(RESERVED, |_, state: &State| {
            let mut clients = state.clients.iter().filter(|client| client.waits());
            let is_refused = |phase| {
                matches!(
                    phase,
                    Phase::Asked {
                        reply: Reply::Refused(_),
                        ..
                    }
                )
            };
            state.holder.is_none() && clients.any(|client| is_refused(client.phase))
        }),
        Property::sometimes(WITHOUT_PLACE, |bounds, state: &State| {
            bounds.faults == 0
                || state.is_free_and_waited_for() && state.is_quiet() && state.line.is_empty()
        }),
    ]
}

/// True if the first place was called and its client cannot answer, or gave up without a reply.
fn cannot_answer(state: &State) -> bool {
    let gave_up = |first: &Client| first.is_unsure && !first.waits();
    let first = state.first();
    first.is_some_and(|first| {
        let is_told = state.by_java || state.mark.is_some() && first.owes;
        is_told && !first.responds() || gave_up(first)
    })
}

/// True if a client waits that needs no timer: no fault took its place.
fn is_due(state: &State) -> bool {
    let mut clients = state.clients.iter();
    let is_due = |client: &Client| client.waits() && client.responds() && !client.lost_place;
    !cannot_answer(state) && clients.any(is_due)
}
