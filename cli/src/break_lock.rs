//! `leasehold break`: frees a lock that any client holds, or ends the lease of one permit.

use std::io::{self, BufRead, IsTerminal, Write};
use std::process::ExitCode;

use redis::Value;

use super::args::{BreakArgs, RedisArgs};
use super::kinds::{Fencing, Kind};
use super::lookup::{FoundLock, find_locks, not_held};
use super::name::Name;
use super::outcome::{Failure, NOT_HELD, Result, settle};
use super::reporter::Reporter;
use super::row::{Row, shown_time};
use super::{connect, output, permits, stderr};
use leasehold::LockClient;

/// Deletes a lock that this owner still has. The hash of a name that is not UTF-8 is none of this
/// crate or of Redisson, so it has no other keys and no waiting clients.
const FREE: &str = "if redis.call('hexists', KEYS[1], ARGV[1]) == 1 then \
                    return redis.call('del', KEYS[1]) end return 0";

pub(super) fn break_lock(
    redis: &RedisArgs,
    wanted: &BreakArgs,
    reporter: Reporter,
) -> Result<ExitCode> {
    let asks = !wanted.yes;
    // The question goes to standard error.
    let can_ask = io::stdin().is_terminal() && io::stderr().is_terminal();
    if asks && !can_ask {
        return Err(Failure::usage(
            "standard input and standard error are not a terminal, so nothing can be asked: use \
             --yes",
        ));
    }
    let clients = connect::clients(redis, None)?;
    let (key, permit) = (&wanted.key, wanted.permit);
    let find = || {
        let found = find_locks(redis, &clients, key, reporter)?;
        if found.is_empty() {
            return Err(not_held(key, &clients));
        }
        let mut all = found.iter();
        all.try_for_each(|lock| check_can_be_freed(lock, permit))?;
        Ok(found)
    };
    let mut holders = find()?;
    if asks {
        if !is_wanted(&holders, permit)? {
            return Err(Failure::new(NOT_HELD, "nothing was done"));
        }
        // The answer was about these holders, and took time.
        let now = find()?;
        if now.iter().any(|lock| !is_among(lock, &holders)) {
            return Err(Failure::new(
                NOT_HELD,
                "another client has acquired it meanwhile; nothing was done",
            ));
        }
        holders = now;
    }
    let mut freed = Vec::new();
    let mut failures = Vec::new();
    for (place, client) in clients.iter().enumerate() {
        let found = holders.iter().find(|lock| lock.place == place);
        let is_freed = match (permit, key.text(), found) {
            (None, Some(text), _) => client.force_unlock(text).map_err(Failure::from),
            (Some(permit), Some(text), Some(lock)) => {
                permits::end(client, redis, lock, text, permit)
            }
            (None, None, Some(lock)) => free_bytes(client, key, lock),
            _ => Ok(false),
        };
        match is_freed {
            Ok(true) => freed.push(place),
            Ok(false) => {}
            Err(failure) => failures.push(failure),
        }
    }
    let of_freed = holders.iter().filter(|lock| freed.contains(&lock.place));
    let lines: Vec<String> = of_freed.map(|lock| line("freed", lock, permit)).collect();
    output::print(lines.concat().as_bytes())?;
    if freed.is_empty() {
        // A server that failed may have the lock.
        let nothing = || match permit.map(permits::id) {
            Some(id) => not_leased(&key.to_string(), &id),
            None => not_held(key, &clients),
        };
        return Err(failures.into_iter().next().unwrap_or_else(nothing));
    }
    settle(failures, clients.len(), redis.redlock, reporter)?;
    Ok(ExitCode::SUCCESS)
}

/// Frees a lock with a name that is not UTF-8. False if its owner has changed.
fn free_bytes(client: &LockClient, key: &Name, lock: &FoundLock) -> Result<bool> {
    let field = match &lock.row.kind {
        Kind::Lock { hold, .. } => hold.owner.clone(),
        Kind::ReadWrite { writer, readers } => {
            let writer = writer.iter().map(|hold| format!("{}:write", hold.owner));
            let readers = readers.iter().map(|hold| hold.owner.clone());
            writer.chain(readers).next().unwrap_or_default()
        }
        Kind::Permits { .. } | Kind::Number(_) => return Ok(false),
    };
    let mut free = redis::cmd("EVAL");
    free.arg(FREE).arg(1).arg(key.bytes()).arg(field);
    Ok(lock.run(client, free)? == Value::Int(1))
}

/// Fails for what cannot be freed: without a permit only a lock, with a permit only that.
fn check_can_be_freed(lock: &FoundLock, permit: Option<u128>) -> Result<()> {
    let name = lock.row.shown_name();
    match (&lock.row.kind, permit.map(permits::id)) {
        (Kind::Lock { .. } | Kind::ReadWrite { .. }, None) => Ok(()),
        (Kind::Lock { .. } | Kind::ReadWrite { .. }, Some(_)) => Err(Failure::usage(format!(
            "{name} is a lock, which has no permits: leave out the id"
        ))),
        (Kind::Permits { leased, .. }, None) => Err(Failure::usage(format!(
            "{name} is a semaphore with {leased} leased permits: add the id of one of them, \
             leasehold break {name} PERMIT; leasehold show {name} lists their ids"
        ))),
        (Kind::Number(number), None) => Err(Failure::usage(format!(
            "{name} is the number {number}, and break frees locks only: a semaphore or a latch \
             does not say who uses it; leasehold permits {name} N sets the permits of a semaphore"
        ))),
        (_, Some(id)) if lock.shares.iter().any(|share| share.who == id) => Ok(()),
        (_, Some(id)) => Err(not_leased(&name, &id)),
    }
}

fn not_leased(name: &str, permit: &str) -> Failure {
    Failure::new(
        NOT_HELD,
        format!("{name} has no leased permit {permit}; leasehold show {name} lists those it has"),
    )
}

/// True if all its owners were shown to the user. All holds that one thread has of a lock have the
/// same owner. Tokens distinguish the holds of a fenced lock. Holds of other kinds cannot be
/// distinguished.
fn is_among(lock: &FoundLock, holders: &[FoundLock]) -> bool {
    let (owners, fencing) = identity(&lock.row);
    holders.iter().any(|holder| {
        let (shown, shown_fencing) = identity(&holder.row);
        fencing == shown_fencing && owners.iter().all(|owner| shown.contains(owner))
    })
}

fn identity(row: &Row) -> (Vec<&str>, Option<Fencing>) {
    match &row.kind {
        Kind::Lock { hold, fencing, .. } => (vec![&hold.owner], Some(*fencing)),
        Kind::ReadWrite { writer, readers } => {
            let holds = writer.iter().chain(readers);
            (holds.map(|hold| hold.owner.as_str()).collect(), None)
        }
        Kind::Permits { .. } | Kind::Number(_) => (Vec::new(), None),
    }
}

fn line(verb: &str, lock: &FoundLock, permit: Option<u128>) -> String {
    let row = &lock.row;
    let (name, server) = (row.shown_name(), &row.server);
    if let Some(id) = permit.map(permits::id) {
        let share = lock.shares.iter().find(|share| share.who == id);
        let left = share.map_or("-".into(), |share| shown_time(share.time_to_live));
        return format!("{verb} permit {id} of {name} (time to live {left}) at {server}\n");
    }
    let (count, left) = (row.shown_count(), row.shown_time());
    let (owners, _) = identity(row);
    let owner = row.kind.hold().map_or_else(
        || format!("{} readers", owners.len()),
        |hold| hold.owner.clone(),
    );
    let holder = row.holder.iter().map(|holder| format!("{holder}; "));
    let holder: String = holder.collect();
    format!("{verb} {name} of {owner} ({holder}count {count}, time to live {left}) at {server}\n")
}

/// Asks the user at the terminal.
fn is_wanted(holders: &[FoundLock], permit: Option<u128>) -> Result<bool> {
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
