//! Holds a lock for several leases and prints its time to live, which rises at each renewal.

#[path = "support/mod.rs"]
mod support;

use std::{
    process::ExitCode,
    sync::mpsc::{self, Receiver},
    time::{Duration, Instant},
};

use clap::Parser;
use leasehold::{Lock, LockClient};
use uuid::Uuid;

use crate::support::{Result, Server, Stop};

const BAR_WIDTH: u32 = 40;

/// Holds a lock for several leases and prints its time to live, which the watchdog renews.
///
/// Uses the server at REDIS_URL if that is set, else starts a private redis-server.
#[derive(Parser)]
struct Args {
    /// The lease, such as 3s or 1500ms
    #[arg(long, default_value = "3s", value_parser = parse_duration)]
    lease: Duration,
    /// How long to hold the lock, in leases
    #[arg(long, default_value_t = 4)]
    leases: u32,
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
    let client = LockClient::builder(server.url())
        .watchdog_lease(args.lease)
        .build()?;
    let lock = client.reentrant_lock(&format!("leasehold:watchdog:{}", Uuid::new_v4()));

    let guard = lock.acquire()?;
    let renewals = watch(&lock, args, &interrupts)?;
    guard.check()?;
    guard.unlock()?;
    println!(
        "held for {} leases, renewed {renewals} times, never lost",
        args.leases
    );
    Ok(())
}

fn interrupts() -> Result<Receiver<()>> {
    let (sender, receiver) = mpsc::channel();
    ctrlc::set_handler(move || {
        let _ = sender.send(());
    })?;
    Ok(receiver)
}

/// Prints the time to live twice a second, more often if the lease is short, and counts renewals.
fn watch(lock: &dyn Lock, args: &Args, interrupts: &Receiver<()>) -> Result<u32> {
    let tick = Duration::from_millis(500).min(args.lease / 6);
    let start = Instant::now();
    let mut renewals = 0;
    let mut before = Duration::MAX;
    while start.elapsed() < args.lease.saturating_mul(args.leases) {
        let left = lock.remaining_lease()?.ok_or("the lock is gone")?;
        let renewed = left > before;
        renewals += u32::from(renewed);
        before = left;
        print(start.elapsed(), left, args.lease, renewed);
        if interrupts.recv_timeout(tick).is_ok() {
            return Err(Stop::Interrupted.into());
        }
    }
    Ok(renewals)
}

fn print(elapsed: Duration, left: Duration, lease: Duration, renewed: bool) {
    let filled = (left.as_secs_f64() / lease.as_secs_f64() * f64::from(BAR_WIDTH)).round() as usize;
    println!(
        "{:6.2} s  [{:·<width$}] {:5} ms{}",
        elapsed.as_secs_f64(),
        "#".repeat(filled),
        left.as_millis(),
        if renewed { "  renewed" } else { "" },
        width = BAR_WIDTH as usize,
    );
}
