//! Commands for sorted sets.

use std::ops::{Bound, RangeBounds};

use super::{Arguments, Failure, Keyspace, Outcome, Reply, SYNTAX, Value, WRONG_TYPE, range};

type Members = Vec<(f64, Vec<u8>)>;
type Scores = (Bound<f64>, Bound<f64>);

/// The members of an existing sorted set.
fn members<'k>(keys: &'k mut Keyspace, key: &[u8]) -> Result<Option<&'k mut Members>, Failure> {
    match keys.get(key) {
        None => Ok(None),
        Some(Value::SortedSet(members)) => Ok(Some(members)),
        Some(_) => Err(WRONG_TYPE.into()),
    }
}

fn score(text: &[u8]) -> Option<f64> {
    let score: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (!score.is_nan()).then_some(score)
}

/// The bounds of the scores, of which a `(` excludes the number behind it.
fn scores(arguments: &Arguments<'_>) -> Result<Scores, Failure> {
    let bound = |at| {
        let text = arguments.get(at)?;
        let bound = match text.strip_prefix(b"(") {
            Some(excluded) => score(excluded).map(Bound::Excluded),
            None => score(text).map(Bound::Included),
        };
        bound.ok_or_else(|| Failure::from("ERR min or max is not a float"))
    };
    Ok((bound(1)?, bound(2)?))
}

fn replies<'m>(members: impl Iterator<Item = &'m (f64, Vec<u8>)>, with_scores: bool) -> Reply {
    let texts = members.flat_map(|(score, member)| {
        let score = with_scores.then(|| score.to_string().into_bytes());
        std::iter::once(member.clone()).chain(score)
    });
    Reply::texts(texts)
}

pub(super) fn zadd(keys: &mut Keyspace, arguments: &Arguments<'_>) -> Outcome {
    let key = arguments.get(0)?;
    let only_new = arguments.word(1)? == "nx";
    let mut new = Vec::new();
    for (text, member) in arguments.pairs(1 + usize::from(only_new))? {
        let score = score(text).ok_or("ERR value is not a valid float")?;
        new.push((score, member.to_vec()));
    }
    members(keys, key)?;
    let Value::SortedSet(members) = keys.get_or_create(key, Value::SortedSet(Vec::new())) else {
        return Err(WRONG_TYPE.into());
    };
    let before = members.len();
    for (score, member) in new {
        match members.iter_mut().find(|(_, old)| *old == member) {
            Some(_) if only_new => {}
            Some(old) => old.0 = score,
            None => members.push((score, member)),
        }
    }
    members.sort_by(|one, other| one.0.total_cmp(&other.0).then_with(|| one.1.cmp(&other.1)));
    Ok(Reply::count(members.len() - before))
}

pub(super) fn zcard(keys: &mut Keyspace, arguments: &Arguments<'_>) -> Outcome {
    arguments.exactly(1)?;
    let members = members(keys, arguments.get(0)?)?;
    Ok(Reply::count(members.map_or(0, |members| members.len())))
}

pub(super) fn zcount(keys: &mut Keyspace, arguments: &Arguments<'_>) -> Outcome {
    arguments.exactly(3)?;
    let scores = scores(arguments)?;
    let members = members(keys, arguments.get(0)?)?.into_iter().flatten();
    let counted = members.filter(|(score, _)| scores.contains(score));
    Ok(Reply::count(counted.count()))
}

pub(super) fn zrange(keys: &mut Keyspace, arguments: &Arguments<'_>) -> Outcome {
    let (start, end) = (arguments.int(1)?, arguments.int(2)?);
    let with_scores = match arguments.len() {
        3 => false,
        4 if arguments.word(3)? == "withscores" => true,
        _ => return Err(SYNTAX.into()),
    };
    let members = members(keys, arguments.get(0)?)?;
    let members = members.map_or(&[][..], |members| {
        let range = range(start, end, members.len());
        &members[range]
    });
    Ok(replies(members.iter(), with_scores))
}

pub(super) fn zrangebyscore(keys: &mut Keyspace, arguments: &Arguments<'_>) -> Outcome {
    let scores = scores(arguments)?;
    let (mut with_scores, mut skipped, mut most) = (false, 0, usize::MAX);
    let mut at = 3;
    while at < arguments.len() {
        match arguments.word(at)?.as_str() {
            "withscores" => with_scores = true,
            "limit" => {
                skipped = usize::try_from(arguments.int(at + 1)?).unwrap_or(0);
                // A negative number means all of them.
                most = usize::try_from(arguments.int(at + 2)?).unwrap_or(usize::MAX);
                at += 2;
            }
            _ => return Err(SYNTAX.into()),
        }
        at += 1;
    }
    let members = members(keys, arguments.get(0)?)?;
    let members = members.map_or(&[][..], |members| &members[..]).iter();
    let found = members.filter(|(score, _)| scores.contains(score));
    Ok(replies(found.skip(skipped).take(most), with_scores))
}

pub(super) fn zrank(keys: &mut Keyspace, arguments: &Arguments<'_>) -> Outcome {
    arguments.exactly(2)?;
    let member = arguments.get(1)?;
    let mut members = members(keys, arguments.get(0)?)?.into_iter().flatten();
    let rank = members.position(|(_, one)| one == member);
    Ok(rank.map_or(Reply::Nil, Reply::count))
}

pub(super) fn zrem(keys: &mut Keyspace, arguments: &Arguments<'_>) -> Outcome {
    let key = arguments.get(0)?;
    let names = arguments.from(1)?;
    let removed = members(keys, key)?.map_or(0, |members| {
        let before = members.len();
        members.retain(|(_, member)| !names.contains(member));
        before - members.len()
    });
    keys.tidy(key);
    Ok(Reply::count(removed))
}

pub(super) fn zscore(keys: &mut Keyspace, arguments: &Arguments<'_>) -> Outcome {
    arguments.exactly(2)?;
    let member = arguments.get(1)?;
    let members = members(keys, arguments.get(0)?)?.into_iter().flatten();
    let found = members.into_iter().find(|(_, one)| one == member);
    Ok(found.map_or(Reply::Nil, |(score, _)| Reply::text(score.to_string())))
}
