//! Watches the job from its start to its end: passes signals on, and ends it in time.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use crossbeam_channel::{after, never, select};
use nix::sys::signal::Signal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use super::held::Held;
use super::job::{Job, status};
use super::schedule::{Schedule, Step, Why};
use super::signals::Signals;
use super::terminal::Terminal;
use crate::connect::confirm_every;
use crate::outcome::{LOST, TIME_IS_UP};
use crate::reporter::{say, step};
use leasehold::__Moment as Moment;
use leasehold::{Error, LostReason};

/// How often to look for processes that an ended job left behind. No signal reports their end.
const GROUP_CHECK: Duration = Duration::from_millis(20);

/// How long the signal that continues this process may take to arrive.
const CONTINUE_TIMEOUT: Duration = Duration::from_secs(2);

/// The message about a command that has changed its user.
const CANNOT_SIGNAL: &str =
    "the command runs as another user and cannot be ended; run leasehold as that user, too";

/// One loop handles signals, losses and due steps.
#[derive(Debug)]
pub(super) struct Supervisor<'a> {
    held: &'a Held,
    job: Job,
    schedule: Schedule,
    terminal: Terminal,
    /// Until when a shell must continue this process: the job stopped because it asked for the
    /// terminal from the background, and this process was not stopped with it. That happens if no
    /// shell is left.
    continue_by: Option<Moment>,
    /// True if this process got the signal of Ctrl-Z. Other processes of its group got it, too, and
    /// stop by themselves. Another `leasehold` among them renews its lock until its job has
    /// stopped.
    stop_requested: bool,
    /// The signal that stopped the job, while this process still has to stop, too. All earlier
    /// signals are handled first: with a pending CONT, no shell would continue this process.
    stopped_by: Option<Signal>,
    /// True if it was reported that this process may not send signals to the job.
    cannot_signal: bool,
}

/// The end of the job.
#[derive(Debug)]
pub(super) struct End {
    /// The exit status: that of the job, or of the reason why it was ended.
    pub(super) status: u8,
    /// The status of the job.
    pub(super) of_job: u8,
    /// The process did not become the command.
    pub(super) failed_to_start: bool,
    /// Why the job was ended, if it did not end itself.
    pub(super) why: Option<Why>,
}

impl<'a> Supervisor<'a> {
    pub(super) fn new(held: &'a Held, job: Job, schedule: Schedule) -> Self {
        Self {
            held,
            job,
            schedule,
            terminal: Terminal::open(),
            continue_by: None,
            stop_requested: false,
            stopped_by: None,
            cannot_signal: false,
        }
    }

    /// Runs until the job has ended. Looks at the job at least as often as Redis is asked for a
    /// lock with this lease.
    pub(super) fn run(mut self, signals: &Signals, lease: Duration) -> End {
        self.terminal.offer(self.job.group);
        let (mut received, mut lost) = (signals.received.clone(), self.held.lost());
        let mut beat = confirm_every(lease);
        loop {
            if self.job.has_changed() {
                if let Some(ended) = self.job.ended() {
                    if ended.signal().is_some_and(asks_to_end) {
                        // The terminal may have sent the signal to the group of the job only.
                        self.schedule.asked_to_end(Moment::now());
                    }
                    beat = beat.min(GROUP_CHECK);
                }
                self.stopped_by = self.job.stopped_by().or(self.stopped_by);
            }
            if received.is_empty()
                && let Some(by) = self.stopped_by.take()
                && self.job.stopped_by().is_some()
            {
                self.follow_stop(by);
            }
            if let Some(ended) = self.job.ended().filter(|_| !self.group_may_end()) {
                return self.end(ended);
            }
            self.follow_schedule();
            if self.continue_by.is_some_and(Moment::is_past) && received.is_empty() {
                // The system does the same with the jobs of a shell that has ended.
                self.continue_by = None;
                self.ask_to_end(Signal::SIGHUP);
            }
            // The timer stops while the machine sleeps, the clock of the schedule does not.
            let pause = self.schedule.next().left().min(beat);
            select! {
                recv(received) -> signal => match signal {
                    Ok(signal) => self.handle(signal),
                    Err(_) => received = never(),
                },
                recv(lost) -> reason => {
                    lost = never().into();
                    reason.into_iter().for_each(|reason| self.lost(reason));
                }
                recv(after(pause)) -> _ => {}
            }
        }
    }

    /// True if processes that an ended job left behind were asked to end, too, and have time for
    /// that.
    fn group_may_end(&self) -> bool {
        self.schedule.leaves_time(Moment::now()) && self.job.has_members()
    }

    fn follow_schedule(&mut self) {
        let now = Moment::now();
        let left = self.held.remaining();
        // Zero means that the lock was lost, and not that its lease ended.
        if !left.is_zero() {
            self.schedule.stands_until = now.after(left);
        }
        while let Some(step) = self.schedule.due(Moment::now()) {
            self.execute(step);
        }
    }

    fn lost(&mut self, reason: LostReason) {
        if let Some(step) = self.schedule.lost(reason, Moment::now()) {
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
        let sent = if self.job.is_stopped() && why != Why::TimeIsUp {
            // A stopped job cannot end itself.
            self.stopped_by = None;
            self.job.signal(Signal::SIGKILL)
        } else {
            let sent = self.job.signal(Signal::SIGTERM);
            // Within a session, the system permits CONT also where it refuses TERM.
            self.job.signal(Signal::SIGCONT);
            sent
        };
        self.cannot_signal |= !sent;
        let ended = "the command is ended";
        let fate = if sent { ended } else { CANNOT_SIGNAL };
        say(format!("{:?}: {why}; {fate}", self.held.name()));
    }

    fn handle(&mut self, signal: i32) {
        match Signal::try_from(signal) {
            Ok(Signal::SIGCHLD) | Err(_) => {}
            // Continues the job together with this process.
            Ok(Signal::SIGCONT) => {
                (self.continue_by, self.stopped_by) = (None, None);
                self.stop_requested = false;
                if self.job.is_stopped() {
                    self.go_on();
                } else {
                    self.job.signal(Signal::SIGCONT);
                }
            }
            Ok(ending) if asks_to_end(signal) => self.ask_to_end(ending),
            Ok(Signal::SIGTSTP) => {
                self.stop_requested = true;
                self.job.signal(Signal::SIGTSTP);
                if self.job.stopped_by().is_some() {
                    // A second stop is not reported, and the shell must get its terminal.
                    self.stopped_by = Some(Signal::SIGTSTP);
                }
            }
            Ok(signal) => {
                self.job.signal(signal);
            }
        }
    }

    /// Sends a signal that ends the job. Reports once if this is not possible, and returns false.
    fn pass_on(&mut self, signal: Signal) -> bool {
        let sent = self.job.signal(signal);
        if !sent && !std::mem::replace(&mut self.cannot_signal, true) {
            say(format!("no {signal}: {CANNOT_SIGNAL}"));
        }
        sent
    }

    /// Asks the job to end. A stopped job is continued, because it could not end itself.
    fn ask_to_end(&mut self, signal: Signal) {
        self.schedule.asked_to_end(Moment::now());
        self.pass_on(signal);
        if self.job.is_stopped() {
            self.go_on();
        }
    }

    /// Stops this process after the terminal stopped the job, so that the shell takes over. If
    /// another process stopped the job, that process continues it, and the lock is renewed until
    /// then.
    fn follow_stop(&mut self, by: Signal) {
        let terminal = &mut self.terminal;
        if terminal.tty.is_none() {
            return;
        }
        let asks = matches!(by, Signal::SIGTTIN | Signal::SIGTTOU);
        terminal.wanted |= asks;
        if asks && terminal.is_of(self.job.group) {
            // The job asked for the terminal before it got it.
            self.job.signal(Signal::SIGCONT);
            return;
        }
        if !(asks || self.stop_requested || terminal.is_of(self.job.group)) {
            return;
        }
        if self.stop_requested || !(asks && terminal.is_ours()) {
            // Stops the whole group: nothing renews the lease while this process is stopped.
            self.job.signal(Signal::SIGSTOP);
            terminal.stop(std::mem::take(&mut self.stop_requested));
            // A process that is continued in the background gets a signal.
            if !terminal.is_ours() {
                self.continue_by = asks.then(|| Moment::now().after(CONTINUE_TIMEOUT));
                return;
            }
        }
        self.go_on();
    }

    /// Continues a stopped job if the lock is still held.
    fn go_on(&mut self) {
        self.stopped_by = None;
        // No signal and no due step is handled while Redis is asked, so the whole group must be
        // stopped.
        self.job.signal(Signal::SIGSTOP);
        // Without a reply, the lease decides.
        let _ = self.held.confirm();
        if let Err(error) = self.held.check() {
            self.lost(match error {
                Error::Lost { reason, .. } => reason,
                _ => LostReason::Expired,
            });
            self.job.signal(Signal::SIGKILL);
            return;
        }
        self.terminal.give(self.job.group);
        self.job.signal(Signal::SIGCONT);
    }

    fn end(mut self, ended: ExitStatus) -> End {
        let why = self.schedule.why;
        if self.terminal.take_back() && (why.is_some() || ended.signal().is_some()) {
            self.terminal.restore();
        }
        let of_job = status(ended);
        if why.is_some() {
            // For the processes that the job left behind.
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
            failed_to_start: self.job.failed_to_start(),
            why,
        }
    }
}

/// True for a signal that asks a job to end.
fn asks_to_end(signal: i32) -> bool {
    [SIGHUP, SIGINT, SIGQUIT, SIGTERM].contains(&signal)
}
