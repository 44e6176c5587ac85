//! The line on a terminal that shows which client holds the lock, while this process waits for it.

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use parking_lot::Mutex;

use crate::args::{Kind, LockArgs};
use crate::name::shown;
use crate::reporter::Reporter;
use crate::{output, stderr};
use leasehold::__Moment as Moment;
use leasehold::{Error, Holder, LockClient};

/// The time from the beginning of the wait to the first line, and from one line to the next.
const EVERY: Duration = Duration::from_secs(1);

/// Dropping it erases the line, and joins its thread, which may wait for a reply of Redis.
#[derive(Debug)]
pub(super) struct WaitingLine {
    /// True if no line may be shown any more.
    is_over: Arc<Mutex<bool>>,
    /// The thread ends when this is dropped.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl WaitingLine {
    /// Shows nothing with `--quiet`, or if standard error is not a terminal that can erase a line.
    pub(super) fn start(args: &LockArgs, clients: &[LockClient], reporter: Reporter) -> Self {
        let (stop, stopped) = bounded(0);
        let mut line = Self {
            is_over: Arc::default(),
            stop: Some(stop),
            thread: None,
        };
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        if args.no_wait || reporter.is_quiet() || is_dumb || !io::stderr().is_terminal() {
            return line;
        }
        let updater = Updater {
            key: args.key.clone(),
            has_owner: !matches!(args.kind, Kind::Permits(_)),
            clients: clients.to_vec(),
            began: Moment::now(),
            is_over: Arc::clone(&line.is_over),
            seen: String::new(),
            holder: None,
        };
        let thread = Builder::new().name("leasehold-waiting-line".into());
        // Without a thread there is no line.
        line.thread = thread.spawn(move || updater.run(&stopped)).ok();
        line
    }

    /// Erases the line, and does not wait for its thread, which ends after
    /// its current request.
    pub(super) fn detach(mut self) {
        self.erase();
        self.thread = None;
    }

    fn erase(&mut self) {
        self.stop = None;
        *self.is_over.lock() = true;
        if self.thread.is_some() {
            stderr::erase();
        }
    }
}

impl Drop for WaitingLine {
    fn drop(&mut self) {
        self.erase();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Updater {
    key: String,
    /// False for a semaphore.
    has_owner: bool,
    clients: Vec<LockClient>,
    began: Moment,
    is_over: Arc<Mutex<bool>>,
    /// The id of the last client that was seen.
    seen: String,
    /// Its process, if it is known.
    holder: Option<Holder>,
}

impl Updater {
    fn run(mut self, stopped: &Receiver<()>) {
        while stopped.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
            // In the background, the line is the shell's.
            if !stderr::is_in_foreground() {
                continue;
            }
            let (width, _) = output::size();
            let why = self.why();
            let text = text(&self.key, self.has_owner, self.began, &why);
            let line = cut(&text, usize::from(width).saturating_sub(1));
            let is_over = self.is_over.lock();
            if !*is_over {
                // It never blocks.
                stderr::show(line);
            }
        }
    }

    /// The holder, or that Redis does not reply; empty if the lock is free.
    fn why(&mut self) -> String {
        if !self.has_owner {
            return String::new();
        }
        let mut has_replied = false;
        let held = self.clients.iter().find_map(|client| {
            if *self.is_over.lock() {
                return None;
            }
            let status = client.inspect(&self.key).ok()?;
            has_replied = true;
            Some((client, status.owner?, status.readers))
        });
        let Some((client, owner, readers)) = held else {
            let why = if has_replied {
                ""
            } else {
                ", no reply from Redis"
            };
            return why.into();
        };
        if readers > 1 {
            return format!(", held by {readers} readers");
        }
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
        format!(", held by {}", holder.unwrap_or_else(|| shown(owner)))
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
