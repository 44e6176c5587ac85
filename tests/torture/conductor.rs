//! The conductor: alternates storms (periods with faults) and calms (periods without), drawn from
//! the seed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use redis::cmd;

use crate::Result;
use crate::args::Args;
use crate::clock;
use crate::log::{Event, Log};
use crate::remains;
use crate::server::Server;
use crate::workers::Workers;

pub struct Conductor {
    pub args: Args,
    pub random: fastrand::Rng,
    pub server: Server,
    pub workers: Workers,
    pub log: Arc<Log>,
    pub undo: Vec<(Instant, Undo)>,
    pub server_paused: bool,
    /// When it killed a worker.
    pub killed: Option<Instant>,
}

/// The action that ends a fault.
#[derive(Clone, Copy, Debug)]
pub enum Undo {
    ResumeWorker(usize),
    ResumeServer,
    Accept(usize),
    Reconnect(usize),
    GiveRights,
    /// Lets clients connect to the server.
    Admit,
}

impl Conductor {
    /// Alternates storms and calms until the time is over or the user interrupts.
    pub fn run(&mut self, interrupted: &AtomicBool) -> Result<()> {
        let over = Instant::now() + Duration::from_secs(self.args.seconds);
        while Instant::now() < over && !interrupted.load(Ordering::Relaxed) {
            let storm = self.between(self.args.lease() * 3, self.args.lease() * 10);
            self.storm(storm.min(over.saturating_duration_since(Instant::now())))?;
            self.calm()?;
            // One calm in eight is long enough to detect a stuck lock.
            let idle = self.args.bounds().idle;
            let calm = match self.random.u8(0..8) {
                0 => idle * 2,
                _ => self.between(Duration::from_millis(20), self.args.lease()),
            };
            thread::sleep(calm.min(over.saturating_duration_since(Instant::now())));
            self.workers.replace_dead()?;
        }
        Ok(())
    }

    /// Stops the workers and logs the keys that are still in Redis afterwards.
    pub fn finish(&mut self) -> Result<()> {
        let idle = self.args.bounds().idle;
        // From `idle` on the checker requires more. That time contains the end of a rush.
        thread::sleep(idle + self.args.rush_interval() + self.args.longest_lease());
        // The time of a last hold and of the threads that wait for that lock.
        self.workers.finish(idle * 2 + self.args.lease() * 2)?;
        thread::sleep(self.args.bounds().longest_lease);
        let left: String = self.server.query(cmd("EVAL").arg(remains::SCRIPT).arg(0))?;
        for event in remains::events(&left) {
            self.write(event);
        }
        Ok(())
    }

    fn storm(&mut self, time: Duration) -> Result<()> {
        let end = Instant::now() + time;
        self.write(Event::Storm);
        for slot in &self.workers.slots {
            slot.network.storm(&mut self.random);
        }
        let mut next = Instant::now();
        // In some storms most processes are paused; in others they work between the faults.
        let pace = *self.random.choice(&[80, 80, 400, 1500]).expect("not empty");
        let longest_pause = Duration::from_millis(pace);
        loop {
            let now = Instant::now();
            if now >= end {
                return Ok(());
            }
            self.undo_until(now)?;
            if now >= next {
                self.inject_fault()?;
                next = Instant::now() + self.between(Duration::from_millis(5), longest_pause);
            }
            let due = self.undo.iter().map(|(at, _)| *at);
            let wake = due.chain([next, end]).min().unwrap_or(end);
            thread::sleep(wake.saturating_duration_since(Instant::now()));
        }
    }

    /// Ends all faults.
    fn calm(&mut self) -> Result<()> {
        let undo = std::mem::take(&mut self.undo);
        for (_, undo) in undo {
            self.undo(undo)?;
        }
        for slot in &self.workers.slots {
            slot.network.calm();
        }
        self.write(Event::Calm);
        Ok(())
    }

    fn undo_until(&mut self, now: Instant) -> Result<()> {
        let due = |(at, _): &mut (Instant, Undo)| *at <= now;
        let due: Vec<_> = self.undo.extract_if(.., due).collect();
        for (_, undo) in due {
            self.undo(undo)?;
        }
        Ok(())
    }

    fn undo(&mut self, undo: Undo) -> Result<()> {
        match undo {
            Undo::ResumeWorker(slot) => self.workers.resume(slot)?,
            Undo::ResumeServer => self.resume_server()?,
            Undo::Accept(slot) => self.workers.slots[slot].network.refuse(false),
            Undo::Reconnect(slot) => self.workers.slots[slot].network.storm(&mut self.random),
            Undo::GiveRights => {
                self.resume_server()?;
                self.server.set_rights(&["~*", "&*", "+@all"])?;
                self.note("the workers have all rights");
            }
            Undo::Admit => {
                self.resume_server()?;
                self.set_most_clients(10_000)?;
            }
        }
        Ok(())
    }

    /// Also before each command: a paused server does not reply.
    fn resume_server(&mut self) -> Result<()> {
        if self.server_paused {
            self.server.resume()?;
            self.server_paused = false;
            self.note("the server is resumed");
        }
        Ok(())
    }

    pub fn set_most_clients(&mut self, most: u32) -> Result<()> {
        self.note(&format!("CONFIG SET maxclients {most}"));
        let mut set = cmd("CONFIG");
        self.server
            .query(set.arg("SET").arg("maxclients").arg(most))
    }

    pub fn between(&mut self, least: Duration, most: Duration) -> Duration {
        least + (most - least).mul_f64(self.random.f64())
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
