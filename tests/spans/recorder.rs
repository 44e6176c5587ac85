//! A log subscriber that keeps spans.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Once;
use std::thread;

use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// One span. Its values are as in Rust's source, texts without quotation marks.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    pub name: &'static str,
    pub fields: BTreeMap<&'static str, String>,
    /// The span within which it began.
    pub parent: Option<u64>,
    pub was_entered: bool,
    /// The messages that were logged within it.
    pub events: Vec<String>,
    /// The name of the thread that closed it.
    pub closed_on: Option<String>,
}

impl Kept {
    pub fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }
}

/// The span with the id n is at n - 1.
static SPANS: Mutex<Vec<Kept>> = Mutex::new(Vec::new());

thread_local! {
    /// The spans that this thread is within.
    static WITHIN: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// Keeps all spans of the library from now on.
pub fn keep() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        tracing::subscriber::set_global_default(Recorder).expect("no other test listens");
    });
}

/// The spans with this name for this lock, oldest first.
pub fn spans(name: &str, lock: &str) -> Vec<Kept> {
    let spans = SPANS.lock();
    let wanted = |span: &&Kept| span.name == name && span.field("lock") == lock;
    spans.iter().filter(wanted).cloned().collect()
}

/// Runs `code` within a span of the application. Returns the id of the span.
pub fn within_a_span<T>(code: impl FnOnce() -> T) -> (u64, T) {
    let span = tracing::info_span!(target: "leasehold_test", "request");
    let id = span.id().expect("it is kept").into_u64();
    (id, span.in_scope(code))
}

struct Recorder;

fn change<T>(id: &Id, change: impl FnOnce(&mut Kept) -> T) -> T {
    let at = usize::try_from(id.into_u64() - 1).unwrap();
    change(&mut SPANS.lock()[at])
}

impl Subscriber for Recorder {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("leasehold")
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let mut span = Kept {
            name: attributes.metadata().name(),
            parent: WITHIN.with_borrow(|within| within.last().copied()),
            ..Kept::default()
        };
        attributes.record(&mut Fields(&mut span.fields));
        let mut spans = SPANS.lock();
        spans.push(span);
        Id::from_u64(spans.len() as u64)
    }

    fn record(&self, id: &Id, values: &Record<'_>) {
        change(id, |span| values.record(&mut Fields(&mut span.fields)));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = BTreeMap::new();
        event.record(&mut Fields(&mut fields));
        if let Some(id) = WITHIN.with_borrow(|within| within.last().copied()) {
            let message = fields.remove("message").unwrap_or_default();
            change(&Id::from_u64(id), |span| span.events.push(message));
        }
    }

    fn enter(&self, id: &Id) {
        WITHIN.with_borrow_mut(|within| within.push(id.into_u64()));
        change(id, |span| span.was_entered = true);
    }

    fn exit(&self, id: &Id) {
        let left = WITHIN.with_borrow_mut(Vec::pop);
        assert_eq!(left, Some(id.into_u64()), "on the thread that entered it");
    }

    fn try_close(&self, id: Id) -> bool {
        let thread = thread::current();
        let name = thread.name().unwrap_or_default().to_owned();
        change(&id, |span| {
            assert_eq!(span.closed_on, None, "{span:?}");
            span.closed_on = Some(name);
        });
        true
    }
}

struct Fields<'a>(&'a mut BTreeMap<&'static str, String>);

impl Visit for Fields<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}
