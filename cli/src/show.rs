//! `leasehold show`: one lock or semaphore.

use serde_json::Value;

use super::args::{RedisArgs, ShowArgs};
use super::kinds::{Fencing, Kind, MOST};
use super::lookup::{FoundLock, find_held};
use super::name::shown;
use super::outcome::Result;
use super::row::{Share, set};
use super::{connect, output};
use leasehold::Holder;

pub(super) fn show(redis: &RedisArgs, show: &ShowArgs) -> Result<()> {
    let clients = connect::clients(redis, None)?;
    let found = find_held(redis, &clients, &show.key)?;
    let with_server = clients.len() > 1;
    let text = |lock| match (object(lock, with_server), show.json) {
        (object, true) => output::json(&object),
        (object, false) => lines(lock, &object),
    };
    let texts: Vec<String> = found.iter().map(text).collect();
    output::print(texts.join(if show.json { "" } else { "\n" }).as_bytes()).map(drop)
}

/// The lock as text: most of its JSON object, and each of its shares.
fn lines(lock: &FoundLock<'_>, object: &Value) -> String {
    let row = &lock.row;
    let part = |key| match &object[key] {
        Value::Null => vec![],
        Value::String(text) => vec![text.clone()],
        value => vec![value.to_string()],
    };
    let share = |share: &Share| format!("{} {}", shown(&share.who), share.details());
    let (count, shares) = match row.kind {
        Kind::Lock { .. } => ("count", "waits"),
        Kind::ReadWrite { .. } => ("count", "reader"),
        Kind::Permits { .. } | Kind::Number(_) => ("leased", "permit"),
    };
    let parts = [
        ("name", vec![row.shown_name()]),
        ("kind", vec![row.shown_kind().into()]),
        ("owner", part("owner")),
        ("holder", row.holder.iter().map(Holder::to_string).collect()),
        (count, part("count")),
        ("available", part("available")),
        ("number", part("number")),
        ("ttl", vec![row.shown_time()]),
        ("token", part("token")),
        ("waiting", part("waiting")),
        ("readers", part("readers")),
        (shares, lock.shares.iter().map(share).collect()),
        ("left out", part("left_out")),
        ("listeners", part("listeners")),
        ("server", part("server")),
    ];
    let lines = parts.iter().flat_map(|(label, values)| {
        let line = move |value| format!("{label:<9}  {value}\n");
        values.iter().map(line)
    });
    lines.collect()
}

fn object(lock: &FoundLock<'_>, with_server: bool) -> Value {
    let mut object = lock.row.json(with_server);
    if let Kind::Lock { fencing, .. } = lock.row.kind
        && let Fencing::Last(token) = fencing
    {
        object["token"] = token.into();
    }
    set(&mut object, "listeners", lock.listeners);
    // The keys of the list of shares, and of the name of each.
    let (list, who) = match lock.row.kind {
        Kind::Lock { waiting: 0, .. } | Kind::Number(_) => return object,
        Kind::Lock { .. } => ("queue", "place"),
        Kind::ReadWrite { .. } => ("read_holds", "owner"),
        Kind::Permits { .. } => ("permits", "id"),
    };
    object[list] = lock.shares.iter().map(|share| share.json(who)).collect();
    // A name can have very many of them, and not all were read.
    let all = lock.row.kind.shares();
    let left_out = all.saturating_sub(lock.shares.len() as u64);
    set(&mut object, "left_out", (all > MOST).then_some(left_out));
    object
}
