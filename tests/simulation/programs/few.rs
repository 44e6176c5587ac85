//! Few clients use one lock. They often pause, so no request of another client helps one that
//! waits. And what they do begins and ends at the same moments, so their requests meet at the
//! server: one gives up while another one calls it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use leasehold::Lease;
use leasehold_simulation_world::random;

use crate::args::Args;
use crate::clock;
use crate::hold_style::HoldStyle;
use crate::kind::Kind;
use crate::worker_thread::{Hold, Target, WorkerThread, nanos};

/// The time from one of the moments to the next.
const BEAT: Duration = Duration::from_millis(50);

/// The number of beats from one round to the next. In each round a thread does little, most of it
/// at the first beat, and then nothing.
const ROUND: u64 = 30;

/// For how many beats threads wait and hold the lock; 0: no time.
const WAITS: [u64; 8] = [0, 0, 1, 1, 1, 4, 20, 200];
const HOLDS: [u64; 24] = [
    0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 20, 20, 160,
];

/// After how long a client that was called and does not wait leaves the line.
const LEAVES: Duration = Duration::from_millis(10);

/// For how many beats a thread waits that wants more permits than there are.
const TOO_MANY: u64 = 120;

pub fn adapt(args: &mut Args) {
    args.processes = 3 + u32::try_from(random::between(0..=5)).expect("it is small");
    // A thread that wants one permit waits for the threads of its client that want several.
    let most = match args.kind_of(0) {
        Kind::Semaphore(_) => 1,
        _ => 2,
    };
    (args.threads, args.locks) = (args.threads.min(most), 1);
    // With a long one, no client asks soon because the lease of the holder may have ended.
    args.lease = [500, 500, 500, 2000][random::index(4)];
}

pub fn run(mut thread: WorkerThread<'_>) {
    // So long that the process does not subscribe before a calm has lasted for some time.
    pause(thread.stop, &mut thread.random);
    while !thread.stop.load(Ordering::Relaxed) {
        pause(thread.stop, &mut thread.random);
        let at = thread.target(0);
        let beats = one_of(&mut thread.random, &HOLDS);
        if let Some((call, style)) = take(&mut thread, at, beats) {
            let hold = Hold { at, call, depth: 1 };
            let time = until_beat(beats) + late(&mut thread.random);
            work(&mut thread, hold, &style, time);
            thread.release(hold, style);
        }
    }
}

/// Pauses until the next round, or sometimes not, or until its client leaves a line because it was
/// called and does not wait any more.
pub fn pause(stop: &AtomicBool, random: &mut Rng) {
    match random.u8(0..8) {
        0 => {}
        1 => thread::sleep(LEAVES + Duration::from_micros(random.u64(0..=300))),
        _ => {
            let beats = ROUND - clock::now() / nanos(BEAT) % ROUND;
            for _ in 0..beats {
                if !stop.load(Ordering::Relaxed) {
                    thread::sleep(until_beat(1));
                }
            }
            if random.u8(0..4) == 0 {
                // When others give up, or release the lock.
                thread::sleep(until_beat(1) + late(random));
            }
        }
    }
}

/// How long a thread waits for the lock.
pub fn wait(random: &mut Rng) -> Duration {
    until_beat(one_of(random, &WAITS)) + late(random)
}

/// How long a thread holds the lock.
pub fn hold_time(random: &mut Rng) -> Duration {
    until_beat(one_of(random, &HOLDS)) + late(random)
}

fn one_of(random: &mut Rng, beats: &[u64]) -> u64 {
    beats[random.usize(0..beats.len())]
}

/// How much later than a beat a thread does something.
fn late(random: &mut Rng) -> Duration {
    let most = [0, 0, 0, 1000][random.usize(0..4)];
    Duration::from_micros(random.u64(0..=most))
}

/// The time to the next beat with this number; 0: no time.
fn until_beat(number: u64) -> Duration {
    let (now, beat) = (clock::now(), nanos(BEAT));
    match number {
        0 => Duration::ZERO,
        _ => Duration::from_nanos((now / beat + number) * beat - now),
    }
}

/// Acquires the lock for a hold of this number of beats.
fn take(thread: &mut WorkerThread<'_>, at: Target, beats: u64) -> Option<(u64, HoldStyle)> {
    let wait = match thread.random.u8(0..8) {
        _ if thread.args.wants_too_many => until_beat(TOO_MANY),
        0 => return thread.take(at, None),
        1..4 => return thread.lock(at, None),
        4..6 => {
            let after = wait(&mut thread.random);
            return thread.lock_interruptibly(at, after);
        }
        _ => wait(&mut thread.random),
    };
    let lease = match beats > 1 {
        true => Lease::RENEWED,
        false => thread.lease(),
    };
    let what = format!("try_acquire {wait:?} {lease:?}");
    let budget = thread.budget_to_try(wait);
    let call = thread.event_log.asks(at, Some(budget), what);
    let result = thread.tested(at).try_acquire(at.access, wait, lease);
    thread.log_result(call, None, result, false)
}

/// Checks the hold for this time.
fn work(thread: &mut WorkerThread<'_>, hold: Hold, style: &HoldStyle, time: Duration) {
    let until = clock::now() + nanos(time);
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
