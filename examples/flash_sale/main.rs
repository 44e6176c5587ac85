//! A flash sale that must not oversell: several processes sell one stock, a number in Redis.
//!
//! Each sale is a GET, a check and a SET. It is correct only if no other thread or process sells at
//! the same time. After a sale, the thread does other work for half a millisecond. The program
//! compares four strategies: no protection, a mutex in each process, `SET NX`, and a lock of
//! leasehold.

mod report;
mod stock;
mod strategy;
#[path = "../support/mod.rs"]
mod support;
mod worker;

use std::{
    process::ExitCode,
    sync::mpsc::{self, Receiver, Sender},
    time::Instant,
};

use clap::{Parser, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};

use crate::{
    report::Outcome,
    stock::{Keys, Stock},
    strategy::Strategy,
    support::{Result, Server, Stop},
    worker::Worker,
};

/// Sells a stock in Redis with several processes at once: without a lock, with a mutex inside each
/// process, with SET NX, and with leasehold. Exit status 1 if SET NX or leasehold oversold.
///
/// Uses the server at REDIS_URL if that is set, else starts a private redis-server.
#[derive(Parser)]
struct Args {
    /// Number of articles to sell
    #[arg(long, default_value_t = 3000)]
    stock: u32,
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
    let mut outcomes = Vec::new();
    for &strategy in &args.strategy {
        let outcome = run_sale(args, strategy, server.url(), &sender, &events)?;
        if args.json {
            report::print_json(&outcome)?;
        }
        outcomes.push(outcome);
    }
    if !args.json {
        report::print_table(args, &outcomes)?;
        report::print_conclusion(&outcomes)?;
    }
    Ok(exit_code(&outcomes))
}

fn run_sale(
    args: &Args,
    strategy: Strategy,
    url: &str,
    sender: &Sender<Event>,
    events: &Receiver<Event>,
) -> Result<Outcome> {
    let mut stock = Stock::create(url, args.stock)?;
    let mut workers = (0..args.processes)
        .map(|_| Worker::spawn(url, &stock.keys, strategy, args.threads, sender.clone()))
        .collect::<Result<Vec<_>>>()?;
    let bar = progress_bar(args.stock, strategy);
    await_all(args.processes, Event::Ready, events, &bar)?;
    let start = Instant::now();
    workers.iter_mut().try_for_each(Worker::start)?;
    let sold = await_all(args.processes, Event::Done, events, &bar)?;
    let elapsed = start.elapsed();
    workers.iter_mut().try_for_each(Worker::wait)?;
    bar.finish_and_clear();
    Ok(Outcome {
        strategy,
        stock: args.stock,
        sold,
        left: stock.left()?,
        elapsed,
    })
}

/// Waits until each worker has sent the event, and counts the sales meanwhile.
fn await_all(
    workers: u16,
    awaited: Event,
    events: &Receiver<Event>,
    bar: &ProgressBar,
) -> Result<u32> {
    let (mut sold, mut pending) = (0, workers);
    while pending > 0 {
        match events.recv()? {
            Event::Interrupted => return Err(Stop::Interrupted.into()),
            Event::WorkerDied => return Err("a worker died".into()),
            Event::Sold => {
                sold += 1;
                bar.inc(1);
            }
            event => pending -= u16::from(event == awaited),
        }
    }
    Ok(sold)
}

/// A progress bar; drawn only on a terminal.
fn progress_bar(stock: u32, strategy: Strategy) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg:10} {bar:40.green} {pos} sold of {len}")
        .expect("the template is valid");
    ProgressBar::new(stock.into())
        .with_style(style)
        .with_message(strategy.name())
}

fn exit_code(outcomes: &[Outcome]) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for outcome in outcomes
        .iter()
        .filter(|outcome| outcome.strategy.must_be_exact() && !outcome.is_exact())
    {
        eprintln!(
            "{} sold {} of {}",
            outcome.strategy.name(),
            outcome.sold,
            outcome.stock
        );
        code = ExitCode::FAILURE;
    }
    code
}
