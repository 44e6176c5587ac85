//! `leasehold show`: one lock.

use std::process::ExitCode;

use super::args::{RedisArgs, ShowArgs};
use super::lookup::{FoundLock, look};
use super::outcome::{Failure, NOBODY, Result};
use super::reporter::Reporter;
use super::scan::settle;
use super::{connect, json, output, row};
use leasehold::LockClient;

pub(super) fn show(redis: &RedisArgs, show: &ShowArgs, reporter: Reporter) -> Result<ExitCode> {
    let clients = connect::clients(redis, None)?;
    let find_locks = find_locks(redis, &clients, &show.key, reporter)?;
    if find_locks.is_empty() {
        return Err(nobody(&show.key));
    }
    let with_server = clients.len() > 1;
    let texts: Vec<String> = find_locks
        .iter()
        .map(|lookup| {
            if show.json {
                object(lookup, with_server)
            } else {
                lines(lookup, with_server)
            }
        })
        .collect();
    output::print(texts.join(if show.json { "" } else { "\n" }).as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Who holds the lock, at each server that has it.
pub(super) fn find_locks(
    redis: &RedisArgs,
    clients: &[LockClient],
    key: &str,
    reporter: Reporter,
) -> Result<Vec<FoundLock>> {
    let mut find_locks = Vec::new();
    let mut failures = Vec::new();
    for (place, client) in clients.iter().enumerate() {
        match look(place, client, redis, key) {
            Ok(lookup) => find_locks.extend(lookup),
            Err(failure) => failures.push(failure),
        }
    }
    settle(failures, clients.len(), redis, reporter)?;
    Ok(find_locks)
}

pub(super) fn nobody(key: &str) -> Failure {
    Failure::new(NOBODY, format!("nobody holds {}", row::shown(key)))
}

fn lines(lookup: &FoundLock, with_server: bool) -> String {
    let FoundLock { row, listeners, .. } = lookup;
    let mut lines = vec![
        ("name", row.shown_name()),
        ("kind", row.shown_kind().into()),
        ("owner", row.owner.clone()),
        ("count", row.count.to_string()),
        ("ttl", row.shown_time()),
    ];
    lines.extend(row.token().map(|token| ("token", token.to_string())));
    lines.extend(listeners.map(|listeners| ("listeners", listeners.to_string())));
    if with_server {
        lines.push(("server", row.server.as_ref().into()));
    }
    lines
        .iter()
        .map(|(name, value)| format!("{name:<9}  {value}\n"))
        .collect()
}

fn object(lookup: &FoundLock, with_server: bool) -> String {
    let mut object = lookup.row.json(with_server);
    if let Some(token) = lookup.row.token() {
        object.insert("token".into(), token.into());
    }
    if let Some(listeners) = lookup.listeners {
        object.insert("listeners".into(), listeners.into());
    }
    json::line(object)
}
