//! The line on a terminal that shows which client holds the lock, while this process waits for it.

use std::io::{self, IsTerminal};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError, bounded};

use crate::args::{Kind, LockArgs};
use crate::name::shown;
use crate::reporter::is_quiet;
use crate::{output, spawn, stderr};
use leasehold::__Moment as Moment;
use leasehold::{Error, Holder, LockClient};

/// The time from the beginning of the wait to the first line, and from one line to the next.
const EVERY: Duration = Duration::from_secs(1);

/// The line of one wait.
#[derive(Debug)]
pub(super) struct WaitingLine {
    /// The thread ends when this is dropped.
    stop: Sender<()>,
    thread: Option<JoinHandle<()>>,
}

impl WaitingLine {
    /// Shows nothing with `--quiet`, or if standard error is not a terminal that can erase a line.
    pub(super) fn start(args: &LockArgs, clients: &[LockClient]) -> Self {
        let (stop, stopped) = bounded(0);
        let mut line = Self { stop, thread: None };
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        if args.no_wait || is_quiet() || is_dumb || !io::stderr().is_terminal() {
            return line;
        }
        let updater = Updater {
            key: args.key.clone(),
            has_owner: !matches!(args.kind, Kind::Permits(_)),
            clients: clients.to_vec(),
            began: Moment::now(),
            stopped,
            seen: String::new(),
            holder: None,
        };
        // Without a thread there is no line.
        line.thread = spawn("waiting-line", move || updater.run()).ok();
        line
    }

    /// Erases the line. If it `joins`, waits for the thread, which may wait for a reply of Redis.
    pub(super) fn end(self, joins: bool) {
        drop(self.stop);
        if let Some(thread) = self.thread {
            stderr::end_lines();
            let _ = joins.then(|| thread.join());
        }
    }
}

struct Updater {
    key: String,
    /// False for a semaphore.
    has_owner: bool,
    clients: Vec<LockClient>,
    began: Moment,
    /// Disconnected at the end of the wait.
    stopped: Receiver<()>,
    /// The id of the last client that was seen.
    seen: String,
    /// Its process, if it is known.
    holder: Option<Holder>,
}

impl Updater {
    fn run(mut self) {
        while self.stopped.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
            // In the background, the line is the shell's.
            if !stderr::is_in_foreground() {
                continue;
            }
            let (width, _) = output::size();
            let why = self.why();
            let text = text(&self.key, self.has_owner, self.began, &why);
            // It never blocks.
            stderr::show(cut(&text, usize::from(width).saturating_sub(1)));
        }
    }

    /// The holder, or that Redis does not reply; empty if the lock is free.
    fn why(&mut self) -> String {
        if !self.has_owner {
            return String::new();
        }
        let mut why = ", no reply from Redis";
        for client in self.clients.clone() {
            if self.stopped.try_recv() == Err(TryRecvError::Disconnected) {
                return String::new();
            }
            let Ok(status) = client.inspect(&self.key) else {
                continue;
            };
            why = "";
            match status.owner {
                Some(_) if status.readers > 1 => {
                    return format!(", held by {} readers", status.readers);
                }
                Some(owner) => {
                    return format!(", held by {}", self.holder(&client, &owner));
                }
                None => {}
            }
        }
        why.into()
    }

    /// The process of this owner, or else the owner.
    fn holder(&mut self, client: &LockClient, owner: &str) -> String {
        let id = owner.split(':').next().unwrap_or_default();
        // The list of connections is long, so it is requested once for each client.
        if self.seen != id {
            let holder = client.holder(&self.key);
            // A refusal is final.
            if !holder.as_ref().is_err_and(Error::is_transient) {
                self.seen = id.into();
            }
            let holder = holder.ok().flatten();
            self.holder = holder.filter(|holder| holder.owner.starts_with(id));
        }
        let holder = self.holder.as_ref().map(Holder::to_string);
        holder.unwrap_or_else(|| shown(owner))
    }
}

fn text(key: &str, has_owner: bool, began: Moment, why: &str) -> String {
    let what = if has_owner {
        "lock"
    } else {
        "a permit of semaphore"
    };
    let waited = Duration::from_secs(Moment::now().since(began).as_secs());
    let waited = humantime::format_duration(waited);
    format!("leasehold: waiting for {what} {key:?} for {waited}{why}")
}

/// The beginning of the text that fits into this number of columns. A character that is not ASCII
/// may take two.
fn cut(text: &str, columns: usize) -> String {
    let mut left = columns;
    let fits = |c: &char| {
        let width = if c.is_ascii() { 1 } else { 2 };
        let fits = width <= left;
        left = left.saturating_sub(width);
        fits
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
        let text = text("a\x1b[2J", true, Moment::now(), ", held by b");
        assert_eq!(
            text,
            "leasehold: waiting for lock \"a\\u{1b}[2J\" for 0s, held by b"
        );
    }
}
