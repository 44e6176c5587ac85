//! How long a thread was runnable without a processor. The checker of a simulation allows for none.

/// Nothing.
#[derive(Debug)]
pub struct Starvation;

impl Starvation {
    pub fn of_this_thread() -> Self {
        Self
    }

    pub fn nanos(&self) -> u64 {
        0
    }
}
