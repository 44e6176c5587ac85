//! Threads of one client that take and release permits of one semaphore, with combined requests.

use std::sync::Arc;
use std::time::Duration;

use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::Mutex;
use shuttle::thread;

use crate::base::parker::{self, Parker, Unparker};
use crate::local::{Batch, Outcome, SharedNumber, Turn};

/// More than may send requests at once.
const THREADS: u32 = 12;
const ROUNDS: usize = 2;

/// What may happen besides taking and releasing.
#[derive(Clone, Copy, Debug)]
pub struct Permits {
    pub free: u32,
    pub gives_up: bool,
    pub fails: bool,
}

/// What the threads share.
struct World {
    scenario: Permits,
    shared: SharedNumber,
    redis: Mutex<u32>,
}

/// One thread.
struct Worker {
    unparker: Unparker,
    parker: Parker,
}

impl Permits {
    /// Each thread ends, and all permits are free then.
    pub fn run(self) {
        let world = Arc::new(World {
            scenario: self,
            shared: SharedNumber::default(),
            redis: Mutex::new(self.free),
        });
        let threads = (0..THREADS).map(|_| {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let (unparker, parker) = parker::pair();
                let worker = Worker { unparker, parker };
                for _ in 0..ROUNDS {
                    if worker.take(&world) {
                        worker.release(&world);
                    }
                }
            })
        });
        let threads: Vec<_> = threads.collect();
        threads.into_iter().for_each(|one| one.join().unwrap());
        assert_eq!(*world.redis.lock().unwrap(), self.free);
        assert!(!world.shared.waiting.is_used());
    }
}

impl World {
    fn fails(&self) -> bool {
        self.scenario.fails && thread_rng().gen_bool(0.3)
    }

    fn take(&self, most: u32) -> u32 {
        let mut free = self.redis.lock().unwrap();
        let taken = most.min(*free);
        *free -= taken;
        taken
    }

    fn add(&self, permits: u32) {
        *self.redis.lock().unwrap() += permits;
    }

    /// Returns whether the thread that sends has a permit.
    fn take_for(&self, mut batch: Batch<'_>) -> bool {
        if self.fails() {
            batch.end(&Outcome::NotSent);
            return false;
        }
        let taken = self.take(batch.threads);
        if taken == 0 {
            let (unparker, _) = parker::pair();
            drop(batch.refuse(&unparker, &self.shared.waiting));
            return false;
        }
        batch.granted();
        let unused = batch.serve(taken - 1);
        self.add(unused);
        batch.refuse_others(&self.shared.waiting);
        true
    }
}

impl Worker {
    fn take(&self, world: &World) -> bool {
        let gives_up = || world.scenario.gives_up && thread_rng().gen_bool(0.3);
        let mut turn = world.shared.takes.join(1, || &self.unparker);
        loop {
            turn = match turn {
                Turn::Sends(batch) => return world.take_for(batch),
                Turn::Waits(waiting) if gives_up() => waiting.leave(true),
                Turn::Waits(waiting) => {
                    self.parker.sleep(Duration::MAX);
                    waiting.turn()
                }
                Turn::Over(Outcome::NotSent) => return world.take(1) > 0,
                Turn::Over(Outcome::Queued(number)) => {
                    // It leaves the queue at once.
                    drop(world.shared.waiting.queued(number));
                    return false;
                }
                Turn::Over(outcome) => return matches!(outcome, Outcome::Done),
            }
        }
    }

    /// A change that is sent cannot be given up.
    fn release(&self, world: &World) {
        let gives_up = || world.scenario.gives_up && thread_rng().gen_bool(0.3);
        if world.shared.takes.hand_over(1) {
            return;
        }
        let mut turn = world.shared.releases.join(1, || &self.unparker);
        loop {
            turn = match turn {
                Turn::Sends(batch) if world.fails() => {
                    batch.end(&Outcome::NotSent);
                    return world.add(1);
                }
                Turn::Sends(mut batch) => {
                    world.add(batch.threads);
                    assert_eq!(batch.serve(batch.threads - 1), 0);
                    return;
                }
                Turn::Waits(waiting) => {
                    let turn = match gives_up() {
                        true => waiting.leave(false),
                        false => waiting.turn(),
                    };
                    if matches!(turn, Turn::Waits(_)) {
                        self.parker.sleep(Duration::MAX);
                    }
                    turn
                }
                Turn::Over(Outcome::Done) => return,
                Turn::Over(_) => return world.add(1),
            }
        }
    }
}
