//! Checks that clients acquire a lock in the order of its queue or line in Redis, and keep their
//! places there.
//!
//! The log proves the order only where no fault interferes. In a calm, a client that is seen in the
//! queue at two times has kept its place between them if none of its calls began or ended
//! meanwhile. No client that was behind it acquires the lock in this time. It may begin holds on a
//! grant from before, which has ended if a third client held the lock since then, or after as many
//! holds as the client has threads, or after some time.
//!
//! The places of clients of Redisson are not known. In a line, these may pass another, as documented:
//! a call that does not wait any more; a reader that passes a reader; a client that was called
//! together with another one, because several permits came free, or because a dead client before
//! both did not answer; and for about two of every four seconds, clients behind one that wants
//! several permits.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use super::calls::{Call, Hold};
use super::lock::{self, LISTENS, Lock};
use super::places::{self, Wait};
use super::progress::UNANSWERED;
use super::{Bounds, History, Violation, nanos};

/// For how much of each time a client that wants several permits keeps those behind it waiting, as
/// documented.
const KEEPS_OUT: Duration = Duration::from_millis(1900);
const OF_EACH: Duration = Duration::from_secs(4);

pub(super) fn check(history: &History, bounds: &Bounds) -> Vec<Violation> {
    if history.queues.is_empty() {
        return Vec::new();
    }
    let locks = lock::locks(history, bounds);
    let mut violations = Vec::new();
    for (number, queues) in &history.queues {
        let Some(lock) = locks.get(number) else {
            continue;
        };
        let (waits, lost) = places::waits(history, bounds, lock, (*number, queues));
        for wait in waits {
            violations.extend(overtaken(history, bounds, lock, &wait));
        }
        violations.extend(lost.into_iter().map(|(waiting, at)| {
            let what =
                format!("process {waiting} lost its place for lock {number} while it waited");
            Violation::new("place lost", at, what)
        }));
    }
    violations
}

/// The longest part of each [`OF_EACH`] that contains none of these times.
fn longest_pause(times: impl Iterator<Item = u64>) -> u64 {
    let mut times: Vec<u64> = times.map(|at| at % nanos(OF_EACH)).collect();
    times.sort_unstable();
    times.extend(times.first().map(|first| first + nanos(OF_EACH)));
    let pauses = times.windows(2).map(|pair| pair[1] - pair[0]);
    pauses.max().unwrap_or(nanos(OF_EACH))
}

/// True if a dead client was before this wait, and lost its place so shortly before the hold that
/// several clients were called together, and any of them might be first.
fn was_called_together(history: &History, wait: &Wait, hold: &Hold, slip: u64) -> bool {
    let mut dead = (wait.before.iter()).filter(|(process, _)| history.gone.contains_key(process));
    dead.any(|(_, &left)| {
        left <= hold.since.saturating_add(nanos(LISTENS))
            && hold.since <= left.saturating_add(nanos(UNANSWERED) + slip)
    })
}

/// Finds a hold that overtook this wait.
fn overtaken(
    history: &History,
    bounds: &Bounds,
    lock: &Lock<'_>,
    wait: &Wait,
) -> Option<Violation> {
    let slip = bounds.reuse + bounds.slip + history.machine.slip(wait.process, wait.span);
    let slip = nanos(slip);
    if history.shares && wait.call.is_none() {
        return None;
    }
    let begin = (lock.holds).partition_point(|hold| hold.since <= wait.span.from);
    // By process: how many holds began on its grant from before.
    let mut late: HashMap<u32, usize> = HashMap::new();
    let mut overtakes = |hold: &&&Hold| {
        let process = hold.id.process;
        let behind = wait.before.get(&process).copied();
        let behind = behind.unwrap_or(wait.span.from);
        // Another client held the lock since then, so this grant is newer than that.
        let is_newer = || lock.is_held_by_another(process, behind, hold.since);
        if process == wait.process || hold.since <= behind {
            return false;
        }
        let is_late = hold.asked > behind.saturating_add(slip);
        let late = late.entry(process).or_default();
        *late += usize::from(is_late);
        let has_turn = *late < lock.threads.get(&process).map_or(1, BTreeSet::len);
        let may_pass = (history.calls.get(&hold.id)).is_some_and(Call::is_of_redisson)
            || wait.call.is_some_and(|call| call.reads && hold.reads)
            || lock.passes_before(hold, slip)
            || (wait.call.filter(|_| bounds.permits.is_some()))
                .is_some_and(|call| call.span.to <= hold.since + nanos(LISTENS));
        let passes = !may_pass && (is_late && !has_turn || is_newer());
        passes && !was_called_together(history, wait, hold, slip)
    };
    let mut overtaking = lock.holds[begin..]
        .iter()
        .take_while(|hold| hold.since < wait.span.to)
        .filter(|hold| overtakes(hold));
    let hold = match wait.call.is_some_and(|call| call.permits > 1) {
        false => overtaking.next(),
        true => {
            let all: Vec<&&Hold> = overtaking.collect();
            // The clock of the server decides, which may be faster or slower.
            let skew = slip + (wait.span.to - wait.span.from) / 50;
            let longest = longest_pause(all.iter().map(|hold| hold.since));
            all.last()
                .filter(|_| longest + skew < nanos(KEEPS_OUT))
                .copied()
        }
    }?;
    let what = format!(
        "{} acquired lock {} while process {} had an earlier place",
        hold.id, hold.lock, wait.process
    );
    Some(Violation::new("overtaken", hold.since, what))
}
