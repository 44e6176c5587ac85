//! Unique names.

use std::sync::atomic::{AtomicU32, Ordering};

/// A lock name that no other test uses.
pub fn unique(what: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    format!(
        "{what}:{}:{}",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    )
}
