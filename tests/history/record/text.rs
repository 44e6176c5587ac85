//! The text of a record: a line `<nanoseconds> <process> <thread> <word> <arguments>`.

use std::fmt;
use std::str::FromStr;

use super::{Event, Record};

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} ", self.at, self.process, self.thread)?;
        self.event.write(f)
    }
}

impl Record {
    /// Parses what `Display` writes; `None` for any other line.
    pub fn parse(line: &str) -> Option<Self> {
        let mut words = Words(line);
        Some(Self {
            at: Argument::read(&mut words)?,
            process: Argument::read(&mut words)?,
            thread: Argument::read(&mut words)?,
            event: Event::read(&mut words)?,
        })
    }
}

/// The word of each event, and its arguments in their order. A text or a list is the rest of the
/// line.
macro_rules! events {
    ($($word:literal $event:ident { $($argument:ident)* })*) => {
        impl Event {
            fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$event { $($argument),* } => {
                        f.write_str($word)?;
                        $(Argument::write($argument, f)?;)*
                        Ok(())
                    })*
                }
            }

            fn read(words: &mut Words<'_>) -> Option<Self> {
                Some(match words.next()? {
                    $($word => Self::$event { $($argument: Argument::read(words)?),* },)*
                    _ => return None,
                })
            }
        }
    };
}

events! {
    "asks" Asks { call lock budget what }
    "reads" Reads { call }
    "needs" Needs { call permits }
    "together" Together { call locks }
    "waits" Waits { call condition within }
    "not-notified" NotNotified { call }
    "notifies" Notifies { lock condition all }
    "has" Has { call token }
    "has-again" HasAgain { call hold token }
    "held" Held { call lock asked token vouched }
    "answered" Answered { call answer }
    "vouches" Vouches { hold }
    "refused" Refused { call answer }
    "wrong" Wrong { call answer }
    "starved" Starved { call nanos }
    "late" Late { nanos }
    "kept" Kept { nanos }
    "client" Client { id }
    "may-not-subscribe" MayNotSubscribe {}
    "waiting" Waiting { lock from clients }
    "not-subscribed" NotSubscribed { lock clients }
    "pauses" Pauses { process }
    "continued" Continued { process }
    "killed" Killed { process }
    "died" Died { process }
    "lingers" Lingers { process }
    "deleted" Deleted { lock from token }
    "failed-over" FailedOver { lock from apart }
    "clock-set" ClockSet { lock from }
    "line-lost" LineLost { lock }
    "rotates" Rotates {}
    "storm" Storm {}
    "calm" Calm {}
    "stopping" Stopping {}
    "end" End {}
    "left" Left { ends entry }
    "note" Note { text }
}

/// An argument of an event.
trait Argument: Sized {
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
    fn read(words: &mut Words<'_>) -> Option<Self>;
}

macro_rules! words {
    ($($argument:ty)*) => {
        $(impl Argument for $argument {
            fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, " {self}")
            }

            fn read(words: &mut Words<'_>) -> Option<Self> {
                words.next()?.parse().ok()
            }
        })*
    };
}

words! { u32 u64 i64 bool }

/// A token; 0: none.
impl Argument for Option<u64> {
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Argument::write(&self.unwrap_or(0), f)
    }

    fn read(words: &mut Words<'_>) -> Option<Self> {
        Some(Some(Argument::read(words)?).filter(|token| *token != 0))
    }
}

impl Argument for String {
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " {self}")
    }

    fn read(words: &mut Words<'_>) -> Option<Self> {
        Some(std::mem::take(&mut words.0).to_owned())
    }
}

impl<T: fmt::Display + FromStr> Argument for Vec<T> {
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().try_for_each(|one| write!(f, " {one}"))
    }

    fn read(words: &mut Words<'_>) -> Option<Self> {
        let rest = std::mem::take(&mut words.0).split_whitespace();
        rest.map(|word| word.parse().ok()).collect()
    }
}

struct Words<'a>(&'a str);

impl<'a> Words<'a> {
    fn next(&mut self) -> Option<&'a str> {
        let (word, rest) = self.0.split_once(' ').unwrap_or((self.0, ""));
        self.0 = rest;
        (!word.is_empty()).then_some(word)
    }
}
