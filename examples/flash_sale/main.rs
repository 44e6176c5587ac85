//! A flash sale that must not oversell: several processes sell one stock, a number in Redis.
//!
//! Each sale is a GET, a check and a SET. It is correct only if no other thread or process sells at
//! the same time. After a sale, the thread does other work for half a millisecond. The program
//! compares five strategies: no protection, a mutex in each process, `SET NX`, a lock of leasehold,
//! and all threads in one process with one mutex. The last one needs no lock in Redis, so it shows
//! how much of a sale is the lock.
//!
//! Each strategy sells the stock several times. The strategies take turns, so that a change of the
//! machine's load affects all of them.

mod report;
mod stock;
mod strategy;
#[path = "../support/mod.rs"]
mod support;
mod worker;

use std::{
    io::{self, IsTerminal},
    process::ExitCode,
    sync::mpsc::{self, Receiver, Sender},
    time::Instant,
};

use clap::{Parser, ValueEnum};

use crate::{
    report::{Results, Sale},
    stock::{Keys, Stock},
    strategy::Strategy,
    support::{Result, Server, Stop},
    worker::Worker,
};

/// Sells a stock in Redis with several processes at once: without a lock, with a mutex inside each
/// process, with SET NX, and with leasehold. Then in one process with one mutex. Exit status 1 if a
/// strategy that has to be exact sold more or less than the stock.
///
/// Uses the server at REDIS_URL if that is set, else starts a private redis-server.
#[derive(Parser)]
struct Args {
    /// Number of articles to sell
    #[arg(long, default_value_t = 2000)]
    stock: u32,
    /// How often each strategy sells them
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,
    /// Number of processes that sell
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    processes: u16,
    /// Number of threads that sell in each process
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
    /// How to protect a sale; several, separated by commas [default: all, in this order]
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        hide_default_value = true,
        default_values_t = Strategy::value_variants().to_vec(),
    )]
    strategy: Vec<Strategy>,
    /// Print one JSON object for each strategy instead of a table
    #[arg(long)]
    json: bool,
    /// Run as a worker of the sale with this key prefix
    #[arg(long, hide = true)]
    worker: Option<String>,
}

/// Reports of the workers to the parent process, and Ctrl-C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Ready,
    Sold,
    Done,
    WorkerDied,
    Interrupted,
}

fn main() -> ExitCode {
    let args = Args::parse();
    support::exit_code(match &args.worker {
        Some(prefix) => worker::work(&Keys::with_prefix(prefix), args.strategy[0], args.threads)
            .map(|()| ExitCode::SUCCESS),
        None => run_sales(&args),
    })
}

fn run_sales(args: &Args) -> Result<ExitCode> {
    let (sender, events) = mpsc::channel();
    let interrupted = sender.clone();
    ctrlc::set_handler(move || {
        let _ = interrupted.send(Event::Interrupted);
    })?;
    let server = Server::find_or_start()?;
    if !args.json {
        report::print_introduction(args)?;
    }
    let mut results: Vec<_> = args.strategy.iter().copied().map(Results::new).collect();
    let shows_progress = !args.json && io::stderr().is_terminal();
    for round in 1..=args.rounds {
        if shows_progress {
            eprint!("\rround {round} of {} ", args.rounds);
        }
        for results in &mut results {
            let sale = run_sale(args, results.strategy, server.url(), &sender, &events)?;
            results.sales.push(sale);
        }
    }
    if shows_progress {
        eprintln!();
    }
    if args.json {
        report::print_json(&results)?;
    } else {
        report::print_table(&results)?;
        report::print_conclusion(&results)?;
    }
    Ok(exit_code(&results))
}

fn run_sale(
    args: &Args,
    strategy: Strategy,
    url: &str,
    sender: &Sender<Event>,
    events: &Receiver<Event>,
) -> Result<Sale> {
    let mut stock = Stock::create(url, args.stock)?;
    let (processes, threads) = strategy.workers(args.processes, args.threads);
    let mut workers = (0..processes)
        .map(|_| Worker::spawn(url, &stock.keys, strategy, threads, sender.clone()))
        .collect::<Result<Vec<_>>>()?;
    await_all(processes, Event::Ready, events)?;
    let start = Instant::now();
    workers.iter_mut().try_for_each(Worker::start)?;
    let sold = await_all(processes, Event::Done, events)?;
    let elapsed = start.elapsed();
    workers.iter_mut().try_for_each(Worker::wait)?;
    Ok(Sale {
        stock: args.stock,
        sold,
        left: stock.left()?,
        elapsed,
    })
}

/// Waits until each worker has sent the event, and counts the sales meanwhile.
fn await_all(workers: u16, awaited: Event, events: &Receiver<Event>) -> Result<u32> {
    let (mut sold, mut pending) = (0, workers);
    while pending > 0 {
        match events.recv()? {
            Event::Interrupted => return Err(Stop::Interrupted.into()),
            Event::WorkerDied => return Err("a worker died".into()),
            Event::Sold => sold += 1,
            event => pending -= u16::from(event == awaited),
        }
    }
    Ok(sold)
}

fn exit_code(results: &[Results]) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for results in results
        .iter()
        .filter(|results| results.strategy.must_be_exact())
    {
        for sale in results.sales.iter().filter(|sale| !sale.is_exact()) {
            eprintln!(
                "{} sold {} of {}",
                results.strategy.name(),
                sale.sold,
                sale.stock
            );
            code = ExitCode::FAILURE;
        }
    }
    code
}
