//! For how long threads of several processes could run, but had no CPU.
//!
//! On a busy machine, one thread can wait for a CPU for more than a second while other threads of
//! its process run on another CPU: a thread that holds a lock, or that of the server. So the time
//! is measured for each thread.

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Threads of a Java process that have work all the time, and for which no thread waits. The system
/// cuts the names.
const BACKGROUND: &[&str] = &[
    "C1 CompilerThre",
    "G1 Service",
    "Monitor Deflati",
    "VM Periodic Tas",
    "redisson-timer-",
];

/// The threads of some processes. On a system other than Linux there are none.
pub struct RunQueue {
    processes: Vec<PathBuf>,
    threads: HashMap<PathBuf, Thread>,
    sampled: Instant,
    waited: Duration,
    /// The longest wait of a thread, and its name.
    longest: (Duration, String),
}

/// What the system had counted for a thread at the last sample.
struct Thread {
    name: String,
    /// The content of `schedstat`. It changes when the thread begins to run, and while it runs.
    counted: String,
    /// The time that the thread had spent on a run queue. It includes a wait when that has ended.
    waited: Duration,
}

impl RunQueue {
    pub fn of(processes: impl IntoIterator<Item = u32>) -> Self {
        let tasks = |pid| PathBuf::from(format!("/proc/{pid}/task"));
        let mut queue = Self {
            processes: processes.into_iter().map(tasks).collect(),
            threads: HashMap::new(),
            sampled: Instant::now(),
            waited: Duration::ZERO,
            longest: Default::default(),
        };
        queue.sample();
        (queue.waited, queue.longest) = Default::default();
        queue
    }

    /// Adds the time since the last sample in which threads waited for a CPU. Several waits count
    /// as if they followed each other, but never as more than the time that has passed.
    pub fn sample(&mut self) {
        let passed = self.sampled.elapsed();
        self.sampled += passed;
        let mut before = std::mem::take(&mut self.threads);
        let mut waited = Duration::ZERO;
        let directories = self
            .processes
            .iter()
            .filter_map(|path| fs::read_dir(path).ok());
        for path in directories.flatten().flatten().map(|entry| entry.path()) {
            let before = before.remove(&path);
            let Some(thread) = Thread::read(&path, before.as_ref()) else {
                continue;
            };
            waited += match &before {
                Some(before) if before.counted == thread.counted && !can_run(&path) => {
                    Duration::ZERO
                }
                Some(before) if before.counted == thread.counted => passed,
                before => {
                    let earlier = before.as_ref().map_or(Duration::ZERO, |one| one.waited);
                    let wait = thread.waited.saturating_sub(earlier);
                    if wait > self.longest.0 {
                        self.longest = (wait, thread.name.clone());
                    }
                    wait.min(passed)
                }
            };
            self.threads.insert(path, thread);
        }
        self.waited += waited.min(passed);
    }

    /// The time in which threads waited for a CPU.
    pub fn waited(&self) -> Duration {
        self.waited
    }
}

impl fmt::Display for RunQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (longest, name) = &self.longest;
        let waited = self.waited;
        write!(
            f,
            "threads waited for a CPU for {waited:.1?}, {name} for {longest:.0?} at once"
        )
    }
}

impl Thread {
    /// `None` if the thread has ended, or runs in the background.
    fn read(path: &Path, before: Option<&Self>) -> Option<Self> {
        let name = match before {
            Some(before) => before.name.clone(),
            None => fs::read_to_string(path.join("comm"))
                .ok()?
                .trim()
                .to_owned(),
        };
        if BACKGROUND.contains(&&*name) {
            return None;
        }
        let counted = fs::read_to_string(path.join("schedstat")).ok()?;
        let waited = counted.split(' ').nth(1)?.parse().ok()?;
        Some(Self {
            name,
            counted,
            waited: Duration::from_nanos(waited),
        })
    }
}

/// True if the thread is not asleep.
fn can_run(path: &Path) -> bool {
    let stat = fs::read_to_string(path.join("stat")).unwrap_or_default();
    // The name before it can contain any character.
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest);
    state.is_some_and(|rest| rest.starts_with('R'))
}
