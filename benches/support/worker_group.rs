//! Groups of workers that run at the same time, as their parent sees them.

use std::{
    io::{BufReader, Write},
    process::{Child, ChildStdin, ChildStdout},
    time::Duration,
};

use super::{
    clock::{after, nanos},
    contention::{LEAD, ThreadRun, Totals, alternate},
    median, start_again,
    worker::{Spec, WORKER, read},
};

/// A worker: this program, started again. Dropping this value ends it.
struct Worker {
    process: Child,
    requests: ChildStdin,
    replies: BufReader<ChildStdout>,
    threads: usize,
}

impl Worker {
    fn start(spec: &Spec) -> Self {
        let mut process = start_again(WORKER, &spec.to_text());
        Self {
            requests: process.stdin.take().expect("piped"),
            replies: BufReader::new(process.stdout.take().expect("piped")),
            threads: spec.load.threads,
            process,
        }
    }

    fn begin(&mut self, start: u64, end: u64) {
        let request = [start, end].map(u64::to_le_bytes).concat();
        self.requests.write_all(&request).expect("it reads");
    }

    fn end(&mut self) -> Vec<ThreadRun> {
        let mut number = || read(&mut self.replies).expect("it replies");
        let threads = (0..self.threads).map(|_| {
            let (acquired, waits) = (number(), number());
            let waits = (0..waits).map(|_| number()).collect();
            ThreadRun { acquired, waits }
        });
        threads.collect()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Processes that run at the same time, and what they did in all windows.
pub struct Group {
    workers: Vec<Worker>,
    pub totals: Totals,
    /// For each process: its share in the acquisitions of all, in each window.
    shares: Vec<Vec<f64>>,
}

impl Group {
    pub fn start(specs: &[Spec]) -> Self {
        Self {
            workers: specs.iter().map(Worker::start).collect(),
            totals: Totals::default(),
            shares: vec![Vec::new(); specs.len()],
        }
    }

    /// Runs some windows of each group in turn.
    pub fn alternate(groups: &mut [Self], rounds: usize, window: Duration) {
        alternate(rounds, groups.len(), |group, is_counted| {
            groups[group].run(window, is_counted);
        });
    }

    fn run(&mut self, window: Duration, is_counted: bool) {
        let start = after(LEAD);
        for worker in &mut self.workers {
            worker.begin(start, start + nanos(window));
        }
        let runs: Vec<_> = self.workers.iter_mut().map(Worker::end).collect();
        if is_counted {
            let count = |of: &Vec<ThreadRun>| of.iter().map(|run| run.acquired).sum::<u64>();
            let counts: Vec<u64> = runs.iter().map(count).collect();
            let all = counts.iter().sum::<u64>().max(1);
            for (shares, count) in self.shares.iter_mut().zip(counts) {
                shares.push(count as f64 / all as f64);
            }
            self.totals.add(runs.iter().flatten(), window);
        }
    }

    /// The share of each process in the acquisitions of all, in its median window.
    pub fn shares(&self) -> impl Iterator<Item = f64> {
        self.shares.iter().map(|shares| median(shares))
    }

    /// The smallest share of a process, in the median window.
    pub fn smallest_share(&self) -> f64 {
        let windows = 0..self.shares[0].len();
        let smallest = windows.map(|window| {
            let shares = self.shares.iter().map(|shares| shares[window]);
            shares.fold(1.0, f64::min)
        });
        median(&smallest.collect::<Vec<_>>())
    }
}
