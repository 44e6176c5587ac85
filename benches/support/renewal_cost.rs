//! Measures the cost of holding many locks.

use std::{env, thread, time::Duration};

use leasehold::LockClient;

use super::{
    is_test,
    usage::{cpu_time, resident_memory},
};

/// The environment variable for the time to measure, in seconds.
const SECONDS: &str = "LEASEHOLD_BENCH_SECONDS";

/// The lease of held locks, and for how long they are held.
#[derive(Clone, Copy)]
pub struct Holding {
    pub lease: Duration,
    pub time: Duration,
}

impl Holding {
    pub fn new(lease: u64, time: u64) -> Self {
        let set = env::var(SECONDS).ok().and_then(|set| set.parse().ok());
        if is_test() {
            let short = Duration::from_millis(600);
            return Self {
                lease: short,
                time: short,
            };
        }
        Self {
            lease: Duration::from_secs(lease),
            time: Duration::from_secs(set.unwrap_or(time)),
        }
    }
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
    /// The resident memory of each lock and its handle, in bytes.
    pub memory_each: Option<f64>,
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
        time: Duration,
        count: &dyn Fn() -> ServerCounts,
    ) -> Self {
        let memory = resident_memory();
        let locks: Vec<_> = names
            .iter()
            .map(|name| client.reentrant_lock(name))
            .collect();
        locks.iter().for_each(|lock| lock.lock().expect("free"));

        let memory = memory.zip(resident_memory());
        let memory = memory.map(|(before, after)| after.saturating_sub(before));

        let (cpu, stats, counted) = (cpu_time(), client.stats(), count());
        thread::sleep(time);
        let (cpu, now, counted_now) = (cpu_time() - cpu, client.stats(), count());

        locks.iter().for_each(|lock| lock.unlock().expect("held"));
        let missing = (locks.len() as u64).saturating_sub(counted_now.locks);
        Self {
            seconds: time.as_secs_f64(),
            cpu,
            memory_each: memory.map(|bytes| bytes as f64 / locks.len().max(1) as f64),
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
