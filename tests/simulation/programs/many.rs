//! Many clients with one thread each hold one lock for short times, so the line is long.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use leasehold_simulation_world::random;

use crate::args::Args;
use crate::worker_thread::{Hold, MAX_DEPTH, WorkerThread};

pub fn adapt(args: &mut Args) {
    args.processes = 10 + u32::try_from(random::between(0..=30)).expect("it is small");
    (args.threads, args.locks) = (1, 1);
}

pub fn run(mut thread: WorkerThread<'_>) {
    while !thread.stop.load(Ordering::Relaxed) {
        let at = thread.target(0);
        if let Some((call, style)) = thread.take(at, None) {
            // Nothing is nested in it, and it is never long.
            let depth = MAX_DEPTH;
            let hold = Hold { at, call, depth };
            thread.work(hold, &style);
            thread.release(hold, style);
        }
        let most = [0, 4, 100, 1000][thread.random.usize(0..4)];
        thread::sleep(Duration::from_millis(thread.random.u64(0..=most)));
    }
}
