//! The locks under which this process runs. A command that waited for one of them would wait for
//! itself.

use crate::name::shown;

/// The variable in which `leasehold run` passes them on: one name in each line.
pub(super) const OUTER_KEYS: &str = "LEASEHOLD_KEYS";

/// The value of the variable for a command under this lock.
pub(super) fn keys_with(key: &str) -> String {
    let outer = std::env::var(OUTER_KEYS).unwrap_or_default();
    // A shown name has no newline.
    format!("{outer}\n{}", shown(key)).trim_start().into()
}

/// True if this process runs under this lock.
pub(super) fn is_outer(key: &str) -> bool {
    let outer = std::env::var(OUTER_KEYS).unwrap_or_default();
    outer.lines().any(|outer| outer == shown(key))
}
