//! How much the machine delayed the processes.

use std::collections::HashMap;
use std::time::Duration;

use super::span::Span;
use crate::record::{CONDUCTOR, Event, Record};

/// How many switches between threads and processes one request to the server takes.
const THREAD_SWITCHES: u32 = 10;

#[derive(Debug, Default)]
pub struct Machine {
    /// By process number: when it was paused.
    pauses: HashMap<u32, Vec<Span>>,
    /// By process number: when its stall monitor was woken late.
    late: HashMap<u32, Vec<Span>>,
}

impl Machine {
    pub fn add(&mut self, record: &Record) {
        match record.event {
            Event::Pauses { process } => {
                let (from, to) = (record.at, u64::MAX);
                let pauses = self.pauses.entry(process).or_default();
                pauses.push(Span { from, to });
            }
            Event::Continued { process } => {
                let pauses = self.pauses.get_mut(&process);
                if let Some(pause) = pauses.and_then(|pauses| pauses.last_mut()) {
                    pause.to = record.at;
                }
            }
            Event::Late { nanos } => {
                let (from, to) = (record.at.saturating_sub(nanos), record.at);
                let late = self.late.entry(record.process).or_default();
                late.push(Span { from, to });
            }
            _ => {}
        }
    }

    /// How long the process was paused within `span`.
    pub fn paused(&self, process: u32, span: Span) -> Duration {
        let pauses = self.pauses.get(&process).into_iter().flatten();
        Duration::from_nanos(pauses.map(|pause| pause.shared(span)).sum())
    }

    /// The pauses of the other processes that overlap with `span`.
    pub fn pauses_of_others(&self, process: u32, span: Span) -> impl Iterator<Item = (u32, Span)> {
        let others = self
            .pauses
            .iter()
            .filter(move |(other, _)| **other != process);
        let pauses =
            others.flat_map(|(other, pauses)| pauses.iter().map(move |pause| (*other, *pause)));
        pauses.filter(move |(_, pause)| pause.shared(span) > 0)
    }

    /// How late a call in `span` may be because the machine is busy: the worst delay of a stall
    /// monitor, once for each switch between threads.
    pub fn slip(&self, process: u32, span: Span) -> Duration {
        let own = self.worst(process, span);
        // The proxy runs in the conductor's process.
        own.max(self.worst(CONDUCTOR, span)) * THREAD_SWITCHES
    }

    fn worst(&self, process: u32, span: Span) -> Duration {
        let late = self.late.get(&process).into_iter().flatten();
        let late = late.filter(|late| late.shared(span) > 0);
        // A pause is not a delay by the machine.
        let late = late.map(|late| {
            Duration::from_nanos(late.to - late.from).saturating_sub(self.paused(process, *late))
        });
        late.max().unwrap_or_default()
    }
}
