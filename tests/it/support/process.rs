//! The state of processes and threads, and signals to them.

use std::path::PathBuf;
use std::process::Command;
use std::str::FromStr;

/// Sends a signal by name to a process that the test started.
pub fn signal(pid: u32, name: &str) {
    let status = Command::new("kill")
        .args([format!("-{name}"), pid.to_string()])
        .status()
        .expect("kill is installed");
    assert!(status.success());
}

/// Whether a process is stopped by a signal.
pub fn is_stopped(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"));
    // False on systems without /proc.
    status.map_or(true, |status| {
        let state = status.lines().find(|line| line.starts_with("State:"));
        state.is_some_and(|state| state.contains("T (stopped)"))
    })
}

/// The number of threads of this process.
pub fn threads() -> usize {
    status("Threads:")
}

/// The memory that the process has allocated and used. The pages of its program do not count: how
/// many of them are resident depends on what the system has read ahead.
pub fn resident_kilobytes() -> usize {
    status("RssAnon:")
}

/// The calling thread, for other threads to inspect.
pub struct Task(PathBuf);

impl Task {
    pub fn current() -> Self {
        let task = std::fs::read_link("/proc/thread-self").expect("a Linux /proc");
        Self(PathBuf::from("/proc").join(task).join("status"))
    }

    pub fn is_asleep(&self) -> bool {
        let status = std::fs::read_to_string(&self.0).expect("the thread lives");
        value::<char>(&status, "State:") == 'S'
    }

    /// How often the thread gave up the processor to wait.
    pub fn waits(&self) -> usize {
        let status = std::fs::read_to_string(&self.0).expect("the thread lives");
        value(&status, "voluntary_ctxt_switches:")
    }
}

fn status(field: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("a Linux /proc");
    value(&status, field)
}

/// The first word after the name of a field.
fn value<T: FromStr>(status: &str, field: &str) -> T {
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let word = line.and_then(|line| line.split_whitespace().next());
    word.and_then(|word| word.parse().ok()).expect("a value")
}
