//! Threads of the simulation. Each is a coroutine, so only one runs, and a switch costs little.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, Yielder};

use crate::locals::AccessError;
use crate::processes::{self, NONE, ProcessId};
use crate::time::Later;
use crate::{random, time, world};

/// A thread. No number is used twice.
pub type TaskId = usize;

const STACK: usize = 512 << 10;

type Switch = Yielder<(), ()>;
type Fiber = Coroutine<(), (), ()>;

#[derive(Default)]
pub(crate) struct Tasks {
    list: Vec<Task>,
    /// Those that can run.
    ready: Vec<TaskId>,
    current: Option<TaskId>,
    stacks: Vec<DefaultStack>,
    /// Once in how many calls of [`preempt`] another thread may run; 0: never.
    preempts: u64,
    order: Order,
}

/// Which of the threads that can run is the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Any of them.
    #[default]
    Random,
    /// The one with the highest priority. Priorities are random, and change now and then: some
    /// threads do not run for long.
    Priorities,
}

struct Task {
    process: ProcessId,
    fiber: Option<Fiber>,
    /// Where the thread left its code. Valid while the thread has begun and has not ended.
    switch: *const Switch,
    is_waiting: bool,
    /// Something has woken it since it began to wait.
    is_woken: bool,
    has_ended: bool,
    alarm: Option<Later>,
    priority: u64,
    locals: Option<Vec<(usize, Rc<dyn Any>)>>,
    joining: Vec<TaskId>,
}

impl fmt::Debug for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tasks").finish_non_exhaustive()
    }
}

impl Tasks {
    fn remove_ready(&mut self, index: usize) -> TaskId {
        self.ready.swap_remove(index)
    }
}

/// Sets how often a thread is preempted where it locks a mutex, and which one runs then.
pub fn set_order(preempts: u64, order: Order) {
    world(|world| {
        let mut tasks = world.tasks.borrow_mut();
        (tasks.preempts, tasks.order) = (preempts, order);
    });
}

/// Starts a thread in this process.
pub fn spawn_in(process: ProcessId, body: impl FnOnce() + 'static) -> TaskId {
    let id = world(|world| world.tasks.borrow().list.len());
    let run = move |switch: &Switch, ()| {
        set(id, |task| task.switch = switch);
        // A panic ends the thread; the code under test logs it, or a joining thread sees it.
        let _ = catch_unwind(AssertUnwindSafe(body));
        end_locals(id);
        let joining = set(id, |task| {
            task.has_ended = true;
            std::mem::take(&mut task.joining)
        });
        joining.into_iter().for_each(wake);
    };
    let stack = world(|world| world.tasks.borrow_mut().stacks.pop());
    let stack = stack.unwrap_or_else(|| DefaultStack::new(STACK).expect("there is memory"));
    let task = Task {
        process,
        fiber: Some(Coroutine::with_stack(stack, run)),
        switch: std::ptr::null(),
        is_waiting: false,
        is_woken: false,
        has_ended: false,
        alarm: None,
        priority: random::seed(),
        locals: Some(Vec::new()),
        joining: Vec::new(),
    };
    world(|world| world.tasks.borrow_mut().list.push(task));
    make_ready(id);
    id
}

/// Starts a thread in the process of the running one.
pub fn spawn(body: impl FnOnce() + 'static) -> TaskId {
    spawn_in(current_process(), body)
}

/// The running thread.
///
/// # Panics
///
/// If none runs.
#[must_use]
pub fn current() -> TaskId {
    running().expect("a thread runs")
}

fn running() -> Option<TaskId> {
    world(|world| world.tasks.borrow().current)
}

/// The process of the running thread.
#[must_use]
pub fn current_process() -> ProcessId {
    running().map_or(NONE, |id| set(id, |task| task.process))
}

/// True if the code of the thread has ended.
#[must_use]
pub fn has_ended(id: TaskId) -> bool {
    set(id, |task| task.has_ended)
}

/// Waits until the thread has ended.
pub fn join(id: TaskId) {
    let current = current();
    while !has_ended(id) {
        set(id, |task| task.joining.push(current));
        wait(None);
    }
}

/// Suspends the running thread until something [wakes](wake) it, at most until this time. True if
/// it was woken. It may be woken for another reason than the caller expects.
pub fn wait(until: Option<u64>) -> bool {
    let id = current();
    let alarm = until.map(|until| time::at(until, move || make_ready_again(id)));
    set(id, |task| {
        (task.is_waiting, task.is_woken, task.alarm) = (true, false, alarm);
    });
    suspend(id);
    set(id, |task| task.is_woken)
}

/// Waits until this time.
pub fn sleep_until(time: u64) {
    while time::now() < time {
        wait(Some(time));
    }
}

/// Ends the wait of a thread, if it waits.
pub fn wake(id: TaskId) {
    let alarm = set(id, |task| {
        task.is_woken |= task.is_waiting;
        task.alarm.take()
    });
    if let Some(alarm) = alarm {
        time::cancel(alarm);
    }
    make_ready_again(id);
}

fn make_ready_again(id: TaskId) {
    if set(id, |task| std::mem::take(&mut task.is_waiting)) {
        make_ready(id);
    }
}

pub(crate) fn make_ready(id: TaskId) {
    if !processes::hold_back(set(id, |task| task.process), id) {
        world(|world| world.tasks.borrow_mut().ready.push(id));
    }
}

/// Lets other threads run.
pub fn yield_now() {
    let Some(id) = running() else {
        return;
    };
    // Otherwise the others never run while a thread with a high priority yields again and again.
    set(id, |task| task.priority = random::seed() / 2);
    make_ready(id);
    suspend(id);
}

/// Lets another thread run now and then. Called where a real thread can lose its processor.
pub fn preempt() {
    time::pass_computing();
    let preempts = world(|world| world.tasks.borrow().preempts);
    if random::one_in(preempts)
        && let Some(id) = running()
    {
        make_ready(id);
        suspend(id);
    }
}

/// The value of a variable of the running thread.
pub(crate) fn local(key: usize) -> Result<Option<Rc<dyn Any>>, AccessError> {
    set(current(), |task| {
        let locals = task.locals.as_ref().ok_or(AccessError)?;
        let found = locals.iter().find(|(other, _)| *other == key);
        Ok(found.map(|(_, value)| Rc::clone(value)))
    })
}

pub(crate) fn set_local(key: usize, value: Rc<dyn Any>) {
    set(current(), |task| {
        if let Some(locals) = &mut task.locals {
            locals.push((key, value));
        }
    });
}

/// Drops the variables of a thread, the last one first.
fn end_locals(id: TaskId) {
    while let Some((_, value)) = set(id, |task| task.locals.as_mut()?.pop()) {
        drop(value);
    }
    set(id, |task| task.locals = None);
}

/// Runs one of the threads that can run. False if there is none.
pub(crate) fn run_one() -> bool {
    let Some(id) = choose() else {
        return false;
    };
    let mut fiber = set(id, |task| task.fiber.take()).expect("it has not ended");
    world(|world| world.tasks.borrow_mut().current = Some(id));
    let result = fiber.resume(());
    world(|world| world.tasks.borrow_mut().current = None);
    time::pass_switch();
    if result.as_return().is_some() {
        world(|world| world.tasks.borrow_mut().stacks.push(fiber.into_stack()));
    } else {
        set(id, |task| task.fiber = Some(fiber));
    }
    true
}

fn choose() -> Option<TaskId> {
    let (count, order) = world(|world| {
        let tasks = world.tasks.borrow();
        (tasks.ready.len(), tasks.order)
    });
    if count == 0 {
        return None;
    }
    let index = match order {
        Order::Random => random::index(count),
        Order::Priorities => {
            if random::one_in(64) {
                let (any, priority) = (random::index(count), random::seed());
                world(|world| {
                    let mut tasks = world.tasks.borrow_mut();
                    let id = tasks.ready[any];
                    tasks.list[id].priority = priority;
                });
            }
            world(|world| {
                let tasks = world.tasks.borrow();
                let priority = |index: &usize| tasks.list[tasks.ready[*index]].priority;
                (0..count).max_by_key(priority).unwrap_or(0)
            })
        }
    };
    Some(world(|world| world.tasks.borrow_mut().remove_ready(index)))
}

/// Takes the threads of a paused process from those that can run.
pub(crate) fn hold_back(process: ProcessId) {
    for id in take_ready(process) {
        processes::hold_back(process, id);
    }
}

fn take_ready(process: ProcessId) -> Vec<TaskId> {
    world(|world| {
        let mut tasks = world.tasks.borrow_mut();
        let Tasks { list, ready, .. } = &mut *tasks;
        ready
            .extract_if(.., |id| list[*id].process == process)
            .collect()
    })
}

/// Forgets the threads of a dead process. Their stacks stay until the end of the program.
pub(crate) fn forget(process: ProcessId) {
    take_ready(process);
    world(|world| {
        let mut tasks = world.tasks.borrow_mut();
        let of_process = tasks.list.iter_mut().filter(|task| task.process == process);
        for task in of_process {
            std::mem::forget(task.fiber.take());
            std::mem::forget(task.locals.take());
            task.is_waiting = false;
        }
    });
}

fn suspend(id: TaskId) {
    let switch = set(id, |task| task.switch);
    assert!(!switch.is_null(), "only a running thread is suspended");
    // SAFETY: `run` has set it in this coroutine, in which this code runs. It is valid until `run`
    // returns.
    unsafe { (*switch).suspend(()) };
}

fn set<T>(id: TaskId, change: impl FnOnce(&mut Task) -> T) -> T {
    world(|world| change(&mut world.tasks.borrow_mut().list[id]))
}
