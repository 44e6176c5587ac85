//! What the system says of processes, and does to them.

use std::process::Command;

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
    // Without a /proc there is nothing to look at.
    status.map_or(true, |status| {
        let state = status.lines().find(|line| line.starts_with("State:"));
        state.is_some_and(|state| state.contains("T (stopped)"))
    })
}

/// The number of threads of this process.
pub fn threads() -> usize {
    status("Threads:")
}

/// The memory of this process that is in use, in kilobytes.
pub fn resident_kilobytes() -> usize {
    status("VmRSS:")
}

fn status(field: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("a Linux /proc");
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let number = line.and_then(|line| line.split_whitespace().next());
    number
        .and_then(|number| number.parse().ok())
        .expect("a number")
}
