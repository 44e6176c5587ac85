//! A log subscriber that panics at each call.

use std::sync::atomic::{AtomicU64, Ordering};

use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

pub const MESSAGE: &str = "the subscriber panics, on purpose";

pub static PANICS: AtomicU64 = AtomicU64::new(0);

pub struct Panicking {
    /// Whether it refuses new spans, too.
    pub refuses_spans: bool,
}

fn refuse() -> ! {
    PANICS.fetch_add(1, Ordering::SeqCst);
    panic!("{MESSAGE}");
}

impl Subscriber for Panicking {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("leasehold")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        if self.refuses_spans {
            refuse();
        }
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {
        refuse();
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {
        refuse();
    }

    fn event(&self, _: &Event<'_>) {
        refuse();
    }

    fn enter(&self, _: &Id) {
        refuse();
    }

    fn exit(&self, _: &Id) {
        refuse();
    }

    fn try_close(&self, _: Id) -> bool {
        refuse();
    }
}
