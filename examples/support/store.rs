//! Sums that use fencing tokens to reject late writes.

use std::thread;

use leasehold::{FencedLock, Lease};
use parking_lot::Mutex;

use crate::batch::{Sum, Tally, WAIT, WORK};

/// A sum protected by a fenced lock.
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
        let Some(guard) = self.lock.try_acquire(WAIT, Lease::RENEWED)? else {
            return Ok(());
        };
        let token = guard.fencing_token();
        let before = self.store.read(token);
        thread::sleep(WORK);
        guard.check()?;
        match before.is_some_and(|sum| self.store.write(token, sum + 1)) {
            true => tally.lock().note_done(),
            false => tally.lock().note_rejected(),
        }
        guard.unlock()
    }

    fn value(&self) -> u64 {
        self.store.state.lock().sum
    }
}

/// A sum and the greatest token that it has seen.
#[derive(Default)]
struct Store {
    /// Stands for a row of a database. The mutex makes each access atomic.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    sum: u64,
    fence: u64,
}

impl Store {
    /// Reads the sum, and rejects writes with smaller tokens from now on. `None` if the store has
    /// seen a greater token.
    fn read(&self, token: u64) -> Option<u64> {
        let mut state = self.state.lock();
        state.admits(token).then_some(state.sum)
    }

    /// Writes the sum. False, without a change, if the store has seen a greater token.
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
