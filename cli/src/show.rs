//! `leasehold show`: one lock.

use std::process::ExitCode;

use super::args::{RedisArgs, ShowArgs};
use super::outcome::{Failure, NOBODY, Result};
use super::sight::{Sight, look};
use super::survey::settle;
use super::voice::Voice;
use super::{connect, json, output, row};
use leasehold::LockClient;

pub(super) fn show(redis: &RedisArgs, show: &ShowArgs, voice: Voice) -> Result<ExitCode> {
    let clients = connect::clients(redis, None)?;
    let sights = sights(redis, &clients, &show.key, voice)?;
    if sights.is_empty() {
        return Err(nobody(&show.key));
    }
    let with_server = clients.len() > 1;
    let texts: Vec<String> = sights
        .iter()
        .map(|sight| {
            if show.json {
                object(sight, with_server)
            } else {
                lines(sight, with_server)
            }
        })
        .collect();
    output::print(texts.join(if show.json { "" } else { "\n" }).as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Who holds the lock, at each server that has it.
pub(super) fn sights(
    redis: &RedisArgs,
    clients: &[LockClient],
    key: &str,
    voice: Voice,
) -> Result<Vec<Sight>> {
    let mut sights = Vec::new();
    let mut failures = Vec::new();
    for (place, client) in clients.iter().enumerate() {
        match look(place, client, redis, key) {
            Ok(sight) => sights.extend(sight),
            Err(failure) => failures.push(failure),
        }
    }
    settle(failures, clients.len(), redis, voice)?;
    Ok(sights)
}

pub(super) fn nobody(key: &str) -> Failure {
    Failure::new(NOBODY, format!("nobody holds {}", row::shown(key)))
}

fn lines(sight: &Sight, with_server: bool) -> String {
    let Sight { row, listeners, .. } = sight;
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

fn object(sight: &Sight, with_server: bool) -> String {
    let mut object = sight.row.json(with_server);
    if let Some(token) = sight.row.token() {
        object.insert("token".into(), token.into());
    }
    if let Some(listeners) = sight.listeners {
        object.insert("listeners".into(), listeners.into());
    }
    json::line(object)
}
