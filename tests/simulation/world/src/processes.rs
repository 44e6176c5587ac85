//! Processes: threads that are paused and killed together, and that see one clock.

use std::collections::BTreeSet;

use crate::tasks::TaskId;
use crate::{network, tasks, time, world};

/// A process. The first one is 1.
pub type ProcessId = u32;

/// What runs outside of all processes.
pub const NONE: ProcessId = 0;

#[derive(Debug, Default)]
pub(crate) struct Processes {
    list: Vec<Process>,
}

#[derive(Debug, Default)]
struct Process {
    is_paused: bool,
    is_dead: bool,
    /// Its clock gains this many nanoseconds in each second.
    drift: i64,
    /// Threads that can run when it goes on.
    ready: BTreeSet<TaskId>,
}

impl Processes {
    fn of(&mut self, id: ProcessId) -> Option<&mut Process> {
        self.list.get_mut((id as usize).checked_sub(1)?)
    }
}

/// Makes a process without threads. Its clock gains `drift` nanoseconds in each second.
pub fn new(drift: i64) -> ProcessId {
    world(|world| {
        let list = &mut world.processes.borrow_mut().list;
        list.push(Process {
            drift,
            ..Process::default()
        });
        u32::try_from(list.len()).expect("there are few")
    })
}

/// The process of the running thread.
#[must_use]
pub fn current() -> ProcessId {
    tasks::current_process()
}

/// The time by the clock of the process of the running thread, in nanoseconds.
#[must_use]
pub fn clock() -> u64 {
    let now = time::now();
    let drift = of(current(), |process| process.drift).unwrap_or(0);
    let gained = i128::from(now) * i128::from(drift) / 1_000_000_000;
    // All clocks start after their zero: the library computes earlier times.
    let shown = i128::from(now) + gained + 3_600_000_000_000;
    u64::try_from(shown).expect("it is not negative")
}

/// No thread of the process runs until it [goes on](resume).
pub fn pause(id: ProcessId) {
    of(id, |process| process.is_paused = true);
    tasks::hold_back(id);
}

/// Ends a pause.
pub fn resume(id: ProcessId) {
    let ready = of(id, |process| {
        process.is_paused = false;
        std::mem::take(&mut process.ready)
    });
    for task in ready.unwrap_or_default() {
        tasks::make_ready(task);
    }
}

/// Ends the process as SIGKILL does: no thread runs again, no destructor runs, and the system
/// closes its connections.
pub fn kill(id: ProcessId) {
    of(id, |process| process.is_dead = true);
    tasks::forget(id);
    network::close_all(id);
}

/// Keeps a thread that can run until its process goes on. False if the process is running.
pub(crate) fn hold_back(id: ProcessId, task: TaskId) -> bool {
    of(id, |process| {
        if process.is_paused {
            process.ready.insert(task);
        }
        process.is_paused || process.is_dead
    })
    .unwrap_or(false)
}

fn of<T>(id: ProcessId, change: impl FnOnce(&mut Process) -> T) -> Option<T> {
    world(|world| world.processes.borrow_mut().of(id).map(change))
}
