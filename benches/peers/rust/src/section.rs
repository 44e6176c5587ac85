//! What threads and tasks do under a lock, and what they report.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::time::Duration;

use crate::Result;
use crate::clock::now;

/// The work of all threads of this process in one window.
#[derive(Clone)]
pub struct Load {
    pub name: String,
    /// A file of 8 bytes, which only the holder of the lock reads and writes.
    pub counter: String,
    pub threads: usize,
    pub hold: Duration,
    pub pause: Duration,
    pub start: u64,
    pub end: u64,
}

impl Load {
    /// NAME COUNTER THREADS HOLD PAUSE START END: hold and pause in microseconds.
    pub fn parse(words: &[&str]) -> Result<Self> {
        let &[name, counter, threads, hold, pause, start, end] = words else {
            return Err("contend has seven words".into());
        };
        Ok(Self {
            name: name.to_owned(),
            counter: counter.to_owned(),
            threads: threads.parse()?,
            hold: Duration::from_micros(hold.parse()?),
            pause: Duration::from_micros(pause.parse()?),
            start: start.parse()?,
            end: end.parse()?,
        })
    }

    pub fn is_over(&self) -> bool {
        now() >= self.end
    }
}

/// A number in a file. Reading and writing it are two steps, so that two holders of a lock lose an
/// addition.
pub struct Counter(File);

impl Counter {
    pub fn open(path: &str) -> Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path);
        Ok(Self(file.map_err(|error| format!("{path}: {error}"))?))
    }

    pub fn read(&self) -> Result<u64> {
        let mut bytes = [0; 8];
        self.0.read_exact_at(&mut bytes, 0)?;
        Ok(u64::from_le_bytes(bytes))
    }

    pub fn write(&self, number: u64) -> Result<()> {
        Ok(self.0.write_all_at(&number.to_le_bytes(), 0)?)
    }
}

/// What one thread did, or all of them.
#[derive(Default)]
pub struct Report {
    /// All holds, and those that ended before the window did.
    pub holds: u64,
    pub inside: u64,
    /// Calls that ended without the lock.
    pub gave_up: u64,
    waits: BTreeMap<u32, u64>,
    longest: u64,
}

impl Report {
    pub fn waited(&mut self, nanos: u64) {
        *self.waits.entry(bucket(nanos)).or_default() += 1;
        self.longest = self.longest.max(nanos);
    }

    pub fn add(&mut self, other: Self) {
        self.holds += other.holds;
        self.inside += other.inside;
        self.gave_up += other.gave_up;
        self.longest = self.longest.max(other.longest);
        for (bucket, count) in other.waits {
            *self.waits.entry(bucket).or_default() += count;
        }
    }

    /// HOLDS INSIDE GAVE_UP LONGEST BUCKET:COUNT...
    pub fn words(&self) -> String {
        let Self {
            holds,
            inside,
            gave_up,
            ..
        } = self;
        let (longest, waits) = self.waits();
        format!("{holds} {inside} {gave_up} {longest}{waits}")
    }

    /// The longest wait, and a word for each bucket, with a space before it.
    pub fn waits(&self) -> (u64, String) {
        let mut words = String::new();
        for (bucket, count) in &self.waits {
            let _ = write!(words, " {bucket}:{count}");
        }
        (self.longest, words)
    }
}

/// 32 buckets for each doubling: a bucket is 2.2 % wide.
fn bucket(nanos: u64) -> u32 {
    ((nanos.max(1) as f64).log2() * 32.0) as u32
}

pub fn words(numbers: &[u64]) -> String {
    let words: Vec<_> = numbers.iter().map(u64::to_string).collect();
    words.join(" ")
}
