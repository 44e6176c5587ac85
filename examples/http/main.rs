//! A web service with a slow handler that `#[locked]` runs once at a time for each user, whichever of its threads,
//! processes or machines a request comes to.

mod service;
#[path = "../support/mod.rs"]
mod support;
mod visitor;

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
    service::{Service, Settlements},
    support::{Result, Server},
    visitor::{Answer, ask},
};

/// How long the handler takes.
const WORK: Duration = Duration::from_secs(2);

/// Within this time the first request is in its handler.
const SOON: Duration = Duration::from_secs(10);

/// Serves accounts that are settled under a lock for each user, and shows that with requests of its own.
///
/// Uses the server at REDIS_URL if that is set, else starts a private redis-server and ends it.
#[derive(Parser)]
struct Args {
    /// Go on serving until Ctrl-C, for requests of yours
    #[arg(long)]
    serve: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    support::exit_code(run(&args).map(|()| ExitCode::SUCCESS))
}

fn run(args: &Args) -> Result<()> {
    let redis = Server::find_or_start()?;
    let locks = LockClient::connect(redis.url())?;
    if args.serve {
        // One name for all processes that serve: a user is locked in all of them.
        let service = Service::start(Settlements::new(locks, "leasehold:http".into(), WORK))?;
        return serve(&service);
    }
    let business = format!("leasehold:http:{}", Uuid::new_v4());
    let settlements = Settlements::new(locks, business, WORK);
    let service = Service::start(settlements.clone())?;
    demonstrate(service.address(), &settlements)
}

fn serve(service: &Service) -> Result<()> {
    let (sender, interrupts) = mpsc::channel();
    ctrlc::set_handler(move || {
        let _ = sender.send(());
    })?;
    let address = service.address();
    println!(
        "serving until Ctrl-C; a request takes {WORK:?}, another one for the same user is refused meanwhile:"
    );
    println!("  curl -i http://{address}/settle/7 & curl -i http://{address}/settle/7; wait");
    interrupts.recv()?;
    Ok(())
}

fn demonstrate(address: SocketAddr, settlements: &Arc<Settlements>) -> Result<()> {
    let start = Instant::now();
    let visit = |user: u32| -> Result<Answer> {
        let answer = ask(address, &format!("/settle/{user}"))?;
        println!(
            "{:5.2} s  user {user}: {answer}",
            start.elapsed().as_secs_f64()
        );
        Ok(answer)
    };
    thread::scope(|scope| {
        let first = scope.spawn(|| visit(7));
        await_work_for(settlements, 7)?;
        let other = scope.spawn(|| visit(8));

        let second = visit(7)?;
        expect(
            second.status == 409,
            "a second request for a user is refused",
        )?;
        expect(
            !first.is_finished(),
            "it is refused at once, while the first one is served",
        )?;

        let other = other.join().map_err(|_| "the visitor panicked")??;
        expect(other.status == 200, "another user is served")?;
        let first = first.join().map_err(|_| "the visitor panicked")??;
        expect(first.status == 200, "the first request is served")
    })?;
    let later = visit(7)?;
    expect(
        later.status == 200,
        "the lock is free after the first request",
    )?;
    println!("one at a time for each user, and all users at once");
    Ok(())
}

/// Until somebody is served who has this user's lock.
fn await_work_for(settlements: &Settlements, user: u32) -> Result<()> {
    let start = Instant::now();
    while !settlements.is_settling(user)? {
        expect(start.elapsed() < SOON, "a request is served soon")?;
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn expect(condition: bool, what: &str) -> Result<()> {
    if condition {
        return Ok(());
    }
    Err(format!("it is not so that {what}").into())
}
