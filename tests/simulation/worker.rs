//! A worker process: one client and its threads, which run a program until they are asked to stop.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use leasehold::{Error, LockClient, LockClientBuilder};
use leasehold_simulation_world::processes::{self, ProcessId};
use leasehold_simulation_world::tasks::{self, TaskId};

use crate::args::Args;
use crate::client_id;
use crate::clock;
use crate::deployment::Reach;
use crate::log::{Event, Log};
use crate::programs::{Program, ends, redisson};
use crate::slice_monitor;
use crate::worker_thread::WorkerThread;

/// What a worker has. It is never dropped: a process that is killed drops nothing.
struct Worker {
    args: Args,
    program: Program,
    log: Log,
    process: ProcessId,
    stop: &'static AtomicBool,
}

/// Starts a worker for these servers. Returns its process and its first thread.
pub fn start(
    (program, args): (Program, Args),
    reach: Reach,
    stop: &'static AtomicBool,
    drift: i64,
) -> (ProcessId, TaskId) {
    let process = processes::new(drift);
    let worker: &'static Worker = Box::leak(Box::new(Worker {
        args,
        program,
        log: Log::of(process),
        process,
        stop,
    }));
    let main = tasks::spawn_in(process, move || worker.run(&reach));
    (process, main)
}

impl Worker {
    fn run(&'static self, reach: &Reach) {
        let args = &self.args;
        if self.program == Program::Redisson && redisson::is_redisson(args, self.process) {
            return redisson::run(args, &self.log, self.stop, reach.addresses[0]);
        }
        if self.program == Program::Ends && ends::is_short_lived(self.process) {
            return self.run_short_lived(reach);
        }
        let clients: Option<Vec<LockClient>> = reach
            .builders()
            .into_iter()
            .map(|builder| self.connect(builder))
            .collect();
        if let Some(clients) = clients {
            self.run_threads(&clients);
        }
    }

    /// Uses one client after the other.
    fn run_short_lived(&'static self, reach: &Reach) {
        let mut number = 0;
        while !self.stop.load(Ordering::Relaxed)
            && let Some(client) = self.connect(reach.builder())
        {
            number += 1;
            ends::use_briefly((&self.args, &self.log), self.process, client, number);
        }
    }

    /// `None` if it is asked to stop before the server answers.
    fn connect(&self, builder: LockClientBuilder) -> Option<LockClient> {
        let builder = self.args.set(builder);
        loop {
            match builder.clone().build() {
                Err(Error::Unavailable { .. }) if !self.stop.load(Ordering::Relaxed) => {}
                Err(Error::Unavailable { .. }) => return None,
                built => return Some(built.expect("the settings are right")),
            }
        }
    }

    fn run_threads(&'static self, clients: &[LockClient]) {
        let (args, client) = (&self.args, &clients[0]);
        let mut threads = Vec::new();
        let own = client.clone();
        threads.push(thread::spawn(move || {
            slice_monitor::run(&own, &self.log, self.stop);
        }));
        let own = client.clone();
        threads.push(thread::spawn(move || {
            client_id::log(&own, self.process, &self.log, self.stop);
        }));
        for number in 1..=args.threads {
            let own = clients.to_vec();
            threads.push(thread::spawn(move || {
                let Self {
                    args,
                    program,
                    log,
                    process,
                    stop,
                } = self;
                let thread = WorkerThread::new(args, &own[0], log, *process, number, stop);
                program.run(&own, thread);
            }));
        }
        for thread in threads {
            if thread.join().is_err() {
                let process = self.process;
                self.log.write(clock::now(), 0, Event::Died { process });
            }
        }
    }
}
