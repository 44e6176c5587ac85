//! The user and the password of new connections: those of the settings, or those that the
//! program's provider returned last.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use redis::{Cmd, RedisError};

use crate::base::{Backoff, Moment, wait_for_state};
use crate::error::Cause;
use crate::transport::log_in_error;

/// The user and the password with which a client logs in to the servers that have the locks. A
/// [`credentials_provider`] returns them.
///
/// `Debug` shows nothing of them.
///
/// [`credentials_provider`]: crate::LockClientBuilder::credentials_provider
#[derive(Clone)]
pub struct Credentials {
    pub(crate) user: Option<String>,
    pub(crate) password: String,
    until: Moment,
}

impl Credentials {
    /// The password of Redis' default user.
    #[must_use]
    pub fn password(password: impl Into<String>) -> Self {
        Self {
            user: None,
            password: password.into(),
            until: Moment::NEVER,
        }
    }

    /// A user and its password.
    #[must_use]
    pub fn user(name: impl Into<String>, password: impl Into<String>) -> Self {
        Self {
            user: Some(name.into()),
            ..Self::password(password)
        }
    }

    /// Sets until when the server accepts them. The client asks for new ones in advance: after nine
    /// tenths of the time, and at least five seconds before the end. By default it asks only when
    /// the server has refused them.
    #[must_use]
    pub fn until(mut self, end: Instant) -> Self {
        self.until = end.into();
        self
    }

    /// Without a password, a connection does not log in.
    pub(crate) fn of(user: Option<String>, password: Option<String>) -> Option<Self> {
        let credentials = Self::password(password?);
        Some(Self {
            user,
            ..credentials
        })
    }

    /// The command that logs in with them.
    pub(super) fn log_in(&self) -> Cmd {
        let mut auth = redis::cmd("AUTH");
        auth.arg(self.user.as_ref()).arg(&self.password);
        auth
    }

    /// This error of a log-in, without the password in any of its texts.
    pub(super) fn hide_in(&self, error: RedisError) -> RedisError {
        log_in_error::without_password(error, &self.password)
    }

    /// The user and the password are the same.
    pub(crate) fn is(&self, other: &Self) -> bool {
        (&self.user, &self.password) == (&other.user, &other.password)
    }

    /// When new ones are asked for in advance.
    fn renewal(&self, now: Moment) -> Moment {
        match self.until {
            Moment::NEVER => Moment::NEVER,
            until => {
                let most = until.since(now) / 10 * 9;
                now.after(most).min(until.before(MARGIN))
            }
        }
    }
}

/// Shows no secret.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

/// How long before their end new credentials are asked for, at least.
const MARGIN: Duration = Duration::from_secs(5);

/// The least time from one call of a provider to the next. It doubles while the calls bring nothing
/// new, so that a wrong provider costs little.
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(10));

/// How long a refused log-in waits for the call of a provider that is due or has begun.
const PATIENCE: Duration = Duration::from_secs(1);

/// Where a new connection gets its credentials.
#[derive(Debug)]
pub(crate) enum CredentialSource {
    /// They never change. `None`: no log-in.
    Fixed(Option<Credentials>),
    Provided(Arc<Provided>),
}

/// The function of the program that returns credentials. Clients from one builder share it.
pub(crate) type Provide = Arc<dyn Fn() -> Result<Credentials, Cause> + Send + Sync>;

/// What a provider has returned, and when it is called next.
#[derive(Debug)]
pub(crate) struct Provided {
    state: Mutex<ProvidedState>,
    changed: Condvar,
}

/// Credentials with which the open connections log in again.
#[derive(Debug)]
pub(super) struct Usable {
    pub(super) credentials: Credentials,
    /// Not those of the last call. Otherwise a server has refused them before.
    pub(super) is_new: bool,
    /// How many calls have ended.
    pub(super) calls: u64,
}

/// Its mutex protects these invariants:
///
/// * The provider's thread sleeps only until a call is due, and ends only after `is_stopped`.
/// * A log-in that was refused asks for a call only if none has ended since it took its
///   credentials, and waits only for a call that ends after that.
#[derive(Debug)]
struct ProvidedState {
    last: Option<Credentials>,
    /// A server has refused the last ones.
    is_refused: bool,
    /// Why the last call brought none.
    failure: Option<String>,
    /// How many calls have ended.
    calls: u64,
    /// When the last call began.
    began: Moment,
    is_calling: bool,
    /// When the next call begins.
    due: Moment,
    pauses: Backoff,
    /// The least time from the beginning of the last call to that of the next.
    pause: Duration,
    is_stopped: bool,
}

impl CredentialSource {
    /// The credentials of a new connection, and how many calls of the provider had ended then.
    pub(super) fn last(&self) -> (Option<Credentials>, u64) {
        match self {
            Self::Fixed(credentials) => (credentials.clone(), 0),
            Self::Provided(provided) => provided.last(),
        }
    }

    /// Asks for new credentials, because a server has refused those after this number of calls.
    pub(super) fn refused(&self, calls: u64) {
        if let Self::Provided(provided) = self {
            provided.refused(calls);
        }
    }

    /// Asks for new credentials, because a server has refused those after this number of calls.
    /// True if a further call has ended well by this moment, so that the log-in is tried again.
    pub(super) fn renewed(&self, calls: u64, until: Moment) -> bool {
        self.refused(calls);
        match self {
            Self::Fixed(_) => false,
            Self::Provided(provided) => provided.await_call(calls, until),
        }
    }
}

impl Default for Provided {
    /// The first call is due.
    fn default() -> Self {
        Self {
            state: Mutex::new(ProvidedState {
                last: None,
                is_refused: false,
                failure: None,
                calls: 0,
                began: Moment::ZERO,
                is_calling: false,
                due: Moment::ZERO,
                pauses: BACKOFF,
                pause: Duration::ZERO,
                is_stopped: false,
            }),
            changed: Condvar::new(),
        }
    }
}

impl Provided {
    fn last(&self) -> (Option<Credentials>, u64) {
        let state = self.state.lock();
        (state.last.clone(), state.calls)
    }

    /// Waits until the first call has ended, at most for this time. Fails if it has brought no
    /// credentials.
    pub(super) fn await_first(&self, time: Duration) -> Result<(), String> {
        let mut state = self.state.lock();
        let until = Moment::now().after(time);
        wait_for_state(&self.changed, &mut state, until, |state| state.calls > 0);
        match (&state.last, &state.failure) {
            (Some(_), _) => Ok(()),
            (None, Some(failure)) => Err(failure.clone()),
            (None, None) => Err(format!(
                "the credentials provider has not returned in {time:?}"
            )),
        }
    }

    /// Makes a call due, unless one has ended since this number of calls.
    pub(super) fn refused(&self, calls: u64) {
        let mut state = self.state.lock();
        if state.calls == calls {
            state.is_refused = true;
            state.due = state.due.min(state.began.after(state.pause));
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Waits until a call has ended since this number of calls, at most until this moment. Does not
    /// wait for a call that has begun long before, or is not due soon. True if it ended well.
    fn await_call(&self, calls: u64, until: Moment) -> bool {
        let mut state = self.state.lock();
        let begins = match state.is_calling {
            true => state.began,
            false => state.due.max(Moment::now()),
        };
        if begins.left() <= PATIENCE {
            let until = until.min(begins.after(PATIENCE));
            wait_for_state(&self.changed, &mut state, until, |state| {
                state.calls > calls || state.is_stopped
            });
        }
        state.calls > calls && state.failure.is_none()
    }

    /// Waits until a call is due, and begins it. False at the end of the client.
    pub(super) fn begin_call(&self) -> bool {
        let mut state = self.state.lock();
        while !state.is_stopped && !state.due.is_past() {
            let due = state.due;
            wait_for_state(&self.changed, &mut state, due, |state| {
                state.is_stopped || state.due < due
            });
        }
        state.is_calling = !state.is_stopped;
        state.began = Moment::now();
        state.is_calling
    }

    /// Records what a call has brought: credentials, or why there are none. Returns what the open
    /// connections log in with, if they have to.
    pub(super) fn end_call(&self, result: Result<Credentials, String>) -> Option<Usable> {
        let mut state = self.state.lock();
        let now = Moment::now();
        state.is_calling = false;
        state.calls += 1;
        let is_last = |new: &Credentials| state.last.as_ref().is_some_and(|last| last.is(new));
        let is_new = result.as_ref().is_ok_and(|new| !is_last(new));
        if is_new {
            state.pauses.reset();
        }
        state.pause = state.pauses.next();
        let earliest = state.began.after(state.pause);
        let calls = state.calls;
        let usable = match result {
            Ok(credentials) => {
                state.failure = None;
                state.due = credentials.renewal(now).max(earliest);
                state.last = Some(credentials.clone());
                let was_refused = std::mem::take(&mut state.is_refused);
                (is_new || was_refused).then_some(Usable {
                    credentials,
                    is_new,
                    calls,
                })
            }
            Err(failure) => {
                state.failure = Some(failure);
                state.due = earliest;
                None
            }
        };
        let is_stopped = state.is_stopped;
        drop(state);
        self.changed.notify_all();
        usable.filter(|_| !is_stopped)
    }

    /// Ends the thread and the waits. Returns whether the provider is called now.
    pub(super) fn stop(&self) -> bool {
        let mut state = self.state.lock();
        state.is_stopped = true;
        let is_calling = state.is_calling;
        drop(state);
        self.changed.notify_all();
        is_calling
    }
}

#[cfg(test)]
mod tests;
