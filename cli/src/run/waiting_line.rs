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

/// The line of one wait. Its thread ends when the sender is dropped.
#[derive(Debug)]
pub(super) struct WaitingLine(Option<(Sender<()>, JoinHandle<()>)>);

impl WaitingLine {
    /// Shows nothing with `--quiet`, or if standard error is not a terminal that can erase a line.
    pub(super) fn start(args: &LockArgs, clients: &[LockClient]) -> Self {
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        if args.no_wait || is_quiet() || is_dumb || !io::stderr().is_terminal() {
            return Self(None);
        }
        let (stop, stopped) = bounded(0);
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
            if stderr::is_in_foreground() {
                let why = self.why();
                let columns = usize::from(output::size().0).saturating_sub(1);
                // It never blocks.
                stderr::show(cut(&self.text(&why), columns));
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
        format!("leasehold: waiting for {what} {key:?} for {waited}{why}")
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
            if let Some(owner) = status.owner {
                let holder = match status.readers {
                    ..=1 => self.holder(&client, &owner),
                    readers => format!("{readers} readers"),
                };
                return format!(", held by {holder}");
            }
            why = "";
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
            clients: vec![],
            began: Moment::now(),
            stopped: bounded(0).1,
            seen: String::new(),
            holder: None,
        };
        let expected = "leasehold: waiting for lock \"a\\u{1b}[2J\" for 0s, held by b";
        assert_eq!(updater.text(", held by b"), expected);
    }
}
