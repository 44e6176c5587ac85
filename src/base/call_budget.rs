//! How long one call may take: its wait for the lock, its time for answers, its interrupt.

use std::cell::{Cell, OnceCell};
use std::rc::Rc;
use std::time::Duration;

use crate::base::clock::Moment;
use crate::base::interrupt::{Interrupt, Registered};
use crate::base::parker::{self, Parker, Unparker};
use crate::error::{Error, Result};

/// A reply that is on its way when the wait ends is worth this much more time: cutting it off
/// would turn an answer into an ambiguity that must be undone.
pub(crate) const GRACE: Duration = Duration::from_millis(250);

/// The time budget of one call, and the sleep of the thread that makes it.
#[derive(Debug)]
pub(crate) struct CallBudget {
    started: Moment,
    /// Until when to wait for somebody else to give the lock back.
    wait_until: Moment,
    answers: Answers,
    grace: Duration,
    /// If all steps of the call [share one grace](Self::share_grace): when it ends, once it has
    /// begun.
    shared_grace: OnceCell<Rc<Cell<Option<Moment>>>>,
    /// Since when Redis has been silent towards those before us, whose turn we wait for.
    silent_since: Cell<Option<Moment>>,
    interrupt: Option<Interrupt>,
    parked: OnceCell<Parked>,
}

/// How long to wait for Redis to answer at all.
#[derive(Clone, Copy, Debug)]
enum Answers {
    By(Moment),
    /// This long without any answer, however long the call has run already.
    Within(Duration),
}

/// Made at the first sleep: a call that finds its lock free never needs one.
#[derive(Debug)]
struct Parked {
    unparker: Unparker,
    parker: Parker,
    _registered: Option<Registered>,
}

impl CallBudget {
    /// Waits at most `wait` for the lock; one command is given `command_timeout` in any case.
    pub(crate) fn at_most(wait: Duration, command_timeout: Duration) -> Self {
        let started = Moment::now();
        Self {
            started,
            wait_until: started.after(wait),
            answers: Answers::By(started.after(wait.max(command_timeout))),
            grace: GRACE.min(command_timeout),
            shared_grace: OnceCell::new(),
            silent_since: Cell::new(None),
            interrupt: None,
            parked: OnceCell::new(),
        }
    }

    /// Waits for nobody, only for answers, and so long at most.
    pub(crate) fn reply_within(time: Duration) -> Self {
        Self::at_most(Duration::ZERO, time)
    }

    /// What is left of this budget, for one more answer that ends the call; no interrupt cuts it short.
    pub(crate) fn for_cleanup(&self, command_timeout: Duration) -> Self {
        let left = self.reply_by().left().max(GRACE);
        Self::reply_within(left.min(command_timeout))
    }

    /// From here on all steps of the call share one grace, which begins when the call ends, or with
    /// the first request after that. Without this every request has a grace of its own.
    pub(crate) fn share_grace(&self) {
        self.shared_grace.get_or_init(Rc::default);
    }

    /// What is left of the call, at most `command_timeout`, for steps that end it. No interrupt
    /// cuts it short, and no grace is added.
    pub(crate) fn rest(&self, command_timeout: Duration) -> Self {
        let end = self.reply_by().min(Moment::now().after(command_timeout));
        Self {
            started: self.started,
            answers: Answers::By(end),
            grace: Duration::ZERO,
            ..Self::reply_within(Duration::ZERO)
        }
    }

    /// Waits for the lock without end, but gives up when a question stays unanswered for `silence`.
    pub(crate) fn while_answered_within(silence: Duration) -> Self {
        Self {
            started: Moment::now(),
            wait_until: Moment::NEVER,
            answers: Answers::Within(silence),
            grace: Duration::ZERO,
            shared_grace: OnceCell::new(),
            silent_since: Cell::new(None),
            interrupt: None,
            parked: OnceCell::new(),
        }
    }

    /// Waits for the lock and for answers until it is interrupted.
    pub(crate) fn until_interrupted(interrupt: &Interrupt) -> Self {
        Self::while_answered_within(Duration::MAX).or_interrupted(interrupt)
    }

    /// The same, and over as soon as `interrupt` is raised.
    pub(crate) fn or_interrupted(self, interrupt: &Interrupt) -> Self {
        Self {
            interrupt: Some(interrupt.clone()),
            ..self
        }
    }

    /// As much of this budget as there is until `moment`, for one who keeps others waiting
    /// meanwhile. One command is given `command_timeout` in any case.
    pub(crate) fn until(&self, moment: Moment, command_timeout: Duration) -> Self {
        let answers = match self.answers {
            Answers::Within(silence) => {
                Answers::Within(silence.min(moment.left().max(command_timeout)))
            }
            by => by,
        };
        Self {
            started: self.started,
            wait_until: self.wait_until.min(moment),
            answers,
            grace: self.grace,
            shared_grace: self.shared_grace.clone(),
            silent_since: Cell::new(None),
            interrupt: self.interrupt.clone(),
            parked: OnceCell::new(),
        }
    }

    /// Until when the question that is asked now must be answered.
    pub(crate) fn reply_by(&self) -> Moment {
        match self.answers {
            Answers::By(moment) => {
                let now = Moment::now();
                let grace = now.after(self.grace);
                match self.shared_grace.get() {
                    Some(shared) if grace > moment => {
                        let begun = moment.max(now).after(self.grace);
                        let end = shared.get().unwrap_or(begun);
                        shared.set(Some(end));
                        end
                    }
                    _ => moment.max(grace),
                }
            }
            Answers::Within(silence) => {
                let since = self.silent_since.get().unwrap_or_else(Moment::now);
                self.started.max(since).after(silence)
            }
        }
    }

    /// When the call is over, but for the grace of an answer that is under way.
    pub(crate) fn ends(&self) -> Moment {
        match self.answers {
            Answers::By(moment) => moment,
            Answers::Within(_) => Moment::NEVER,
        }
    }

    /// Counts a silence of Redis from `since`, or from the start of this call if that is later.
    pub(crate) fn silent_since(&self, since: Option<Moment>) {
        self.silent_since.set(since);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.wait_until.is_past()
    }

    /// What is left of the wait.
    pub(crate) fn left(&self) -> Duration {
        self.wait_until.left()
    }

    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupt
            .as_ref()
            .is_some_and(Interrupt::is_interrupted)
    }

    /// Fails once the call is interrupted.
    pub(crate) fn check(&self, lock: &str) -> Result<()> {
        if self.is_interrupted() {
            return Err(Error::Interrupted { lock: lock.into() });
        }
        Ok(())
    }

    /// How long the call has run.
    pub(crate) fn waited(&self) -> Duration {
        Moment::now().since(self.started)
    }

    /// What ends this thread's sleep.
    pub(crate) fn unparker(&self) -> &Unparker {
        &self.parked().unparker
    }

    /// Sleeps until woken, interrupted, out of budget, or for `nap`; true if woken.
    pub(crate) fn sleep(&self, nap: Duration) -> bool {
        self.pause(nap.min(self.left()))
    }

    /// As [`sleep`](Self::sleep), but between two attempts to get an answer.
    pub(crate) fn pause(&self, pause: Duration) -> bool {
        // Looked at here, because the one wake-up of an interrupt may have ended an earlier sleep.
        !pause.is_zero() && !self.is_interrupted() && self.parked().parker.sleep(pause)
    }

    fn parked(&self) -> &Parked {
        self.parked.get_or_init(|| {
            let (unparker, parker) = parker::pair();
            let registered = self
                .interrupt
                .as_ref()
                .map(|interrupt| interrupt.register(unparker.clone()));
            Parked {
                unparker,
                parker,
                _registered: registered,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended() -> CallBudget {
        let budget = CallBudget::reply_within(Duration::from_millis(1));
        while !budget.ends().is_past() {
            std::thread::yield_now();
        }
        budget
    }

    #[test]
    fn a_shared_grace_is_given_once() {
        let own = ended();
        let first = own.reply_by();
        while !first.is_past() {
            std::thread::yield_now();
        }
        assert!(own.reply_by() > first);

        let shared = ended();
        shared.share_grace();
        let part = shared.until(Moment::NEVER, Duration::ZERO);
        let end = part.reply_by();
        assert_eq!(shared.reply_by(), end);
        assert!(shared.rest(Duration::MAX).reply_by() <= end);
        while !end.is_past() {
            std::thread::yield_now();
        }
        assert_eq!((part.reply_by(), shared.reply_by()), (end, end));
        assert!(shared.rest(Duration::MAX).reply_by().is_past());
    }
}
