//! `leasehold::testing::FaultProxy` as a program, for the tests of any application.

#[path = "fault_proxy/demonstration.rs"]
mod demonstration;
#[path = "support/mod.rs"]
mod support;

use std::{
    net::SocketAddr,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use clap::{Parser, ValueEnum};
use crossbeam_channel::{Receiver, bounded};

use leasehold::testing::{Fault, FaultProxy, ProxiedRequest};

use crate::support::{Result, Stop};

/// Forwards requests to a Redis server and injects network faults.
///
/// Without --upstream it runs a demonstration of a few seconds, with locks on a private server.
#[derive(Parser)]
struct Args {
    /// The Redis server, as host:port
    #[arg(long)]
    upstream: Option<String>,
    /// The address to which the application connects
    #[arg(long, default_value = "127.0.0.1:7000")]
    listen: SocketAddr,
    #[command(flatten)]
    faults: Faults,
}

#[derive(clap::Args, Clone)]
struct Faults {
    /// The fault to inject
    #[arg(long, value_enum, default_value_t = Kind::SwallowReply)]
    fault: Kind,
    /// Only in requests that run this script of leasehold: acquire, release, renew, ...
    #[arg(long)]
    script: Option<String>,
    /// Only in requests with this command, such as SET
    #[arg(long)]
    command: Option<String>,
    /// In one of N requests, at random [default: 1; without --upstream 3]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    every: Option<u32>,
    /// Seed of the random choices [default: random, printed]
    #[arg(long)]
    seed: Option<u64>,
    /// For faults in a reply: the offset of the break, or the length of the pieces
    #[arg(long, default_value_t = 1)]
    bytes: usize,
    /// For delays and pauses: how long, in milliseconds
    #[arg(long, default_value_t = 500)]
    millis: u64,
    /// Drop one of N messages to subscribers, at random; 0: none
    #[arg(long, default_value_t = 0)]
    drop_messages: u32,
}

#[derive(Clone, Copy, ValueEnum)]
enum Kind {
    /// No fault; only counts requests
    Pass,
    /// Delay the request, even if its client disconnects meanwhile
    Delay,
    /// The server executes the request; drop the reply
    SwallowReply,
    /// The server executes the request; reset the connection before the reply
    ResetBeforeReply,
    /// Reset the connection after --bytes of the reply
    ResetInReply,
    /// Close the connection after --bytes of the reply
    CutInReply,
    /// Send the reply in pieces of --bytes with pauses
    SplitReply,
    /// Forward half of the request, then close the connection
    HalfRequest,
    /// Drop the request
    SwallowRequest,
}

impl Faults {
    fn applies_to(&self, request: &ProxiedRequest) -> bool {
        let script = self.script.as_deref();
        let command = self.command.as_deref();
        script.is_none_or(|script| request.runs(script))
            && command.is_none_or(|command| request.command().eq_ignore_ascii_case(command))
    }

    fn fault(&self) -> Fault {
        let time = Duration::from_millis(self.millis);
        match self.fault {
            Kind::Pass => Fault::Pass,
            Kind::Delay => Fault::Delay(time),
            Kind::SwallowReply => Fault::SwallowReply,
            Kind::ResetBeforeReply => Fault::ResetBeforeReply,
            Kind::ResetInReply => Fault::ResetInReply(self.bytes),
            Kind::CutInReply => Fault::CutInReply(self.bytes),
            Kind::SplitReply => Fault::SplitReply {
                every: self.bytes,
                pause: time,
            },
            Kind::HalfRequest => Fault::HalfRequest,
            Kind::SwallowRequest => Fault::SwallowRequest,
        }
    }

    /// Installs the faults in `proxy`, and returns the counter of injected faults.
    fn install(&self, proxy: &FaultProxy, print: bool) -> Arc<AtomicU64> {
        let seed = self.seed.unwrap_or_else(|| fastrand::u64(..));
        println!("seed {seed}");
        let every = self.every.unwrap_or(1);
        let (faults, count) = (self.clone(), Arc::new(AtomicU64::new(0)));
        let done = Arc::clone(&count);
        let mut random = fastrand::Rng::with_seed(seed);
        let mut message_random = random.fork();
        proxy.on_request(move |request| {
            if !faults.applies_to(request) || random.u32(..every) > 0 {
                return Fault::Pass;
            }
            done.fetch_add(1, Ordering::Relaxed);
            let fault = faults.fault();
            if print {
                let name = request
                    .script()
                    .map_or_else(|| request.command(), Into::into);
                println!("connection {}: {fault:?} of {name}", request.connection);
            }
            fault
        });
        let drop_messages = self.drop_messages;
        proxy.on_message(move |_, _| drop_messages == 0 || message_random.u32(..drop_messages) > 0);
        count
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    support::exit_code(run(&args))
}

fn run(args: &Args) -> Result<ExitCode> {
    let (interrupted, interrupts) = bounded(1);
    ctrlc::set_handler(move || {
        let _ = interrupted.try_send(());
    })?;
    match &args.upstream {
        Some(upstream) => serve(upstream, args, &interrupts),
        None => demonstration::run(&args.faults, &interrupts),
    }
}

fn serve(upstream: &str, args: &Args, interrupts: &Receiver<()>) -> Result<ExitCode> {
    let proxy = FaultProxy::listening(args.listen, upstream)?;
    let faults = args.faults.install(&proxy, true);
    println!("connect to {}; press Ctrl-C to stop", proxy.url());
    interrupts.recv()?;
    println!(
        "{} connections, {} requests, {} faults",
        proxy.connections(),
        proxy.requests(),
        faults.load(Ordering::Relaxed)
    );
    Err(Stop::Interrupted.into())
}
