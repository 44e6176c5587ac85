//! The commands of fenced locks, apart from those of every kind.

use redis::Commands;

use super::{Command, Session, number, word};
use crate::Result;

pub const COMMANDS: &[(&str, Command)] = &[("tokens", tokens)];

/// NAME LIST N: holds the lock N times, and adds each token to the list while it does.
fn tokens(session: &mut Session, words: &[&str]) -> Result<String> {
    let lock = session.client.fenced_lock(word(words, 0)?);
    let list = word(words, 1)?;
    let mut redis = redis::Client::open(session.url.as_str())?.get_connection()?;
    for _ in 0..number(words, 2)? {
        let guard = lock.acquire()?;
        redis.rpush::<_, _, ()>(list, format!("rust:{}", guard.fencing_token()))?;
        guard.unlock()?;
    }
    Ok("ok".into())
}
