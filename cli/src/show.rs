//! `leasehold show`: one lock or semaphore.

use std::process::ExitCode;

use serde_json::{Value, json};

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
    let texts = found.iter().map(|lock| {
        let object = object(lock, with_server);
        if show.json {
            return json::line(&object);
        }
        lines(lock, &object)
    });
    let texts: Vec<String> = texts.collect();
    output::print(texts.join(if show.json { "" } else { "\n" }).as_bytes())?;
    let has_no_permits = |lock: &FoundLock| matches!(lock.row.kind, Kind::Number(..=0));
    if !show.json && found.iter().any(has_no_permits) {
        remark_on_lost_leases(&show.key, reporter);
    }
    Ok(ExitCode::SUCCESS)
}

/// The lock as text: most of its JSON object, and each of its shares.
fn lines(lock: &FoundLock, object: &Value) -> String {
    let row = &lock.row;
    let part = |key: &'static str| match &object[key] {
        Value::Null => None,
        Value::String(text) => Some((key, text.clone())),
        value => Some((key, value.to_string())),
    };
    let mut lines = vec![
        ("name", row.shown_name()),
        ("kind", row.shown_kind().into()),
    ];
    lines.extend(part("owner"));
    lines.extend(
        row.holder
            .iter()
            .map(|holder| ("holder", holder.to_string())),
    );
    let count = match row.kind {
        Kind::Permits { .. } => "leased",
        _ => "count",
    };
    lines.extend(part("count").map(|(_, number)| (count, number)));
    lines.extend(["available", "number"].into_iter().filter_map(part));
    lines.push(("ttl", row.shown_time()));
    lines.extend(["token", "waiting", "readers"].into_iter().filter_map(part));
    let (label, ..) = words_of_shares(&row.kind);
    lines.extend(lock.shares.iter().map(|share| (label, shown_share(share))));
    lines.extend(["listeners", "server"].into_iter().filter_map(part));
    let line = |(name, value): &(&str, String)| format!("{name:<9}  {value}\n");
    lines.iter().map(line).collect()
}

/// How a share is called in the text, and the keys of the list of shares and of the name of each in
/// JSON.
fn words_of_shares(kind: &Kind) -> (&'static str, &'static str, &'static str) {
    match kind {
        Kind::Lock { .. } => ("waits", "queue", "place"),
        Kind::ReadWrite { .. } => ("reader", "read_holds", "owner"),
        Kind::Permits { .. } | Kind::Number(_) => ("permit", "permits", "id"),
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

fn object(lock: &FoundLock, with_server: bool) -> Value {
    let mut object = lock.row.json(with_server);
    if let Some(token) = lock.row.token() {
        object["token"] = token.into();
    }
    let (_, list, who) = words_of_shares(&lock.row.kind);
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
    if !matches!(
        lock.row.kind,
        Kind::Lock { waiting: 0, .. } | Kind::Number(_)
    ) {
        object[list] = lock.shares.iter().map(share).collect();
    }
    if let Some(listeners) = lock.listeners {
        object["listeners"] = listeners.into();
    }
    object
}
