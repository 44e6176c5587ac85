//! The thread that calls the program's credentials provider, and logs the open links in again.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use crate::base::Moment;
use crate::base::callback_thread::CallbackThread;
use crate::observe::{Observer, tell};
use crate::transport::credentials::{Provide, Provided, Usable};
use crate::transport::link::Outcome;
use crate::transport::retry_action::RetryAction;
use crate::transport::server::Server;

/// How long the drop of a client waits for the log-ins that are under way.
const LAST_LOG_INS: Duration = Duration::from_millis(250);

/// The owner of the thread `leasehold-credentials`.
#[derive(Debug)]
pub(crate) struct ProviderThread {
    provided: Arc<Provided>,
    thread: CallbackThread,
}

impl ProviderThread {
    /// `servers` returns those that have open links. The replies to a log-in on them are awaited
    /// for this `timeout`.
    pub(crate) fn start(
        provide: Provide,
        provided: Arc<Provided>,
        observer: &Observer,
        timeout: Duration,
        servers: impl Fn() -> Vec<Arc<Server>> + Send + 'static,
    ) -> io::Result<Self> {
        let of_thread = Arc::clone(&provided);
        let thread = CallbackThread::start(|done| {
            observer.queue.spawn("leasehold-credentials", move || {
                let _done = done;
                while of_thread.begin_call() {
                    if let Some(usable) = call(&provide, &of_thread)
                        && log_in(&usable, servers(), timeout)
                    {
                        of_thread.refused(usable.calls);
                    }
                }
            })
        })?;
        Ok(Self { provided, thread })
    }

    /// Waits for the first credentials, at most for this time. Returns why there are none.
    pub(crate) fn await_first(&self, time: Duration) -> Result<(), String> {
        self.provided.await_first(time)
    }
}

/// It does not wait for a provider that blocks. The thread ends when that returns.
impl Drop for ProviderThread {
    fn drop(&mut self) {
        let provided = &self.provided;
        self.thread.end(|| match provided.stop() {
            true => Duration::ZERO,
            false => LAST_LOG_INS,
        });
    }
}

/// Calls the provider, and logs a failure.
fn call(provide: &Provide, provided: &Provided) -> Option<Usable> {
    // The text of its error is code of the program, too.
    let called = || provide().map_err(|error| error.to_string());
    let result = match catch_unwind(AssertUnwindSafe(called)) {
        Ok(result) => result.map_err(|error| format!("the credentials provider failed: {error}")),
        Err(_) => Err("the credentials provider panicked".into()),
    };
    if let Err(failure) = &result {
        let failure = failure.clone();
        tell(move || tracing::warn!(failure, "the last credentials stay in use"));
    }
    provided.end_call(result)
}

/// Logs in again on all open links. True if a server refuses that: its links keep the log-in that
/// they have. Before Redis 6, a link would lose that by a refusal, so a new connection logs in
/// first.
///
/// A subscriber may send no AUTH while it listens, so its connection keeps its log-in, too. What
/// opens a connection for each use gets the new credentials by the next use.
fn log_in(usable: &Usable, servers: Vec<Arc<Server>>, timeout: Duration) -> bool {
    let credentials = &usable.credentials;
    let until = Moment::now().after(timeout);
    let untried = (1..=servers.len()).rev();
    let servers = servers.into_iter().zip(untried);
    let (refusing, others): (Vec<_>, Vec<_>) = servers.partition(|(server, untried)| {
        let time = until.share(*untried);
        !server.open_links().is_empty() && server.node.refuses(credentials, time)
    });
    let now = Moment::now();
    let packed = credentials.log_in().get_packed_command();
    let links = others.iter().flat_map(|(server, _)| {
        if usable.is_new {
            server.blocking_connections.retire_all(now);
        }
        server.open_links()
    });
    // All of them before the first wait.
    let sent: Vec<_> = links
        .map(|link| {
            link.choose(1);
            link.send(1, now, |out| out.commands(1, &packed))
        })
        .collect();
    let until = now.after(timeout);
    let mut is_refused = !refusing.is_empty();
    for one in sent {
        one.wait(until, Duration::MAX);
        let outcome = one.pending.outcomes().pop().flatten();
        is_refused |= matches!(
            outcome,
            Some(Outcome::Replied(Err(error), _)) if RetryAction::refuses_log_in(&error)
        );
    }
    is_refused
}

#[cfg(test)]
mod tests;
