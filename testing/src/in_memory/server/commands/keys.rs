//! Commands for keys of any type.

use super::{Arguments, Keyspace, Outcome, Reply, SYNTAX};

pub(super) fn del(keys: &mut Keyspace, arguments: &Arguments<'_>) -> Outcome {
    let removed = arguments.from(0)?.iter().filter(|key| keys.remove(key));
    Ok(Reply::count(removed.count()))
}

pub(super) fn exists(keys: &mut Keyspace, arguments: &Arguments<'_>) -> Outcome {
    let there = arguments.from(0)?.iter();
    let there = there.filter(|key| keys.get(key).is_some());
    Ok(Reply::count(there.count()))
}

pub(super) fn type_of(keys: &mut Keyspace, arguments: &Arguments<'_>) -> Outcome {
    let value = keys.get(arguments.get(0)?);
    let name = value.map_or("none", |value| value.type_name());
    Ok(Reply::Status(name.into()))
}

/// The unit of the time has this many milliseconds.
pub(super) fn expire(keys: &mut Keyspace, arguments: &Arguments<'_>, unit: i64) -> Outcome {
    arguments.exactly(2)?;
    let millis = arguments.int(1)?.saturating_mul(unit);
    let is_there = keys.set_time_to_live(arguments.get(0)?, Some(millis));
    Ok(Reply::Int(is_there.into()))
}

pub(super) fn persist(keys: &mut Keyspace, arguments: &Arguments<'_>) -> Outcome {
    let key = arguments.get(0)?;
    let had_one = keys.time_to_live(key) >= 0;
    keys.set_time_to_live(key, None);
    Ok(Reply::Int(had_one.into()))
}

pub(super) fn time_to_live(keys: &mut Keyspace, arguments: &Arguments<'_>, unit: i64) -> Outcome {
    let millis = keys.time_to_live(arguments.get(0)?);
    Ok(Reply::Int(if millis < 0 {
        millis
    } else {
        (millis + unit / 2) / unit
    }))
}

pub(super) fn time(keys: &Keyspace) -> Outcome {
    let now = keys.now_micros();
    let parts = [now / 1_000_000, now % 1_000_000];
    let texts = parts.map(|part| part.to_string().into_bytes());
    Ok(Reply::texts(texts))
}

pub(super) fn keys(keys: &mut Keyspace, arguments: &Arguments<'_>) -> Outcome {
    let pattern = arguments.get(0)?;
    let found = keys.keys().into_iter().filter(|key| matches(pattern, key));
    Ok(Reply::texts(found))
}

/// Replies all keys at once.
pub(super) fn scan(keys: &mut Keyspace, arguments: &Arguments<'_>) -> Outcome {
    let (mut pattern, mut kind) = (&b"*"[..], None);
    for at in (1..arguments.len()).step_by(2) {
        match arguments.word(at)?.as_str() {
            "match" => pattern = arguments.get(at + 1)?,
            "type" => kind = Some(arguments.word(at + 1)?),
            "count" => {}
            _ => return Err(SYNTAX.into()),
        }
    }
    let mut found = keys.keys();
    found.retain(|key| {
        let value = keys.get(key);
        let is_kind = value.is_some_and(|value| {
            let name = value.type_name();
            kind.as_deref().is_none_or(|kind| kind == name)
        });
        is_kind && matches(pattern, key)
    });
    Ok(Reply::List(vec![Reply::text("0"), Reply::texts(found)]))
}

/// A glob of Redis: `*`, `?`, and `\` before a character that stands for itself.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern, text) {
        ([], []) => true,
        ([b'*', rest @ ..], _) => (0..=text.len()).any(|skipped| matches(rest, &text[skipped..])),
        ([b'?', rest @ ..], [_, text @ ..]) => matches(rest, text),
        ([b'\\', wanted, rest @ ..], [first, text @ ..])
        | ([wanted, rest @ ..], [first, text @ ..])
            if wanted == first =>
        {
            matches(rest, text)
        }
        _ => false,
    }
}
