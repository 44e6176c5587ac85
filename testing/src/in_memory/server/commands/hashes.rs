//! Commands for hashes.

use super::{Arguments, Failure, Keyspace, Outcome, Reply, Value, WRONG_TYPE};

type Fields = Vec<(Vec<u8>, Vec<u8>)>;

/// The fields of an existing hash.
fn fields<'k>(keys: &'k mut Keyspace, key: &[u8]) -> Result<Option<&'k mut Fields>, Failure> {
    match keys.get(key) {
        None => Ok(None),
        Some(Value::Hash(fields)) => Ok(Some(fields)),
        Some(_) => Err(WRONG_TYPE.into()),
    }
}

fn value<'f>(fields: Option<&'f mut Fields>, field: &[u8]) -> Option<&'f mut Vec<u8>> {
    let mut fields = fields?.iter_mut();
    fields
        .find(|(name, _)| name == field)
        .map(|(_, value)| value)
}

pub(super) fn hset(keys: &mut Keyspace, arguments: &Arguments<'_>) -> Outcome {
    let key = arguments.get(0)?;
    let pairs = arguments.pairs(1)?;
    fields(keys, key)?;
    let Value::Hash(fields) = keys.get_or_create(key, Value::Hash(Vec::new())) else {
        return Err(WRONG_TYPE.into());
    };
    let before = fields.len();
    for (name, new) in pairs {
        match value(Some(fields), name) {
            Some(old) => *old = new.to_vec(),
            None => fields.push((name.to_vec(), new.to_vec())),
        }
    }
    Ok(Reply::count(fields.len() - before))
}

pub(super) fn hget(keys: &mut Keyspace, arguments: &Arguments<'_>) -> Outcome {
    arguments.exactly(2)?;
    let value = value(fields(keys, arguments.get(0)?)?, arguments.get(1)?);
    Ok(value.map_or(Reply::Nil, |value| Reply::text(value.clone())))
}

pub(super) fn hexists(keys: &mut Keyspace, arguments: &Arguments<'_>) -> Outcome {
    arguments.exactly(2)?;
    let value = value(fields(keys, arguments.get(0)?)?, arguments.get(1)?);
    Ok(Reply::Int(value.is_some().into()))
}

pub(super) fn hgetall(keys: &mut Keyspace, arguments: &Arguments<'_>) -> Outcome {
    arguments.exactly(1)?;
    all(keys, arguments.get(0)?)
}

fn all(keys: &mut Keyspace, key: &[u8]) -> Outcome {
    let fields = fields(keys, key)?.into_iter().flatten();
    let texts = fields.flat_map(|(name, value)| [name.clone(), value.clone()]);
    Ok(Reply::texts(texts))
}

/// Replies all fields at once, which Redis may do, too, whatever `COUNT` is.
pub(super) fn hscan(keys: &mut Keyspace, arguments: &Arguments<'_>) -> Outcome {
    arguments.int(1)?;
    let fields = all(keys, arguments.get(0)?)?;
    Ok(Reply::List(vec![Reply::text("0"), fields]))
}

pub(super) fn hlen(keys: &mut Keyspace, arguments: &Arguments<'_>) -> Outcome {
    arguments.exactly(1)?;
    let fields = fields(keys, arguments.get(0)?)?;
    Ok(Reply::count(fields.map_or(0, |fields| fields.len())))
}

pub(super) fn hdel(keys: &mut Keyspace, arguments: &Arguments<'_>) -> Outcome {
    let key = arguments.get(0)?;
    let names = arguments.from(1)?;
    let Some(fields) = fields(keys, key)? else {
        return Ok(Reply::Int(0));
    };
    let before = fields.len();
    fields.retain(|(name, _)| !names.contains(name));
    let removed = before - fields.len();
    keys.tidy(key);
    Ok(Reply::count(removed))
}
