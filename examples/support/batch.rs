//! A batch of work: threads that increment sums. Each sum has its own lock.

use std::{
    fmt,
    sync::Arc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError, bounded};
use leasehold::Error;
use parking_lot::Mutex;

use crate::{support::Result, timeline::Timeline};

/// The time between the read and the write of one increment.
pub const WORK: Duration = Duration::from_millis(5);
/// How long a thread waits for a lock.
pub const WAIT: Duration = Duration::from_secs(10);
const TICK: Duration = Duration::from_secs(1);

/// A sum and the lock that protects it.
pub trait Sum: Send + Sync {
    /// Increments the sum under the lock, and counts the result in `tally`.
    fn add_one(&self, tally: &Mutex<Tally>) -> leasehold::Result<()>;

    fn value(&self) -> u64;
}

/// Sums, and the threads that increment them at random.
pub struct Group {
    pub label: String,
    pub sums: Vec<Box<dyn Sum>>,
    pub threads: usize,
}

/// Running threads. Dropping this value stops them.
pub struct Batch {
    groups: Arc<[GroupState]>,
    threads: Vec<JoinHandle<()>>,
    /// Dropped to stop the threads.
    running: Option<Sender<()>>,
}

struct GroupState {
    label: String,
    sums: Vec<Box<dyn Sum>>,
    /// The counts of all threads of the group.
    tally: Mutex<Tally>,
}

/// The counts of a group.
#[derive(Clone)]
pub struct Tally {
    done: u64,
    /// Holders that lost the lock.
    lost: u64,
    /// Writes that the sum rejected, because it had seen a greater token.
    rejected: u64,
    /// Calls that failed because Redis did not reply in time.
    unavailable: u64,
    /// The longest time without an increment.
    idle: Duration,
    /// An unexpected error.
    failure: Option<String>,
    last: Instant,
}

impl Batch {
    pub fn start(timeline: Timeline, groups: Vec<Group>) -> Self {
        let sizes: Vec<usize> = groups.iter().map(|group| group.threads).collect();
        let groups: Arc<[GroupState]> = groups
            .into_iter()
            .map(|group| GroupState {
                label: group.label,
                sums: group.sums,
                tally: Mutex::new(Tally::new()),
            })
            .collect();
        let (running, ended) = bounded::<()>(0);
        let members = sizes.iter().enumerate();
        let mut threads: Vec<_> = members
            .flat_map(|(index, &size)| std::iter::repeat_n(index, size))
            .map(|index| {
                let (groups, ended) = (Arc::clone(&groups), ended.clone());
                thread::spawn(move || groups[index].work(&ended))
            })
            .collect();
        let reported = Arc::clone(&groups);
        threads.push(thread::spawn(move || {
            print_progress(&reported, timeline, &ended);
        }));
        Self {
            groups,
            threads,
            running: Some(running),
        }
    }

    /// Waits until each group has incremented a sum since this call.
    pub fn await_work(&self) -> Result<()> {
        let start = Instant::now();
        for group in self.groups.iter() {
            while group.tally.lock().last < start {
                if start.elapsed() > WAIT {
                    return Err(format!("{} makes no progress", group.label).into());
                }
                thread::sleep(WORK);
            }
        }
        Ok(())
    }

    /// Stops the threads, prints the results, and fails if a sum is not exact.
    pub fn end(mut self) -> Result<()> {
        self.stop();
        println!();
        for group in self.groups.iter() {
            let tally = group.tally.lock().clone();
            let sum: u64 = group.sums.iter().map(|sum| sum.value()).sum();
            println!("{}: {tally}; the sum is {sum}", group.label);
            if let Some(failure) = tally.failure {
                return Err(failure.into());
            }
            if sum != tally.done {
                return Err(format!("the sum of {} is not exact", group.label).into());
            }
        }
        Ok(())
    }

    fn stop(&mut self) {
        self.running = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.stop();
    }
}

impl GroupState {
    fn work(&self, ended: &Receiver<()>) {
        while ended.try_recv() == Err(TryRecvError::Empty) {
            let sum = &self.sums[fastrand::usize(..self.sums.len())];
            if let Err(error) = sum.add_one(&self.tally) {
                self.tally.lock().note(&error);
            }
        }
    }
}

impl Tally {
    fn new() -> Self {
        Self {
            done: 0,
            lost: 0,
            rejected: 0,
            unavailable: 0,
            idle: Duration::ZERO,
            failure: None,
            last: Instant::now(),
        }
    }

    /// Counts a rejected late write.
    #[allow(dead_code, reason = "only fenced sums reject writes")]
    pub fn note_rejected(&mut self) {
        self.rejected += 1;
    }

    pub fn note_done(&mut self) {
        self.done += 1;
        self.idle = self.idle.max(self.last.elapsed());
        self.last = Instant::now();
    }

    fn note(&mut self, error: &Error) {
        match error {
            Error::Lost { .. } => self.lost += 1,
            Error::Unavailable { .. } | Error::NotReleased { .. } => self.unavailable += 1,
            error => self.failure = Some(error.to_string()),
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let idle = self.idle.as_secs_f64();
        write!(
            f,
            "{} increments, at most {idle:.2} s without one; {} holders lost the lock,
   {} late writes were rejected, {} calls had no reply in time",
            self.done, self.lost, self.rejected, self.unavailable
        )
    }
}

/// Prints every second how many increments each group has done in it.
fn print_progress(groups: &[GroupState], timeline: Timeline, ended: &Receiver<()>) {
    let mut before = vec![0; groups.len()];
    while ended.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
        let counts = groups.iter().zip(&mut before).map(|(group, before)| {
            let done = group.tally.lock().done;
            let new = done - std::mem::replace(before, done);
            format!("{} {new:3}", group.label)
        });
        let counts: Vec<_> = counts.collect();
        timeline.print(format_args!(
            "increments in the last second: {}",
            counts.join("  ")
        ));
    }
}
