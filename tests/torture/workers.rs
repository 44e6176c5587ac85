//! The conductor's side of the worker processes. Each worker connects through its own proxy.

use std::env;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::Result;
use crate::args::Args;
use crate::clock;
use crate::log::{Event, Log};
use crate::network::Network;
use crate::process::signal;
use crate::server::{SILENT_USER, Server, USER};

/// The pause between two checks whether the workers have ended.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

pub struct Workers {
    args: Args,
    directory: PathBuf,
    password_file: PathBuf,
    log: Arc<Log>,
    random: fastrand::Rng,
    started: u32,
    pub slots: Vec<Slot>,
}

/// A network and the worker that uses it now. A replaced worker keeps the network.
pub struct Slot {
    pub network: Network,
    worker: Worker,
}

/// Killed when dropped.
struct Worker {
    number: u32,
    process: Child,
    /// The process exits when this pipe is closed.
    input: ChildStdin,
    paused: bool,
}

impl Workers {
    pub fn start(args: &Args, server: &Server, directory: PathBuf, log: &Arc<Log>) -> Result<Self> {
        let mut workers = Self {
            args: args.clone(),
            directory,
            password_file: server.password_file(),
            log: Arc::clone(log),
            random: fastrand::Rng::with_seed(args.seed.unwrap_or(0)),
            started: 0,
            slots: Vec::new(),
        };
        for slot in 0..args.processes {
            let network = Network::before(&server.address(), slot + 1, log);
            let worker = workers.start_worker(slot as usize, &network.url())?;
            workers.slots.push(Slot { network, worker });
        }
        Ok(workers)
    }

    /// Every second worker lingers, and about every fourth may not subscribe.
    fn start_worker(&mut self, slot: usize, url: &str) -> Result<Worker> {
        self.started += 1;
        let number = self.started;
        let args = &self.args;
        let mut command = Command::new(env::current_exe()?);
        for (name, value) in [
            ("--worker", u64::from(number)),
            ("--threads", args.threads.into()),
            ("--locks", args.locks.into()),
            ("--lease", args.lease),
            ("--seed", args.seed.unwrap_or(0)),
        ] {
            command.args([name, &value.to_string()]);
        }
        if let Some(kind) = args.kind {
            command.args(["--kind", &kind.to_string()]);
        }
        if slot % 2 == 1 {
            command.arg("--lingers");
        }
        let user = match self.random.u8(0..4) {
            0 => SILENT_USER,
            _ => USER,
        };
        command
            .args(["--url", url, "--user", user, "--password-file"])
            .arg(&self.password_file)
            .arg("--log")
            .arg(&self.directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .process_group(0);
        let mut process = command.spawn()?;
        let input = process.stdin.take().expect("it is piped");
        Ok(Worker {
            number,
            process,
            input,
            paused: false,
        })
    }

    pub fn pause(&mut self, slot: usize) -> Result<()> {
        let worker = &mut self.slots[slot].worker;
        if !worker.paused {
            let process = worker.number;
            self.log.write(clock::now(), 0, Event::Pauses { process });
            signal(worker.process.id(), "STOP")?;
            worker.paused = true;
        }
        Ok(())
    }

    pub fn resume(&mut self, slot: usize) -> Result<()> {
        let worker = &mut self.slots[slot].worker;
        if worker.paused {
            signal(worker.process.id(), "CONT")?;
            worker.paused = false;
            let process = worker.number;
            self.log
                .write(clock::now(), 0, Event::Continued { process });
        }
        Ok(())
    }

    /// Kills a worker, as a crash would, and starts another one.
    pub fn replace(&mut self, slot: usize) -> Result<()> {
        let url = self.slots[slot].network.url();
        let process = self.slots[slot].worker.number;
        self.slots[slot].worker.kill();
        self.log.write(clock::now(), 0, Event::Killed { process });
        self.slots[slot].worker = self.start_worker(slot, &url)?;
        Ok(())
    }

    /// Logs each worker that ended unexpectedly, and starts another one.
    pub fn replace_dead(&mut self) -> Result<()> {
        for slot in 0..self.slots.len() {
            let worker = &mut self.slots[slot].worker;
            if worker.process.try_wait()?.is_some() {
                let process = worker.number;
                self.log.write(clock::now(), 0, Event::Died { process });
                let url = self.slots[slot].network.url();
                self.slots[slot].worker = self.start_worker(slot, &url)?;
            }
        }
        Ok(())
    }

    /// Asks all workers to stop and waits up to `time`. A worker that still runs then is stuck.
    pub fn finish(&mut self, time: Duration) -> Result<()> {
        self.log.write(clock::now(), 0, Event::Stopping);
        for slot in &mut self.slots {
            // A worker that has already ended is logged below.
            let _ = writeln!(slot.worker.input);
        }
        let start = Instant::now();
        loop {
            let mut left = 0;
            for slot in &mut self.slots {
                left += usize::from(slot.worker.process.try_wait()?.is_none());
            }
            if left == 0 || start.elapsed() > time {
                break;
            }
            thread::sleep(POLL_INTERVAL);
        }
        self.log.write(clock::now(), 0, Event::End);
        for Slot { worker, .. } in &mut self.slots {
            let process = worker.number;
            let event = match worker.process.try_wait()? {
                Some(status) if status.success() => continue,
                Some(_) => Event::Died { process },
                None => Event::Lingers { process },
            };
            self.log.write(clock::now(), 0, event);
            worker.kill();
        }
        Ok(())
    }
}

impl Worker {
    fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.kill();
    }
}
