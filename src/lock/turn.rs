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

/// Waits behind the other threads of this process, one of which asks for the lock or has it; the turn, if it has
/// come before the patience ends.
///
/// Who is out of patience still hears, for one command time-out, the answer to what the thread with the turn
/// has asked since `heard` or before: until then nobody knows that the lock is not to be had. If nobody has it,
/// those who hear that take turns to ask.
pub(super) fn wait_in_line(
    core: &Core,
    key: &LockKey,
    patience: &Patience,
    heard: Moment,
) -> Result<Option<Turn>> {
    let (queue, thread) = (&core.queue, ThreadId::current());
    let unanswered = || queue.unanswered(key.key());
    let is_settled = || patience.is_over() && !queue.is_open(key.key(), heard);
    if is_settled() {
        return Ok(None);
    }
    let turn = queue.line_up(key.key(), thread, patience.waker());
    if turn.is_some() {
        return Ok(turn);
    }
    let (mut nap, mut hears_until) = (FIRST_NAP, None);
    loop {
        if patience.is_over() {
            let time = || Moment::now().after(core.command_timeout);
            hears_until.get_or_insert_with(|| patience.call_ends().min(time()));
            patience.pause(nap);
            nap = (nap * 2).min(LONGEST_NAP);
        } else {
            patience.sleep(patience.look_up(unanswered()));
        }
        // What has come while this thread could not run counts, however late it is.
        if !patience.is_interrupted() {
            if let Some(turn) = queue.take_turn(key.key(), thread) {
                return Ok(Some(turn));
            }
            if is_settled() {
                return Ok(queue.leave(key.key(), thread));
            }
        }
        let silent = unanswered();
        patience.silent_since(silent);
        let given_up = patience.check(key.name()).and_then(|()| match hears_until {
            // That too few replicas have it is an answer.
            Some(end) if end.is_past() || queue.confirmed(key.key()).is_some() => {
                Err(no_answer(core, key, patience))
            }
            Some(_) => Ok(()),
            None => silence(core, key, silent, patience),
        });
        if let Err(error) = given_up {
            drop(queue.leave(key.key(), thread));
            return Err(error);
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
