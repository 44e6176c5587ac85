//! A web service with a slow handler. `#[locked]` runs it at most once at a time for each user,
//! across threads, processes and machines. An edit holds the lock of a user over several requests,
//! and a worker process ends it.

mod edits;
mod http_client;
mod service;
#[path = "../support/mod.rs"]
mod support;

use std::{
    net::SocketAddr,
    process::ExitCode,
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

use clap::Parser;
use leasehold::LockClient;
use uuid::Uuid;

use crate::{
    http_client::{Response, get},
    service::{Service, Settlements},
    support::{Result, Server},
};

/// How long the handler takes.
const WORK: Duration = Duration::from_secs(2);

/// How long the first request may take to reach its handler.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// A web service that settles accounts, with one lock for each user. It sends itself some requests.
///
/// Uses the server at REDIS_URL if that is set, else starts a private redis-server.
#[derive(Parser)]
struct Args {
    /// Serve until Ctrl-C, for requests with curl
    #[arg(long)]
    serve: bool,
    /// End the edit whose token is the only line of the input, as a worker process
    #[arg(long, hide = true)]
    worker: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    support::exit_code(run(&args).map(|()| ExitCode::SUCCESS))
}

fn run(args: &Args) -> Result<()> {
    let redis = Server::find_or_start()?;
    let locks = LockClient::connect(redis.url())?;
    if args.worker {
        return edits::work(&locks);
    }
    if args.serve {
        // The same prefix in all serving processes, so that they share the locks.
        let service = Service::start(Settlements::new(locks, "leasehold:http".into(), WORK))?;
        return serve(&service);
    }
    let prefix = format!("leasehold:http:{}", Uuid::new_v4());
    let settlements = Settlements::new(locks, prefix, WORK);
    let service = Service::start(settlements.clone())?;
    demonstrate(service.address(), &settlements)?;
    demonstrate_edit(service.address(), redis.url())
}

fn serve(service: &Service) -> Result<()> {
    let (sender, interrupts) = mpsc::channel();
    ctrlc::set_handler(move || {
        let _ = sender.send(());
    })?;
    let address = service.address();
    println!("serving until Ctrl-C; a request takes {WORK:?} and blocks others for the same user:");
    println!("  curl -i http://{address}/settle/7 & curl -i http://{address}/settle/7; wait");
    interrupts.recv()?;
    Ok(())
}

fn demonstrate(address: SocketAddr, settlements: &Arc<Settlements>) -> Result<()> {
    let start = Instant::now();
    let settle = |user: u32| -> Result<Response> {
        let response = get(address, &format!("/settle/{user}"))?;
        println!(
            "{:5.2} s  user {user}: {response}",
            start.elapsed().as_secs_f64()
        );
        Ok(response)
    };
    thread::scope(|scope| {
        let first = scope.spawn(|| settle(7));
        await_work_for(settlements, 7)?;
        let other = scope.spawn(|| settle(8));

        let second = settle(7)?;
        expect(
            second.status == 409,
            "the second request for a user is refused",
        )?;
        expect(
            !first.is_finished(),
            "it is refused while the first one is still running",
        )?;

        let other = other.join().map_err(|_| "a request panicked")??;
        expect(other.status == 200, "another user is served")?;
        let first = first.join().map_err(|_| "a request panicked")??;
        expect(first.status == 200, "the first request is served")
    })?;
    let later = settle(7)?;
    expect(
        later.status == 200,
        "the lock is free after the first request",
    )?;
    println!("at most one request at a time for each user; users do not block each other");
    Ok(())
}

/// Each request may be served by another thread: the lock belongs to the edit.
fn demonstrate_edit(address: SocketAddr, redis: &str) -> Result<()> {
    let ask = |path: &str, status: u16| -> Result<Response> {
        let response = get(address, path)?;
        println!("{path}: {response}");
        expect(response.status == status, path)?;
        Ok(response)
    };
    ask("/edit/7", 200)?;
    ask("/edit/7", 409)?;
    ask("/settle/7", 409)?;
    ask("/add/7", 200)?;
    ask("/add/7", 200)?;
    // The job has the token, and the service has the lock no more.
    let job = get(address, "/submit/7")?;
    expect(job.status == 200, "the edit is submitted")?;
    ask("/add/7", 409)?;
    ask("/settle/7", 409)?;
    edits::run_worker(redis, &job.text)?;
    ask("/settle/7", 200)?;
    println!("an edit keeps its lock over several requests, and in a worker process");
    Ok(())
}

/// Waits until a request holds the lock of this user.
fn await_work_for(settlements: &Settlements, user: u32) -> Result<()> {
    let start = Instant::now();
    while !settlements.is_settling(user)? {
        expect(
            start.elapsed() < START_TIMEOUT,
            "the first request starts in time",
        )?;
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn expect(condition: bool, what: &str) -> Result<()> {
    if condition {
        return Ok(());
    }
    Err(format!("expected: {what}").into())
}
