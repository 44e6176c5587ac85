//! Shows which client holds the lock while this process waits for it: a line on a terminal, or one
//! message with `--verbose`.

use std::io::{self, IsTerminal};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError, bounded};

use super::holder::{HolderReply, Holders};
use crate::args::{Kind, LockArgs};
use crate::reporter::{is_quiet, is_verbose, step};
use crate::{output, spawn, stderr};
use leasehold::__Moment as Moment;
use leasehold::LockClient;

/// The time from the beginning of the wait to the first line or the message, and from one line to
/// the next.
const EVERY: Duration = Duration::from_secs(1);

/// The line of one wait. Its thread ends when the sender is dropped.
#[derive(Debug)]
pub(super) struct WaitingLine(Option<(Sender<()>, JoinHandle<()>)>);

impl WaitingLine {
    /// Shows no line with `--quiet`, or if standard error is not a terminal that can erase a line.
    pub(super) fn start(args: &LockArgs, clients: &[LockClient]) -> Self {
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        let has_line = !is_quiet() && !is_dumb && io::stderr().is_terminal();
        if args.no_wait || !(has_line || is_verbose()) {
            return Self(None);
        }
        let (stop, stopped) = bounded(0);
        let updater = Updater {
            key: args.key.clone(),
            has_owner: !matches!(args.kind, Kind::Permits(_)),
            has_line,
            holders: Holders::new(&args.key, clients),
            began: Moment::now(),
            stopped,
        };
        // Without a thread there is no line.
        let thread = spawn("waiting-line", move || updater.run());
        Self(thread.ok().map(|thread| (stop, thread)))
    }

    /// Erases the line. If it `joins`, waits for the thread, which may wait for a reply of Redis.
    pub(super) fn end(self, joins: bool) {
        if let Some((stop, thread)) = self.0 {
            drop(stop);
            stderr::end_lines();
            let _ = joins.then(|| thread.join());
        }
    }
}

struct Updater {
    key: String,
    /// False for a semaphore.
    has_owner: bool,
    /// False if it writes one message.
    has_line: bool,
    holders: Holders,
    began: Moment,
    /// Disconnected at the end of the wait.
    stopped: Receiver<()>,
}

impl Updater {
    fn run(mut self) {
        while self.stopped.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
            if !self.has_line {
                let why = self.why();
                if !is_over(&self.stopped) {
                    step(self.text(&why));
                }
                break;
            }
            // In the background, the line is the shell's.
            if stderr::is_in_foreground() {
                let why = self.why();
                let columns = usize::from(output::size().0).saturating_sub(1);
                // It never blocks.
                stderr::show(cut(&format!("leasehold: {}", self.text(&why)), columns));
            }
        }
    }

    fn text(&self, why: &str) -> String {
        let what = match self.has_owner {
            true => "lock",
            false => "a permit of semaphore",
        };
        let waited = Duration::from_secs(Moment::now().since(self.began).as_secs());
        let (key, waited) = (&self.key, humantime::format_duration(waited));
        format!("waiting for {what} {key:?} for {waited}{why}")
    }

    /// The holder, or that Redis does not reply; empty if the lock is free.
    fn why(&mut self) -> String {
        if !self.has_owner {
            return String::new();
        }
        match self.holders.find(|| is_over(&self.stopped)) {
            HolderReply::Holder(holder) => format!(", held by {holder}"),
            HolderReply::Free => String::new(),
            HolderReply::NoReply => ", no reply from Redis".into(),
        }
    }
}

/// True at the end of the wait.
fn is_over(stopped: &Receiver<()>) -> bool {
    stopped.try_recv() == Err(TryRecvError::Disconnected)
}

/// The beginning of the text that fits into this number of columns. A character that is not ASCII
/// may take two.
fn cut(text: &str, columns: usize) -> String {
    let mut left = columns;
    let fits = |c: &char| {
        let rest = left.checked_sub(if c.is_ascii() { 1 } else { 2 });
        left = rest.unwrap_or(left);
        rest.is_some()
    };
    text.chars().take_while(fits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_fits_into_the_terminal() {
        assert_eq!(cut("leasehold", 20), "leasehold");
        assert_eq!(cut("leasehold", 5), "lease");
        assert_eq!(cut("größe", 5), "grö");
        assert_eq!(cut("größe", 0), "");
    }
    #[test]
    fn the_text_has_no_control_characters() {
        let updater = Updater {
            key: "a\x1b[2J".into(),
            has_owner: true,
            has_line: true,
            holders: Holders::new("", &[]),
            began: Moment::now(),
            stopped: bounded(0).1,
        };
        let expected = "waiting for lock \"a\\u{1b}[2J\" for 0s, held by b";
        assert_eq!(updater.text(", held by b"), expected);
    }
}
