//! Output with the time since the start.

use std::{
    fmt::Display,
    thread,
    time::{Duration, Instant},
};

/// Prints lines that begin with the time since `begin`.
#[derive(Clone, Copy)]
pub struct Timeline(Instant);

impl Timeline {
    pub fn begin() -> Self {
        Self(Instant::now())
    }

    pub fn print(&self, what: impl Display) {
        println!("{:6.2} s  {what}", self.0.elapsed().as_secs_f64());
    }

    /// Sleeps until this time after the start. Returns at once if it has passed.
    pub fn wait_until(&self, moment: Duration) {
        thread::sleep(moment.saturating_sub(self.0.elapsed()));
    }
}
