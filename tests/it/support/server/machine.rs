//! Who uses the machine: many tests at once, or one that measures its speed.

use std::cell::Cell;

use parking_lot::{Condvar, Mutex};

use super::SOON;

/// Of this process.
#[derive(Debug)]
struct Use {
    sharers: u32,
    /// One has it.
    alone: bool,
    /// So many want it.
    waiting: u32,
}

static USE: Mutex<Use> = Mutex::new(Use {
    sharers: 0,
    alone: false,
    waiting: 0,
});
static CHANGED: Condvar = Condvar::new();

thread_local! {
    /// Its test has a server, or had one.
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
        // A test that begins lets one go before it that waits for the machine, which would wait for the
        // end of all tests otherwise. A test that has a server goes on, and so does one that
        // starts its servers on several threads, in the end.
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
