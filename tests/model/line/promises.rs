//! What must hold in every state.
//!
//! A lock is open if a client that waits can enter it: the lock is free; or readers hold it, the
//! client is a reader, and no writer waits before it.

use super::machine::Bounds;
use super::state::{Client, Owner, Phase, Place, Reply, Role, State};
use crate::check::Promises;

const EXCLUSIVE: &str = "a writer never holds the lock beside another owner";
pub const CALLED: &str = "an open lock is taken without a timer while the first place answers";
pub const ROUNDS: &str = "silent clients delay a living one for few rounds of calls";
pub const LOOKS: &str = "an open lock is taken after one look of the waiting clients";
pub const FOLLOWED: &str = "no waiting client has to look if a living one has released the lock";
pub const KEPT: &str = "a client that waits and answers keeps its place";
pub const ONCE: &str = "a client that does not answer, or does not wait, is called once";
pub const ORDER: &str = "a waiting client does not pass another one that was before it";
pub const OVERTAKEN: &str = "a waiting reader does not join readers past a waiting writer";

pub fn check(bounds: &Bounds, state: &State, promises: &mut Promises) {
    promises.always(EXCLUSIVE, is_exclusive(state));
    promises.of_step(state.broken);
    let is_quiet = state.is_quiet(bounds);
    let clients = 0..state.clients.len();
    if is_quiet && !cannot_answer(state) {
        let is_due = |c| state.is_due(c) && !state.clients[c].lost_place;
        promises.always(CALLED, state.silent || !clients.clone().any(is_due));
        let is_reserved = state.is_free() && state.mark.is_some();
        let waits = state.first().is_none_or(Client::waits);
        promises.always(ONCE, !is_reserved || waits);
    }
    // A late copy can make the place of a reader that of a writer. Then it waits for a release.
    let is_as_it_waits = |c: usize| state.is_free() || !state.clients[c].lost_place;
    let is_open = clients
        .clone()
        .any(|c| state.is_due(c) && is_as_it_waits(c));
    // Of 2^n - 1 silent clients, the last ones are called together in round n - 1.
    let silent = bounds.faults - state.faults;
    promises.always(
        ROUNDS,
        !is_open || state.rounds <= (silent + 1).ilog2() as u8,
    );
    promises.always(LOOKS, !is_open || state.looks <= 1);

    let is_called = state.mark.is_some();
    let mut refused = clients.filter(|&c| is_refused(&state.clients[c]));
    let is_refused = refused.clone().next().is_some();
    promises.sometimes("a free lock is refused", state.is_free() && is_refused);
    if !bounds.java.is_empty() {
        let is_taken = is_called && state.is_of_java();
        promises.sometimes("Java takes a lock that is reserved", is_taken);
    }
    if bounds.faults > 0 {
        let waits = state.is_waited_for() && state.is_free();
        promises.sometimes(
            "a client waits without a place for a free lock",
            waits && is_quiet && state.line.is_empty(),
        );
    }
    if bounds.readers() > 1 && bounds.clients.len() + bounds.java.len() > 2 {
        let is_kept_out =
            |c: usize| state.clients[c].role == Role::Reader && state.has_writer_before(c);
        promises.sometimes(
            "a waiting writer keeps a reader out of a lock that readers hold",
            state.is_read() && refused.any(is_kept_out),
        );
    }
    if bounds.readers() > 1 {
        let mut first = state.line.iter().take(1);
        let is_reader = first.any(|place| place.role == Role::Reader);
        promises.sometimes(
            "a reader is called while others hold the lock",
            state.is_read() && is_called && is_reader,
        );
    }
    if bounds.java.contains(&Role::Reader) {
        let is_mixed = state.has_java() && !state.is_of_java();
        promises.sometimes(
            "a reader of Java is beside one of the library while a writer waits",
            is_mixed && (0..state.clients.len()).any(|c| state.has_writer_before(c)),
        );
    }
}

fn is_refused(client: &Client) -> bool {
    let Phase::Asked { waits: true, reply } = client.phase else {
        return false;
    };
    matches!(reply, Reply::Refused { .. })
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

/// True if all clients do not answer that were called together, or woken by Java; if they gave up
/// without a reply; or if the first place is that of a writer that does not wait, and nothing has
/// asked it.
fn cannot_answer(state: &State) -> bool {
    let mut called = state.line.iter().take(state.called().max(1));
    let cannot_answer = |place: &Place| {
        let client = &state.clients[place.client as usize];
        let is_told = state.by_java || state.is_read() || state.mark.is_some() && place.owes;
        let is_in_the_way = state.is_read() && place.role == Role::Writer;
        let gave_up = client.is_unsure || is_in_the_way;
        (is_told && !client.responds()) || gave_up && !client.waits()
    };
    !state.line.is_empty() && called.all(cannot_answer)
}
