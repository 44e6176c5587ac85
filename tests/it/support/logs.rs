//! The warnings and errors that the library logs in all tests of this process.

use std::fmt::{Debug, Write};
use std::sync::Once;

use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

static WARNINGS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Keeps warnings from now on.
pub fn keep() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        tracing::subscriber::set_global_default(Keeper).expect("no other test listens");
    });
}

/// The warnings that contain `what`: message and fields, in order.
pub fn warnings_about(what: &str) -> Vec<String> {
    let warnings = WARNINGS.lock();
    let about = warnings.iter().filter(|warning| warning.contains(what));
    about.cloned().collect()
}

struct Keeper;

impl Subscriber for Keeper {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN && metadata.target().starts_with("leasehold")
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        WARNINGS.lock().push(line.0);
    }

    // The library has no spans.
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{}={value:?} ", field.name()).expect("memory");
    }
}
