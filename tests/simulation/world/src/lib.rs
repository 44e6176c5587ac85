//! A world in which the threads of several processes run deterministically: one at a time, on one
//! thread of the system, by a clock of its own. A seed decides which thread runs next, how long a
//! message takes, and everything else that is random.
//!
//! The library under test is compiled with packages that have the names and the interfaces of
//! those that it uses (`parking_lot`, `socket2`, `rustix`, `crossbeam-channel`, ...), and whose
//! calls end here. So its source has no code for the simulation.
//!
//! | module | duty |
//! |---|---|
//! | [`tasks`] | threads: which one runs, and what they wait for |
//! | [`time`] | the clock, and what happens at a later time |
//! | [`processes`] | which threads belong together; pauses, kills, clocks |
//! | [`locals`] | variables of threads |
//! | [`queues`] | threads that wait for a mutex or a condition variable |
//! | [`network`] | connections between processes and services |
//! | [`random`] | random numbers |

pub mod locals;
pub mod network;
pub mod processes;
pub mod queues;
pub mod random;
pub mod tasks;
pub mod time;

use std::cell::{Cell, RefCell};

/// All state of the world of this thread of the system. No reference to it outlasts a switch to
/// another thread of the simulation.
struct World {
    tasks: RefCell<tasks::Tasks>,
    time: time::Time,
    processes: RefCell<processes::Processes>,
    queues: RefCell<queues::Queues>,
    network: RefCell<network::Network>,
    random: RefCell<fastrand::Rng>,
    /// How often the world went on.
    steps: Cell<u64>,
}

thread_local! {
    // Never dropped: a thread of the simulation that has not ended holds its stack until the end of
    // the program.
    static WORLD: &'static World = Box::leak(Box::new(World {
        tasks: RefCell::default(),
        time: time::Time::default(),
        processes: RefCell::default(),
        queues: RefCell::default(),
        network: RefCell::default(),
        random: RefCell::new(fastrand::Rng::with_seed(0)),
        steps: Cell::new(0),
    }));
}

fn world<T>(use_it: impl FnOnce(&World) -> T) -> T {
    WORLD.with(|world| use_it(world))
}

/// Begins: everything that is random follows from this seed. Also in the code under test, which
/// uses `fastrand` itself.
pub fn begin(seed: u64) {
    fastrand::seed(seed ^ 0x5bd1_e995);
    world(|world| *world.random.borrow_mut() = fastrand::Rng::with_seed(seed));
}

/// How many steps the world has made: how often a thread went on or an event happened.
#[must_use]
pub fn steps() -> u64 {
    world(|world| world.steps.get())
}

/// Why [`run`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The condition is true.
    Done,
    /// All threads wait, and nothing will wake them.
    Deadlock,
    /// It is later than the latest time.
    TimeOver,
}

/// Runs until `is_done`, at most until this time.
pub fn run(latest: u64, is_done: impl Fn() -> bool) -> End {
    while !is_done() {
        let now = time::now();
        if now > latest {
            return End::TimeOver;
        }
        world(|world| world.steps.set(world.steps.get() + 1));
        if time::happen(now) {
            continue;
        }
        if !tasks::run_one() {
            match time::next() {
                Some(next) => time::advance_to(next),
                None => return End::Deadlock,
            }
        }
    }
    End::Done
}
