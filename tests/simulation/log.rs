//! The log of all processes of a world.

use std::sync::Mutex;

pub use crate::record::{CONDUCTOR, Event, Record};

static RECORDS: Mutex<Vec<Record>> = Mutex::new(Vec::new());

/// The part of one process.
#[derive(Debug)]
pub struct Log {
    process: u32,
}

impl Log {
    pub fn of(process: u32) -> Self {
        Self { process }
    }

    pub fn write(&self, at: u64, thread: u32, event: Event) {
        self.write_all(thread, [(at, event)]);
    }

    pub fn write_all(&self, thread: u32, events: impl IntoIterator<Item = (u64, Event)>) {
        let process = self.process;
        let mut records = RECORDS.lock().expect("nothing panics meanwhile");
        records.extend(events.into_iter().map(|(at, event)| Record {
            at,
            process,
            thread,
            event,
        }));
    }
}

/// How many records there are.
pub fn count() -> usize {
    RECORDS.lock().expect("nothing panics meanwhile").len()
}

/// The ids of the clients of a process.
pub fn clients_of(process: u32) -> Vec<String> {
    let records = RECORDS.lock().expect("nothing panics meanwhile");
    let own = records.iter().filter(|record| record.process == process);
    let ids = own.filter_map(|record| match &record.event {
        Event::Client { id } => Some(id.clone()),
        _ => None,
    });
    ids.collect()
}

/// All records, in the order of their times.
pub fn take_all() -> Vec<Record> {
    let mut records = RECORDS.lock().expect("nothing panics meanwhile");
    let mut records = std::mem::take(&mut *records);
    records.sort_by_key(|record| record.at);
    records
}
