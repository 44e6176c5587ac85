//! The commands of count-down latches. The first word is the name.

use std::time::Duration;

use super::{Command, Session, median, number, word};
use crate::Result;

pub const COMMANDS: &[(&str, Command)] = &[
    ("latch-set", |session, words| {
        let set = latch(session, words)?.try_set_count(number(words, 1)?)?;
        Ok(set.to_string())
    }),
    ("latch-down", |session, words| {
        latch(session, words)?.count_down()?;
        Ok("ok".into())
    }),
    ("latch-count", |session, words| {
        Ok(latch(session, words)?.count()?.to_string())
    }),
    ("latch-wait", |session, words| {
        latch(session, words)?.wait()?;
        Ok("ok".into())
    }),
    // WAIT, in milliseconds.
    ("latch-try", |session, words| {
        let wait = Duration::from_millis(number(words, 1)?);
        Ok(latch(session, words)?.wait_for(wait)?.to_string())
    }),
    // N: the median time of setting a count of 1 and counting down, in nanoseconds.
    ("latch-pairs", |session, words| {
        let latch = latch(session, words)?;
        median(number(words, 1)?, || {
            latch.try_set_count(1)?;
            latch.count_down()?;
            Ok(())
        })
    }),
];

fn latch(session: &Session, words: &[&str]) -> Result<leasehold::CountDownLatch> {
    Ok(session.client.count_down_latch(word(words, 0)?))
}
