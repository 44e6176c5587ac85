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
use crate::base::process::Process;
use crate::error::LostReason;

const LEVEL: Level = Level::DEBUG;

/// False if no subscriber wants spans.
#[inline]
pub(crate) fn are_spans_enabled() -> bool {
    LEVEL <= STATIC_MAX_LEVEL && LEVEL <= LevelFilter::current()
}

/// A span that a subscriber wants.
#[derive(Debug)]
struct Enabled(Span);

impl Enabled {
    fn new(make: impl FnOnce() -> Span) -> Option<Self> {
        let mut span = Span::none();
        run(|| span = make());
        (!span.is_disabled()).then_some(Self(span))
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
}

/// Closes the span.
impl Drop for Enabled {
    fn drop(&mut self) {
        let span = std::mem::replace(&mut self.0, Span::none());
        run(|| drop(span));
    }
}

/// The wait of this thread, which is within the span until this is dropped.
#[derive(Debug)]
pub(crate) struct WaitSpan(Option<Enabled>);

impl WaitSpan {
    #[inline]
    pub(crate) fn enter(lock: &str, kind: &'static str) -> Self {
        Self(if are_spans_enabled() {
            Self::enter_new(lock, kind)
        } else {
            None
        })
    }

    #[cold]
    fn enter_new(lock: &str, kind: &'static str) -> Option<Enabled> {
        let span = Enabled::new(
            || tracing::span!(target: "leasehold", LEVEL, "lock.wait", lock, kind, outcome = Empty),
        );
        span.inspect(|span| span.call(Dispatch::enter))
    }

    pub(crate) fn end(self, outcome: &'static str) {
        if let Some(span) = &self.0 {
            span.record("outcome", outcome);
        }
    }
}

impl Drop for WaitSpan {
    fn drop(&mut self) {
        if let Some(span) = &self.0 {
            span.call(Dispatch::exit);
        }
    }
}

/// The span of a hold. No thread is within it, because the hold may end on another thread.
#[derive(Debug)]
pub(crate) struct HoldSpan {
    /// `None` after it was dropped.
    span: Option<Enabled>,
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
        let span = Enabled::new(|| {
            tracing::span!(
                target: "leasehold", LEVEL, "lock.hold",
                lock, kind, node, token, outcome = Empty, reason = Empty,
            )
        })?;
        Some(Box::new(Self {
            span: Some(span),
            process: Process::current(),
        }))
    }

    /// Ends the span, on the reporter if this is a thread of the client.
    pub(crate) fn end(self, outcome: &'static str) {
        tell(move || {
            if let Some(span) = &self.span {
                span.record("outcome", outcome);
            }
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

impl HoldSpan {
    /// Logs the loss of a hold, within its span, which ends.
    pub(crate) fn log_loss(lock: Arc<str>, reason: LostReason, span: Option<Box<Self>>) {
        let log = move || {
            let span = span.as_ref().and_then(|span| span.span.as_ref());
            if let Some(span) = span {
                span.call(Dispatch::enter);
            }
            run(|| tracing::warn!(lock = &*lock, %reason, "a held lock is lost"));
            if let Some(span) = span {
                span.call(Dispatch::exit);
                span.record("outcome", "lost");
                span.record("reason", label_of(reason));
            }
        };
        tell(log);
    }
}
