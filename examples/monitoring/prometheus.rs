//! A program with locks whose metrics Prometheus can scrape. It makes some load, loses a lock, and
//! prints what it exports. docs/monitoring.md explains it.

#[path = "../support/mod.rs"]
mod support;

use std::{
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use clap::Parser;
use leasehold::{Lease, LockClient};
use metrics_exporter_prometheus::PrometheusBuilder;

use crate::support::{Result, Server};

/// Exports the metrics of locks under load. Exit status 1 if they are not those that are expected.
///
/// Uses the server at REDIS_URL if that is set, else starts a private redis-server.
#[derive(Parser)]
struct Args {
    /// The address at which Prometheus can scrape the metrics
    #[arg(long, default_value_t = SocketAddr::from((Ipv4Addr::LOCALHOST, 9464)))]
    listen: SocketAddr,
    /// For how many seconds the load lasts; in the middle of that a lock is lost
    #[arg(long, default_value_t = 3)]
    seconds: u64,
}

/// The upper bounds of the buckets of waits and holds, in seconds.
const BUCKETS: [f64; 10] = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 300.0];

fn export_metrics(listen: SocketAddr) -> Result<()> {
    // Without buckets, this exporter makes summaries of histograms.
    PrometheusBuilder::new()
        .with_http_listener(listen)
        .set_buckets(&BUCKETS)?
        .install()?;
    Ok(())
}

fn main() -> ExitCode {
    support::exit_code(run(&Args::parse()).map(|()| ExitCode::SUCCESS))
}

fn run(args: &Args) -> Result<()> {
    let redis = Server::find_or_start()?;
    // First, because a client registers its metrics when it is built.
    export_metrics(args.listen)?;
    let client = LockClient::builder(redis.url())
        .watchdog_lease(Duration::from_secs(1))
        .build()?;
    let lost = r#"leasehold_lost_total{reason="deleted"}"#;
    expect(&scrape(args.listen)?, &format!("{lost} 0"))?;
    let half = Duration::from_secs(args.seconds) / 2;
    compete(&client, redis.url(), half)?;
    let guard = client.reentrant_lock("monitoring:lost").acquire()?;
    expect(&scrape(args.listen)?, "leasehold_held 1")?;
    client.force_unlock("monitoring:lost")?;
    drop(guard);
    compete(&client, redis.url(), half)?;
    let metrics = scrape(args.listen)?;
    let of_locks = metrics.lines().filter(|line| line.contains("leasehold_"));
    of_locks.for_each(|line| println!("{line}"));
    expect(&metrics, &format!("{lost} 1"))
}

fn compete(client: &LockClient, url: &str, time: Duration) -> Result<()> {
    let end = Instant::now() + time;
    thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| work(client, url, end)))
            .collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().map_err(|_| "a worker panicked")?)
    })
}

/// Competes with a client of its own for a lock that each holder keeps for some milliseconds.
fn work(client: &LockClient, url: &str, end: Instant) -> Result<()> {
    let rival = LockClient::connect(url)?;
    while Instant::now() < end {
        for client in [client, &rival] {
            let lock = client.reentrant_lock("monitoring:shared");
            let wait = Duration::from_millis(50);
            if let Some(guard) = lock.try_acquire(wait, Lease::RENEWED)? {
                thread::sleep(Duration::from_millis(7));
                guard.unlock()?;
            }
        }
    }
    Ok(())
}

/// What Prometheus gets.
fn scrape(address: SocketAddr) -> Result<String> {
    let mut connection = TcpStream::connect(address)?;
    connection.set_read_timeout(Some(Duration::from_secs(5)))?;
    write!(
        connection,
        "GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    )?;
    let mut response = String::new();
    connection.read_to_string(&mut response)?;
    Ok(response)
}

fn expect(metrics: &str, line: &str) -> Result<()> {
    if metrics.lines().any(|found| found == line) {
        return Ok(());
    }
    Err(format!("expected: {line}").into())
}
