//! The figures of a run, as they are written to a file.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::Result;
use crate::histogram::Histogram;

/// The workloads of clients with one worker each on one name, and the numbers of clients.
pub const CROWDS: [(&str, usize); 3] = [("crowd-2", 2), ("crowd-10", 10), ("crowd-50", 50)];

#[derive(Serialize, Deserialize)]
pub struct Results {
    pub run: Run,
    pub peers: Vec<Figures>,
}

/// The run and its machine.
#[derive(Serialize, Deserialize)]
pub struct Run {
    pub seconds_since_1970: u64,
    pub processor: String,
    pub cores: usize,
    pub kernel: String,
    pub redis: String,
    /// The commit of leasehold, with a mark if files were changed.
    pub commit: String,
    /// Whether the server and the clients had a core each.
    pub pinned: bool,
    pub load_before: f64,
    pub load_after: f64,
    pub window_seconds: f64,
    pub rounds: usize,
    pub locks: usize,
    pub hold_seconds: f64,
}

/// All figures of one peer.
#[derive(Serialize, Deserialize)]
pub struct Figures {
    pub name: String,
    pub version: String,
    pub language: String,
    pub workers: String,
    pub settings: String,
    pub pair: Pair,
    /// Workloads by name: `empty`, `busy`, `processes`, and those of `CROWDS`.
    pub contended: BTreeMap<String, Contended>,
    /// Nothing in figures from before this workload.
    #[serde(default)]
    pub apart: Option<Apart>,
    pub hand_over: Option<HandOver>,
    pub held: Held,
}

/// A lock and an unlock of a free lock.
#[derive(Serialize, Deserialize, Default, Clone)]
pub struct Pair {
    pub median_ns: u64,
    pub p999_ns: u64,
    pub longest_ns: u64,
    pub commands: f64,
}

/// Workers that compete for one lock.
#[derive(Serialize, Deserialize, Default, Clone)]
pub struct Contended {
    /// Acquisitions per second, in each window.
    pub rates: Vec<f64>,
    pub waits: Histogram,
    pub longest_ns: u64,
    /// Calls that ended without the lock.
    pub gave_up: u64,
    pub holds: u64,
    /// Additions to the counter that were lost, because two workers held the lock.
    pub lost_additions: u64,
    pub commands_per_acquisition: f64,
    /// The smallest share of a process in the acquisitions of both, in each window.
    pub shares: Vec<f64>,
}

/// Many workers with a name each.
#[derive(Serialize, Deserialize, Default, Clone)]
pub struct Apart {
    /// Pairs per second, in each window.
    pub rates: Vec<f64>,
    /// Of a pair: a lock and an unlock.
    pub times: Histogram,
    pub longest_ns: u64,
    /// The pairs of the slowest worker to those of the fastest, in each window.
    pub evenness: Vec<f64>,
    pub pairs: u64,
    /// Calls that ended without the lock.
    pub gave_up: u64,
    pub client_cpu_seconds: f64,
    pub server_cpu_seconds: f64,
    pub commands_per_pair: f64,
}

/// An unlock in one process, to the return of a lock in another.
#[derive(Serialize, Deserialize, Default, Clone)]
pub struct HandOver {
    pub samples_ns: Vec<u64>,
}

/// Many locks that one process holds.
#[derive(Serialize, Deserialize, Default, Clone)]
pub struct Held {
    pub acquire_seconds: f64,
    pub client_cpu_seconds: f64,
    pub server_cpu_seconds: f64,
    pub script_calls: u64,
    pub seconds: f64,
    pub lost: u64,
}

impl Contended {
    pub fn rate(&self) -> f64 {
        median(&self.rates)
    }

    /// The wait, in nanoseconds, that this share of all does not exceed.
    pub fn wait(&self, share: f64) -> f64 {
        // A bucket can reach beyond the longest wait.
        self.waits.quantile(share).min(self.longest_ns as f64)
    }
}

impl Apart {
    pub fn rate(&self) -> f64 {
        median(&self.rates)
    }

    /// The time of a pair, in nanoseconds, that this share of all does not exceed.
    pub fn time(&self, share: f64) -> f64 {
        self.times.quantile(share).min(self.longest_ns as f64)
    }

    /// An amount of CPU time for each pair, in nanoseconds.
    pub fn each(&self, seconds: f64) -> f64 {
        seconds * 1e9 / self.pairs.max(1) as f64
    }
}

pub fn median(numbers: &[f64]) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

/// The smallest number that this share of all does not exceed.
pub fn quantile(numbers: &[u64], share: f64) -> u64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable();
    let place = (sorted.len().saturating_sub(1) as f64 * share).round() as usize;
    sorted.get(place).copied().unwrap_or(0)
}

pub fn read(path: &Path) -> Result<Results> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(serde_json::from_str(&text)?)
}

pub fn write(path: &Path, results: &Results) -> Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let text = serde_json::to_string_pretty(results)? + "\n";
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()).into())
}
