//! The time from the start of the job to its end: who tells it to end, and when.

use std::time::Duration;

use crossbeam_channel::{after, never, select};
use nix::sys::signal::Signal;

use super::job::{Ending, Job, State};
use super::schedule::{Schedule, Step, Why};
use super::signals::Signals;
use super::terminal::Terminal;
use crate::clock::Moment;
use crate::outcome::LOST;
use crate::reporter::{Reporter, say};
use leasehold::LockGuard;
use leasehold::{Error, LostReason};

/// How often those are looked at whom an ended job has left behind, and of whom nobody tells.
const LINGER: Duration = Duration::from_millis(20);

/// How long the news that we were stopped and continued may take.
const UNHEEDED: Duration = Duration::from_secs(2);

/// Of a command that has changed its user.
const BEYOND_US: &str =
    "the command runs as another user and cannot be ended; let leasehold, too, run as that user";

/// One loop over everything that can happen.
#[derive(Debug)]
pub(super) struct Supervisor<'a> {
    pub(super) guard: &'a LockGuard,
    pub(super) job: Job,
    pub(super) schedule: Schedule,
    pub(super) terminal: Option<Terminal>,
    pub(super) reporter: Reporter,
    /// When to take it that nobody will give the terminal to a job in the background that stopped
    /// for it: we were not stopped with it, as happens where no shell is left to continue us.
    pub(super) unheeded: Option<Moment>,
    /// Whether Ctrl-Z was ours to pass on. Then others of our group, which had it, too, stop by
    /// themselves; one that is `leasehold` renews its lock until its job has stopped.
    pub(super) told_to_stop: bool,
    /// What the job has stopped by, if that is to be followed once all that came before it is
    /// heeded: whoever stops with a CONT in hand is continued by nobody.
    pub(super) stopped_by: Option<Signal>,
    /// Whether it was told that the job cannot be sent signals.
    pub(super) is_beyond_us: bool,
}

/// How the job ended.
#[derive(Debug)]
pub(super) struct End {
    /// Its own status, or that of a loss.
    pub(super) status: u8,
    /// It never became the command.
    pub(super) in_vain: bool,
    /// Why it was ended, if it was.
    pub(super) why: Option<Why>,
}

impl Supervisor<'_> {
    /// Until the job has ended, and looks at it every `beat` at least.
    pub(super) fn keep(mut self, signals: &Signals, beat: Duration) -> End {
        if let Some(terminal) = &mut self.terminal {
            terminal.offer(self.job.group());
        }
        let (mut received, mut lost) = (signals.received.clone(), self.guard.lost().clone());
        let (mut ended, mut beat) = (None, beat);
        loop {
            match self.job.look() {
                Some(State::Ended(ending)) => {
                    if ending.is_told() {
                        // Perhaps all of its group was, by the terminal, and not we.
                        self.schedule.told(Moment::now());
                    }
                    ended = Some(ending);
                    beat = beat.min(LINGER);
                }
                Some(State::Stopped(by)) => self.stopped_by = Some(by),
                _ => {}
            }
            if received.is_empty()
                && let Some(by) = self.stopped_by.take()
                && self.job.was_stopped()
            {
                self.follow_stop(by);
            }
            if let Some(ending) = ended.filter(|_| !self.leaves_some_to_end()) {
                return self.end(ending);
            }
            self.follow_schedule();
            if self.unheeded.is_some_and(Moment::is_past) && received.is_empty() {
                // As the system tells the jobs of a shell that has gone.
                self.unheeded = None;
                self.tell_to_end(Signal::SIGHUP);
            }
            // The timer stands still while the machine sleeps, the schedule does not.
            let nap = self.schedule.next().left().min(beat);
            select! {
                recv(received) -> signal => match signal {
                    Ok(signal) => self.heed(signal),
                    Err(_) => received = never(),
                },
                recv(lost) -> reason => {
                    lost = never();
                    if let Ok(reason) = reason {
                        self.lost(reason);
                    }
                }
                recv(after(nap)) -> _ => {}
            }
        }
    }

    /// Whether those whom an ended job has left behind were told to end, too, and have time for
    /// that.
    fn leaves_some_to_end(&self) -> bool {
        self.schedule.leaves_time(Moment::now()) && self.job.has_members()
    }

    fn follow_schedule(&mut self) {
        let now = Moment::now();
        let left = self.guard.remaining();
        // Nothing is left of a lock that was lost, which says nothing of its lease.
        if !left.is_zero() {
            self.schedule.stands_until(now.after(left));
        }
        while let Some(step) = self.schedule.due(Moment::now()) {
            self.take(step);
        }
    }

    fn lost(&mut self, reason: LostReason) {
        if let Some(step) = self.schedule.lost(reason, Moment::now()) {
            self.take(step);
        }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Term(why) => {
                let ended = if self.job.is_stopped() && why != Why::TimeIsUp {
                    // To end itself it would have to run.
                    self.stopped_by = None;
                    self.job.signal(Signal::SIGKILL)
                } else {
                    let told = self.job.signal(Signal::SIGTERM);
                    self.job.signal(Signal::SIGCONT);
                    told
                };
                self.is_beyond_us |= !ended;
                let fate = if ended {
                    "the command is ended"
                } else {
                    BEYOND_US
                };
                say(format!("lock {:?}: {why}; {fate}", self.guard.name()));
            }
            Step::Kill => {
                if self.pass_on(Signal::SIGKILL) {
                    self.reporter.step("the command did not end, and is killed");
                }
            }
        }
    }

    fn heed(&mut self, signal: i32) {
        match Signal::try_from(signal) {
            Ok(Signal::SIGCHLD) | Err(_) => {}
            // Whoever continues us continues the job.
            Ok(Signal::SIGCONT) => {
                (self.unheeded, self.stopped_by) = (None, None);
                self.told_to_stop = false;
                if self.job.is_stopped() {
                    self.go_on();
                } else {
                    self.job.signal(Signal::SIGCONT);
                }
            }
            Ok(signal @ (Signal::SIGHUP | Signal::SIGTERM | Signal::SIGINT | Signal::SIGQUIT)) => {
                self.tell_to_end(signal);
            }
            Ok(Signal::SIGTSTP) => {
                self.told_to_stop = true;
                self.job.signal(Signal::SIGTSTP);
                if self.job.was_stopped() {
                    // Of a second stop nobody tells, and the shell is to have its terminal.
                    self.stopped_by = Some(Signal::SIGTSTP);
                }
            }
            Ok(signal) => {
                self.job.signal(signal);
            }
        }
    }

    /// Whether the job could be sent what is to end it. That it cannot is told once.
    fn pass_on(&mut self, signal: Signal) -> bool {
        let sent = self.job.signal(signal);
        if !sent && !std::mem::replace(&mut self.is_beyond_us, true) {
            say(format!("no {signal}: {BEYOND_US}"));
        }
        sent
    }

    /// One that is stopped has to go on to end itself.
    fn tell_to_end(&mut self, signal: Signal) {
        self.schedule.told(Moment::now());
        self.pass_on(signal);
        if self.job.is_stopped() {
            self.go_on();
        }
    }

    /// A job that the terminal stops stops us, too, so that the shell takes over. Whoever else
    /// stopped it continues it, and nobody else: until then its lock is renewed.
    fn follow_stop(&mut self, by: Signal) {
        let Some(terminal) = &mut self.terminal else {
            return;
        };
        let asks = matches!(by, Signal::SIGTTIN | Signal::SIGTTOU);
        if asks {
            terminal.is_wanted();
        }
        if asks && terminal.is_of(self.job.group()) {
            // It asked before it was given.
            self.job.signal(Signal::SIGCONT);
            return;
        }
        if !(asks || self.told_to_stop || terminal.is_of(self.job.group())) {
            return;
        }
        if self.told_to_stop || !(asks && terminal.is_ours()) {
            // All of it: what still ran would outlive the lease, which nobody renews while we are
            // stopped.
            self.job.signal(Signal::SIGSTOP);
            terminal.stop(std::mem::take(&mut self.told_to_stop));
            // Continued in the background, it is told by a signal.
            if !terminal.is_ours() {
                self.unheeded = asks.then(|| Moment::now().after(UNHEEDED));
                return;
            }
        }
        self.go_on();
    }

    /// Continues a job that was stopped, if it still may run.
    fn go_on(&mut self) {
        self.stopped_by = None;
        // Nothing is heard and no schedule followed while Redis is asked: until then all of it
        // rests.
        self.job.signal(Signal::SIGSTOP);
        // Without a reply, the lease decides.
        let _ = self.guard.confirm();
        if let Err(error) = self.guard.check() {
            self.lost(match error {
                Error::Lost { reason, .. } => reason,
                _ => LostReason::Expired,
            });
            self.job.signal(Signal::SIGKILL);
            return;
        }
        if let Some(terminal) = &mut self.terminal {
            terminal.give(self.job.group());
        }
        self.job.signal(Signal::SIGCONT);
    }

    fn end(mut self, ending: Ending) -> End {
        let why = self.schedule.why();
        if let Some(terminal) = &mut self.terminal
            && terminal.take_back()
            && (why.is_some() || matches!(ending, Ending::Signal(_)))
        {
            terminal.restore();
        }
        if why.is_some() {
            // Those whom it has left behind.
            self.pass_on(Signal::SIGKILL);
        }
        let in_vain = self.job.was_in_vain();
        End {
            status: why.map_or(ending.status(), |_| LOST),
            in_vain,
            why,
        }
    }
}
