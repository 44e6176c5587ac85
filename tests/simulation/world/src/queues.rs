//! Threads that wait for something with an address, as a mutex has.

use std::collections::{BTreeMap, VecDeque};

use crate::tasks::{self, TaskId};
use crate::world;

/// By the address. Only looked up, because addresses differ between runs.
pub(crate) type Queues = BTreeMap<usize, VecDeque<TaskId>>;

/// Suspends the running thread until it is woken there, at most until this time. True if it was
/// woken.
pub fn wait(address: usize, until: Option<u64>) -> bool {
    let task = tasks::current();
    with(|queues| queues.entry(address).or_default().push_back(task));
    let is_woken = tasks::wait(until);
    with(|queues| {
        if let Some(queue) = queues.get_mut(&address) {
            queue.retain(|one| *one != task);
            if queue.is_empty() {
                queues.remove(&address);
            }
        }
    });
    is_woken
}

/// Wakes the thread that has waited there for longest.
pub fn wake_one(address: usize) {
    let first = with(|queues| queues.get_mut(&address)?.pop_front());
    first.into_iter().for_each(tasks::wake);
}

/// Wakes all threads that wait there.
pub fn wake_all(address: usize) {
    let all = with(|queues| queues.remove(&address));
    all.into_iter().flatten().for_each(tasks::wake);
}

fn with<T>(use_it: impl FnOnce(&mut Queues) -> T) -> T {
    world(|world| use_it(&mut world.queues.borrow_mut()))
}
