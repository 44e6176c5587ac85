//! Says which client holds the lock, if this process waits for it: one message, on a terminal or
//! with `--verbose`.

use std::io::{self, IsTerminal};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, Sender, TryRecvError, bounded};

use super::holder::find_holder;
use crate::args::LockArgs;
use crate::reporter::{is_verbose, remark};
use crate::spawn;
use leasehold::LockClient;

/// The time from the beginning of the wait to the message.
const AFTER: Duration = Duration::from_secs(1);

/// The message of one wait. Its thread ends when the sender is dropped.
#[derive(Debug)]
pub(super) struct WaitingMessage(Option<(Sender<()>, JoinHandle<()>)>);

impl WaitingMessage {
    pub(super) fn start(args: &LockArgs, clients: &[LockClient]) -> Self {
        if args.no_wait || !(io::stderr().is_terminal() || is_verbose()) {
            return Self(None);
        }
        let (stop, stopped) = bounded::<()>(0);
        let (key, clients) = (args.key.clone(), clients.to_vec());
        let write = move || {
            if stopped.recv_timeout(AFTER) == Err(RecvTimeoutError::Timeout) {
                let message = message(&key, &clients);
                if stopped.try_recv() != Err(TryRecvError::Disconnected) {
                    remark(message);
                }
            }
        };
        // Without a thread there is no message.
        let thread = spawn("waiting-message", write);
        Self(thread.ok().map(|thread| (stop, thread)))
    }

    /// Ends the wait. If it `joins`, waits for the thread, which may wait for a reply of Redis.
    pub(super) fn end(self, joins: bool) {
        if let Some((stop, thread)) = self.0 {
            drop(stop);
            let _ = joins.then(|| thread.join());
        }
    }
}

fn message(key: &str, clients: &[LockClient]) -> String {
    let holder = find_holder(key, clients).map(|holder| format!(", held by {holder}"));
    format!(
        "still waiting for lock {key:?}{}",
        holder.unwrap_or_default()
    )
}
