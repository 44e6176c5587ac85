//! `leasehold break`: frees a lock, whoever holds it.

use std::io::{self, BufRead, IsTerminal, Write};
use std::process::ExitCode;

use super::args::{BreakArgs, RedisArgs};
use super::lookup::FoundLock;
use super::outcome::{Failure, NOBODY, Result};
use super::reporter::Reporter;
use super::row::Row;
use super::scan::settle;
use super::show::{find_locks, nobody};
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
            "nobody can be asked whether to free the lock: say --yes",
        ));
    }
    let clients = connect::clients(redis, None)?;
    let key = &wanted.key;
    let mut holders = find_locks(redis, &clients, key, reporter)?;
    if holders.is_empty() {
        return Err(nobody(key));
    }
    if asks {
        if !is_wanted(&holders)? {
            return Err(Failure::new(NOBODY, "nothing was done"));
        }
        // Thinking takes time, and the answer was about this holder.
        let now = find_locks(redis, &clients, key, reporter)?;
        if now.is_empty() {
            return Err(nobody(key));
        }
        if now.iter().any(|lookup| !is_among(lookup, &holders)) {
            return Err(Failure::new(
                NOBODY,
                "it was taken anew by now; nothing was done",
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
    let of_freed = holders
        .iter()
        .filter(|lookup| freed.contains(&lookup.place));
    let lines: Vec<String> = of_freed.map(|lookup| said("freed", lookup)).collect();
    output::print(lines.concat().as_bytes())?;
    if freed.is_empty() {
        // One of those that failed may be the one that has it.
        return Err(failures.into_iter().next().unwrap_or_else(|| nobody(key)));
    }
    settle(failures, clients.len(), redis, reporter)?;
    Ok(ExitCode::SUCCESS)
}

/// Whether it is a hold that was shown. One thread's holds of a lock have one owner: those of a
/// fenced lock are told apart by their tokens, those of others by nothing.
fn is_among(lookup: &FoundLock, holders: &[FoundLock]) -> bool {
    let told = |row: &Row| (row.owner.clone(), row.fencing);
    holders
        .iter()
        .any(|holder| told(&holder.row) == told(&lookup.row))
}

fn said(verb: &str, lookup: &FoundLock) -> String {
    let row = &lookup.row;
    let (name, owner, server) = (row.shown_name(), &row.owner, &row.server);
    let (count, left) = (row.count, row.shown_time());
    format!("{verb} {name} of {owner} (count {count}, time to live {left}) at {server}\n")
}

/// Asks the person at the terminal.
fn is_wanted(holders: &[FoundLock]) -> Result<bool> {
    let mut question: String = holders.iter().map(|lookup| said("held:", lookup)).collect();
    question.push_str("Free it? Its holder goes on working until it notices. [y/N] ");
    let unheard = |error: io::Error| Failure::usage(format!("the terminal: {error}"));
    // After what was said before.
    stderr::finish();
    let mut err = io::stderr().lock();
    let written = err.write_all(question.as_bytes());
    written.and_then(|()| err.flush()).map_err(unheard)?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).map_err(unheard)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}
