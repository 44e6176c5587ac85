//! Commands for strings.

use super::{
    Arguments, Failure, Keyspace, NOT_AN_INTEGER, Outcome, Reply, SYNTAX, Value, WRONG_TYPE, int,
};

fn text<'k>(keys: &'k mut Keyspace, key: &[u8]) -> Result<Option<&'k mut Vec<u8>>, Failure> {
    match keys.get(key) {
        None => Ok(None),
        Some(Value::Text(text)) => Ok(Some(text)),
        Some(_) => Err(WRONG_TYPE.into()),
    }
}

pub(super) fn get(keys: &mut Keyspace, arguments: &Arguments<'_>) -> Outcome {
    arguments.exactly(1)?;
    let text = text(keys, arguments.get(0)?)?;
    Ok(text.map_or(Reply::Nil, |text| Reply::text(text.clone())))
}

pub(super) fn set(keys: &mut Keyspace, arguments: &Arguments<'_>) -> Outcome {
    let (key, value) = (arguments.get(0)?, arguments.get(1)?);
    let (mut millis, mut only_if) = (None, None);
    let mut at = 2;
    while at < arguments.len() {
        let option = arguments.word(at)?;
        match option.as_str() {
            "px" | "ex" => {
                let unit = if option == "px" { 1 } else { 1000 };
                let time = arguments.int(at + 1)?.saturating_mul(unit);
                if time <= 0 {
                    return Err("ERR invalid expire time in 'set' command".into());
                }
                millis = Some(time);
                at += 1;
            }
            "nx" => only_if = Some(false),
            "xx" => only_if = Some(true),
            _ => return Err(SYNTAX.into()),
        }
        at += 1;
    }
    if only_if.is_some_and(|wanted| wanted != keys.get(key).is_some()) {
        return Ok(Reply::Nil);
    }
    keys.set(key, Value::Text(value.to_vec()));
    if millis.is_some() {
        keys.set_time_to_live(key, millis);
    }
    Ok(Reply::ok())
}

/// `INCRBY`, or with a sign of -1, `DECRBY`.
pub(super) fn add(keys: &mut Keyspace, arguments: &Arguments<'_>, sign: i64) -> Outcome {
    arguments.exactly(2)?;
    let (key, by) = (arguments.get(0)?, arguments.int(1)?);
    let by = by.checked_mul(sign).ok_or(NOT_AN_INTEGER)?;
    let old = text(keys, key)?.map_or(Ok(0), |text| int(text))?;
    let new = old
        .checked_add(by)
        .ok_or("ERR increment or decrement would overflow")?;
    let written = new.to_string().into_bytes();
    *keys.get_or_create(key, Value::Text(Vec::new())) = Value::Text(written);
    Ok(Reply::Int(new))
}
