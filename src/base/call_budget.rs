//! The time budget of one call: its wait for the lock, its time for replies, its interrupts.
//!
//! | deadline | whose time is over then | what it ends |
//! |---|---|---|
//! | wait: `is_wait_over` | that of other owners | the sleeps of the call, but no request |
//! | reply: `reply_deadline` | that of Redis for a request | the request and its copies |
//! | call: `call_deadline` | that of the call, apart from [`GRACE`] | further attempts after the wait |
//! | cleanup: `remaining` | that of the releases after the last attempt | their requests |
//!
//! A request can have an earlier deadline of its own (`Request::until`). After the cleanup, the
//! watchdog repeats the releases.
//!
//! An interrupt or a shutdown ends the sleeps at once, and a request after the copy that is sent,
//! but not the cleanup.

mod give_way;
mod long_wait;

use std::cell::{Cell, OnceCell, RefCell};
use std::time::Duration;

use crate::base::interrupt::Registered;
use crate::base::parker::{self, Parker};
use crate::base::{Active, ClientClock, Interrupt, List, Moment, Unparker};
use crate::error::{Error, Result, TimeLimit};
use give_way::GiveWay;
use long_wait::LongWait;
pub(crate) use long_wait::WaitObserver;

/// How much longer than its wait a call may wait for the reply to a request that it has sent.
/// Without this, a reply that is on its way would be lost, and the request would have to be undone.
pub(crate) const GRACE: Duration = Duration::from_millis(250);

/// The time budget of one call. It also parks the thread that makes the call.
///
/// A budget limits two things: the *wait*, which is the time that other holders may keep the lock,
/// and the time that Redis may take to reply.
///
/// It borrows the interrupts. All calls of a client share that of its shutdown, so a clone would
/// write to memory that they all write.
#[derive(Debug, Default)]
pub(crate) struct CallBudget<'c> {
    started: Moment,
    /// When the wait ends.
    wait_until: Moment,
    /// Until when Redis may reply, apart from the grace.
    reply_by: Moment,
    /// For how long Redis may send no reply at all, however long the call has already run.
    unanswered_for: Duration,
    grace: Duration,
    /// What set `reply_by`.
    reply_limit: Option<TimeLimit>,
    /// Set if all steps of the call [share one grace](Self::share_grace): when that grace ends,
    /// which is never before it has begun.
    shared_grace: Cell<Option<Moment>>,
    /// Since when Redis has not replied to the thread that this one waits for.
    unanswered_since: Cell<Option<Moment>>,
    interrupt: Option<&'c Interrupt>,
    clock: ClientClock,
    _active: Active,
    /// Raised by the shutdown of the client of the call, and by those of its further clients.
    shutdown: Option<&'c Interrupt>,
    further_shutdowns: Vec<&'c Interrupt>,
    parked: OnceCell<Parked>,
    long_wait: LongWait<'c>,
    give_way: RefCell<Option<GiveWay>>,
}

/// Created by the first wait: a call that finds its lock free never needs it.
#[derive(Debug)]
struct Parked {
    unparker: Unparker,
    parker: Parker,
    _registered: List<Registered>,
}

impl<'c> CallBudget<'c> {
    fn new(started: Moment, wait_until: Moment, reply_by: Moment, grace: Duration) -> Self {
        Self {
            started,
            wait_until,
            reply_by,
            unanswered_for: Duration::MAX,
            grace,
            ..Self::default()
        }
    }

    /// Waits at most `wait` for the lock. Redis has that time to reply, and at least
    /// `command_timeout`; but the call gives up when a request has had no reply for
    /// `unanswered_for`.
    pub(crate) fn with_wait(
        wait: Duration,
        command_timeout: Duration,
        unanswered_for: Duration,
    ) -> Self {
        let started = Moment::now();
        let reply_by = started.after(wait.max(command_timeout));
        let grace = GRACE.min(command_timeout);
        let reply_limit = match wait > command_timeout {
            true => TimeLimit::Wait,
            false => TimeLimit::Command,
        };
        Self {
            unanswered_for,
            reply_limit: Some(reply_limit),
            ..Self::new(started, started.after(wait), reply_by, grace)
        }
    }

    /// Does not wait for the lock. Redis has `timeout` to reply.
    pub(crate) fn for_reply(timeout: Duration) -> Self {
        Self::with_wait(Duration::ZERO, timeout, Duration::MAX)
    }

    /// Waits for the lock and for replies without a limit, until `interrupt` is raised.
    pub(crate) fn until_interrupted(interrupt: &'c Interrupt) -> Self {
        let never = Moment::NEVER;
        Self::new(Moment::now(), never, never, Duration::ZERO).with_interrupt(Some(interrupt))
    }

    /// This budget, which also ends when `interrupt` is raised.
    pub(crate) fn with_interrupt(self, interrupt: Option<&'c Interrupt>) -> Self {
        Self { interrupt, ..self }
    }

    /// This budget of a call of the client with this clock.
    pub(crate) fn with_clock(self, clock: &ClientClock) -> Self {
        Self {
            clock: clock.clone(),
            _active: Active::by_call(clock),
            ..self
        }
    }

    /// Makes it also end when a client is shut down, which raises `shutdown`.
    pub(crate) fn end_at_shutdown(&mut self, shutdown: &'c Interrupt) {
        match self.shutdown {
            None => self.shutdown = Some(shutdown),
            Some(_) => self.further_shutdowns.push(shutdown),
        }
    }

    /// The budget of the last steps of this call: what is left of the time for replies, at most
    /// `command_timeout`. No interrupt ends it, and no grace is added.
    pub(crate) fn remaining(&self, command_timeout: Duration) -> CallBudget<'static> {
        let now = Moment::now();
        let end = self.reply_deadline().min(now.after(command_timeout));
        CallBudget::new(self.started, now, end, Duration::ZERO)
    }

    /// The budget of the request that tells Redis that this call does not wait any more: at most
    /// [`GRACE`].
    pub(crate) fn to_give_up(&self) -> CallBudget<'static> {
        let left = self.call_deadline().after(GRACE).left();
        self.remaining(left.min(GRACE))
    }

    /// The budget of a first request that does not wait for other holders. Redis has as long to
    /// reply as to the whole call.
    pub(crate) fn without_wait(&self) -> Self {
        Self {
            interrupt: self.interrupt,
            clock: self.clock.clone(),
            shutdown: self.shutdown,
            further_shutdowns: self.further_shutdowns.clone(),
            unanswered_for: self.unanswered_for,
            reply_limit: self.reply_limit,
            ..Self::new(self.started, self.started, self.reply_by, self.grace)
        }
    }

    /// Gives all later steps of the call one grace together. It begins when the call ends, or with
    /// the first request after that. Without this every request has a grace of its own.
    pub(crate) fn share_grace(&self) {
        let end = self.shared_grace.get().unwrap_or(Moment::NEVER);
        self.shared_grace.set(Some(end));
    }

    /// When the reply to a request that is sent now must have arrived.
    pub(crate) fn reply_deadline(&self) -> Moment {
        let moment = self.minus_skipped(self.reply_by, self.started);
        let now = Moment::now();
        let grace = now.after(self.grace);
        let end = match self.shared_grace.get() {
            Some(end) if grace > moment => {
                let end = end.min(moment.max(now).after(self.grace));
                self.shared_grace.set(Some(end));
                end
            }
            _ => moment.max(grace),
        };
        let since = self.started.max(self.unanswered_since.get().unwrap_or(now));
        end.min(self.minus_skipped(since.after(self.unanswered_for), since))
    }

    /// When the call ends, apart from the grace for a reply that is on its way.
    pub(crate) fn call_deadline(&self) -> Moment {
        self.minus_skipped(self.reply_by, self.started)
    }

    /// The limit that has ended the call without a reply. `None` if there is time left.
    pub(crate) fn time_limit(&self) -> Option<TimeLimit> {
        if self.call_deadline().is_past() {
            return self.reply_limit;
        }
        (self.elapsed() >= self.unanswered_for).then_some(TimeLimit::GiveUp)
    }

    /// Counts the time without a reply from `since`, or from the start of this call if that is
    /// later.
    pub(crate) fn set_unanswered_since(&self, since: Option<Moment>) {
        self.unanswered_since.set(since);
    }

    /// Since when Redis has not replied, as the call has noted.
    pub(crate) fn unanswered_since(&self) -> Option<Moment> {
        self.unanswered_since.get()
    }

    pub(crate) fn is_wait_over(&self) -> bool {
        self.minus_skipped(self.wait_until, self.started).is_past()
    }

    pub(crate) fn wait_left(&self) -> Duration {
        self.minus_skipped(self.wait_until, self.started).left()
    }

    /// A moment that was computed at the other one, without what a test has skipped since then.
    pub(crate) fn minus_skipped(&self, moment: Moment, since: Moment) -> Moment {
        moment.before(self.clock.skipped_since(since.since(Moment::ZERO)))
    }

    /// True if the interrupt of the call was raised, or a client of it was shut down.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupts().any(Interrupt::is_interrupted)
    }

    /// Fails if the call is interrupted.
    pub(crate) fn check_interrupt(&self, lock: &str) -> Result<()> {
        if self.shutdowns().any(Interrupt::is_interrupted) {
            return Err(Error::ShutDown { lock: lock.into() });
        }
        // Not `is_interrupted`: a shutdown may begin between the two checks.
        if self.interrupt.is_some_and(Interrupt::is_interrupted) {
            return Err(Error::Interrupted { lock: lock.into() });
        }
        Ok(())
    }

    fn interrupts(&self) -> impl Iterator<Item = &Interrupt> {
        self.interrupt.into_iter().chain(self.shutdowns())
    }

    fn shutdowns(&self) -> impl Iterator<Item = &Interrupt> {
        let further = self.further_shutdowns.iter().copied();
        self.shutdown.into_iter().chain(further)
    }

    pub(crate) fn started(&self) -> Moment {
        self.started
    }

    /// How long the call has run.
    pub(crate) fn elapsed(&self) -> Duration {
        Moment::now().since(self.minus_skipped(self.started, self.started))
    }

    /// Ends [`wait`](Self::wait) and [`park`](Self::park).
    pub(crate) fn unparker(&self) -> &Unparker {
        &self.parked().unparker
    }

    /// Parks the thread until it is unparked or interrupted, until the wait is over, or for
    /// `timeout`. True if it was unparked.
    pub(crate) fn wait(&self, timeout: Duration) -> bool {
        let timeout = timeout.min(self.wait_left());
        if !timeout.is_zero() {
            self.long_wait.begin();
        }
        match self.long_wait_left() {
            Some(left) if left < timeout => self.wait_and_report(left, timeout),
            _ => self.park(timeout),
        }
    }

    /// Parks the thread until it is unparked or interrupted, or for `timeout`, even if the wait is
    /// over. True if it was unparked.
    pub(crate) fn park(&self, timeout: Duration) -> bool {
        // An interrupt unparks the thread once, which may have ended an earlier wait.
        if timeout.is_zero() || self.is_interrupted() {
            return false;
        }
        match self.has_to_give_way() {
            true => self.park_and_give_way(Moment::now().after(timeout)),
            false => self.parked().parker.sleep(timeout),
        }
    }

    /// Parks the thread until this moment, and meanwhile runs the action that is due. True if the
    /// thread was unparked.
    fn park_and_give_way(&self, end: Moment) -> bool {
        loop {
            let due = self.give_way_if_due();
            if self.parked().parker.sleep(due.min(end.left())) {
                return true;
            }
            if end.is_past() || self.is_interrupted() {
                return false;
            }
        }
    }

    /// True if a message of another client has unparked this thread since the last call. Other
    /// wake-ups are those by a subscription that has begun or has ended, and by an interrupt.
    pub(crate) fn take_message(&self) -> bool {
        let parked = self.parked.get();
        parked.is_some_and(|parked| parked.parker.take_message())
    }

    /// Forgets an earlier wake-up, so that it does not end the next sleep. True if there was one.
    pub(crate) fn take_wake_up(&self) -> bool {
        let parked = self.parked.get();
        parked.is_some_and(|parked| parked.parker.take_wake_up())
    }

    fn parked(&self) -> &Parked {
        self.parked.get_or_init(|| {
            let (unparker, parker) = parker::pair();
            let register = |interrupt: &Interrupt| interrupt.register(unparker.clone());
            Parked {
                _registered: self.interrupts().map(register).collect(),
                unparker,
                parker,
            }
        })
    }
}

#[cfg(test)]
mod tests;
