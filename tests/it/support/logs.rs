//! What the library logs in all tests of this process, except at the levels debug and trace.

use std::fmt::{Debug, Write};
use std::sync::Once;

use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

static LINES: Mutex<Vec<(Level, String)>> = Mutex::new(Vec::new());

/// Keeps what is logged from now on.
pub fn keep() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        tracing::subscriber::set_global_default(Keeper).expect("no other test listens");
    });
}

/// The warnings and errors that contain `what`: message and fields, in order.
pub fn warnings_about(what: &str) -> Vec<String> {
    lines_about(what, |level| level <= Level::WARN)
}

/// The lines with these levels that contain `what`: message and fields, in order.
pub fn lines_about(what: &str, is_wanted: impl Fn(Level) -> bool) -> Vec<String> {
    let lines = LINES.lock();
    let about = lines
        .iter()
        .filter(|(level, line)| is_wanted(*level) && line.contains(what));
    about.map(|(_, line)| line.clone()).collect()
}

struct Keeper;

impl Subscriber for Keeper {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::INFO && metadata.target().starts_with("leasehold")
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        LINES.lock().push((*event.metadata().level(), line.0));
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
