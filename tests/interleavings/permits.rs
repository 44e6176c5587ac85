//! Threads of one client that take and release permits of one semaphore, as `engine/number` does.

use std::sync::Arc;
use std::time::Duration;

use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::Mutex;
use shuttle::thread;

use crate::base::clock::Moment;
use crate::base::parker::{self, Parker, Unparker};
use crate::local::{Leaving, Position, Queued, WaitQueue};

const THREADS: u32 = 5;
const ROUNDS: usize = 2;

/// What may happen besides taking and releasing.
#[derive(Clone, Copy, Debug)]
pub struct Permits {
    pub free: u32,
    pub gives_up: bool,
}

/// What the threads share.
#[derive(Default)]
struct World {
    queue: WaitQueue,
    redis: Mutex<Redis>,
}

#[derive(Default)]
struct Redis {
    free: u32,
    /// The client is in the line.
    has_place: bool,
    /// The threads that a call of the client wakes.
    listeners: Vec<Unparker>,
}

struct Worker {
    unparker: Unparker,
    parker: Parker,
    gives_up: bool,
}

impl Permits {
    /// Each thread ends. Then all permits are free, and the client is not in the line.
    pub fn run(self) {
        let world = Arc::new(World::default());
        world.redis.lock().unwrap().free = self.free;
        let threads = (0..THREADS).map(|_| {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let (unparker, parker) = parker::pair();
                let worker = Worker {
                    unparker,
                    parker,
                    gives_up: self.gives_up,
                };
                for _ in 0..ROUNDS {
                    if worker.take(&world) && !world.queue.hand_over(1) {
                        world.add();
                    }
                }
            })
        });
        let threads: Vec<_> = threads.collect();
        threads.into_iter().for_each(|one| one.join().unwrap());
        let redis = world.redis.lock().unwrap();
        assert!(redis.free == self.free && !redis.has_place);
    }
}

impl World {
    /// Adds a permit, and calls the client if it is in the line.
    fn add(&self) {
        let mut redis = self.redis.lock().unwrap();
        redis.free += 1;
        let listeners = redis.listeners.clone();
        let is_called = redis.has_place;
        drop(redis);
        for listener in listeners.iter().filter(|_| is_called) {
            listener.unpark_by_message();
        }
    }

    /// A request, which enters the line if it has a place and is refused.
    fn take(&self, has_place: bool) -> bool {
        let mut redis = self.redis.lock().unwrap();
        let is_taken = redis.free > 0;
        redis.free -= u32::from(is_taken);
        if has_place {
            redis.has_place = !is_taken;
        }
        is_taken
    }
}

impl Worker {
    fn take(&self, world: &World) -> bool {
        let queued = world.queue.enter(1);
        let is_taken = self
            .await_turn(world, &queued)
            .unwrap_or_else(|| self.wait_as_first(world, &queued));
        let is_done = is_taken || queued.stop_sleeping();
        if queued.leave() == Leaving::AfterLine {
            world.redis.lock().unwrap().has_place = false;
        }
        is_done
    }

    fn gives_up(&self) -> bool {
        self.gives_up && thread_rng().gen_bool(0.2)
    }

    fn await_turn(&self, world: &World, queued: &Queued<'_>) -> Option<bool> {
        let mut is_ready_to_sleep = false;
        loop {
            match queued.position(Moment::now()) {
                Position::Done => return Some(true),
                Position::First => return None,
                Position::AmongFirst => {
                    is_ready_to_sleep = false;
                    let is_taken = world.take(false);
                    queued.replied(is_taken);
                    if is_taken || self.gives_up() {
                        return Some(is_taken);
                    }
                }
                Position::Behind { .. } if !is_ready_to_sleep => {
                    queued.sleeps(&self.unparker);
                    is_ready_to_sleep = true;
                }
                Position::Behind { .. } if self.gives_up() => return Some(false),
                Position::Behind { .. } => {
                    self.parker.sleep(Duration::MAX);
                }
            }
        }
    }

    fn wait_as_first(&self, world: &World, queued: &Queued<'_>) -> bool {
        let mut is_refused = false;
        loop {
            if queued.position(Moment::now()) == Position::Done {
                return true;
            }
            queued.set_place(true);
            self.parker.take_message();
            queued.begin_request(Moment::now());
            let is_taken = world.take(true);
            queued.replied(is_taken);
            queued.set_place(!is_taken);
            if is_taken {
                if !is_refused {
                    queued.granted_at_once();
                }
                return true;
            }
            is_refused = true;
            if self.gives_up() {
                return false;
            }
            queued.sleeps(&self.unparker);
            let mut redis = world.redis.lock().unwrap();
            redis.listeners.push(self.unparker.clone());
            // A call before this has reached no thread.
            let is_called = redis.free > 0;
            drop(redis);
            if !is_called {
                self.parker.sleep(Duration::MAX);
            }
            let mut redis = world.redis.lock().unwrap();
            redis.listeners.retain(|one| !one.same_as(&self.unparker));
        }
    }
}
