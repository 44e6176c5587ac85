//! What happens when.

use std::{
    fmt::Display,
    thread,
    time::{Duration, Instant},
};

/// The clock of a run, which every line begins with.
#[derive(Clone, Copy)]
pub struct Timeline(Instant);

impl Timeline {
    pub fn begin() -> Self {
        Self(Instant::now())
    }

    pub fn tell(&self, what: impl Display) {
        println!("{:6.2} s  {what}", self.0.elapsed().as_secs_f64());
    }

    /// Returns at once if that is past.
    pub fn wait_until(&self, moment: Duration) {
        thread::sleep(moment.saturating_sub(self.0.elapsed()));
    }
}
