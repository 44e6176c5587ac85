//! What must hold in every state.
//!
//! A lock is open if a client that waits can enter it: the lock is free; or readers hold it, the
//! client is a reader, and no writer waits before it.

use stateright::Property;

use super::machine::Bounds;
use super::state::{Client, Owner, Phase, Reply, Role, State};
use crate::check::by_step;

const EXCLUSIVE: &str = "a writer never holds the lock beside another owner";
pub const CALLED: &str = "an open lock is taken without a timer while the first place answers";
pub const TIMERS: &str = "an open lock is taken after few timers of the waiting clients";
pub const KEPT: &str = "a client that waits and answers keeps its place";
pub const ONCE: &str = "a client that does not answer, or does not wait, is called once";
pub const ORDER: &str = "a waiting client does not pass another one that was before it";
pub const OVERTAKEN: &str = "a waiting reader does not join readers past a waiting writer";

const TAKEN_BY_JAVA: &str = "Java takes a lock that is reserved";
const RESERVED: &str = "a free lock is refused";
const WITHOUT_PLACE: &str = "a client waits without a place for a free lock";
const KEPT_OUT: &str = "a waiting writer keeps a reader out of a lock that readers hold";
const JOINED: &str = "a reader is called while others hold the lock";
const BESIDE_JAVA: &str = "a reader of Java is beside one of the library while a writer waits";

pub fn all() -> Vec<Property<Bounds>> {
    vec![
        Property::always(EXCLUSIVE, |_, state: &State| is_exclusive(state)),
        Property::always(CALLED, |_, state: &State| {
            let mut clients = 0..state.clients.len();
            let is_due = |c| state.is_due(c) && !state.clients[c].lost_place;
            state.silent || cannot_answer(state) || !state.is_quiet() || !clients.any(is_due)
        }),
        // If readers hold the lock, the first finds out that a writer does not answer.
        Property::always(TIMERS, |_, state: &State| {
            state.polls < 2 + u8::from(state.is_read()) || !state.is_waited_for()
        }),
        by_step!(KEPT),
        Property::always(ONCE, |_, state: &State| {
            let is_reserved = state.is_free() && state.mark.is_some();
            state.broken != Some(ONCE)
                && (!is_reserved
                    || cannot_answer(state)
                    || state.first().is_none_or(Client::waits)
                    || !state.is_quiet())
        }),
        by_step!(ORDER),
        by_step!(OVERTAKEN),
        Property::sometimes(TAKEN_BY_JAVA, |bounds, state: &State| {
            bounds.java.is_empty() || state.mark.is_some() && state.is_of_java()
        }),
        Property::sometimes(RESERVED, |_, state: &State| {
            let mut clients = state.clients.iter();
            state.is_free() && clients.any(is_refused)
        }),
        Property::sometimes(WITHOUT_PLACE, |bounds, state: &State| {
            let waits = state.is_waited_for() && state.is_free();
            bounds.faults == 0 || waits && state.is_quiet() && state.line.is_empty()
        }),
        Property::sometimes(KEPT_OUT, |bounds, state: &State| {
            let mut clients = (0..).zip(&state.clients);
            let is_kept_out = |(c, client): (usize, &Client)| {
                client.role == Role::Reader && is_refused(client) && state.has_writer_before(c)
            };
            let is_possible = bounds.readers() > 1 && bounds.clients.len() + bounds.java.len() > 2;
            !is_possible || state.is_read() && clients.any(is_kept_out)
        }),
        Property::sometimes(JOINED, |bounds, state: &State| {
            let is_reader = state
                .line
                .first()
                .is_some_and(|place| place.role == Role::Reader);
            bounds.readers() < 2 || state.is_read() && state.mark.is_some() && is_reader
        }),
        Property::sometimes(BESIDE_JAVA, |bounds, state: &State| {
            let mut clients = 0..state.clients.len();
            let is_mixed = state.has_java() && !state.is_of_java();
            let is_possible = bounds.java.contains(&Role::Reader);
            !is_possible || is_mixed && clients.any(|c| state.has_writer_before(c))
        }),
    ]
}

fn is_refused(client: &Client) -> bool {
    let Phase::Asked { waits: true, reply } = client.phase else {
        return false;
    };
    matches!(reply, Reply::Refused(_))
}

fn is_exclusive(state: &State) -> bool {
    let mut clients = (0..).zip(&state.clients);
    let has_it = |c| {
        let mine = Owner::Ours(c);
        state.writer == Some(mine) || state.readers.contains(&mine)
    };
    let is_beside_own = |owner: &Owner| state.writer.is_none_or(|writer| writer == *owner);
    clients.all(|(c, client)| client.phase != Phase::Holds || has_it(c))
        && state.readers.iter().all(is_beside_own)
}

/// True if the first place was called, or woken by Java, and its client does not answer; if its
/// client gave up without a reply; or if it is that of a writer that does not wait, and nothing has
/// asked it.
fn cannot_answer(state: &State) -> bool {
    let Some((place, first)) = state.line.first().zip(state.first()) else {
        return false;
    };
    let is_told = state.by_java || state.is_read() || state.mark.is_some() && place.owes;
    let is_in_the_way = state.is_read() && place.role == Role::Writer;
    let gave_up = first.is_unsure || is_in_the_way;
    (is_told && !first.responds()) || gave_up && !first.waits()
}
