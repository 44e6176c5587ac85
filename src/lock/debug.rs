//! The `Debug` output of clients, locks and guards: one short line. It needs no I/O and changes no
//! state.

use std::fmt;
use std::sync::Arc;

use crate::error::{Error, Result};

/// Longer texts, such as the names of many locks, are cut off.
const LONGEST: usize = 64;

/// A text of which `Debug` shows at most the first [`LONGEST`] bytes.
pub(crate) struct Short<'a>(pub(crate) &'a str);

impl fmt::Debug for Short<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(text) = self;
        if text.len() <= LONGEST {
            return text.fmt(f);
        }
        let end = (0..=LONGEST).rev().find(|&at| text.is_char_boundary(at));
        write!(f, "{:?}..", &text[..end.unwrap_or_default()])
    }
}

/// The result of a check: `Held`, `Lost(reason)` or `NotHeld`.
pub(super) fn state_of(check: &Result<()>) -> String {
    match check {
        Ok(()) => "Held".into(),
        Err(Error::Lost { reason, .. }) => format!("Lost({reason:?})"),
        Err(_) => "NotHeld".into(),
    }
}

/// Shows a handle: its type, its name, the servers that have it, and the levels of this thread if
/// it can have levels.
pub(super) fn show_handle(
    f: &mut fmt::Formatter<'_>,
    handle: &str,
    name: &str,
    nodes: impl Iterator<Item = Arc<str>>,
    hold_count: Option<u32>,
) -> fmt::Result {
    let mut distinct: Vec<Arc<str>> = Vec::new();
    for node in nodes {
        if !distinct.contains(&node) {
            distinct.push(node);
        }
    }
    let mut shown = f.debug_struct(handle);
    shown
        .field("name", &Short(name))
        .field("node", &Short(&distinct.join(", ")));
    if let Some(hold_count) = hold_count {
        shown.field("hold_count", &hold_count);
    }
    shown.finish()
}
