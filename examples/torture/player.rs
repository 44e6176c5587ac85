//! One thread of a worker: takes a lock in some way, holds it, gives it back, again and again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use leasehold::{Error, FencedLock, Interrupt, Lease, LockClient};

use crate::args::Args;
use crate::clock;
use crate::diary::Diary;
use crate::grip::Grip;
use crate::log::Log;

/// A reply that is on its way when a wait ends is waited for so much longer, as the library says.
const GRACE: Duration = Duration::from_millis(250);

const DEEPEST: u32 = 3;

pub struct Player<'a> {
    args: &'a Args,
    locks: Vec<FencedLock>,
    diary: Diary<'a>,
    random: fastrand::Rng,
    stop: &'a AtomicBool,
}

/// A hold of this thread: the number of the call that took it, and its lock.
#[derive(Clone, Copy)]
struct Hold {
    lock: u32,
    call: u64,
    depth: u32,
}

impl<'a> Player<'a> {
    pub fn new(
        args: &'a Args,
        client: &LockClient,
        log: &'a Log,
        process: u32,
        thread: u32,
        stop: &'a AtomicBool,
    ) -> Self {
        let locks = (0..args.locks).map(|lock| client.fenced_lock(&Args::key(lock)));
        let seed = args.seed.unwrap_or(0);
        let own = u64::from(process) << 32 | u64::from(thread);
        Self {
            args,
            locks: locks.collect(),
            diary: Diary::new(log, thread),
            random: fastrand::Rng::with_seed(seed.wrapping_add(own)),
            stop,
        }
    }

    pub fn play(mut self) {
        while !self.stop.load(Ordering::Relaxed) {
            let lock = self.random.u32(0..self.args.locks);
            if let Some((call, grip)) = self.take(lock, None) {
                let hold = Hold {
                    lock,
                    call,
                    depth: 1,
                };
                self.work(hold, &grip);
                self.give_back(hold, grip);
                if self.random.u8(..) < 8 {
                    self.give_back_in_vain(lock);
                }
            }
            self.idle(Duration::from_millis(4));
        }
    }

    /// Some way to a lock, or, in `hold`, to a further level of it.
    fn take(&mut self, lock: u32, hold: Option<u64>) -> Option<(u64, Grip)> {
        match self.random.u8(0..10) {
            0..2 => self.lock(lock, hold),
            2..4 => self.acquire(lock, hold),
            4..6 => self.try_lock(lock, hold),
            6..8 => self.try_acquire(lock, hold),
            _ if hold.is_none() => self.lock_interruptibly(lock),
            _ => self.lock(lock, hold),
        }
    }

    fn lock(&mut self, at: u32, hold: Option<u64>) -> Option<(u64, Grip)> {
        let lease = self.lease();
        let budget = self.budget_to_lock(hold);
        let call = self.diary.asks(at, budget, format!("lock_with {lease:?}"));
        let result = self.locks[at as usize].lock_with(lease);
        self.taken(call, hold, result.map(|()| Some(Grip::Hand)), false)
    }

    fn acquire(&mut self, at: u32, hold: Option<u64>) -> Option<(u64, Grip)> {
        let budget = self.budget_to_lock(hold);
        let call = self.diary.asks(at, budget, "acquire".into());
        let result = self.locks[at as usize].acquire();
        self.taken(
            call,
            hold,
            result.map(|guard| Some(Grip::Guard(guard))),
            false,
        )
    }

    fn try_lock(&mut self, at: u32, hold: Option<u64>) -> Option<(u64, Grip)> {
        let (wait, lease) = (self.wait(), self.lease());
        let what = format!("try_lock {wait:?} {lease:?}");
        let call = self.diary.asks(at, Some(self.budget_to_try(wait)), what);
        let result = self.locks[at as usize].try_lock(wait, lease);
        let result = result.map(|taken| taken.then_some(Grip::Hand));
        self.taken(call, hold, result, false)
    }

    fn try_acquire(&mut self, at: u32, hold: Option<u64>) -> Option<(u64, Grip)> {
        let (wait, lease) = (self.wait(), self.lease());
        let what = format!("try_acquire {wait:?} {lease:?}");
        let call = self.diary.asks(at, Some(self.budget_to_try(wait)), what);
        let result = self.locks[at as usize].try_acquire(wait, lease);
        let result = result.map(|guard| guard.map(Grip::Guard));
        self.taken(call, hold, result, false)
    }

    /// Half of the interrupts come, and half never do.
    fn lock_interruptibly(&mut self, at: u32) -> Option<(u64, Grip)> {
        let lease = self.lease();
        let interrupt = Interrupt::new();
        let (args, after) = (self.args, self.wait());
        let comes = self.random.bool();
        // The attempt under way is awaited.
        let attempt = args.pool_timeout() + args.connect_timeout() + args.command_timeout();
        let what = format!("lock_interruptibly {after:?} {comes} {lease:?}");
        let call = self.diary.asks(at, comes.then_some(after + attempt), what);
        if comes {
            let interrupt = interrupt.clone();
            thread::spawn(move || {
                thread::sleep(after);
                interrupt.interrupt();
            });
        }
        let result = self.locks[at as usize].lock_interruptibly(lease, &interrupt);
        self.taken(call, None, result.map(|()| Some(Grip::Hand)), comes)
    }

    fn taken(
        &self,
        call: u64,
        hold: Option<u64>,
        result: leasehold::Result<Option<Grip>>,
        interrupts: bool,
    ) -> Option<(u64, Grip)> {
        match result {
            Ok(Some(grip)) => {
                self.diary.has(call, hold, grip.token());
                return Some((call, grip));
            }
            Ok(None) if hold.is_none() => self.diary.answered(call, "held by another"),
            // A thread is never another to itself.
            Ok(None) => self.diary.wrong(call, "held by another"),
            Err(error) => {
                let allowed = match error {
                    Error::Lost { .. } => hold.is_some(),
                    Error::Interrupted { .. } => interrupts,
                    _ => false,
                };
                self.diary.failed(call, &error, allowed);
            }
        }
        None
    }

    /// Looks again and again whether the hold stands, and does now and then what holders do.
    fn work(&mut self, hold: Hold, grip: &Grip) {
        let until = clock::now() + nanos(self.stint(hold.depth));
        loop {
            let now = clock::now();
            if !grip.stands(&self.locks[hold.lock as usize]) {
                return;
            }
            self.diary.vouches(hold.call, now);
            if now >= until {
                return;
            }
            match self.random.u8(..) {
                0..16 if hold.depth < DEEPEST => self.nest(hold),
                16..20 => self.extend(hold, grip),
                _ => self.idle(Duration::from_millis(3)),
            }
        }
    }

    fn nest(&mut self, hold: Hold) {
        if let Some((_, grip)) = self.take(hold.lock, Some(hold.call)) {
            let inner = Hold {
                depth: hold.depth + 1,
                ..hold
            };
            self.work(inner, &grip);
            self.give_back(inner, grip);
        }
    }

    fn extend(&mut self, hold: Hold, grip: &Grip) {
        let Grip::Guard(guard) = grip else { return };
        let (by, budget) = (self.args.longest_lease(), self.budget_for_an_answer());
        let call = self.diary.asks(hold.lock, Some(budget), "extend".into());
        match guard.extend(by) {
            Ok(()) => self.diary.answered(call, "extended"),
            Err(error) => {
                let lost = matches!(error, Error::Lost { .. });
                self.diary.failed(call, &error, lost);
            }
        }
    }

    fn give_back(&mut self, hold: Hold, grip: Grip) {
        let timeout = self.args.command_timeout();
        let drops = matches!(grip, Grip::Guard(_)) && self.random.u8(..) < 64;
        let (budget, what) = if drops {
            (self.budget_for_an_answer(), "drop")
        } else {
            (timeout * 3 + GRACE.min(timeout), "unlock")
        };
        let call = self.diary.asks(hold.lock, Some(budget), what.into());
        let before = clock::now();
        let result = match grip {
            Grip::Guard(guard) if drops => {
                drop(guard);
                return self.diary.answered(call, "dropped");
            }
            Grip::Guard(guard) => guard.unlock(),
            Grip::Hand => self.locks[hold.lock as usize].unlock(),
        };
        match result {
            Ok(()) => {
                // It was not lost before.
                self.diary.vouches(hold.call, before);
                self.diary.answered(call, "unlocked");
            }
            Err(error) => {
                let lost = matches!(error, Error::Lost { .. });
                self.diary.failed(call, &error, lost);
            }
        }
    }

    /// A lock that this thread does not hold.
    fn give_back_in_vain(&mut self, at: u32) {
        let call = self.diary.asks(at, Some(GRACE), "unlock in vain".into());
        match self.locks[at as usize].unlock() {
            Err(error @ Error::NotHeld { .. }) => self.diary.answered(call, &error.to_string()),
            other => self.diary.wrong(call, &format!("{other:?}")),
        }
    }

    /// A first level waits for other holders without end; a further one only for answers.
    fn budget_to_lock(&self, hold: Option<u64>) -> Option<Duration> {
        hold.map(|_| self.args.command_timeout() * 10)
    }

    fn budget_to_try(&self, wait: Duration) -> Duration {
        wait.max(self.args.command_timeout()) + GRACE
    }

    fn budget_for_an_answer(&self) -> Duration {
        self.args.command_timeout() + GRACE
    }

    fn lease(&mut self) -> Lease {
        match self.random.u8(0..8) {
            0..4 => Lease::RENEWED,
            4 => Lease::renewed_at_most(self.random.u32(1..4)),
            _ => {
                let longest = self.args.longest_lease();
                Lease::fixed(longest.mul_f64(0.1 + 0.9 * self.random.f64()))
            }
        }
    }

    fn wait(&mut self) -> Duration {
        match self.random.u8(0..3) {
            0 => Duration::ZERO,
            _ => self.args.lease().mul_f64(self.random.f64()),
        }
    }

    /// How long to hold. Mostly not for long, but often enough for longer than a lease.
    fn stint(&mut self, depth: u32) -> Duration {
        let part = self.random.f64();
        let whole = match self.random.u8(0..100) {
            0..8 if depth == 1 => self.args.lease() * 2,
            8..20 => self.args.lease() / 4,
            _ => Duration::from_millis(10),
        };
        whole.mul_f64(part)
    }

    fn idle(&mut self, most: Duration) {
        thread::sleep(most.mul_f64(self.random.f64()));
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
