//! The log files.
//!
//! Each process appends to its own file, one `write` for each line, or for the short holds of a
//! rush. So a line survives a kill, and no process waits for another one.

use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

pub use crate::record::{CONDUCTOR, Event, Record};

/// The log file of one process.
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
        self.write_all(thread, [(at, event)]);
    }

    /// Writes events and their times with one system call, without a buffer that a kill would lose.
    pub fn write_all(&self, thread: u32, events: impl IntoIterator<Item = (u64, Event)>) {
        let mut lines = String::new();
        for (at, event) in events {
            let record = Record {
                at,
                process: self.process,
                thread,
                event,
            };
            writeln!(lines, "{record}").expect("it is text");
        }
        (&self.file)
            .write_all(lines.as_bytes())
            .expect("the log file is writable");
    }
}

/// Reads all records of a directory, in the order of their times.
pub fn read_all(directory: &Path) -> io::Result<Vec<Record>> {
    let mut records = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let text = fs::read_to_string(&path)?;
        // Only the last line can be incomplete: the process may have been killed while it wrote.
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
