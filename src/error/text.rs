//! Parts of the texts of errors.

/// The beginning of the text of an error: the lock, unless the call concerns none.
pub(super) fn about(lock: &str) -> String {
    match lock {
        "" => String::new(),
        lock => format!("lock {lock:?}: "),
    }
}

/// The text of [`Error::NotHeld`](super::Error::NotHeld).
pub(super) fn not_held(lock: &str, by_guard: bool) -> String {
    match (lock, by_guard) {
        ("", _) => "no lock is held: this thread executes no function with `#[locked]`".into(),
        (lock, true) => format!("this thread holds lock {lock:?} by a guard: unlock the guard"),
        (lock, false) => format!(
            "lock {lock:?} is not held by this thread; only the thread that acquired it can use \
             or release it"
        ),
    }
}

/// What becomes of something whose release got no clear reply.
pub(crate) mod then {
    pub(crate) const LOCK: &str =
        "the lock ends by itself within its lease, and the watchdog still tries to release it";
    /// After `unlock_after`.
    pub(crate) const KEPT_LOCK: &str = "the lock ends by itself within its lease";
    pub(crate) const PERMIT: &str =
        "the permit ends by itself within its lease, and the watchdog still tries to release it";
    /// Permits without a lease, or the count of a latch.
    pub(crate) const NUMBER: &str =
        "the watchdog repeats the release for up to a minute, so do not repeat the call either";
    pub(crate) const SHUTDOWN: &str = "the locks end by themselves within their leases, and the \
                                       watchdog still tries to release them";
}
