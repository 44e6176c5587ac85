//! Holds and clients that end before their work does: locks that other clients break, locks that
//! are kept after their holds, and in every second process clients that are shut down or dropped.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use leasehold::{Error, LockClient};
use leasehold_simulation_world::processes::ProcessId;

use super::held::exclusive;
use crate::args::Args;
use crate::client_id;
use crate::clock;
use crate::event_log::EventLog;
use crate::hold_style::HoldStyle;
use crate::kind::Kind;
use crate::log::{Event, Log};
use crate::worker_thread::{Hold, MAX_DEPTH, WorkerThread, nanos};

/// The most locks.
const LOCKS: u32 = 3;

/// The longest time for which a lock is kept after its hold.
pub const KEPT: Duration = Duration::from_millis(100);

/// How much earlier Redis may end a lease.
const PRECISION: Duration = Duration::from_millis(1);

/// How many calls and failovers can break each lock now, and when the last one ended.
static BREAKING: [AtomicU64; LOCKS as usize] = [const { AtomicU64::new(0) }; LOCKS as usize];
static BROKEN: [AtomicU64; LOCKS as usize] = [const { AtomicU64::new(0) }; LOCKS as usize];

pub fn adapt(args: &mut Args) {
    args.kind = match args.kind {
        Some(Kind::Permits(_) | Kind::Semaphore(_) | Kind::Fair) => Some(Kind::Reentrant),
        other => other,
    };
    (args.locks, args.processes) = (args.locks.min(LOCKS), args.processes.max(2));
}

/// A lock may be broken until [`end_breaking`], such as by a failover: a lock that is kept is not
/// known to be held.
pub fn begin_breaking(lock: u32) {
    if let Some(breaking) = BREAKING.get(lock as usize) {
        breaking.fetch_add(1, Ordering::Relaxed);
    }
}

pub fn end_breaking(lock: u32) {
    if let Some((breaking, broken)) = BREAKING.iter().zip(&BROKEN).nth(lock as usize) {
        breaking.fetch_sub(1, Ordering::Relaxed);
        broken.store(clock::now(), Ordering::Relaxed);
    }
}

/// True if the clients of this process are shut down and dropped.
pub fn is_short_lived(process: ProcessId) -> bool {
    process.is_multiple_of(2)
}

/// Of a process with one client.
pub fn run(client: &LockClient, thread: WorkerThread<'_>) {
    let kept = Vec::new();
    let mut breaker = Breaker {
        client,
        thread,
        kept,
    };
    while !breaker.thread.stop.load(Ordering::Relaxed) {
        let lock = breaker.thread.random.u32(0..breaker.thread.args.locks);
        match breaker.thread.random.u8(..) {
            0..8 => breaker.break_lock(lock),
            8..40 => breaker.keep(lock),
            _ => breaker.thread.round(),
        }
        breaker.log_kept();
    }
}

struct Breaker<'a> {
    client: &'a LockClient,
    thread: WorkerThread<'a>,
    kept: Vec<Kept>,
}

/// A hold whose lock is kept in Redis.
struct Kept {
    lock: u32,
    call: u64,
    from: u64,
    until: u64,
}

impl Breaker<'_> {
    fn break_lock(&mut self, lock: u32) {
        let budget = self.thread.budget_for_a_reply();
        let log = &mut self.thread.event_log;
        let call = log.asks(exclusive(lock), Some(budget), "force_unlock".into());
        let from = clock::now();
        begin_breaking(lock);
        let result = self.client.force_unlock(&Args::key(lock));
        end_breaking(lock);
        if !matches!(result, Ok(false)) {
            let token = None;
            log.note(Event::Deleted { lock, from, token });
        }
        match result {
            Ok(was_held) => log.answered(call, &format!("{was_held}")),
            Err(error) => log.failed(call, &error, false),
        }
    }

    /// Acquires a lock, and keeps it after the hold.
    fn keep(&mut self, lock: u32) {
        let at = exclusive(lock);
        let call = self.thread.event_log.asks(at, None, "acquire".into());
        let result = self.thread.tested(at).acquire(at.access);
        let held = self.thread.log_result(call, None, result.map(Some), false);
        let Some((call, style)) = held else {
            return;
        };
        let HoldStyle::Guard(guard) = style else {
            let depth = MAX_DEPTH;
            return self.thread.release(Hold { at, call, depth }, style);
        };
        let time = Duration::from_millis(1) + KEPT.mul_f64(self.thread.random.f64());
        let budget = self.thread.budget_to_unlock();
        let log = &mut self.thread.event_log;
        let unlock = log.asks(at, Some(budget), format!("unlock_after {time:?}"));
        let from = clock::now();
        match guard.unlock_after(time) {
            Ok(()) => {
                log.answered(unlock, "unlocked");
                // Less what the clock of the server may gain, and its precision: Redis counts whole
                // milliseconds, from the begin of one.
                let until = from + nanos(time.mul_f64(0.99).saturating_sub(PRECISION));
                self.kept.push(Kept {
                    lock,
                    call,
                    from,
                    until,
                });
            }
            Err(error) => log.failed(unlock, &error, matches!(error, Error::Lost { .. })),
        }
    }

    /// A lock that was kept until now, and that no client has broken, was held until now.
    fn log_kept(&mut self) {
        let now = clock::now();
        for kept in self.kept.extract_if(.., |kept| kept.until < now) {
            let is_breaking = BREAKING[kept.lock as usize].load(Ordering::Relaxed) > 0;
            let broken = BROKEN[kept.lock as usize].load(Ordering::Relaxed);
            if !is_breaking && broken < kept.from {
                self.thread.event_log.vouches(kept.call, kept.until);
            }
        }
    }
}

/// Uses a client for some time, and ends it. `number` counts those of the process.
pub fn use_briefly(
    (args, log): (&'static Args, &'static Log),
    process: ProcessId,
    client: LockClient,
    number: u32,
) {
    let ended: &'static AtomicBool = Box::leak(Box::default());
    let first = number * 100;
    let mut random = WorkerThread::new(args, &client, log, process, first, ended).random;
    client_id::log(&client, process, log, ended);
    let threads = (1..=args.threads).map(|number| {
        let client = client.clone();
        thread::spawn(move || {
            let number = first + number;
            let thread = WorkerThread::new(args, &client, log, process, number, ended);
            drop(client);
            use_until_shutdown(thread);
        })
    });
    let threads: Vec<_> = threads.collect();
    thread::sleep(args.lease().mul_f64(random.f64() * 3.0));
    if random.bool() {
        let mut log = EventLog::new(log, first);
        let timeout = args.lease();
        let call = log.asks(exclusive(0), Some(timeout), "shutdown".into());
        match client.shutdown(timeout) {
            Ok(()) => log.answered(call, "shut down"),
            Err(error) => log.failed(call, &error, false),
        }
    }
    ended.store(true, Ordering::Relaxed);
    drop(client);
    for thread in threads {
        thread.join().expect("it logs its errors");
    }
}

fn use_until_shutdown(mut thread: WorkerThread<'_>) {
    while !thread.stop.load(Ordering::Relaxed) {
        let lock = thread.random.u32(0..thread.args.locks);
        let at = thread.target(lock);
        let call = thread.event_log.asks(at, None, "acquire".into());
        let result = thread.tested(at).acquire(at.access);
        if let Err(error @ Error::ShutDown { .. }) = &result {
            return thread.event_log.answered(call, &error.to_string());
        }
        let Some((call, style)) = thread.log_result(call, None, result.map(Some), false) else {
            continue;
        };
        let until = clock::now() + nanos(thread.hold_time(1));
        loop {
            let now = clock::now();
            if !style.is_valid(thread.tested(at)) {
                break;
            }
            thread.event_log.vouches(call, now);
            if now >= until {
                break;
            }
            thread.idle(Duration::from_millis(3));
        }
        let depth = MAX_DEPTH;
        thread.release(Hold { at, call, depth }, style);
    }
}
