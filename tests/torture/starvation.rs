//! How long a thread was runnable without a processor.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// What the system counts for one thread; nothing on systems without `schedstat`.
#[derive(Debug)]
pub struct Starvation(Option<File>);

impl Starvation {
    /// The count of the calling thread.
    pub fn of_this_thread() -> Self {
        Self(File::open("/proc/thread-self/schedstat").ok())
    }

    /// The time until now, in nanoseconds.
    pub fn nanos(&self) -> u64 {
        let number = || {
            let mut text = [0; 64];
            let read = self.0.as_ref()?.read_at(&mut text, 0).ok()?;
            let text = str::from_utf8(&text[..read]).ok()?;
            text.split_whitespace().nth(1)?.parse().ok()
        };
        number().unwrap_or(0)
    }
}
