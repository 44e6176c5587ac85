//! What must hold in every state.

use stateright::Property;

use super::machine::Bounds;
use super::state::{State, Thread};
use crate::check::by_step;
use crate::redis::Script;

pub const OWNER: &str = "a hold ends before its lease ends in Redis";
pub const EXCLUSIVE: &str = "two holds are never valid at once";
pub const MATCHED: &str = "a reply is given to its request";
pub const AWAITED: &str = "no thread waits for a reply that has been taken, or that cannot arrive";
pub const READ: &str = "while a thread waits, one of those that wait reads";
pub const SETTLED: &str = "an abandoned grant is released, or was executed after its link broke";

const LATE_GRANT: &str = "the late reply to an abandoned acquire says that it was granted";
const OVERTAKEN: &str = "a copy is executed after its link broke, and after its release";
const BEHIND: &str = "a release is behind an abandoned acquire that is not executed";

pub fn all() -> Vec<Property<Bounds>> {
    vec![
        Property::always(OWNER, |_, state: &State| {
            holds(state).all(|id| state.key.is_some_and(|key| key.id == id))
        }),
        Property::always(EXCLUSIVE, |_, state: &State| holds(state).count() <= 1),
        by_step!(MATCHED),
        Property::always(AWAITED, |_, state: &State| {
            let link = &state.link;
            link.awaited.len() == link.sent.len() + link.replies.len()
                && waiting(state).all(|thread| {
                    let mut awaited = link.awaited.iter();
                    awaited.any(|one| one.thread == Some(thread))
                })
        }),
        Property::always(READ, |_, state: &State| match state.link.reader {
            Some(reader) => waiting(state).any(|thread| thread == reader),
            None => !state.is_waited_for(),
        }),
        Property::always(SETTLED, |_, state: &State| {
            state.key.is_none_or(|key| {
                key.by_old
                    || state
                        .threads
                        .iter()
                        .any(|thread| thread.id() == Some(key.id))
                    || is_being_settled(state, key.id)
            })
        }),
        Property::sometimes(LATE_GRANT, |bounds: &Bounds, state: &State| {
            let front = state.link.awaited.front();
            let reply = state.link.replies.front();
            bounds.unanswered == 0
                || front.zip(reply).is_some_and(|(one, reply)| {
                    one.thread.is_none() && one.request.script == Script::Acquire && reply.is_done
                })
        }),
        Property::sometimes(OVERTAKEN, |bounds: &Bounds, state: &State| {
            bounds.breaks == 0
                || state
                    .key
                    .is_some_and(|key| key.by_old && !is_being_settled(state, key.id))
        }),
        Property::sometimes(BEHIND, |bounds: &Bounds, state: &State| {
            let mut sent = state.link.sent.iter();
            let abandoned = sent
                .by_ref()
                .find(|request| request.script == Script::Acquire);
            bounds.unanswered == 0
                || abandoned.is_some_and(|acquire| {
                    sent.any(|release| {
                        release.id == acquire.id && release.script == Script::Release
                    })
                })
        }),
    ]
}

fn holds(state: &State) -> impl Iterator<Item = u8> {
    state.threads.iter().filter_map(|thread| match thread {
        Thread::Holding { id, .. } => Some(*id),
        _ => None,
    })
}

/// The threads for which no reply was read.
fn waiting(state: &State) -> impl Iterator<Item = u8> {
    let threads = (0..).zip(&state.threads);
    threads.filter_map(|(number, thread)| thread.awaits_reply().then_some(number))
}

/// True if the client has to settle the copy, or its release will be executed unless the link
/// breaks.
fn is_being_settled(state: &State, id: u8) -> bool {
    let mut sent = state.link.sent.iter();
    state.abandoned.contains(&id)
        || sent.any(|request| request.id == id && request.script == Script::Release)
}
