//! The signals for the job, and those about the job.

use std::thread::{Builder, JoinHandle};

use crossbeam_channel::{Receiver, unbounded};
use nix::sys::signal::Signal;
use signal_hook::consts::{
    SIGALRM, SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGIO, SIGPROF, SIGQUIT, SIGSYS, SIGTERM, SIGTSTP,
    SIGUSR1, SIGUSR2, SIGVTALRM, SIGWINCH, SIGXCPU, SIGXFSZ,
};
use signal_hook::iterator::{Handle, Signals as Caught};

use crate::outcome::{Failure, Result, UNAVAILABLE};
use leasehold::Interrupt;

/// These end the wait for the lock.
const ENDING: &[i32] = &[
    SIGHUP,
    SIGINT,
    SIGQUIT,
    SIGTERM,
    SIGALRM,
    SIGVTALRM,
    SIGPROF,
    SIGIO,
    SIGXCPU,
    SIGXFSZ,
    SIGSYS,
    #[cfg(any(target_os = "linux", target_os = "android"))]
    (Signal::SIGPWR as i32),
];

/// These are only passed on to the job.
const FOR_THE_JOB: &[i32] = &[SIGUSR1, SIGUSR2, SIGWINCH];

/// The signals that arrive after this was made. A thread of its own receives them.
#[derive(Debug)]
pub(super) struct Signals {
    /// The numbers of the signals. Those that arrive at the same time have no order.
    pub(super) received: Receiver<i32>,
    /// Raised by the signals that end the wait.
    pub(super) interrupt: Interrupt,
    handle: Handle,
    thread: Option<JoinHandle<()>>,
}

impl Signals {
    /// Catches the signals. Those that were ignored when this process started stay ignored, here
    /// and in the job (`nohup`). PIPE, which every Rust program ignores, has its default action in
    /// the job.
    pub(super) fn catch() -> Result<Self> {
        let ignored = ignored();
        let is_wanted = |signal: &i32| ignored & (1 << (signal - 1)) == 0;
        let wanted = ENDING.iter().chain(FOR_THE_JOB).copied();
        let wanted = wanted.filter(is_wanted);
        let mut caught = Caught::new(wanted.chain([SIGCHLD, SIGCONT])).map_err(refused)?;
        let handle = caught.handle();
        let (sender, received) = unbounded();
        let interrupt = Interrupt::new();
        let raised = interrupt.clone();
        let thread = Builder::new()
            .name("leasehold-signals".into())
            .spawn(move || {
                while !caught.is_closed() {
                    for signal in in_force(caught.wait().collect()) {
                        let _ = sender.send(signal);
                        if ends_the_wait(signal) {
                            raised.interrupt();
                        }
                    }
                }
            })
            .map_err(refused)?;
        Ok(Self {
            received,
            interrupt,
            handle,
            thread: Some(thread),
        })
    }

    /// The signal that ended the wait, if one did. Other signals are dropped.
    pub(super) fn ended_the_wait(&self) -> Option<i32> {
        self.received
            .try_iter()
            .find(|&signal| ends_the_wait(signal))
    }

    /// From here on Ctrl-Z stops the job first, and this process continues to renew its lock until
    /// then.
    pub(super) fn catch_stops(&self) -> Result<()> {
        if ignored() & (1 << (SIGTSTP - 1)) != 0 {
            return Ok(());
        }
        self.handle.add_signal(SIGTSTP).map_err(refused)
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.handle.close();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// True for a signal that ends the wait for the lock, and the hold of a lock without a command.
pub(super) fn ends_the_wait(signal: i32) -> bool {
    ENDING.contains(&signal)
}

/// Removes a stop that arrives together with a continue, because their order is unknown. The system
/// handles them in the same way, and a job that runs can be stopped again.
fn in_force(mut taken_at_once: Vec<i32>) -> Vec<i32> {
    if taken_at_once.contains(&SIGCONT) {
        taken_at_once.retain(|&signal| signal != SIGTSTP);
    }
    taken_at_once
}

fn refused(error: std::io::Error) -> Failure {
    Failure::new(UNAVAILABLE, format!("signals cannot be caught: {error}"))
}

/// One bit for each signal that this process ignores, from Linux.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_stop_cancels_one_that_comes_with_it() {
        let taken = vec![SIGTERM, SIGCHLD, SIGCONT, SIGTSTP, SIGWINCH];
        assert_eq!(in_force(taken), [SIGTERM, SIGCHLD, SIGCONT, SIGWINCH]);
        assert_eq!(in_force(vec![SIGCHLD, SIGTSTP]), [SIGCHLD, SIGTSTP]);
    }
}
