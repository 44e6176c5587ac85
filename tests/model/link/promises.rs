//! What must hold in every state.

use super::machine::Bounds;
use super::state::{State, Thread};
use crate::check::Promises;
use crate::redis::Script;

pub const OWNER: &str = "a hold ends before its lease ends in Redis";
pub const EXCLUSIVE: &str = "two holds are never valid at once";
pub const MATCHED: &str = "a reply is given to its request";
pub const AWAITED: &str = "no thread waits for a reply that has been taken, or that cannot arrive";
pub const READ: &str = "while a thread waits, one of those that wait reads";
pub const SETTLED: &str = "an abandoned grant is released, or was executed after its link broke";

pub fn check(bounds: &Bounds, state: &State, promises: &mut Promises) {
    let link = &state.link;
    let owns = |id| state.key.is_some_and(|key| key.id == id);
    promises.always(OWNER, holds(state).all(owns));
    promises.always(EXCLUSIVE, holds(state).count() <= 1);
    promises.of_step(state.broken);
    let is_awaited = |thread| link.awaited.iter().any(|one| one.thread == Some(thread));
    promises.always(
        AWAITED,
        link.awaited.len() == link.sent.len() + link.replies.len()
            && waiting(state).all(is_awaited),
    );
    let is_read = match link.reader {
        Some(reader) => waiting(state).any(|thread| thread == reader),
        None => !state.is_waited_for(),
    };
    promises.always(READ, is_read);
    let is_settled = state.key.is_none_or(|key| {
        let is_of = |thread: &Thread| thread.id() == Some(key.id);
        key.by_old || state.threads.iter().any(is_of) || is_being_settled(state, key.id)
    });
    promises.always(SETTLED, is_settled);
    if bounds.unanswered > 0 {
        let first = link.awaited.front().zip(link.replies.front());
        let is_late = first.is_some_and(|(one, reply)| {
            one.thread.is_none() && one.request.script == Script::Acquire && reply.is_done
        });
        promises.sometimes(
            "the late reply to an abandoned acquire says \"granted\"",
            is_late,
        );
        let mut sent = link.sent.iter();
        let is_behind = sent
            .find(|request| request.script == Script::Acquire)
            .is_some_and(|acquire| {
                sent.any(|one| one.id == acquire.id && one.script == Script::Release)
            });
        promises.sometimes(
            "a release is behind an acquire that is not executed",
            is_behind,
        );
    }
    if bounds.breaks > 0 {
        let is_overtaken = state
            .key
            .is_some_and(|key| key.by_old && !is_being_settled(state, key.id));
        promises.sometimes(
            "a copy is executed after its link broke, and after its release",
            is_overtaken,
        );
    }
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
