//! A batch of work: threads that add to sums, each time under the lock of the sum.

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

/// How long one addition takes, between its look at the sum and its write.
pub const WORK: Duration = Duration::from_millis(5);
/// How long one waits for a lock.
pub const PATIENCE: Duration = Duration::from_secs(10);
const TICK: Duration = Duration::from_secs(1);

/// What a lock protects.
pub trait Sum: Send + Sync {
    /// Adds one under the lock, and notes whether that was done.
    fn add_one(&self, tally: &Mutex<Tally>) -> leasehold::Result<()>;

    fn value(&self) -> u64;
}

/// Some sums and the threads that work on them, whichever is drawn.
pub struct Crew {
    pub label: String,
    pub sums: Vec<Box<dyn Sum>>,
    pub threads: usize,
}

/// Works until it is ended or dropped.
pub struct Batch {
    crews: Arc<[Working]>,
    threads: Vec<JoinHandle<()>>,
    /// The threads end when it is gone.
    going_on: Option<Sender<()>>,
}

struct Working {
    label: String,
    sums: Vec<Box<dyn Sum>>,
    /// What its threads report.
    tally: Mutex<Tally>,
}

/// What came of it.
#[derive(Clone)]
pub struct Tally {
    done: u64,
    /// Told by the lock that it is held no longer.
    lost: u64,
    /// Refused by the sum: a later holder was there.
    refused: u64,
    /// Calls that had no answer in their time.
    unanswered: u64,
    /// The longest time in which nothing was done.
    idle: Duration,
    /// An error of a kind that nobody expects.
    failure: Option<String>,
    last: Instant,
}

impl Batch {
    pub fn start(timeline: Timeline, crews: Vec<Crew>) -> Self {
        let sizes: Vec<usize> = crews.iter().map(|crew| crew.threads).collect();
        let crews: Arc<[Working]> = crews
            .into_iter()
            .map(|crew| Working {
                label: crew.label,
                sums: crew.sums,
                tally: Mutex::new(Tally::new()),
            })
            .collect();
        let (going_on, ended) = bounded::<()>(0);
        let members = sizes.iter().enumerate();
        let mut threads: Vec<_> = members
            .flat_map(|(index, &size)| std::iter::repeat_n(index, size))
            .map(|index| {
                let (crews, ended) = (Arc::clone(&crews), ended.clone());
                thread::spawn(move || crews[index].work(&ended))
            })
            .collect();
        let told = Arc::clone(&crews);
        threads.push(thread::spawn(move || tell(&told, timeline, &ended)));
        Self {
            crews,
            threads,
            going_on: Some(going_on),
        }
    }

    /// Returns when every crew has done something from here on.
    pub fn await_work(&self) -> Result<()> {
        let start = Instant::now();
        for crew in self.crews.iter() {
            while crew.tally.lock().last < start {
                if start.elapsed() > PATIENCE {
                    return Err(format!("{} does not go on", crew.label).into());
                }
                thread::sleep(WORK);
            }
        }
        Ok(())
    }

    /// Ends the work, says what came of it, and fails if a sum is not exact.
    pub fn end(mut self) -> Result<()> {
        self.stop();
        println!();
        for crew in self.crews.iter() {
            let tally = crew.tally.lock().clone();
            let sum: u64 = crew.sums.iter().map(|sum| sum.value()).sum();
            println!("{}: {tally}, and the sum is {sum}", crew.label);
            if let Some(failure) = tally.failure {
                return Err(failure.into());
            }
            if sum != tally.done {
                return Err(format!("the sum of {} is not exact", crew.label).into());
            }
        }
        Ok(())
    }

    fn stop(&mut self) {
        self.going_on = None;
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

impl Working {
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
            refused: 0,
            unanswered: 0,
            idle: Duration::ZERO,
            failure: None,
            last: Instant::now(),
        }
    }

    /// A write came late.
    #[allow(dead_code, reason = "not every kind of sum can tell")]
    pub fn note_refused(&mut self) {
        self.refused += 1;
    }

    pub fn note_done(&mut self) {
        self.done += 1;
        self.idle = self.idle.max(self.last.elapsed());
        self.last = Instant::now();
    }

    fn note(&mut self, error: &Error) {
        match error {
            Error::Lost { .. } => self.lost += 1,
            Error::Unavailable { .. } => self.unanswered += 1,
            error => self.failure = Some(error.to_string()),
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let idle = self.idle.as_secs_f64();
        write!(
            f,
            "for {idle:.2} s at most nothing was done; {} holders were told of a loss, {} late writes refused,
   {} calls had no answer in their time; {} additions",
            self.lost, self.refused, self.unanswered, self.done
        )
    }
}

/// Says every second what was done in it.
fn tell(crews: &[Working], timeline: Timeline, ended: &Receiver<()>) {
    let mut before = vec![0; crews.len()];
    while ended.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
        let counts = crews.iter().zip(&mut before).map(|(crew, before)| {
            let done = crew.tally.lock().done;
            let new = done - std::mem::replace(before, done);
            format!("{} {new:3}", crew.label)
        });
        let counts: Vec<_> = counts.collect();
        timeline.tell(format_args!("done in a second: {}", counts.join("  ")));
    }
}
