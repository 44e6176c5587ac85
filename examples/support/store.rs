//! What fenced locks protect: sums that take no late writes.

use std::thread;

use leasehold::{FencedLock, Lease};
use parking_lot::Mutex;

use crate::batch::{PATIENCE, Sum, Tally, WORK};

/// A sum and its lock.
pub struct Fenced {
    lock: FencedLock,
    store: Store,
}

impl Fenced {
    pub fn under(lock: FencedLock) -> Box<dyn Sum> {
        let store = Store::default();
        Box::new(Self { lock, store })
    }
}

impl Sum for Fenced {
    fn add_one(&self, tally: &Mutex<Tally>) -> leasehold::Result<()> {
        let Some(guard) = self.lock.try_acquire(PATIENCE, Lease::RENEWED)? else {
            return Ok(());
        };
        let token = guard.fencing_token();
        let before = self.store.read(token);
        thread::sleep(WORK);
        guard.check()?;
        match before.is_some_and(|sum| self.store.write(token, sum + 1)) {
            true => tally.lock().note_done(),
            false => tally.lock().note_refused(),
        }
        guard.unlock()
    }

    fn value(&self) -> u64 {
        self.store.state.lock().sum
    }
}

/// A number, and the greatest token that was here.
#[derive(Default)]
struct Store {
    /// Protects both from changing in between; stands for a row of a database.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    sum: u64,
    fence: u64,
}

impl Store {
    /// From here on nobody with a smaller token writes. `None` if a greater one was here.
    fn read(&self, token: u64) -> Option<u64> {
        let mut state = self.state.lock();
        state.admits(token).then_some(state.sum)
    }

    /// Whether it was taken; not if a greater token was here.
    fn write(&self, token: u64, sum: u64) -> bool {
        let mut state = self.state.lock();
        let admitted = state.admits(token);
        if admitted {
            state.sum = sum;
        }
        admitted
    }
}

impl State {
    fn admits(&mut self, token: u64) -> bool {
        self.fence = self.fence.max(token);
        self.fence == token
    }
}
