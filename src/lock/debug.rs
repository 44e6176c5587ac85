//! The `Debug` output of clients, locks and guards: one short line. It needs no I/O and changes no
//! state.

use std::fmt;

use crate::engine::Part;
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

/// Shows the result of a check as `Held`, `Lost(reason)` or `NotHeld`.
pub(super) struct CheckResult<'a>(pub(super) &'a Result<()>);

impl fmt::Debug for CheckResult<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Ok(()) => f.write_str("Held"),
            Err(Error::Lost { reason, .. }) => write!(f, "Lost({reason:?})"),
            Err(_) => f.write_str("NotHeld"),
        }
    }
}

/// Writes the `Debug` output of a lock that consists of `parts`.
pub(super) fn show_lock(
    f: &mut fmt::Formatter<'_>,
    kind: &str,
    name: &str,
    parts: &[Part],
    hold_count: u32,
) -> fmt::Result {
    let mut nodes = Vec::new();
    for part in parts {
        let node = part.node();
        if !nodes.contains(&node) {
            nodes.push(node);
        }
    }
    f.debug_struct(kind)
        .field("name", &Short(name))
        .field("node", &Short(&nodes.join(", ")))
        .field("hold_count", &hold_count)
        .finish()
}
