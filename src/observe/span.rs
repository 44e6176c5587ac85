//! The spans of `tracing`: a thread waits for a lock, and holds it.
//!
//! A span calls the log subscriber, which is code of the application: it may panic, and it may
//! block. So all calls of a subscriber are made here, without a locked mutex, on a thread of the
//! application or on the reporter. If no subscriber wants these spans, each of them costs one
//! comparison, and nothing is allocated.

use std::sync::Arc;

use tracing::field::Empty;
use tracing::level_filters::{LevelFilter, STATIC_MAX_LEVEL};
use tracing::{Dispatch, Level, Span};

use super::counters::label_of;
use super::reporter::{is_own_thread, run, tell};
use crate::base::Process;
use crate::error::{Error, LostReason, Result};

const LEVEL: Level = Level::DEBUG;

/// False if no subscriber wants spans.
#[inline]
pub(crate) fn are_spans_enabled() -> bool {
    LEVEL <= STATIC_MAX_LEVEL && LEVEL <= LevelFilter::current()
}

/// How a call ended that waits for a lock, for permits, for a latch or on a condition: the label in
/// its span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WaitOutcome(&'static str);

impl WaitOutcome {
    /// It has what it waited for.
    pub(crate) const ACQUIRED: Self = Self("acquired");
    /// It has a further level: its thread already held the lock.
    pub(crate) const REENTERED: Self = Self("reentered");
    /// Its wait ended first.
    pub(crate) const TIMEOUT: Self = Self("timeout");
    pub(super) const UNAVAILABLE: Self = Self("unavailable");
    pub(super) const REFUSED: Self = Self("refused");

    /// The outcome of a call, by that of a value.
    pub(crate) fn of<T>(result: &Result<T>, of_value: impl FnOnce(&T) -> Self) -> Self {
        match result {
            Ok(value) => of_value(value),
            Err(Error::Unavailable { .. }) => Self::UNAVAILABLE,
            Err(Error::Redis { .. } | Error::WrongType { .. } | Error::TooFewReplicas { .. }) => {
                Self::REFUSED
            }
            Err(Error::Interrupted { .. }) => Self("interrupted"),
            Err(Error::ShutDown { .. }) => Self("shut_down"),
            Err(Error::Lost { .. }) => Self("lost"),
            Err(_) => Self("invalid"),
        }
    }

    /// The outcome of a call that returns whether it has what it waited for.
    pub(crate) fn of_wait(result: &Result<bool>) -> Self {
        Self::of(result, |has_acquired| match has_acquired {
            true => Self::ACQUIRED,
            false => Self::TIMEOUT,
        })
    }
}

/// A span whose subscriber may panic. It does nothing if no subscriber wants it.
#[derive(Debug)]
struct Guarded(Span);

impl Guarded {
    fn new(make: impl FnOnce() -> Span) -> Self {
        let mut span = Span::none();
        run(|| span = make());
        Self(span)
    }

    fn call(&self, call: fn(&Dispatch, &tracing::Id)) {
        run(|| {
            self.0
                .with_subscriber(|(id, subscriber)| call(subscriber, id));
        });
    }

    fn record(&self, field: &'static str, value: &'static str) {
        run(|| {
            self.0.record(field, value);
        });
    }

    fn take(&mut self) -> Span {
        std::mem::replace(&mut self.0, Span::none())
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let span = self.take();
        run(|| drop(span));
    }
}

/// The wait of this thread, which is within the span until this is dropped.
#[derive(Debug)]
pub(crate) struct WaitSpan(Guarded);

impl WaitSpan {
    #[inline]
    pub(crate) fn enter(lock: &str, kind: &'static str) -> Self {
        if !are_spans_enabled() {
            return Self(Guarded(Span::none()));
        }
        let span = Guarded::new(
            || tracing::span!(target: "leasehold", LEVEL, "lock.wait", lock, kind, outcome = Empty),
        );
        span.call(Dispatch::enter);
        Self(span)
    }

    pub(crate) fn end(self, WaitOutcome(label): WaitOutcome) {
        self.0.record("outcome", label);
    }
}

impl Drop for WaitSpan {
    fn drop(&mut self) {
        self.0.call(Dispatch::exit);
    }
}

/// The span of a hold. No thread is within it, because the hold may end on another thread.
#[derive(Debug)]
pub(crate) struct HoldSpan {
    span: Guarded,
    process: Process,
}

impl HoldSpan {
    /// Begins a span, unless no subscriber wants it. `node` is the server that has the lock.
    pub(crate) fn begin(
        lock: &str,
        kind: &'static str,
        node: &str,
        token: Option<u64>,
    ) -> Option<Box<Self>> {
        let span = Guarded::new(|| {
            tracing::span!(
                target: "leasehold", LEVEL, "lock.hold",
                lock, kind, node, token, outcome = Empty, reason = Empty,
            )
        });
        let process = Process::current();
        (!span.0.is_disabled()).then(|| Box::new(Self { span, process }))
    }

    /// Ends the span, on the reporter if this is a thread of the client.
    pub(crate) fn end(self, outcome: &'static str) {
        tell(move || self.span.record("outcome", outcome));
    }

    /// Logs the loss of a hold, within its span, which ends.
    pub(crate) fn log_loss(lock: Arc<str>, reason: LostReason, span: Option<Box<Self>>) {
        tell(move || {
            let none = Guarded(Span::none());
            let span = span.as_ref().map_or(&none, |span| &span.span);
            span.call(Dispatch::enter);
            run(|| tracing::warn!(lock = &*lock, %reason, "a held lock is lost"));
            span.call(Dispatch::exit);
            span.record("outcome", "lost");
            span.record("reason", label_of(reason));
        });
    }
}

impl Drop for HoldSpan {
    fn drop(&mut self) {
        // In a forked child, a mutex of the subscriber may stay locked. A thread of the client must
        // not wait for the subscriber: it drops a span only if the reporter has no room for it.
        if !self.process.is_current() || is_own_thread() {
            std::mem::forget(self.span.take());
        }
    }
}
