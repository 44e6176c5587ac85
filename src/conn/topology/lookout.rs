//! One thread looks for the servers, and the others wait for what it finds.

use parking_lot::{Condvar, Mutex};

use crate::clock::Moment;

#[derive(Debug, Default)]
pub(super) struct Lookout {
    /// Protects: at most one thread looks at a time.
    looking: Mutex<bool>,
    done: Condvar,
}

/// The thread that has it looks.
pub(super) struct Turn<'a>(&'a Lookout);

impl Lookout {
    /// The turn to look; `None` if another thread has looked meanwhile, or has not come back by
    /// `deadline`.
    pub(super) fn turn(&self, deadline: Moment) -> Option<Turn<'_>> {
        let mut looking = self.looking.lock();
        if *looking {
            while *looking && !deadline.is_past() {
                self.done.wait_for(&mut looking, deadline.left());
            }
            return None;
        }
        *looking = true;
        Some(Turn(self))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.looking.lock() = false;
        self.0.done.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    #[test]
    fn those_who_come_while_one_looks_use_what_it_found() {
        let (lookout, looks) = (Lookout::default(), AtomicU32::new(0));
        let start = std::sync::Barrier::new(8);
        let deadline = Moment::now().after(Duration::from_secs(10));
        std::thread::scope(|scope| {
            let first = lookout.turn(deadline).expect("nobody looks");
            for _ in 0..7 {
                scope.spawn(|| {
                    start.wait();
                    if lookout.turn(deadline).is_some() {
                        looks.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            start.wait();
            drop(first);
        });
        assert!(looks.load(Ordering::Relaxed) < 8);
        assert!(
            lookout.turn(deadline).is_some(),
            "the next look is possible"
        );
    }

    #[test]
    fn nobody_waits_beyond_the_deadline() {
        let lookout = Lookout::default();
        let _turn = lookout.turn(Moment::NEVER).expect("nobody looks");
        let deadline = Moment::now().after(Duration::from_millis(20));
        assert!(lookout.turn(deadline).is_none());
        assert!(deadline.is_past());
    }
}
