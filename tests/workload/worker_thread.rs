//! One thread of a worker. In a loop it acquires a random lock by a random method, holds it, and
//! releases it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use leasehold::{Error, Interrupt, Lease, LockClient};

use crate::args::{Args, LOG_IN};
use crate::clock;
use crate::event_log::EventLog;
use crate::hold_style::{HoldStyle, TestedLock};
use crate::kind::{Access, Kind};
use crate::log::Log;

/// After its deadline a waiter still waits this long for a reply that is under way, as documented.
const GRACE: Duration = Duration::from_millis(250);

pub(crate) const MAX_DEPTH: u32 = 3;

pub struct WorkerThread<'a> {
    pub(crate) args: &'a Args,
    client: LockClient,
    pub(crate) locks: Vec<TestedLock>,
    pub(crate) event_log: EventLog<'a>,
    pub(crate) random: fastrand::Rng,
    pub(crate) stop: &'a AtomicBool,
    pub(crate) process: u32,
    pub(crate) thread: u32,
}

/// A lock by its number, and how to access it.
#[derive(Clone, Copy)]
pub struct Target {
    pub lock: u32,
    pub access: Access,
}

/// A hold of this thread, and the number of the call that acquired it.
#[derive(Clone, Copy)]
pub struct Hold {
    pub at: Target,
    pub call: u64,
    pub depth: u32,
}

impl<'a> WorkerThread<'a> {
    pub fn new(
        args: &'a Args,
        client: &LockClient,
        log: &'a Log,
        process: u32,
        thread: u32,
        stop: &'a AtomicBool,
    ) -> Self {
        let locks = (0..args.locks)
            .map(|lock| TestedLock::new(client, args.kind_of(lock), &Args::key(lock)));
        let seed = args.seed.unwrap_or(0);
        let own = u64::from(process) << 32 | u64::from(thread);
        Self {
            args,
            client: client.clone(),
            locks: locks.collect(),
            event_log: EventLog::new(log, thread),
            random: fastrand::Rng::with_seed(seed.wrapping_add(own)),
            stop,
            process,
            thread,
        }
    }

    pub fn run(mut self) {
        while !self.stop.load(Ordering::Relaxed) {
            self.round();
        }
    }

    /// Joins a rush, or acquires a lock once, and releases it.
    pub fn round(&mut self) {
        if let Some(lock) = self.rush_now() {
            return self.rush(lock);
        }
        let lock = self.random.u32(0..self.args.locks);
        if self.avoids(lock) {
            return self.idle(Duration::from_millis(4));
        }
        let at = self.target(lock);
        if self.random.u8(..) < 16 {
            self.look(at);
        }
        if let Some((call, style)) = self.take(at, None) {
            let hold = Hold { at, call, depth: 1 };
            self.work(hold, &style);
            let (hold, style) = self.downgrade(hold, style);
            self.release(hold, style);
            if self.random.u8(..) < 8 {
                self.unlock_not_held(at);
            }
        }
        self.idle(match self.args.wants_too_many {
            true => self.args.lease(),
            false => Duration::from_millis(4),
        });
    }

    /// Mostly readers use a read-write lock.
    pub(crate) fn target(&mut self, lock: u32) -> Target {
        let access = match self.args.kind_of(lock) {
            Kind::ReadWrite if self.random.u8(0..4) > 0 => Access::Shared,
            Kind::Semaphore(all) if self.args.wants_too_many => Access::Several(all + 1),
            Kind::Semaphore(all) => Access::Several(self.random.u32(1..=all)),
            _ => Access::Exclusive,
        };
        Target { lock, access }
    }

    pub(crate) fn tested(&self, at: Target) -> &TestedLock {
        &self.locks[at.lock as usize]
    }

    /// Acquires the lock by a random method; inside `hold`, a nested level of it.
    pub(crate) fn take(&mut self, at: Target, hold: Option<u64>) -> Option<(u64, HoldStyle)> {
        match self.random.u8(0..10) {
            _ if self.args.wants_too_many => self.try_acquire(at, hold),
            0..2 => self.lock(at, hold),
            2 if hold.is_none() => self.acquire_owned(at),
            2..4 => self.acquire(at, hold),
            4..6 => self.try_lock(at, hold),
            6..8 => self.try_acquire(at, hold),
            _ if hold.is_none() => {
                let after = self.wait();
                self.lock_interruptibly(at, after)
            }
            _ => self.lock(at, hold),
        }
    }

    pub(crate) fn lock(&mut self, at: Target, hold: Option<u64>) -> Option<(u64, HoldStyle)> {
        let lease = self.lease();
        let budget = self.budget_to_lock(hold);
        let call = self
            .event_log
            .asks(at, budget, format!("lock_with {lease:?}"));
        let result = self.tested(at).lock_with(at.access, lease);
        self.log_result(call, hold, result.map(Some), false)
    }

    fn acquire(&mut self, at: Target, hold: Option<u64>) -> Option<(u64, HoldStyle)> {
        let budget = self.budget_to_lock(hold);
        let call = self.event_log.asks(at, budget, "acquire".into());
        let result = self.tested(at).acquire(at.access);
        self.log_result(call, hold, result.map(Some), false)
    }

    fn acquire_owned(&mut self, at: Target) -> Option<(u64, HoldStyle)> {
        let lease = self.lease();
        let what = format!("acquire_owned {lease:?}");
        let call = self.event_log.asks(at, None, what);
        let result = self.tested(at).acquire_owned(at.access, lease);
        let through_a_token = self.random.bool();
        let result = result.and_then(|style| match through_a_token {
            true => style.through_a_token(&self.client),
            false => Ok(style),
        });
        if let Err(error @ Error::Lost { .. }) = &result {
            self.event_log.failed(call, error, through_a_token);
            return None;
        }
        self.log_result(call, None, result.map(Some), false)
    }

    fn try_lock(&mut self, at: Target, hold: Option<u64>) -> Option<(u64, HoldStyle)> {
        let (wait, lease) = (self.wait(), self.lease());
        let what = format!("try_lock {wait:?} {lease:?}");
        let call = self
            .event_log
            .asks(at, Some(self.budget_to_try(wait)), what);
        let result = self.tested(at).try_lock(at.access, wait, lease);
        self.log_result(call, hold, result, false)
    }

    fn try_acquire(&mut self, at: Target, hold: Option<u64>) -> Option<(u64, HoldStyle)> {
        let (wait, lease) = (self.wait(), self.lease());
        let what = format!("try_acquire {wait:?} {lease:?}");
        let call = self
            .event_log
            .asks(at, Some(self.budget_to_try(wait)), what);
        let result = self.tested(at).try_acquire(at.access, wait, lease);
        self.log_result(call, hold, result, false)
    }

    /// Interrupts half of the calls, after this time.
    pub(crate) fn lock_interruptibly(
        &mut self,
        at: Target,
        after: Duration,
    ) -> Option<(u64, HoldStyle)> {
        let lease = self.lease();
        let interrupt = Interrupt::new();
        let args = self.args;
        let comes = self.random.bool();
        // An interrupted call returns after the attempt under way.
        let attempt = args.connect_timeout() * 3 + args.command_timeout();
        let what = format!("lock_interruptibly {after:?} {comes} {lease:?}");
        let call = self
            .event_log
            .asks(at, comes.then_some(after + attempt), what);
        if comes {
            let interrupt = interrupt.clone();
            thread::spawn(move || {
                thread::sleep(after);
                interrupt.interrupt();
            });
        }
        let lock = self.tested(at);
        let result = lock.lock_interruptibly(at.access, lease, &interrupt);
        self.log_result(call, None, result.map(Some), comes)
    }

    pub(crate) fn log_result(
        &self,
        call: u64,
        hold: Option<u64>,
        result: leasehold::Result<Option<HoldStyle>>,
        interrupts: bool,
    ) -> Option<(u64, HoldStyle)> {
        match result {
            Ok(Some(style)) => {
                self.event_log.has(call, hold, style.token());
                return Some((call, style));
            }
            Ok(None) if hold.is_none() => self.event_log.answered(call, "held by another"),
            // This thread holds the lock already, so a nested try cannot find another holder.
            Ok(None) => self.event_log.wrong(call, "held by another"),
            Err(error) => {
                let allowed = match error {
                    Error::Lost { .. } => hold.is_some(),
                    Error::Interrupted { .. } => interrupts,
                    _ => false,
                };
                self.event_log.failed(call, &error, allowed);
            }
        }
        None
    }

    /// Checks the hold repeatedly, and sometimes nests or extends it, or writes by a query.
    pub(crate) fn work(&mut self, hold: Hold, style: &HoldStyle) {
        let mut until = clock::now() + nanos(self.hold_time(hold.depth));
        let nests = style.nests() && self.tested(hold.at).nests();
        loop {
            let now = clock::now();
            if !style.is_valid(self.tested(hold.at)) {
                return;
            }
            self.event_log.vouches(hold.call, now);
            if now >= until {
                return;
            }
            match self.random.u8(..) {
                0..16 if hold.depth < MAX_DEPTH && nests => self.nest(hold),
                16..20 => self.extend(hold, style),
                20..24 => self.look(hold.at),
                24..48 if style.queries(hold.at.access) => {
                    if !self.query(hold, style) {
                        // A copy that is under way can arrive within the hold.
                        until = now + nanos(self.args.lease());
                    }
                }
                _ => self.idle(Duration::from_millis(3)),
            }
        }
    }

    fn nest(&mut self, hold: Hold) {
        let at = match hold.at.access {
            Access::Exclusive => self.target(hold.at.lock),
            Access::Shared if hold.depth == 1 && self.random.u8(0..4) == 0 => {
                return self.upgrade(hold);
            }
            Access::Shared | Access::Several(_) => hold.at,
        };
        let levels = self.levels(at);
        if let Some((nested, style)) = self.take(at, Some(hold.call)) {
            self.check_levels(nested, at, levels + 1);
            // A read lock within a write lock is a hold of its own: it may outlast the other.
            let is_own = at.access != hold.at.access;
            let call = if is_own { nested } else { hold.call };
            let depth = hold.depth + 1;
            let inner = Hold { at, call, depth };
            self.work(inner, &style);
            self.release(inner, style);
            self.check_levels(nested, at, levels);
        }
    }

    fn extend(&mut self, hold: Hold, style: &HoldStyle) {
        if !style.has_guard() {
            return;
        }
        let (by, budget) = (self.args.longest_lease(), self.budget_for_a_reply());
        let call = self.event_log.asks(hold.at, Some(budget), "extend".into());
        match style.extend(by) {
            Ok(()) => self.event_log.answered(call, "extended"),
            Err(error) => {
                let lost = matches!(error, Error::Lost { .. });
                self.event_log.failed(call, &error, lost);
            }
        }
    }

    /// Appends the hold and the number of the call to the executed queries. False if it is unknown
    /// whether it was executed.
    fn query(&mut self, hold: Hold, style: &HoldStyle) -> bool {
        let budget = self.budget_for_a_reply();
        let call = self.event_log.asks(hold.at, Some(budget), "query".into());
        let own = format!("{}/{}/{}/{call}", self.process, self.thread, hold.call);
        let mut append = redis::pipe();
        append.rpush(Args::queries_key(hold.at.lock), own).ignore();
        let before = clock::now();
        match style.query(&append) {
            Ok(()) => {
                // It was executed, so Redis had the hold.
                self.event_log.vouches(hold.call, before);
                self.event_log.answered(call, "executed");
                true
            }
            Err(error) => {
                let lost = matches!(error, Error::Lost { .. });
                self.event_log.failed(call, &error, lost);
                !matches!(error, Error::Query { .. })
            }
        }
    }

    pub(crate) fn release(&mut self, hold: Hold, style: HoldStyle) {
        let drops = style.has_guard() && self.random.u8(..) < 64;
        let (budget, what) = if drops && !style.nests() {
            (GRACE, "drop")
        } else if drops {
            (self.budget_for_a_reply(), "drop")
        } else {
            let repeated = match style {
                HoldStyle::Permits(..) => LOG_IN,
                _ => Duration::ZERO,
            };
            (self.budget_to_unlock() + repeated, "unlock")
        };
        let call = self.event_log.asks(hold.at, Some(budget), what.into());
        let before = clock::now();
        if drops {
            drop(style);
            return self.event_log.answered(call, "dropped");
        }
        match style.unlock(self.tested(hold.at)) {
            Ok(()) => {
                // A successful unlock confirms the hold until then.
                self.event_log.vouches(hold.call, before);
                self.event_log.answered(call, "unlocked");
            }
            Err(error) => {
                let lost = matches!(error, Error::Lost { .. });
                self.event_log.failed(call, &error, lost);
            }
        }
    }

    /// Unlocks a lock that this thread does not hold, which must fail.
    fn unlock_not_held(&mut self, at: Target) {
        let Some(lock) = self.locks[at.lock as usize].lock(at.access) else {
            return;
        };
        let call = self
            .event_log
            .asks(at, Some(GRACE), "unlock while not held".into());
        match lock.unlock() {
            Err(error @ Error::NotHeld { .. }) => self.event_log.answered(call, &error.to_string()),
            other => self.event_log.wrong(call, &format!("{other:?}")),
        }
    }

    /// A first acquire waits for other holders without a bound; a nested one only for replies.
    pub(crate) fn budget_to_lock(&self, hold: Option<u64>) -> Option<Duration> {
        hold.map(|_| self.args.command_timeout() * 10)
    }

    pub(crate) fn budget_to_try(&self, wait: Duration) -> Duration {
        wait.max(self.args.command_timeout()) + GRACE
    }

    pub(crate) fn budget_to_unlock(&self) -> Duration {
        let timeout = self.args.command_timeout();
        timeout * 3 + GRACE.min(timeout)
    }

    pub(crate) fn budget_for_a_reply(&self) -> Duration {
        self.args.command_timeout() + GRACE
    }

    pub(crate) fn lease(&mut self) -> Lease {
        match self.random.u8(0..8) {
            0..4 => Lease::RENEWED,
            4 => Lease::renewed_at_most(self.random.u32(1..4)),
            _ => {
                let longest = self.args.longest_lease();
                Lease::fixed(longest.mul_f64(0.1 + 0.9 * self.random.f64()))
            }
        }
    }

    pub(crate) fn wait(&mut self) -> Duration {
        match self.random.u8(0..3) {
            0 => Duration::ZERO,
            _ => self.args.lease().mul_f64(self.random.f64()),
        }
    }

    /// How long to hold the lock: mostly briefly, sometimes longer than a lease.
    pub(crate) fn hold_time(&mut self, depth: u32) -> Duration {
        let part = self.random.f64();
        let whole = match self.random.u8(0..100) {
            0..8 if depth == 1 => self.args.lease() * 2,
            8..20 => self.args.lease() / 4,
            _ => Duration::from_millis(10),
        };
        whole.mul_f64(part)
    }

    pub(crate) fn idle(&mut self, most: Duration) {
        thread::sleep(most.mul_f64(self.random.f64()));
    }
}

pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
