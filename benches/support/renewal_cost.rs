//! Measures the cost of holding many locks.

use std::{env, thread, time::Duration};

use leasehold::{Lock, LockClient};
use rustix::time::{ClockId, clock_gettime};

use super::length;

/// The environment variable for the time to measure, in seconds; default 30.
const SECONDS: &str = "LEASEHOLD_BENCH_SECONDS";

pub fn lease() -> Duration {
    length(Duration::from_secs(6), Duration::from_millis(600))
}

fn measured_time() -> Duration {
    let seconds = env::var(SECONDS).ok().and_then(|set| set.parse().ok());
    length(Duration::from_secs(seconds.unwrap_or(30)), lease())
}

/// Counts of the servers since they started.
pub struct ServerCounts {
    /// Calls of scripts.
    pub calls: u64,
    /// Reads from the sockets of clients, of at most 16 KB each.
    pub reads: u64,
    /// The locks that exist.
    pub locks: u64,
}

/// The cost of holding all locks for a period.
pub struct RenewalCost {
    pub seconds: f64,
    pub cpu: Duration,
    pub calls: u64,
    pub reads: u64,
    pub renewals: u64,
    pub failed: u64,
    pub lost: u64,
}

impl RenewalCost {
    /// Acquires all locks, then only holds them. The servers must have no other keys.
    pub fn measure(
        client: &LockClient,
        names: &[String],
        count: &dyn Fn() -> ServerCounts,
    ) -> Self {
        let locks: Vec<_> = names
            .iter()
            .map(|name| client.reentrant_lock(name))
            .collect();
        locks.iter().for_each(|lock| lock.lock().expect("free"));

        let (cpu, stats, counted) = (cpu_time(), client.stats(), count());
        thread::sleep(measured_time());
        let (cpu, now, counted_now) = (cpu_time() - cpu, client.stats(), count());

        locks.iter().for_each(|lock| lock.unlock().expect("held"));
        let missing = (locks.len() as u64).saturating_sub(counted_now.locks);
        Self {
            seconds: measured_time().as_secs_f64(),
            cpu,
            calls: counted_now.calls - counted.calls,
            reads: counted_now.reads - counted.reads,
            renewals: now.renewals - stats.renewals,
            failed: now.renewals_failed + now.renewals_unknown
                - stats.renewals_failed
                - stats.renewals_unknown,
            lost: (now.lost - stats.lost).max(missing),
        }
    }

    pub fn cpu_of_a_renewal(&self) -> Duration {
        self.cpu.div_f64(self.renewals.max(1) as f64)
    }
}

/// The CPU time of all threads of this process.
pub fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(
        time.tv_sec.unsigned_abs(),
        time.tv_nsec.unsigned_abs() as u32,
    )
}
