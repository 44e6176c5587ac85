//! The commands of read-write locks, apart from those of every kind.

use std::time::{Duration, Instant};

use redis::Commands;

use super::{Command, Session, number, sum_of_threads, word};
use crate::Result;

pub const COMMANDS: &[(&str, Command)] = &[("readwrite", read_write)];

/// NAME KEY THREADS MILLISECONDS: the number of writes, each of two values that are equal for all
/// readers. Every fourth hold writes.
fn read_write(session: &mut Session, words: &[&str]) -> Result<String> {
    let (client, url) = (&session.client, session.url.as_str());
    let lock = client.read_write_lock(word(words, 0)?);
    let [first, second] = ["first", "second"].map(|part| format!("{}:{part}", words[1]));
    let end = Instant::now() + Duration::from_millis(number(words, 3)?);
    sum_of_threads(number(words, 2)?, || {
        let mut redis = redis::Client::open(url)?.get_connection()?;
        let mut writes = 0;
        for hold in 1.. {
            if Instant::now() >= end {
                break;
            }
            let writing = hold % 4 == 0;
            let guard = if writing {
                lock.write().acquire()?
            } else {
                lock.read().acquire()?
            };
            let values = [&first, &second].map(|key| redis.get::<_, Option<u64>>(key));
            let [one, other] = values.map(|value| value.map(Option::unwrap_or_default));
            let (one, other) = (one?, other?);
            if one != other {
                return Err(format!("read {one} and {other}").into());
            }
            if writing {
                redis.set::<_, _, ()>(&first, one + 1)?;
                redis.set::<_, _, ()>(&second, one + 1)?;
                writes += 1;
            }
            guard.unlock()?;
        }
        Ok(writes)
    })
}
