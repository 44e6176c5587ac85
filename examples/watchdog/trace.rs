//! What was seen of the locks, as CSV.

use std::{
    fmt,
    fs::File,
    io::{BufWriter, Write},
    path::Path,
    time::Duration,
};

use crate::support::Result;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Event {
    Acquired,
    Renewed,
    /// The client has no connection from now on.
    Cut,
    /// The holder is notified.
    Lost,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Acquired => "acquired",
            Self::Renewed => "renewed",
            Self::Cut => "cut",
            Self::Lost => "lost",
        })
    }
}

/// One lock at one time.
pub struct Sample {
    /// Since the start.
    pub at: Duration,
    /// From 1 on.
    pub lock: usize,
    /// The time to live of the key, if there is one.
    pub in_redis: Option<Duration>,
    /// For how much longer the holder may rely on the lock.
    pub for_holder: Duration,
    pub event: Option<Event>,
}

/// The file, if one is requested.
pub struct Trace(Option<BufWriter<File>>);

impl Trace {
    pub fn create(path: Option<&Path>) -> Result<Self> {
        let Some(path) = path else {
            return Ok(Self(None));
        };
        let file = File::create(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let mut file = BufWriter::new(file);
        writeln!(file, "millis,lock,redis_millis,holder_millis,event")?;
        Ok(Self(Some(file)))
    }

    pub fn write(&mut self, sample: &Sample) -> Result<()> {
        if let Some(file) = &mut self.0 {
            let in_redis = sample.in_redis.unwrap_or_default().as_millis();
            let event = sample.event.map(|event| event.to_string());
            writeln!(
                file,
                "{},{},{in_redis},{},{}",
                sample.at.as_millis(),
                sample.lock,
                sample.for_holder.as_millis(),
                event.unwrap_or_default()
            )?;
        }
        Ok(())
    }

    /// An event at which no lock is looked at.
    pub fn note(&mut self, at: Duration, event: Event, lock: usize) -> Result<()> {
        if let Some(file) = &mut self.0 {
            writeln!(file, "{},{lock},,,{event}", at.as_millis())?;
        }
        Ok(())
    }
}
