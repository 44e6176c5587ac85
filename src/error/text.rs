//! Parts of the texts of errors.
//!
//! An error that also calls of semaphores and latches return names the object by its quoted name
//! alone, without its kind.

/// The beginning of the text of an error: the name, unless the call concerns none.
pub(super) fn about(lock: &str) -> String {
    match lock {
        "" => String::new(),
        lock => format!("{lock:?}: "),
    }
}

/// As [`about`], but empty if the value of an argument is the quoted name.
pub(super) fn about_unless(value: &str, lock: &str) -> String {
    match *value == format!("{lock:?}") {
        true => String::new(),
        false => about(lock),
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
pub(super) fn then(retried: bool) -> &'static str {
    match retried {
        true => "the watchdog still tries to release it, and what has a lease ends within it",
        false => "nothing repeats the release; what has a lease ends within it",
    }
}
