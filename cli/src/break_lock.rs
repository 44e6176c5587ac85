//! `leasehold break`: frees a lock that any client holds.

use std::io::{self, BufRead, IsTerminal, Write};
use std::process::ExitCode;

use super::args::{BreakArgs, RedisArgs};
use super::kinds::{Fencing, Kind};
use super::lookup::{FoundLock, find_locks, not_held};
use super::outcome::{Failure, NOT_HELD, Result, settle};
use super::reporter::Reporter;
use super::row::Row;
use super::{connect, output, stderr};

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
    let key = &wanted.key;
    let mut holders = find_locks(redis, &clients, key, reporter)?;
    if holders.is_empty() {
        return Err(not_held(key));
    }
    for lock in &holders {
        check_can_be_freed(lock)?;
    }
    if asks {
        if !is_wanted(&holders)? {
            return Err(Failure::new(NOT_HELD, "nothing was done"));
        }
        // The answer was about these holders, and took time.
        let now = find_locks(redis, &clients, key, reporter)?;
        if now.is_empty() {
            return Err(not_held(key));
        }
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
        match client.force_unlock(key) {
            Ok(true) => freed.push(place),
            Ok(false) => {}
            Err(error) => failures.push(Failure::from(error)),
        }
    }
    let of_freed = holders.iter().filter(|lock| freed.contains(&lock.place));
    let lines: Vec<String> = of_freed.map(|lock| line("freed", lock)).collect();
    output::print(lines.concat().as_bytes())?;
    if freed.is_empty() {
        // A server that failed may have the lock.
        return Err(failures.into_iter().next().unwrap_or_else(|| not_held(key)));
    }
    settle(failures, clients.len(), redis.redlock, reporter)?;
    Ok(ExitCode::SUCCESS)
}

/// Fails for what is no lock.
fn check_can_be_freed(lock: &FoundLock) -> Result<()> {
    let name = lock.row.shown_name();
    match lock.row.kind {
        Kind::Lock { .. } | Kind::ReadWrite { .. } => Ok(()),
        Kind::Permits { leased, .. } => Err(Failure::usage(format!(
            "{name} is a semaphore with {leased} leased permits, and break frees locks only: a \
             permit is free when its client ends it, or when its lease ends; leasehold show {name} \
             tells when that is"
        ))),
        Kind::Number(number) => Err(Failure::usage(format!(
            "{name} is the number {number}, and break frees locks only: a semaphore or a latch \
             does not say who uses it, and its clients change the number"
        ))),
    }
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

fn line(verb: &str, lock: &FoundLock) -> String {
    let row = &lock.row;
    let (name, server) = (row.shown_name(), &row.server);
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
fn is_wanted(holders: &[FoundLock]) -> Result<bool> {
    let mut question: String = holders.iter().map(|lock| line("held:", lock)).collect();
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
