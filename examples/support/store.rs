//! What the locks protect: a sum that takes no late writes.

use parking_lot::Mutex;

/// A number, and the greatest token that was here.
#[derive(Default)]
pub struct Store {
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
    pub fn read(&self, token: u64) -> Option<u64> {
        let mut state = self.state.lock();
        state.admits(token).then_some(state.sum)
    }

    /// Whether it was taken; not if a greater token was here.
    pub fn write(&self, token: u64, sum: u64) -> bool {
        let mut state = self.state.lock();
        let admitted = state.admits(token);
        if admitted {
            state.sum = sum;
        }
        admitted
    }

    pub fn sum(&self) -> u64 {
        self.state.lock().sum
    }
}

impl State {
    fn admits(&mut self, token: u64) -> bool {
        self.fence = self.fence.max(token);
        self.fence == token
    }
}
