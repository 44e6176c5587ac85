//! The text of a record: a line `<nanoseconds> <process> <thread> <word> <arguments>`.

use std::fmt;
use std::str::FromStr;

use super::{Event, Record};

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} ", self.at, self.process, self.thread)?;
        match &self.event {
            Event::Asks {
                call,
                lock,
                budget,
                what,
            } => write!(f, "asks {call} {lock} {budget} {what}"),
            Event::Reads { call } => write!(f, "reads {call}"),
            Event::Needs { call, permits } => write!(f, "needs {call} {permits}"),
            Event::Together { call, locks } => {
                write!(f, "together {call}")?;
                locks.iter().try_for_each(|lock| write!(f, " {lock}"))
            }
            Event::Waits {
                call,
                condition,
                within,
            } => write!(f, "waits {call} {condition} {within}"),
            Event::NotNotified { call } => write!(f, "not-notified {call}"),
            Event::Notifies {
                lock,
                condition,
                all,
            } => write!(f, "notifies {lock} {condition} {all}"),
            Event::Has { call, token } => write!(f, "has {call} {}", token.unwrap_or(0)),
            Event::HasAgain { call, hold, token } => {
                write!(f, "has-again {call} {hold} {}", token.unwrap_or(0))
            }
            Event::Held {
                call,
                lock,
                asked,
                token,
                vouched,
            } => {
                let token = token.unwrap_or(0);
                write!(f, "held {call} {lock} {asked} {token} {vouched}")
            }
            Event::Answered { call, answer } => write!(f, "answered {call} {answer}"),
            Event::Vouches { hold } => write!(f, "vouches {hold}"),
            Event::Refused { call, answer } => write!(f, "refused {call} {answer}"),
            Event::Wrong { call, answer } => write!(f, "wrong {call} {answer}"),
            Event::Starved { call, nanos } => write!(f, "starved {call} {nanos}"),
            Event::Late { nanos } => write!(f, "late {nanos}"),
            Event::Kept { nanos } => write!(f, "kept {nanos}"),
            Event::Client { id } => write!(f, "client {id}"),
            Event::MayNotSubscribe => write!(f, "may-not-subscribe"),
            Event::Waiting {
                lock,
                from,
                clients,
            } => {
                write!(f, "waiting {lock} {from}")?;
                clients.iter().try_for_each(|client| write!(f, " {client}"))
            }
            Event::NotSubscribed { lock, clients } => {
                write!(f, "not-subscribed {lock}")?;
                clients.iter().try_for_each(|client| write!(f, " {client}"))
            }
            Event::Pauses { process } => write!(f, "pauses {process}"),
            Event::Continued { process } => write!(f, "continued {process}"),
            Event::Killed { process } => write!(f, "killed {process}"),
            Event::Died { process } => write!(f, "died {process}"),
            Event::Lingers { process } => write!(f, "lingers {process}"),
            Event::Deleted { lock, from, token } => {
                write!(f, "deleted {lock} {from} {}", token.unwrap_or(0))
            }
            Event::FailedOver { lock, from, apart } => {
                write!(f, "failed-over {lock} {from} {apart}")
            }
            Event::ClockSet { lock, from } => write!(f, "clock-set {lock} {from}"),
            Event::LineLost { lock } => write!(f, "line-lost {lock}"),
            Event::Rotates => write!(f, "rotates"),
            Event::Storm => write!(f, "storm"),
            Event::Calm => write!(f, "calm"),
            Event::Stopping => write!(f, "stopping"),
            Event::End => write!(f, "end"),
            Event::Left { ends, key, value } => write!(f, "left {ends} {key} = {value}"),
            Event::Note(text) => write!(f, "note {text}"),
        }
    }
}

impl Record {
    /// Parses what `Display` writes; `None` for any other line.
    pub fn parse(line: &str) -> Option<Self> {
        let mut words = Words(line);
        Some(Self {
            at: words.number()?,
            process: words.number()?,
            thread: words.number()?,
            event: event(&mut words)?,
        })
    }
}

fn event(words: &mut Words) -> Option<Event> {
    Some(match words.next()? {
        "asks" => Event::Asks {
            call: words.number()?,
            lock: words.number()?,
            budget: words.number()?,
            what: words.rest(),
        },
        "reads" => Event::Reads {
            call: words.number()?,
        },
        "needs" => Event::Needs {
            call: words.number()?,
            permits: words.number()?,
        },
        "together" => Event::Together {
            call: words.number()?,
            locks: words
                .rest()
                .split_whitespace()
                .map(str::parse)
                .collect::<Result<_, _>>()
                .ok()?,
        },
        "waits" => Event::Waits {
            call: words.number()?,
            condition: words.number()?,
            within: words.number()?,
        },
        "not-notified" => Event::NotNotified {
            call: words.number()?,
        },
        "notifies" => Event::Notifies {
            lock: words.number()?,
            condition: words.number()?,
            all: words.number()?,
        },
        "has" => Event::Has {
            call: words.number()?,
            token: words.token()?,
        },
        "has-again" => Event::HasAgain {
            call: words.number()?,
            hold: words.number()?,
            token: words.token()?,
        },
        "held" => Event::Held {
            call: words.number()?,
            lock: words.number()?,
            asked: words.number()?,
            token: words.token()?,
            vouched: words.number()?,
        },
        "answered" => Event::Answered {
            call: words.number()?,
            answer: words.rest(),
        },
        "vouches" => Event::Vouches {
            hold: words.number()?,
        },
        "refused" => Event::Refused {
            call: words.number()?,
            answer: words.rest(),
        },
        "wrong" => Event::Wrong {
            call: words.number()?,
            answer: words.rest(),
        },
        "starved" => Event::Starved {
            call: words.number()?,
            nanos: words.number()?,
        },
        "late" => Event::Late {
            nanos: words.number()?,
        },
        "kept" => Event::Kept {
            nanos: words.number()?,
        },
        "client" => Event::Client { id: words.rest() },
        "may-not-subscribe" => Event::MayNotSubscribe,
        "waiting" => Event::Waiting {
            lock: words.number()?,
            from: words.number()?,
            clients: words.rest().split_whitespace().map(str::to_owned).collect(),
        },
        "not-subscribed" => Event::NotSubscribed {
            lock: words.number()?,
            clients: words.rest().split_whitespace().map(str::to_owned).collect(),
        },
        "pauses" => Event::Pauses {
            process: words.number()?,
        },
        "continued" => Event::Continued {
            process: words.number()?,
        },
        "killed" => Event::Killed {
            process: words.number()?,
        },
        "died" => Event::Died {
            process: words.number()?,
        },
        "lingers" => Event::Lingers {
            process: words.number()?,
        },
        "deleted" => Event::Deleted {
            lock: words.number()?,
            from: words.number()?,
            token: words.token()?,
        },
        "failed-over" => Event::FailedOver {
            lock: words.number()?,
            from: words.number()?,
            apart: words.number()?,
        },
        "clock-set" => Event::ClockSet {
            lock: words.number()?,
            from: words.number()?,
        },
        "line-lost" => Event::LineLost {
            lock: words.number()?,
        },
        "rotates" => Event::Rotates,
        "storm" => Event::Storm,
        "calm" => Event::Calm,
        "stopping" => Event::Stopping,
        "end" => Event::End,
        "left" => {
            let ends = words.number()?;
            let (key, value) = words.0.split_once(" = ")?;
            Event::Left {
                ends,
                key: key.to_owned(),
                value: value.to_owned(),
            }
        }
        "note" => Event::Note(words.rest()),
        _ => return None,
    })
}

struct Words<'a>(&'a str);

impl<'a> Words<'a> {
    fn next(&mut self) -> Option<&'a str> {
        let (word, rest) = self.0.split_once(' ').unwrap_or((self.0, ""));
        self.0 = rest;
        (!word.is_empty()).then_some(word)
    }

    fn number<T: FromStr>(&mut self) -> Option<T> {
        self.next()?.parse().ok()
    }

    /// 0 means no token.
    fn token(&mut self) -> Option<Option<u64>> {
        Some(Some(self.number()?).filter(|token| *token != 0))
    }

    fn rest(&mut self) -> String {
        std::mem::take(&mut self.0).to_owned()
    }
}
