//! What the programs log beside what the threads of the torture program do.

use std::time::Duration;

use super::held::exclusive;
use crate::clock;
use crate::event_log::{EventLog, whole_millis};
use crate::log::Event;
use crate::worker_thread::Target;

impl EventLog<'_> {
    /// Logs the start of a call that acquires these locks together. Returns each with a number.
    pub fn asks_together(
        &mut self,
        locks: &[u32],
        budget: Option<Duration>,
        what: &str,
    ) -> Vec<(u32, u64)> {
        let asks = |&lock: &u32| {
            let call = self.asks(exclusive(lock), budget, what.into());
            let locks = locks.to_vec();
            self.note(Event::Together { call, locks });
            (lock, call)
        };
        locks.iter().map(asks).collect()
    }

    /// Logs the start of a call that waits for a notification.
    pub fn asks_to_wait(
        &mut self,
        at: Target,
        condition: u32,
        within: Option<Duration>,
        what: String,
    ) -> u64 {
        let call = self.asks(at, None, what);
        let within = within.map_or(0, |within| whole_millis(within).max(1));
        self.note(Event::Waits {
            call,
            condition,
            within,
        });
        call
    }

    /// Logs an event of this thread.
    pub fn note(&self, event: Event) {
        self.log.write(clock::now(), self.thread, event);
    }
}
