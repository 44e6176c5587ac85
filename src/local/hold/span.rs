//! The span of a hold: from the moment when its thread has it until it is released or lost.

use super::Hold;
use crate::observe::HoldSpan;

impl Hold {
    /// Begins the span, unless no log subscriber wants it. Calls code of the application.
    pub(crate) fn begin_span(&self, kind: &'static str, node: &str) {
        let Some(span) = HoldSpan::begin(self.key.name(), kind, node, self.token()) else {
            return;
        };
        {
            let mut state = self.state.lock();
            if state.end.is_none() {
                state.span = Some(span);
                return;
            }
        }
        // It was lost a moment ago.
        span.end("lost");
    }

    /// Ends the span, if there is one. Calls code of the application.
    pub(crate) fn end_span(&self, outcome: &'static str) {
        if let Some(span) = self.remove_span() {
            span.end(outcome);
        }
    }

    pub(super) fn remove_span(&self) -> Option<Box<HoldSpan>> {
        self.state.lock().span.take()
    }
}
