//! What the library uses of `forkguard`, for the processes of the simulation.

use leasehold_simulation_world::processes::{self, ProcessId};

/// Knows the process in which it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard(ProcessId);

impl Guard {
    /// The process of the running thread.
    ///
    /// # Errors
    ///
    /// Never.
    pub fn try_new() -> Result<Self, std::convert::Infallible> {
        Ok(Self(processes::current()))
    }

    /// True in another process.
    pub fn detected_fork(&mut self) -> bool {
        self.0 != processes::current()
    }
}
