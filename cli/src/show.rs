//! `leasehold show`: one lock or semaphore.

use std::process::ExitCode;

use serde_json::json;

use super::args::{RedisArgs, ShowArgs};
use super::kinds::Kind;
use super::lookup::{FoundLock, find_locks, not_held};
use super::name::shown;
use super::outcome::Result;
use super::permits::remark_on_lost_leases;
use super::probe::Share;
use super::reporter::Reporter;
use super::row::{holder_json, millis, shown_time};
use super::{connect, json, output};

pub(super) fn show(redis: &RedisArgs, show: &ShowArgs, reporter: Reporter) -> Result<ExitCode> {
    let clients = connect::clients(redis, None)?;
    let found = find_locks(redis, &clients, &show.key, reporter)?;
    if found.is_empty() {
        return Err(not_held(&show.key, &clients));
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
    let has_no_permits = |lock: &FoundLock| matches!(lock.row.kind, Kind::Number(..=0));
    if !show.json && found.iter().any(has_no_permits) {
        remark_on_lost_leases(&show.key, reporter);
    }
    Ok(ExitCode::SUCCESS)
}

fn lines(lock: &FoundLock, with_server: bool) -> String {
    let row = &lock.row;
    let mut lines = vec![
        ("name", row.shown_name()),
        ("kind", row.shown_kind().into()),
    ];
    if let Some(hold) = row.kind.hold() {
        lines.push(("owner", hold.owner.clone()));
    }
    lines.extend(
        row.holder
            .iter()
            .map(|holder| ("holder", holder.to_string())),
    );
    match &row.kind {
        Kind::Permits { leased, available } => lines.extend([
            ("leased", leased.to_string()),
            ("available", available.to_string()),
        ]),
        Kind::Number(number) => lines.push(("number", number.to_string())),
        Kind::Lock { .. } | Kind::ReadWrite { .. } => lines.push(("count", row.shown_count())),
    }
    lines.push(("ttl", row.shown_time()));
    lines.extend(row.token().map(|token| ("token", token.to_string())));
    match &row.kind {
        Kind::Lock { waiting: 0, .. } => {}
        Kind::Lock { waiting, .. } => lines.push(("waiting", waiting.to_string())),
        Kind::ReadWrite { readers, .. } => lines.push(("readers", readers.len().to_string())),
        Kind::Permits { .. } | Kind::Number(_) => {}
    }
    let share = |share: &Share| (share_label(&row.kind), shown_share(share));
    lines.extend(lock.shares.iter().map(share));
    lines.extend(
        lock.listeners
            .map(|listeners| ("listeners", listeners.to_string())),
    );
    if with_server {
        lines.push(("server", row.server.as_ref().into()));
    }
    lines
        .iter()
        .map(|(name, value)| format!("{name:<9}  {value}\n"))
        .collect()
}

/// What one of the shares is.
fn share_label(kind: &Kind) -> &'static str {
    match kind {
        Kind::Lock { .. } => "waits",
        Kind::ReadWrite { .. } => "reader",
        Kind::Permits { .. } | Kind::Number(_) => "permit",
    }
}

fn shown_share(share: &Share) -> String {
    let (who, left) = (shown(&share.who), shown_time(share.time_to_live));
    let holder = share.holder.iter().map(|holder| format!("{holder}; "));
    let holder: String = holder.collect();
    match share.count {
        Some(count) => format!("{who} ({holder}count {count}, time to live {left})"),
        None => format!("{who} ({holder}time to live {left})"),
    }
}

fn object(lock: &FoundLock, with_server: bool) -> String {
    let mut object = lock.row.json(with_server);
    if let Some(token) = lock.row.token() {
        object["token"] = token.into();
    }
    if let Some((list, who)) = keys_of_shares(&lock.row.kind) {
        let share = |share: &Share| {
            let mut object = json!({who: share.who, "ttl_ms": millis(share.time_to_live)});
            if let Some(holder) = &share.holder {
                object["holder"] = holder_json(holder);
            }
            if let Some(count) = share.count {
                object["count"] = count.into();
            }
            object
        };
        object[list] = lock.shares.iter().map(share).collect();
    }
    if let Some(listeners) = lock.listeners {
        object["listeners"] = listeners.into();
    }
    json::line(&object)
}

/// The key of the list of shares, and that of the name of each.
fn keys_of_shares(kind: &Kind) -> Option<(&'static str, &'static str)> {
    match kind {
        Kind::Lock { waiting: 0, .. } | Kind::Number(_) => None,
        Kind::Lock { .. } => Some(("queue", "place")),
        Kind::ReadWrite { .. } => Some(("read_holds", "owner")),
        Kind::Permits { .. } => Some(("permits", "id")),
    }
}
