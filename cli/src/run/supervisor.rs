//! Watches the command from its start to its end: passes signals on, and ends it in time.

use std::process::ExitStatus;
use std::time::Duration;

use crossbeam_channel::{after, never, select};
use nix::sys::signal::Signal;

use super::held::Held;
use super::job::{Job, status};
use super::schedule::{Schedule, Step, Why};
use super::signals::Signals;
use crate::connect::confirm_every;
use crate::outcome::{LOST, TIME_IS_UP};
use crate::reporter::{say, step};
use leasehold::__Moment as Moment;
use leasehold::{Error, LostReason};

/// How often to look for processes that an ended command left behind. No signal reports their end.
const GROUP_CHECK: Duration = Duration::from_millis(20);

/// The message about a command that has changed its user.
const CANNOT_SIGNAL: &str =
    "the command runs as another user and cannot be ended; run leasehold as that user, too";

/// One loop handles signals, losses and due steps.
#[derive(Debug)]
pub(super) struct Supervisor<'a> {
    held: &'a Held,
    job: Job,
    schedule: Schedule,
    /// True if it was reported that this process may not send signals to the command.
    cannot_signal: bool,
}

/// The end of the command.
#[derive(Debug)]
pub(super) struct End {
    /// The exit status: that of the command, or of the reason why it was ended.
    pub(super) status: u8,
    /// The status of the command.
    pub(super) of_job: u8,
    /// Why the command was ended, if it did not end itself.
    pub(super) why: Option<Why>,
}

impl<'a> Supervisor<'a> {
    pub(super) fn new(held: &'a Held, job: Job, schedule: Schedule) -> Self {
        Self {
            held,
            job,
            schedule,
            cannot_signal: false,
        }
    }

    /// Runs until the command has ended. Looks at it at least as often as Redis is asked for a lock
    /// with this lease.
    pub(super) fn run(mut self, signals: &Signals, lease: Duration) -> End {
        let (mut received, mut lost) = (signals.received.clone(), self.held.lost());
        let mut beat = confirm_every(lease);
        loop {
            self.job.reap();
            if let Some(ended) = self.job.ended {
                if !self.group_may_end() {
                    return self.end(ended);
                }
                beat = beat.min(GROUP_CHECK);
            }
            self.follow_lease();
            while let Some(step) = self.schedule.due(Moment::now()) {
                self.execute(step);
            }
            // The timer stops while the machine sleeps, the clock of the schedule does not.
            let pause = self.schedule.next().left().min(beat);
            select! {
                recv(received) -> signal => match signal {
                    Ok(signal) => self.handle(signal),
                    Err(_) => received = never(),
                },
                recv(lost) -> _ => lost = never().into(),
                recv(after(pause)) -> _ => {}
            }
        }
    }

    /// True if processes that an ended command left behind were asked to end, too, and have time
    /// for that.
    fn group_may_end(&self) -> bool {
        self.schedule.leaves_time(Moment::now()) && self.job.has_members()
    }

    /// Tells the schedule how long the lock is held, or that it was lost: also while this process
    /// was stopped.
    fn follow_lease(&mut self) {
        let now = Moment::now();
        let left = self.held.remaining();
        let reason = match self.held.check() {
            Ok(()) => {
                self.schedule.stands_until = now.after(left);
                return;
            }
            Err(Error::Lost { reason, .. }) => reason,
            Err(_) => LostReason::Expired,
        };
        if let Some(step) = self.schedule.lost(reason, now) {
            self.execute(step);
        }
    }

    fn execute(&mut self, due: Step) {
        let Step::Term(why) = due else {
            if self.pass_on(Signal::SIGKILL) {
                step("the command did not end, and is killed");
            }
            return;
        };
        let sent = self.job.signal(Signal::SIGTERM);
        // A command that is stopped cannot end itself. Within a session, the system permits CONT
        // also where it refuses TERM.
        self.job.signal(Signal::SIGCONT);
        self.cannot_signal |= !sent;
        let ended = "the command is ended";
        let fate = if sent { ended } else { CANNOT_SIGNAL };
        say(format!("{:?}: {why}; {fate}", self.held.name()));
    }

    fn handle(&mut self, signal: i32) {
        use Signal::{SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGWINCH};
        let Ok(signal) = Signal::try_from(signal) else {
            return;
        };
        match signal {
            SIGCHLD => {}
            // The terminal has sent it to the command, too.
            SIGHUP | SIGINT | SIGQUIT | SIGWINCH if !self.job.has_group => {}
            SIGHUP | SIGINT | SIGQUIT | SIGTERM => {
                // The processes of the group have time to end.
                self.schedule.asked_to_end(Moment::now());
                self.pass_on(signal);
                self.job.signal(SIGCONT);
            }
            _ => _ = self.pass_on(signal),
        }
    }

    /// Sends a signal to the command. Reports once if this is not possible, and returns false.
    fn pass_on(&mut self, signal: Signal) -> bool {
        let sent = self.job.signal(signal);
        if !sent && !std::mem::replace(&mut self.cannot_signal, true) {
            say(format!("no {signal}: {CANNOT_SIGNAL}"));
        }
        sent
    }

    fn end(mut self, ended: ExitStatus) -> End {
        let why = self.schedule.why;
        let of_job = status(ended);
        if why.is_some() {
            // For the processes that the command left behind.
            self.pass_on(Signal::SIGKILL);
            let name = self.held.name();
            say(format!("{name:?}: the command ended with status {of_job}"));
        }
        End {
            status: match why {
                None => of_job,
                Some(Why::TimeIsUp) => TIME_IS_UP,
                Some(Why::Unconfirmed | Why::Lost(_)) => LOST,
            },
            of_job,
            why,
        }
    }
}
