//! The faults that the conductor injects into processes, connections and keys.

use std::time::{Duration, Instant};

use redis::cmd;

use crate::Result;
use crate::args::Args;
use crate::clock;
use crate::conductor::{Conductor, Undo};
use crate::log::Event;

/// What the users of the workers may not use for some time, and the rules that say so. Not
/// SUBSCRIBE, which some workers may never use: a client sends it again only 30 s after a refusal,
/// as documented.
const RIGHTS: &[(&str, &[&str])] = &[
    (
        "the lines",
        &["resetkeys", "~torture:*", "~{torture:*", "~redisson*"],
    ),
    ("the command PUBLISH", &["-publish"]),
];

impl Conductor {
    /// Injects one random fault.
    pub fn inject_fault(&mut self) -> Result<()> {
        let slot = self.random.usize(0..self.workers.slots.len());
        match self.random.u8(0..29) {
            0..9 => self.pause_worker(slot),
            9 => self.pause_server(),
            10 => self.kill_worker(slot),
            11..15 => self.isolate(slot),
            15 => self.refuse(slot),
            16 => {
                self.workers.slots[slot].network.cut();
                Ok(())
            }
            17 => {
                self.workers.slots[slot].network.reset();
                Ok(())
            }
            // The rest are commands. A paused server does not reply, and this thread resumes it.
            _ if self.server_paused => Ok(()),
            18 => self.delete(),
            19 | 20 => self.kill_clients(),
            21 | 22 => self.take_rights(),
            23 | 24 => self.restart_server(),
            25 | 26 => self.rotate_password(),
            _ => self.fill_server(),
        }
    }

    /// Pauses the worker for less or for more than a lease.
    fn pause_worker(&mut self, slot: usize) -> Result<()> {
        let time = self.between(Duration::from_millis(10), self.args.lease() * 5 / 2);
        self.workers.pause(slot)?;
        self.later(time, Undo::ResumeWorker(slot));
        Ok(())
    }

    /// Kills the worker, unless another one was killed so shortly before that both can have places
    /// in the queue of a fair lock. The places would end one after the other.
    fn kill_worker(&mut self, slot: usize) -> Result<()> {
        let place = self.args.kind_of(0).place();
        let is_too_soon = |killed: Instant| killed.elapsed() < place * 2;
        if self.killed.is_some_and(is_too_soon) {
            return Ok(());
        }
        self.killed = Some(Instant::now());
        self.workers.resume(slot)?;
        self.workers.replace(slot)
    }

    fn pause_server(&mut self) -> Result<()> {
        if !self.server_paused {
            self.note("the server is paused");
            self.server.pause()?;
            self.server_paused = true;
            let [least, most] = *self
                .random
                .choice(&[[10, 300], [300, 3000]])
                .expect("not empty");
            let time = self.between(Duration::from_millis(least), Duration::from_millis(most));
            self.later(time, Undo::ResumeServer);
        }
        Ok(())
    }

    fn isolate(&mut self, slot: usize) -> Result<()> {
        self.workers.slots[slot].network.isolate();
        let time = self.between(self.args.lease() / 2, self.args.lease() * 2);
        self.later(time, Undo::Reconnect(slot));
        Ok(())
    }

    fn refuse(&mut self, slot: usize) -> Result<()> {
        let network = &self.workers.slots[slot].network;
        network.refuse(true);
        network.cut();
        let time = self.between(Duration::from_millis(10), self.args.lease());
        self.later(time, Undo::Accept(slot));
        Ok(())
    }

    /// Deletes the key of a lock, as an operator might who believes that the lock is stuck.
    fn delete(&mut self) -> Result<()> {
        let lock = self.random.u32(0..self.args.locks);
        let from = clock::now();
        let script = "return { redis.call('del', KEYS[1]), redis.call('get', KEYS[2]) }";
        let mut delete = cmd("EVAL");
        delete.arg(script).arg(2);
        delete.arg(Args::key(lock)).arg(Args::token_key(lock));
        let (deleted, token): (u32, Option<u64>) = self.server.query(&delete)?;
        if deleted > 0 {
            self.write(Event::Deleted { lock, from, token });
        }
        Ok(())
    }

    /// Takes rights from the user of all workers for some time.
    fn take_rights(&mut self) -> Result<()> {
        let (name, rules) = *self.random.choice(RIGHTS).expect("not empty");
        self.note(&format!("the workers may not use {name}"));
        self.server.set_rights(rules)?;
        let time = self.between(Duration::from_millis(10), self.args.lease() * 2);
        self.later(time, Undo::GiveRights);
        Ok(())
    }

    /// Replaces the server by one without its data, as after a crash without persistence.
    fn restart_server(&mut self) -> Result<()> {
        self.note("the server is restarted without its data");
        let from = clock::now();
        self.server.restart()?;
        for lock in 0..self.args.locks {
            let token = None;
            self.write(Event::Deleted { lock, from, token });
        }
        Ok(())
    }

    /// Changes the password of the workers. Sometimes they have to log in with it at once.
    fn rotate_password(&mut self) -> Result<()> {
        self.write(Event::Rotates);
        self.server.rotate_password()?;
        if self.random.bool() {
            self.kill_clients()?;
        }
        Ok(())
    }

    /// Lets no further client connect to the server for some time.
    fn fill_server(&mut self) -> Result<()> {
        let most = self.random.u32(1..30);
        self.set_most_clients(most)?;
        let time = self.between(Duration::from_millis(10), self.args.lease() * 2);
        self.later(time, Undo::Admit);
        Ok(())
    }

    fn kill_clients(&mut self) -> Result<()> {
        let kind = if self.random.bool() {
            "normal"
        } else {
            "pubsub"
        };
        self.note(&format!("CLIENT KILL TYPE {kind}"));
        self.server
            .query(cmd("CLIENT").arg("KILL").arg("TYPE").arg(kind))
    }

    fn later(&mut self, time: Duration, undo: Undo) {
        self.undo.push((Instant::now() + time, undo));
    }
}
