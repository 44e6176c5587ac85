//! Holds locks for several leases, and draws how the watchdog renews them.

#[path = "watchdog/drawing.rs"]
mod drawing;
#[path = "support/mod.rs"]
mod support;
#[path = "watchdog/trace.rs"]
mod trace;

use std::{
    path::PathBuf,
    process::ExitCode,
    sync::mpsc::{self, Receiver},
    time::{Duration, Instant},
};

use clap::Parser;
use leasehold::testing::FaultProxy;
use leasehold::{LockClient, LockGuard};
use redis::{Connection, IntoConnectionInfo};
use uuid::Uuid;

use crate::{
    drawing::Drawing,
    support::{Result, Server, Stop},
    trace::{Event, Sample, Trace},
};

/// Holds locks for several leases, and draws their times to live, which the watchdog renews.
///
/// On a terminal each lock has a line that changes. Otherwise lines are printed one after another.
/// Uses the server at REDIS_URL if that is set, else starts a private redis-server.
#[derive(Parser)]
struct Args {
    /// The lease, such as 3s or 1500ms
    #[arg(long, default_value = "3s", value_parser = parse_duration)]
    lease: Duration,
    /// How long to hold the locks, in leases
    #[arg(long, default_value_t = 4)]
    leases: u32,
    /// How many locks to hold; each is acquired a little later than the one before it
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=20))]
    locks: u32,
    /// Cuts the connection to Redis at the end, and waits until the loss is notified
    #[arg(long)]
    cut: bool,
    /// Writes what is drawn to this file, as CSV
    #[arg(long)]
    trace: Option<PathBuf>,
}

fn parse_duration(text: &str) -> std::result::Result<Duration, String> {
    let (number, unit) = text.split_at(
        text.find(|c: char| !c.is_ascii_digit())
            .unwrap_or(text.len()),
    );
    let number = number
        .parse()
        .map_err(|_| "not a duration; write a number of s or ms, such as 3s")?;
    match unit {
        "s" => Ok(Duration::from_secs(number)),
        "ms" | "" => Ok(Duration::from_millis(number)),
        _ => Err(format!("{unit} is not a unit; use s or ms")),
    }
}

fn main() -> ExitCode {
    support::exit_code(hold(&Args::parse()).map(|()| ExitCode::SUCCESS))
}

fn hold(args: &Args) -> Result<()> {
    let interrupts = interrupts()?;
    let server = Server::find_or_start()?;
    let address = server.url().into_connection_info()?.addr().to_string();
    let proxy = args.cut.then(|| FaultProxy::start(&address)).transpose()?;
    let url = proxy.as_ref().map(|proxy| proxy.url());
    let client = LockClient::builder(url.as_deref().unwrap_or(server.url()))
        .watchdog_lease(args.lease)
        .build()?;
    let mut watch = Watch {
        redis: support::connect(server.url())?,
        start: Instant::now(),
        held: Vec::new(),
        drawing: Drawing::begin(args.lease),
        trace: Trace::create(args.trace.as_deref())?,
        // More often than the drawing changes, so that the trace is exact.
        tick: (args.lease / 100).clamp(Duration::from_millis(5), Duration::from_millis(20)),
        interrupts,
    };

    let prefix = format!("leasehold:watchdog:{}", Uuid::new_v4());
    for number in 1..=args.locks {
        watch.run(args.lease / 12, false)?;
        let lock = client.reentrant_lock(&format!("{prefix}:{number}"));
        watch.held.push(Held {
            guard: lock.acquire()?,
            in_redis: None,
            renewals: 0,
            lost: false,
        });
        watch.note(Event::Acquired)?;
    }
    watch.run(args.lease.saturating_mul(args.leases), false)?;
    if let Some(proxy) = &proxy {
        proxy.refuse(true);
        proxy.cut_all();
        watch.note(Event::Cut)?;
        watch.run(args.lease * 2, true)?;
    }
    watch.end(args)
}

fn interrupts() -> Result<Receiver<()>> {
    let (sender, receiver) = mpsc::channel();
    ctrlc::set_handler(move || {
        let _ = sender.send(());
    })?;
    Ok(receiver)
}

/// A lock, and what was last seen of it.
struct Held {
    guard: LockGuard,
    in_redis: Option<Duration>,
    renewals: u32,
    lost: bool,
}

/// Looks at the locks while their watchdog renews them.
struct Watch {
    /// To the server itself, also while the client is cut off.
    redis: Connection,
    start: Instant,
    held: Vec<Held>,
    drawing: Drawing,
    trace: Trace,
    tick: Duration,
    interrupts: Receiver<()>,
}

impl Watch {
    /// Looks at all locks repeatedly. If they may be lost, it ends when all of them are, and
    /// their keys have expired; otherwise a lost lock is an error.
    fn run(&mut self, length: Duration, may_be_lost: bool) -> Result<()> {
        let end = Instant::now() + length;
        while Instant::now() < end {
            let is_over = |held: &Held| held.lost && held.in_redis.is_none();
            if may_be_lost && self.held.iter().all(is_over) {
                return Ok(());
            }
            self.look(may_be_lost)?;
            if self.interrupts.recv_timeout(self.tick).is_ok() {
                return Err(Stop::Interrupted.into());
            }
        }
        match may_be_lost {
            true => Err("the loss was not notified within two leases".into()),
            false => Ok(()),
        }
    }

    fn look(&mut self, may_be_lost: bool) -> Result<()> {
        for (place, held) in self.held.iter_mut().enumerate() {
            let left: i64 = redis::cmd("PTTL")
                .arg(held.guard.name())
                .query(&mut self.redis)?;
            let before = held.in_redis;
            // Negative if there is no such key.
            held.in_redis = u64::try_from(left).ok().map(Duration::from_millis);
            let mut event = None;
            if before.is_some() && held.in_redis > before {
                held.renewals += 1;
                event = Some(Event::Renewed);
            }
            if !held.lost && held.guard.is_lost() {
                if !may_be_lost {
                    held.guard.check()?;
                }
                held.lost = true;
                event = Some(Event::Lost);
            }
            let sample = Sample {
                at: self.start.elapsed(),
                lock: place + 1,
                in_redis: held.in_redis,
                for_holder: held.guard.remaining(),
                event,
            };
            self.trace.write(&sample)?;
            self.drawing.add(&sample);
        }
        Ok(())
    }

    /// Records what happened to the last lock, or to all of them.
    fn note(&mut self, event: Event) -> Result<()> {
        let at = self.start.elapsed();
        self.drawing.note(at, event, self.held.len());
        self.trace.note(at, event, self.held.len())?;
        self.look(false)
    }

    fn end(self, args: &Args) -> Result<()> {
        self.drawing.end(self.start.elapsed());
        let renewals: u32 = self.held.iter().map(|held| held.renewals).sum();
        if args.cut {
            println!("{renewals} renewals; the holder was notified of every loss");
            return Ok(());
        }
        for held in self.held {
            held.guard.check()?;
            held.guard.unlock()?;
        }
        println!(
            "held for {} leases, renewed {renewals} times, never lost",
            args.leases
        );
        Ok(())
    }
}
