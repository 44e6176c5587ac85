//! Clients of Redisson beside those of the library: every second process. They request locks and
//! wait for messages as Redisson does, without a line.

mod connection;
mod keys;
mod scripts;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use leasehold_simulation_world::processes::ProcessId;
use leasehold_simulation_world::{random, time};

use self::connection::Connection;
use self::keys::Names;
use super::few;
use crate::args::Args;
use crate::clock;
use crate::event_log::EventLog;
use crate::kind::{Access, Kind};
use crate::log::Log;
use crate::worker_thread::{Target, nanos};

/// Behind a dead thread in a fair queue, Redisson requests the lock again without a pause. Here it
/// waits for as many milliseconds, so that a run makes fewer steps.
const SHORTEST_WAIT: u64 = 5;

/// Longer than a place of the library in the queue of a fair lock lasts without a request.
const LONG: Duration = Duration::from_secs(8);

/// Nothing is promised about its calls.
const UNBOUNDED: Duration = Duration::from_secs(3600);

pub fn adapt(args: &mut Args) {
    args.kind = match args.kind {
        None | Some(Kind::Fenced) => Some(Kind::Reentrant),
        Some(Kind::Permits(permits)) => Some(Kind::Semaphore(permits)),
        other => other,
    };
    args.processes = args.processes.max(2);
    args.acts_in_rounds = random::one_in(2);
    if args.acts_in_rounds {
        let processes = args.processes;
        few::adapt(args);
        args.processes = args.processes.min(processes);
    }
}

/// True if this process is one of Redisson.
pub fn is_redisson(args: &Args, process: ProcessId) -> bool {
    !args.wants_too_many && process.is_multiple_of(2)
}

/// Starts the threads of a process, and waits for them.
pub fn run(args: &'static Args, log: &'static Log, stop: &'static AtomicBool, server: SocketAddr) {
    // A UUID of version 4.
    let client = u128::from_le_bytes(random::bytes()) & !(0xf << 76) | 4 << 76;
    let threads = (1..=args.threads).map(|number| {
        thread::spawn(move || {
            let thread = Thread {
                args,
                event_log: EventLog::new(log, number),
                random: fastrand::Rng::with_seed(random::seed()),
                server,
                commands: None,
                owner: (client, u64::from(number)),
            };
            thread.run(stop);
        })
    });
    let threads: Vec<_> = threads.collect();
    for thread in threads {
        let _ = thread.join();
    }
}

struct Thread {
    args: &'static Args,
    event_log: EventLog<'static>,
    random: fastrand::Rng,
    server: SocketAddr,
    commands: Option<Connection>,
    /// The ids of the client and of the thread.
    owner: (u128, u64),
}

/// A reply was lost, so it is not known what the thread has.
struct NoReply;

impl Thread {
    fn run(mut self, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            let at = self.target();
            self.use_one(at);
            if self.args.acts_in_rounds {
                few::pause(stop, &mut self.random);
                continue;
            }
            let most = [4, 4, 4, 300][self.random.usize(0..4)];
            thread::sleep(Duration::from_millis(self.random.u64(0..=most)));
        }
    }

    fn target(&mut self) -> Target {
        let lock = self.random.u32(0..self.args.locks);
        let access = match self.args.kind_of(lock) {
            Kind::ReadWrite if self.random.bool() => Access::Shared,
            Kind::Semaphore(all) => Access::Several(self.random.u32(1..=all)),
            _ => Access::Exclusive,
        };
        Target { lock, access }
    }

    fn use_one(&mut self, at: Target) {
        let names = Names::new(self.args.kind_of(at.lock), at, self.owner);
        let is_fair = self.args.kind_of(0) == Kind::Fair;
        let wait = match self.args.acts_in_rounds {
            false => self.args.lease().mul_f64(self.random.f64() * 2.0),
            true if is_fair && self.random.bool() => LONG * 2,
            true => few::wait(&mut self.random),
        };
        let what = format!("Redisson's tryLock {wait:?}");
        let call = self.event_log.asks(at, Some(UNBOUNDED), what);
        match self.try_lock(&names, clock::now() + nanos(wait)) {
            Ok(true) => self.event_log.has(call, None, None),
            Ok(false) => return self.event_log.answered(call, "held by another"),
            Err(NoReply) => {
                self.become_another();
                return self.event_log.answered(call, "no reply");
            }
        }
        self.work(&names, call);
        let unlock = self
            .event_log
            .asks(at, Some(UNBOUNDED), "Redisson's unlock".into());
        let answer = match self.request(&names.release()) {
            Ok(reply) => reply,
            Err(NoReply) => {
                self.become_another();
                "no reply".into()
            }
        };
        self.event_log.answered(unlock, answer.trim_end());
    }

    /// Later requests are those of another thread: this one may have a lock without knowing it.
    fn become_another(&mut self) {
        // No other thread of the client has this number.
        self.owner.1 += 100;
    }

    /// Requests the lock, subscribes, requests it again, and then at each message, and when the
    /// lease of the holder is over.
    fn try_lock(&mut self, names: &Names, until: u64) -> Result<bool, NoReply> {
        let mut messages = None;
        loop {
            let reply = self.request(&names.acquire())?;
            let Some(left) = reply.strip_prefix(':') else {
                return Ok(true);
            };
            if time::now() >= until {
                break;
            }
            let Some(channel) = &mut messages else {
                messages = Some(self.subscribe(&names.channel).ok_or(NoReply)?);
                continue;
            };
            let left: Option<u64> = left.trim_end().parse().ok();
            let wake = left.map(|left| time::now() + left.max(SHORTEST_WAIT) * time::MS);
            let wake = wake.map_or(until, |wake| until.min(wake));
            if channel.next(wake).is_none() && time::now() < wake {
                // The connection has ended.
                messages = None;
            }
        }
        if let Some(leave) = names.leave() {
            self.request(&leave)?;
        }
        Ok(false)
    }

    /// Checks the hold repeatedly, and renews the lease.
    fn work(&mut self, names: &Names, call: u64) {
        let longest = match self.random.u8(0..10) {
            0 => self.args.lease() * 2,
            1 => self.args.lease() / 4,
            _ => Duration::from_millis(10),
        };
        let time = match self.args.acts_in_rounds {
            false => longest.mul_f64(self.random.f64()),
            true if self.args.kind_of(0) == Kind::Fair && self.random.u8(0..4) == 0 => LONG,
            true => few::hold_time(&mut self.random),
        };
        let until = clock::now() + nanos(time);
        let mut renewed = clock::now();
        loop {
            let now = clock::now();
            match names.holds() {
                Some(holds) => match self.request(&holds) {
                    Ok(reply) if reply == ":1\r\n" => self.event_log.vouches(call, now),
                    _ => return,
                },
                None => self.event_log.vouches(call, now),
            }
            if now >= until {
                return;
            }
            if let Some(renew) = names.renew()
                && now - renewed > nanos(self.args.lease() / 3)
            {
                renewed = now;
                if self.request(&renew).is_err() {
                    return;
                }
            }
            let left = Duration::from_nanos(until - now);
            thread::sleep(left.min(Duration::from_millis(self.random.u64(0..=3))));
        }
    }

    fn request(&mut self, words: &[String]) -> Result<String, NoReply> {
        let timeout = self.timeout();
        if self.commands.is_none() {
            self.commands = Connection::open(self.server, timeout);
        }
        let connection = self.commands.as_mut().ok_or(NoReply)?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let reply = connection.command(&words, time::now() + timeout);
        let reply = reply.filter(|reply| !reply.starts_with("-ERR max number"));
        match reply {
            Some(reply) => {
                assert!(!reply.starts_with('-'), "{words:?}: {reply}");
                Ok(reply)
            }
            None => {
                self.commands = None;
                Err(NoReply)
            }
        }
    }

    fn subscribe(&self, channel: &str) -> Option<Connection> {
        let mut connection = Connection::open(self.server, self.timeout())?;
        let until = time::now() + self.timeout();
        let reply = connection.command(&["SUBSCRIBE", channel], until)?;
        (!reply.starts_with('-')).then_some(connection)
    }

    /// How long it waits for a reply. Without one, permits would be lost, and a place in a fair
    /// queue would last for minutes.
    fn timeout(&self) -> u64 {
        match self.args.kind_of(0) {
            Kind::Fair | Kind::Semaphore(_) => nanos(UNBOUNDED),
            _ => nanos(self.args.command_timeout()),
        }
    }
}
