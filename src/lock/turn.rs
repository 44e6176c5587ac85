//! The wait at home: behind the other threads of this process, for the turn to ask Redis.

use std::time::Duration;

use crate::clock::Moment;
use crate::core::Core;
use crate::error::{Error, Result};
use crate::key::LockKey;
use crate::local::Turn;
use crate::owner::ThreadId;
use crate::patience::Patience;

/// The first nap of a thread that waits for another's answer, about as long as an answer takes.
const FIRST_NAP: Duration = Duration::from_micros(50);

/// The longest.
const LONGEST_NAP: Duration = Duration::from_millis(20);

/// Waits behind the other threads of this process, one of which asks for the lock or has it.
pub(super) fn queue_up(
    core: &Core,
    key: &LockKey,
    thread: ThreadId,
    patience: &Patience,
) -> Result<Option<Turn>> {
    let came = Moment::now();
    match wait_in_line(core, key, thread, patience)? {
        Some(turn) => Ok(Some(turn)),
        None => hear_answer(core, key, thread, patience, came),
    }
}

/// Out of patience, waits for the answer to what another thread has asked since before this one came: until
/// then nobody knows that the lock is not to be had. If nobody has it, those who hear that take turns to ask.
fn hear_answer(
    core: &Core,
    key: &LockKey,
    thread: ThreadId,
    patience: &Patience,
    came: Moment,
) -> Result<Option<Turn>> {
    let queue = &core.queue;
    let is_open = || {
        queue
            .unanswered(key.key())
            .is_some_and(|since| since <= came)
    };
    if !is_open() {
        return Ok(None);
    }
    let turn = queue.line_up(key.key(), thread, patience.waker());
    if turn.is_some() {
        return Ok(turn);
    }
    let end = patience
        .call_ends()
        .min(Moment::now().after(core.command_timeout));
    let mut nap = FIRST_NAP;
    loop {
        patience.pause(nap);
        if let Some(turn) = queue.take_turn(key.key(), thread) {
            return Ok(Some(turn));
        }
        if !is_open() {
            return Ok(queue.leave(key.key(), thread));
        }
        let given_up = patience.check(key.name()).and_then(|()| {
            // That too few replicas have it is an answer.
            if end.is_past() || queue.confirmed(key.key()).is_some() {
                return Err(no_answer(core, key, patience));
            }
            Ok(())
        });
        if let Err(error) = given_up {
            drop(queue.leave(key.key(), thread));
            return Err(error);
        }
        nap = (nap * 2).min(LONGEST_NAP);
    }
}

/// Waits for the turn until it has come or the patience ends.
pub(super) fn wait_in_line(
    core: &Core,
    key: &LockKey,
    thread: ThreadId,
    patience: &Patience,
) -> Result<Option<Turn>> {
    if patience.is_over() {
        return Ok(None);
    }
    let turn = core.queue.line_up(key.key(), thread, patience.waker());
    if turn.is_some() {
        return Ok(turn);
    }
    loop {
        patience.sleep(patience.look_up(core.queue.unanswered(key.key())));
        let unanswered = core.queue.unanswered(key.key());
        patience.silent_since(unanswered);
        let given_up = patience
            .check(key.name())
            .and_then(|()| silence(core, key, unanswered, patience));
        if let Err(error) = given_up {
            drop(core.queue.leave(key.key(), thread));
            return Err(error);
        }
        if let Some(turn) = core.queue.take_turn(key.key(), thread) {
            return Ok(Some(turn));
        }
        if patience.is_over() {
            return Ok(core.queue.leave(key.key(), thread));
        }
    }
}

/// Fails once Redis has been silent for too long, towards this thread or the one it waits for.
pub(super) fn silence(
    core: &Core,
    key: &LockKey,
    since: Option<Moment>,
    patience: &Patience,
) -> Result<()> {
    if since.is_some() && patience.answer_by().is_past() {
        return Err(no_answer(core, key, patience));
    }
    Ok(())
}

/// What the thread with the turn has asked has had no answer that counts.
fn no_answer(core: &Core, key: &LockKey, patience: &Patience) -> Error {
    if let Some(confirmed) = core.queue.confirmed(key.key()) {
        return core.connections.too_few_replicas(key, confirmed);
    }
    let cause = "no reply in time to the thread that asks for all of this process";
    core.connections.unavailable(key, patience, cause.into())
}
