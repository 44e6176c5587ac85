//! Commands for lists.

use std::collections::VecDeque;

use super::{Arguments, Failure, Keyspace, Outcome, Reply, SYNTAX, Value, WRONG_TYPE, range};

type Items = VecDeque<Vec<u8>>;

/// The items of an existing list.
fn items<'k>(keys: &'k mut Keyspace, key: &[u8]) -> Result<Option<&'k mut Items>, Failure> {
    match keys.get(key) {
        None => Ok(None),
        Some(Value::List(items)) => Ok(Some(items)),
        Some(_) => Err(WRONG_TYPE.into()),
    }
}

fn text_or_nil(item: Option<Vec<u8>>) -> Reply {
    item.map_or(Reply::Nil, Reply::Text)
}

pub(super) fn lindex(keys: &mut Keyspace, arguments: &Arguments<'_>) -> Outcome {
    arguments.exactly(2)?;
    let at = arguments.int(1)?;
    let items = items(keys, arguments.get(0)?)?;
    Ok(text_or_nil(items.and_then(|items| {
        let place = range(at, at, items.len());
        items
            .get(place.start)
            .filter(|_| !place.is_empty())
            .cloned()
    })))
}

pub(super) fn llen(keys: &mut Keyspace, arguments: &Arguments<'_>) -> Outcome {
    arguments.exactly(1)?;
    let items = items(keys, arguments.get(0)?)?;
    Ok(Reply::count(items.map_or(0, |items| items.len())))
}

pub(super) fn lpop(keys: &mut Keyspace, arguments: &Arguments<'_>) -> Outcome {
    arguments.exactly(1)?;
    let key = arguments.get(0)?;
    let first = items(keys, key)?.and_then(VecDeque::pop_front);
    keys.tidy(key);
    Ok(text_or_nil(first))
}

pub(super) fn lrange(keys: &mut Keyspace, arguments: &Arguments<'_>) -> Outcome {
    arguments.exactly(3)?;
    let (start, end) = (arguments.int(1)?, arguments.int(2)?);
    let items = items(keys, arguments.get(0)?)?;
    let texts = items.map_or_else(Vec::new, |items| {
        let range = range(start, end, items.len());
        items.range(range).cloned().collect()
    });
    Ok(Reply::texts(texts))
}

/// Removes all items that are equal: the scripts need no other form.
pub(super) fn lrem(keys: &mut Keyspace, arguments: &Arguments<'_>) -> Outcome {
    arguments.exactly(3)?;
    let (key, item) = (arguments.get(0)?, arguments.get(2)?);
    if arguments.int(1)? != 0 {
        return Err(SYNTAX.into());
    }
    let removed = items(keys, key)?.map_or(0, |items| {
        let before = items.len();
        items.retain(|one| one != item);
        before - items.len()
    });
    keys.tidy(key);
    Ok(Reply::count(removed))
}

pub(super) fn rpush(keys: &mut Keyspace, arguments: &Arguments<'_>) -> Outcome {
    let key = arguments.get(0)?;
    let new = arguments.from(1)?;
    items(keys, key)?;
    let Value::List(items) = keys.get_or_create(key, Value::List(VecDeque::new())) else {
        return Err(WRONG_TYPE.into());
    };
    items.extend(new.iter().cloned());
    Ok(Reply::count(items.len()))
}
