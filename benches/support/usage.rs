//! What this process has used of the machine.

use std::{fs, time::Duration};

use rustix::time::{ClockId, clock_gettime};

/// The CPU time of all threads of this process.
pub fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(
        time.tv_sec.unsigned_abs(),
        time.tv_nsec.unsigned_abs() as u32,
    )
}

/// The CPU time of all threads of this process while `work` runs.
pub fn cpu_time_of(work: impl FnOnce()) -> Duration {
    let before = cpu_time();
    work();
    cpu_time() - before
}

/// The resident memory of this process, in bytes. Only Linux reports it in this way.
pub fn resident_memory() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kilobytes * 1024)
}
