//! `leasehold break`: frees a lock that any client holds, or ends the lease of one permit.

use std::io::{self, BufRead, IsTerminal, Write};

use super::args::{BreakArgs, RedisArgs};
use super::kinds::{Fencing, Kind};
use super::lookup::{FoundLock, find_held, not_held};
use super::name::shown;
use super::outcome::{Failure, Result, settle};
use super::{connect, output, permits, stderr};

pub(super) fn break_lock(redis: &RedisArgs, wanted: &BreakArgs) -> Result<()> {
    let asks = !wanted.yes;
    // The question goes to standard error.
    if asks && !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return Err(Failure::usage(
            "standard input and standard error are not a terminal, so nothing can be asked: use \
             --yes",
        ));
    }
    let clients = connect::clients(redis, None)?;
    let (key, permit) = (&wanted.key, wanted.permit.map(permits::id));
    let permit = permit.as_deref();
    let find = || {
        let found = find_held(redis, &clients, key)?;
        let mut all = found.iter();
        let checked = all.try_for_each(|lock| check_can_be_freed(lock, permit));
        checked.map(|()| found)
    };
    let mut holders = find()?;
    if asks {
        if !is_wanted(&holders, permit)? {
            return Err(Failure::not_held("nothing was done"));
        }
        // The answer was about these holders, and took time.
        let now = find()?;
        if now.iter().any(|lock| !is_among(lock, &holders)) {
            return Err(Failure::not_held(
                "another client has acquired it meanwhile; nothing was done",
            ));
        }
        holders = now;
    }
    let (mut any, mut freed, mut failures) = (false, String::new(), Vec::new());
    for (place, client) in clients.iter().enumerate() {
        let mut found = holders.iter_mut().find(|lock| lock.place == place);
        let is_freed = match (wanted.permit, &mut found) {
            (None, _) => client.force_unlock(key).map_err(Failure::from),
            (Some(permit), Some(lock)) => permits::end(client, redis, lock, key, permit),
            (Some(_), None) => Ok(false),
        };
        match is_freed {
            Ok(true) => {
                any = true;
                freed.extend(found.map(|lock| line("freed", lock, permit)));
            }
            Ok(false) => {}
            Err(failure) => failures.push(failure),
        }
    }
    output::print(freed.as_bytes())?;
    if !any {
        // A server that failed may have the lock.
        let nothing = || match permit {
            Some(id) => not_leased(&shown(key), id),
            None => not_held(key, &clients),
        };
        return Err(failures.into_iter().next().unwrap_or_else(nothing));
    }
    settle(failures, clients.len(), redis.redlock)
}

/// Fails for what cannot be freed: without a permit only a lock, with a permit only that.
fn check_can_be_freed(lock: &FoundLock<'_>, permit: Option<&str>) -> Result<()> {
    let name = lock.row.shown_name();
    Err(match (&lock.row.kind, permit) {
        (kind, None) if kind.is_lock() => return Ok(()),
        (kind, Some(_)) if kind.is_lock() => Failure::usage(format!(
            "{name} is a lock, which has no permits: leave out the id"
        )),
        (Kind::Number(number), None) => Failure::usage(format!(
            "{name} is the number {number}, and break frees locks only: a semaphore or a latch \
             does not say who uses it; leasehold permits {name} N sets the permits of a semaphore"
        )),
        (kind, None) => Failure::usage(format!(
            "{name} is a semaphore with {} leased permits: add the id of one of them, \
             leasehold break {name} PERMIT; leasehold show {name} lists their ids",
            kind.count().unwrap_or_default()
        )),
        (_, Some(id)) if lock.shares.iter().any(|share| share.who == id) => return Ok(()),
        (_, Some(id)) => not_leased(&name, id),
    })
}

fn not_leased(name: &str, permit: &str) -> Failure {
    Failure::not_held(format!(
        "{name} has no leased permit {permit}; leasehold show {name} lists those it has"
    ))
}

/// True if all its owners were shown to the user. All holds that one thread has of a lock have the
/// same owner. Tokens distinguish the holds of a fenced lock. Holds of other kinds cannot be
/// distinguished.
fn is_among(lock: &FoundLock<'_>, holders: &[FoundLock<'_>]) -> bool {
    let fencing = |lock: &FoundLock<'_>| match lock.row.kind {
        Kind::Lock { fencing, .. } => fencing,
        _ => Fencing::Never,
    };
    holders.iter().any(|shown| {
        let was_shown = |owner| shown.row.kind.holds().any(|hold| hold.owner == owner);
        let mut owners = lock.row.kind.holds().map(|hold| hold.owner.as_str());
        fencing(lock) == fencing(shown) && owners.all(was_shown)
    })
}

fn line(verb: &str, lock: &FoundLock<'_>, permit: Option<&str>) -> String {
    let row = &lock.row;
    let share = lock.shares.iter().find(|share| Some(&*share.who) == permit);
    let (name, server) = (row.shown_name(), &row.server);
    if let Some(share) = share {
        let (id, details) = (&share.who, share.details());
        return format!("{verb} permit {id} of {name} {details} at {server}\n");
    }
    let readers = || format!("{} readers", row.kind.shares());
    let owner = row
        .kind
        .hold()
        .map_or_else(readers, |hold| hold.owner.clone());
    format!("{verb} {name} of {owner} {} at {server}\n", row.details())
}

/// Asks the user at the terminal.
fn is_wanted(holders: &[FoundLock<'_>], permit: Option<&str>) -> Result<bool> {
    let lines = holders.iter().map(|lock| line("held:", lock, permit));
    let mut question: String = lines.collect();
    question.push_str("Free it? Its holder continues until it notices the loss. [y/N] ");
    let failed = |error: io::Error| Failure::usage(format!("the terminal: {error}"));
    // Earlier messages come first.
    stderr::finish();
    let mut err = io::stderr().lock();
    let written = err.write_all(question.as_bytes());
    written.and_then(|()| err.flush()).map_err(failed)?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).map_err(failed)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}
