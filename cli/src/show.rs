//! `leasehold show`: one lock.

use std::process::ExitCode;

use super::args::{RedisArgs, ShowArgs};
use super::lookup::{FoundLock, find_locks, not_held};
use super::outcome::Result;
use super::reporter::Reporter;
use super::{connect, json, output};

pub(super) fn show(redis: &RedisArgs, show: &ShowArgs, reporter: Reporter) -> Result<ExitCode> {
    let clients = connect::clients(redis, None)?;
    let found = find_locks(redis, &clients, &show.key, reporter)?;
    if found.is_empty() {
        return Err(not_held(&show.key));
    }
    let with_server = clients.len() > 1;
    let texts: Vec<String> = found
        .iter()
        .map(|lock| {
            if show.json {
                object(lock, with_server)
            } else {
                lines(lock, with_server)
            }
        })
        .collect();
    output::print(texts.join(if show.json { "" } else { "\n" }).as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn lines(lock: &FoundLock, with_server: bool) -> String {
    let FoundLock { row, listeners, .. } = lock;
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

fn object(lock: &FoundLock, with_server: bool) -> String {
    let mut object = lock.row.json(with_server);
    if let Some(token) = lock.row.token() {
        object.insert("token".into(), token.into());
    }
    if let Some(listeners) = lock.listeners {
        object.insert("listeners".into(), listeners.into());
    }
    json::line(object)
}
