//! The conductor of one world: alternates storms (periods with faults) and calms (periods without),
//! stops the workers, and logs what is left.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use leasehold_simulation_world::network::{self, Path};
use leasehold_simulation_world::processes::{self, ProcessId};
use leasehold_simulation_world::tasks::{self, TaskId};
use leasehold_simulation_world::{random, steps, time};

use crate::args::Args;
use crate::checker::NOTICED_BY_ALL;
use crate::clock;
use crate::deployment::{Deployment, Layout};
use crate::faults::Undo;
use crate::kind::Kind;
use crate::log::{self, CONDUCTOR, Event, Log};
use crate::plan::Plan;
use crate::programs::Program;
use crate::remains;
use crate::replication::ServerId;
use crate::scenario::Scenario;
use crate::worker;
use crate::worker_thread::nanos;

/// The clocks of two processes differ by up to this many nanoseconds after a second.
const DRIFT: u64 = 100_000;

/// How often a storm counts steps and records, in nanoseconds.
const COUNTS: u64 = 10 * time::MS;

/// A storm ends at this many records too, and the last calm at twice as many steps or records: a
/// few seconds of real time.
const MOST_RECORDS: usize = 200_000;

pub struct Conductor {
    pub scenario: Scenario,
    pub deployment: Deployment,
    /// The only server that meets faults in this storm, if the servers are independent.
    pub faulty: Option<ServerId>,
    pub slots: Vec<Slot>,
    pub undo: Vec<(u64, Undo)>,
    /// When the last clock that was set back shows a new time. Until then, what Redis keeps can
    /// last longer.
    pub late: u64,
    /// When Redis lost the last token of a lock.
    pub token_lost: u64,
    /// When it killed a worker.
    pub killed: Option<u64>,
    /// The ids of the clients whose hosts have vanished.
    pub vanished: Rc<RefCell<Vec<String>>>,
    pub log: Log,
    stop: &'static AtomicBool,
}

/// A place for a worker, and the worker that has it now.
pub struct Slot {
    pub process: ProcessId,
    main: TaskId,
    pub is_paused: bool,
}

impl Conductor {
    /// Makes the servers and the workers.
    pub fn new(scenario: Scenario) -> Self {
        let mut conductor = Self {
            deployment: Deployment::start(scenario.layout, drift),
            faulty: None,
            scenario,
            slots: Vec::new(),
            undo: Vec::new(),
            late: 0,
            token_lost: 0,
            killed: None,
            vanished: Rc::default(),
            log: Log::of(CONDUCTOR),
            stop: Box::leak(Box::default()),
        };
        for lock in 0..conductor.args().locks {
            conductor.set_permits(lock);
        }
        for slot in 0..conductor.args().processes {
            let slot = conductor.start_worker(slot as usize);
            conductor.slots.push(slot);
        }
        conductor
    }

    pub fn args(&self) -> &Args {
        &self.scenario.args
    }

    /// Runs the world. Called on a thread of it.
    pub fn run(mut self) {
        // All may lose their places after a failover. Clients of Redisson are in no line.
        let keeps_places = match self.scenario.program {
            Program::Names => false,
            Program::Redisson => self.args().kind == Some(Kind::Fair),
            _ => true,
        };
        if keeps_places && self.scenario.layout == Layout::One {
            self.watch_queues();
        }
        if self.args().kind != Some(Kind::Fair) {
            self.watch_subscriptions();
        }
        let idle = self.scenario.bounds().idle;
        let lease = self.args().lease();
        for _ in 0..self.scenario.storms {
            if self.is_long(1) {
                break;
            }
            let storm = between(lease * 3, lease * 10);
            self.storm(storm);
            self.calm();
            let calm = match random::index(4) {
                0 => idle * 2,
                _ => between(Duration::from_millis(20), lease),
            };
            thread::sleep(calm);
            self.replace_ended();
        }
        self.finish();
    }

    /// True if the worker in the last place wants too many permits, in half of the scenarios with
    /// permits without a lease.
    pub fn has_too_many(&self) -> bool {
        let is_even = self.args().seed.is_some_and(|seed| seed % 2 == 0);
        !self.args().kind_of(0).has_lease() && is_even
    }

    /// Every second worker lingers.
    pub fn start_worker(&self, slot: usize) -> Slot {
        let mut args = self.args().clone();
        args.lingers = slot % 2 == 1;
        args.wants_too_many = self.has_too_many() && slot + 1 == args.processes as usize;
        let reach = self.deployment.reach();
        let drift = drift() - self.scenario.slow;
        let program = (self.scenario.program, args);
        let (process, main) = worker::start(program, reach, self.stop, drift);
        if self.scenario.is_deaf && slot == 0 {
            self.deployment
                .servers()
                .for_each(|mut server| _ = server.deaf.insert(process));
            if self.args().kind_of(0) == Kind::Fair {
                // A release may move it to the end of the queue.
                Log::of(process).write(clock::now(), 0, Event::MayNotSubscribe);
            }
        }
        Slot {
            process,
            main,
            is_paused: false,
        }
    }

    fn storm(&mut self, time: Duration) {
        let end = clock::now() + nanos(time);
        self.faulty = self.deployment.any_independent();
        self.write(Event::Storm);
        for slot in 0..self.slots.len() {
            self.plan(slot);
        }
        let pace = [20, 80, 400, 1500][random::index(4)];
        let mut next = clock::now();
        loop {
            let now = clock::now();
            if now >= end || self.is_long(1) {
                return;
            }
            for (_, undo) in self
                .undo
                .extract_if(.., |(at, _)| *at <= now)
                .collect::<Vec<_>>()
            {
                self.undo(undo);
            }
            if now >= next {
                self.inject_fault();
                next = clock::now() + random::between(time::MS..=pace * time::MS);
            }
            let due = self.undo.iter().map(|(at, _)| *at);
            let wake = due.chain([next, end, now + COUNTS]).min();
            let wake = wake.unwrap_or(end);
            thread::sleep(Duration::from_nanos(wake.saturating_sub(clock::now())));
        }
    }

    /// True if the world has made `times` times the steps of its storms, or has written `times`
    /// times [`MOST_RECORDS`].
    fn is_long(&self, times: u32) -> bool {
        steps() >= self.scenario.steps * u64::from(times)
            || log::count() >= MOST_RECORDS * times as usize
    }

    /// Ends all faults.
    fn calm(&mut self) {
        // The end of a fault can begin another one.
        while let Some((_, undo)) = self.undo.pop() {
            self.undo(undo);
        }
        for slot in 0..self.slots.len() {
            let process = self.slots[slot].process;
            self.heal(slot);
            for mut server in self.deployment.servers() {
                server.set_plan(process, Plan::default());
            }
        }
        self.deployment.deliver();
        thread::sleep(Duration::from_nanos(self.late.saturating_sub(clock::now())));
        self.write(Event::Calm);
    }

    /// Ends what is wrong with the connections of a worker.
    pub fn heal(&self, slot: usize) {
        let process = self.slots[slot].process;
        for address in self.deployment.addresses() {
            network::set_path(process, address, |path| *path = Path::default());
        }
    }

    pub fn pause_worker(&mut self, slot: usize) {
        let slot = &mut self.slots[slot];
        if !slot.is_paused {
            slot.is_paused = true;
            let process = slot.process;
            processes::pause(process);
            self.write(Event::Pauses { process });
        }
    }

    pub fn resume_worker(&mut self, slot: usize) {
        let slot = &mut self.slots[slot];
        if slot.is_paused {
            slot.is_paused = false;
            let process = slot.process;
            self.write(Event::Continued { process });
            processes::resume(process);
        }
    }

    /// Kills a worker, and starts another one.
    pub fn replace(&mut self, slot: usize) {
        self.kill(slot);
        self.slots[slot] = self.start_worker(slot);
    }

    pub fn kill(&mut self, slot: usize) {
        self.resume_worker(slot);
        let process = self.slots[slot].process;
        processes::kill(process);
        self.write(Event::Killed { process });
    }

    /// Logs each worker that ended unexpectedly, and starts another one.
    fn replace_ended(&mut self) {
        for slot in 0..self.slots.len() {
            let Slot { process, main, .. } = self.slots[slot];
            if tasks::has_ended(main) {
                self.write(Event::Died { process });
                self.slots[slot] = self.start_worker(slot);
            }
        }
    }

    /// Stops the workers and logs the keys that are still in Redis afterwards.
    fn finish(&mut self) {
        let bounds = self.scenario.bounds();
        let args = self.args().clone();
        // From `idle` on the checker requires more. That time contains the end of a rush.
        let rush = args.rush_interval() * u32::from(args.rushes);
        let end = clock::now() + nanos(bounds.idle + args.longest_lease() + rush);
        while clock::now() < end && !self.is_long(2) {
            thread::sleep(Duration::from_nanos(COUNTS));
        }
        // In the queue of a fair lock, the place of a client that does not answer lasts longer: of
        // one of Redisson, for minutes.
        let is_fair = args.kind == Some(Kind::Fair);
        let can_disturb = match self.scenario.program {
            Program::Few => true,
            Program::Redisson => args.acts_in_rounds && !is_fair,
            _ => false,
        };
        if can_disturb {
            self.disturb_calms();
        }
        if can_disturb && !is_fair {
            self.pause_first();
        }
        let can_pause = self.scenario.program == Program::Torture && !args.rushes && !is_fair;
        if can_pause && self.scenario.layout == Layout::One && random::one_in(2) {
            self.pause_many();
        }
        self.write(Event::Stopping);
        self.stop.store(true, Ordering::Relaxed);
        let latest = clock::now() + nanos(bounds.idle * 2 + args.lease() * 2 + NOTICED_BY_ALL);
        while clock::now() < latest && !self.slots.iter().all(|slot| tasks::has_ended(slot.main)) {
            thread::sleep(Duration::from_millis(20));
        }
        self.write(Event::End);
        for slot in &self.slots {
            let process = slot.process;
            if !tasks::has_ended(slot.main) {
                self.write(Event::Lingers { process });
            }
        }
        thread::sleep(bounds.longest_lease);
        for left in self.deployment.remains() {
            remains::events(&left).for_each(|event| self.write(event));
        }
    }

    /// Makes a semaphore, if the locks are of such a kind.
    pub fn set_permits(&self, lock: u32) {
        if let Some(permits) = self.args().kind.and_then(Kind::permits) {
            let mut server = self.deployment.server_of(lock);
            server.query(&["SET", &Args::key(lock), &permits.to_string()]);
            // They are not set again after a failover.
            server.replication.flush();
        }
    }

    pub fn note(&self, text: &str) {
        self.write(Event::Note {
            text: text.to_owned(),
        });
    }

    pub fn write(&self, event: Event) {
        self.log.write(clock::now(), 0, event);
    }
}

fn drift() -> i64 {
    let drift = random::between(0..=DRIFT).cast_signed();
    drift - (DRIFT / 2).cast_signed()
}

pub fn between(least: Duration, most: Duration) -> Duration {
    Duration::from_nanos(random::between(nanos(least)..=nanos(most)))
}
