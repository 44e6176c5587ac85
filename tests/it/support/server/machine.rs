//! Access to the machine: shared by many tests, or exclusive for one that measures times.

use std::cell::Cell;

use parking_lot::{Condvar, Mutex};

use super::SOON;

/// The users of the machine in this process.
#[derive(Debug)]
struct Use {
    sharers: u32,
    /// A test has exclusive access.
    alone: bool,
    /// The number of tests that wait for exclusive access.
    waiting: u32,
}

static USE: Mutex<Use> = Mutex::new(Use {
    sharers: 0,
    alone: false,
    waiting: 0,
});
static CHANGED: Condvar = Condvar::new();

thread_local! {
    /// The test of this thread has or had a server.
    static IS_IN: Cell<bool> = const { Cell::new(false) };
}

/// Held as long as a server runs.
#[derive(Debug)]
pub enum Machine {
    Shared,
    Alone,
}

impl Machine {
    pub fn enter(alone: bool) -> Self {
        let mut current = USE.lock();
        if alone {
            current.waiting += 1;
            CHANGED.wait_while(&mut current, |current| current.alone || current.sharers > 0);
            current.waiting -= 1;
            current.alone = true;
            return Self::Alone;
        }
        // A test that begins waits for one test that wants exclusive access, which would otherwise
        // wait for the end of all tests. A test that has a server does not wait, and a test that
        // starts its servers on several threads waits only briefly.
        if !IS_IN.replace(true) {
            let taken = |current: &mut Use| current.alone || current.waiting > 0;
            CHANGED.wait_while_for(&mut current, taken, SOON.get());
        }
        CHANGED.wait_while(&mut current, |current| current.alone);
        current.sharers += 1;
        Self::Shared
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let mut current = USE.lock();
        match self {
            Self::Shared => current.sharers -= 1,
            Self::Alone => current.alone = false,
        }
        CHANGED.notify_all();
    }
}
