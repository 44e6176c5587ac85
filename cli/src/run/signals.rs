//! The signals for the command, and those about it.

use std::sync::Arc;

use crossbeam_channel::{Receiver, unbounded};
use signal_hook::consts::{
    SIGALRM, SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGIO, SIGPROF, SIGQUIT, SIGSYS, SIGTERM, SIGTSTP,
    SIGUSR1, SIGUSR2, SIGVTALRM, SIGWINCH, SIGXCPU, SIGXFSZ,
};
use signal_hook::flag;
use signal_hook::iterator::Signals as Caught;

use crate::outcome::{Failure, Result, UNAVAILABLE};
use crate::spawn;
use leasehold::Interrupt;

#[cfg(any(target_os = "linux", target_os = "android"))]
const SIGPWR: i32 = nix::sys::signal::Signal::SIGPWR as i32;

/// Other systems have no such signal.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const SIGPWR: i32 = SIGTERM;

/// These end the wait for the lock.
const ENDING: [i32; 12] = [
    SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGALRM, SIGVTALRM, SIGPROF, SIGIO, SIGXCPU, SIGXFSZ, SIGSYS,
    SIGPWR,
];

/// These are only passed on to the command.
const FOR_THE_COMMAND: [i32; 4] = [SIGUSR1, SIGUSR2, SIGWINCH, SIGCONT];

/// The signals that arrive after this was made. A thread receives them, which ends with the
/// process.
#[derive(Debug)]
pub(super) struct Signals {
    /// The numbers of the signals. Those that arrive at the same time have no order.
    pub(super) received: Receiver<i32>,
    /// Raised by the signals that end the wait.
    pub(super) interrupt: Interrupt,
}

impl Signals {
    /// Catches the signals. Those that were ignored when this process started stay ignored, here
    /// and in the command (`nohup`). PIPE, which every Rust program ignores, has its default action
    /// in the command.
    pub(super) fn catch() -> Result<Self> {
        let wanted = ENDING.into_iter().chain(FOR_THE_COMMAND);
        let wanted = wanted.filter(|signal| !is_ignored(*signal));
        let mut caught = Caught::new(wanted.chain([SIGCHLD])).map_err(refused)?;
        let (sender, received) = unbounded();
        let interrupt = Interrupt::new();
        let raised = interrupt.clone();
        let receive = move || {
            loop {
                for signal in caught.wait() {
                    let _ = sender.send(signal);
                    if ends_the_wait(signal) {
                        raised.interrupt();
                    }
                }
            }
        };
        spawn("signals", receive).map_err(refused)?;
        Ok(Self {
            received,
            interrupt,
        })
    }

    /// The signal that ended the wait, if one did. Other signals are dropped.
    pub(super) fn ended_the_wait(&self) -> Option<i32> {
        let mut received = self.received.try_iter();
        received.find(|&signal| ends_the_wait(signal))
    }
}

/// From here on Ctrl-Z does not stop this process.
pub(super) fn ignore_stops() -> Result<()> {
    let caught = flag::register(SIGTSTP, Arc::default());
    caught.map(drop).map_err(refused)
}

/// True for a signal that ends the wait for the lock, and the hold of a lock without a command.
pub(super) fn ends_the_wait(signal: i32) -> bool {
    ENDING.contains(&signal)
}

fn refused(error: std::io::Error) -> Failure {
    Failure::new(UNAVAILABLE, format!("signals cannot be caught: {error}"))
}

/// True if this process ignores the signal, as Linux reports it.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let bits = line.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    bits.unwrap_or(0) & (1 << (signal - 1)) != 0
}
