//! Few clients use one lock. They often pause, so no request of another client helps one that
//! waits. And what they do begins and ends at the same moments, so their requests meet at the
//! server: one gives up while another one calls it.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use leasehold::Lease;
use leasehold_simulation_world::random;

use crate::args::Args;
use crate::clock;
use crate::hold_style::HoldStyle;
use crate::kind::Kind;
use crate::worker_thread::{Hold, Target, WorkerThread, nanos};

/// The time from one of the moments to the next.
const BEAT: Duration = Duration::from_millis(50);

/// For how many beats threads wait, hold the lock, and pause.
const WAITS: [u64; 4] = [0, 1, 4, 100];
const HOLDS: [u64; 4] = [0, 0, 1, 100];
const PAUSES: [u64; 4] = [0, 1, 20, 200];

/// For how long a thread waits that wants more permits than there are.
const TOO_MANY: u64 = 120;

pub fn adapt(args: &mut Args) {
    args.processes = 3 + u32::try_from(random::between(0..=6)).expect("it is small");
    // A thread that wants one permit waits for the threads of its client that want several.
    let most = match args.kind_of(0) {
        Kind::Semaphore(_) => 1,
        _ => 2,
    };
    (args.threads, args.locks) = (args.threads.min(most), 1);
}

pub fn run(mut thread: WorkerThread<'_>) {
    while !thread.stop.load(Ordering::Relaxed) {
        let at = thread.target(0);
        let beats = one_of(&mut thread, HOLDS);
        if let Some((call, style)) = take(&mut thread, at, beats) {
            let hold = Hold { at, call, depth: 1 };
            work(&mut thread, hold, &style, beats);
            thread.release(hold, style);
        }
        for _ in 0..=one_of(&mut thread, PAUSES) {
            if !thread.stop.load(Ordering::Relaxed) {
                thread::sleep(until_beat(0));
            }
        }
    }
}

fn one_of(thread: &mut WorkerThread<'_>, beats: [u64; 4]) -> u64 {
    beats[thread.random.usize(0..beats.len())]
}

/// The time to the next beat but this number.
fn until_beat(number: u64) -> Duration {
    let (now, beat) = (clock::now(), nanos(BEAT));
    Duration::from_nanos((now / beat + 1 + number) * beat - now)
}

/// Acquires the lock for a hold of this number of beats.
fn take(thread: &mut WorkerThread<'_>, at: Target, beats: u64) -> Option<(u64, HoldStyle)> {
    let wait = match thread.random.u8(0..4) {
        _ if thread.args.wants_too_many => TOO_MANY,
        0 => return thread.take(at, None),
        1 => {
            let after = until_beat(one_of(thread, WAITS));
            return thread.lock_interruptibly(at, after);
        }
        _ => one_of(thread, WAITS),
    };
    let lease = if beats > 1 {
        Lease::RENEWED
    } else {
        thread.lease()
    };
    let wait = until_beat(wait);
    let what = format!("try_acquire {wait:?} {lease:?}");
    let budget = thread.budget_to_try(wait);
    let call = thread.event_log.asks(at, Some(budget), what);
    let result = thread.tested(at).try_acquire(at.access, wait, lease);
    thread.log_result(call, None, result, false)
}

/// Checks the hold for this number of beats.
fn work(thread: &mut WorkerThread<'_>, hold: Hold, style: &HoldStyle, beats: u64) {
    let until = clock::now() + nanos(until_beat(beats));
    loop {
        let now = clock::now();
        if !style.is_valid(thread.tested(hold.at)) {
            return;
        }
        thread.event_log.vouches(hold.call, now);
        if now >= until || thread.stop.load(Ordering::Relaxed) {
            return;
        }
        let left = Duration::from_nanos(until - now);
        thread::sleep(left.min(Duration::from_millis(5)));
    }
}
