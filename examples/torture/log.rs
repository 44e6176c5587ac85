//! What everybody writes down, a line each: `<nanoseconds> <process> <thread> <word> <arguments>`.
//!
//! A line is one `write` to a file that is open for appending, so it survives a kill, and nobody
//! waits for another process.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// The process that runs the others.
pub const CONDUCTOR: u32 = 0;

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// By the clock that all processes share.
    pub at: u64,
    pub process: u32,
    pub thread: u32,
    pub event: Event,
}

/// What happened. `call` is the number of a call of its thread, and of the hold that it gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Before a call that has `budget` milliseconds; 0: as long as others hold the lock.
    Asks {
        call: u64,
        lock: u32,
        budget: u64,
        what: String,
    },
    /// After a call that gave a hold.
    Has {
        call: u64,
        token: Option<u64>,
    },
    /// After a call that took a held lock once more.
    HasAgain {
        call: u64,
        hold: u64,
        token: Option<u64>,
    },
    /// After any other call.
    Answered {
        call: u64,
        answer: String,
    },
    /// Before a look that found the hold standing, so that it stood at this time.
    Vouches {
        hold: u64,
    },
    /// A call's answer breaks its documentation.
    Wrong {
        call: u64,
        answer: String,
    },
    /// So long in this call its thread was ready to run, and the machine ran others.
    Starved {
        call: u64,
        nanos: u64,
    },
    /// A thread that only sleeps was woken so much too late.
    Late {
        nanos: u64,
    },
    /// Before a process is stopped, and after it is continued.
    Pauses {
        process: u32,
    },
    Continued {
        process: u32,
    },
    /// After a process was killed on purpose.
    Killed {
        process: u32,
    },
    /// After a process ended that nobody killed, and not as it should.
    Died {
        process: u32,
    },
    /// A process is still there at the end.
    Lingers {
        process: u32,
    },
    /// After the key of a lock, which was there, was deleted by a command sent at `from`. No token
    /// that was given before is greater than `token`.
    Deleted {
        lock: u32,
        from: u64,
        token: Option<u64>,
    },
    /// From here on there are faults, or none.
    Storm,
    Calm,
    /// Nobody begins anything new.
    Stopping,
    /// Whoever has not ended by now never will.
    End,
    /// In the end something of a lock is still in Redis.
    Left {
        lock: u32,
        what: String,
    },
    /// For the reader alone.
    Note(String),
}

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
            Event::Has { call, token } => write!(f, "has {call} {}", token.unwrap_or(0)),
            Event::HasAgain { call, hold, token } => {
                write!(f, "has-again {call} {hold} {}", token.unwrap_or(0))
            }
            Event::Answered { call, answer } => write!(f, "answered {call} {answer}"),
            Event::Vouches { hold } => write!(f, "vouches {hold}"),
            Event::Wrong { call, answer } => write!(f, "wrong {call} {answer}"),
            Event::Starved { call, nanos } => write!(f, "starved {call} {nanos}"),
            Event::Late { nanos } => write!(f, "late {nanos}"),
            Event::Pauses { process } => write!(f, "pauses {process}"),
            Event::Continued { process } => write!(f, "continued {process}"),
            Event::Killed { process } => write!(f, "killed {process}"),
            Event::Died { process } => write!(f, "died {process}"),
            Event::Lingers { process } => write!(f, "lingers {process}"),
            Event::Deleted { lock, from, token } => {
                write!(f, "deleted {lock} {from} {}", token.unwrap_or(0))
            }
            Event::Storm => write!(f, "storm"),
            Event::Calm => write!(f, "calm"),
            Event::Stopping => write!(f, "stopping"),
            Event::End => write!(f, "end"),
            Event::Left { lock, what } => write!(f, "left {lock} {what}"),
            Event::Note(text) => write!(f, "note {text}"),
        }
    }
}

impl Record {
    /// `None` for a line that no `Display` wrote.
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
        "has" => Event::Has {
            call: words.number()?,
            token: words.token()?,
        },
        "has-again" => Event::HasAgain {
            call: words.number()?,
            hold: words.number()?,
            token: words.token()?,
        },
        "answered" => Event::Answered {
            call: words.number()?,
            answer: words.rest(),
        },
        "vouches" => Event::Vouches {
            hold: words.number()?,
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
        "storm" => Event::Storm,
        "calm" => Event::Calm,
        "stopping" => Event::Stopping,
        "end" => Event::End,
        "left" => Event::Left {
            lock: words.number()?,
            what: words.rest(),
        },
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

    fn number<T: std::str::FromStr>(&mut self) -> Option<T> {
        self.next()?.parse().ok()
    }

    /// 0 is no token.
    fn token(&mut self) -> Option<Option<u64>> {
        Some(Some(self.number()?).filter(|token| *token != 0))
    }

    fn rest(&mut self) -> String {
        std::mem::take(&mut self.0).to_owned()
    }
}

/// Where one process writes.
#[derive(Debug)]
pub struct Log {
    file: File,
    process: u32,
}

impl Log {
    pub fn open(directory: &Path, process: u32) -> io::Result<Self> {
        let path = directory.join(format!("{process}.log"));
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self { file, process })
    }

    pub fn write(&self, at: u64, thread: u32, event: Event) {
        let record = Record {
            at,
            process: self.process,
            thread,
            event,
        };
        // One call of the system each: nothing waits in a buffer of a process that is killed.
        (&self.file)
            .write_all(format!("{record}\n").as_bytes())
            .expect("there is room for the log");
    }
}

/// All records of a directory, in the order of their times.
pub fn read_all(directory: &Path) -> io::Result<Vec<Record>> {
    let mut records = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let text = fs::read_to_string(&path)?;
        // A kill can cut the last line of its process, and no other.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        for line in whole.lines() {
            let record = Record::parse(line).ok_or_else(|| {
                let what = format!("not a record in {}: {line:?}", path.display());
                io::Error::new(io::ErrorKind::InvalidData, what)
            })?;
            records.push(record);
        }
    }
    records.sort_by_key(|record| record.at);
    Ok(records)
}
