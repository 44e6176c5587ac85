//! Puts the fault proxy of this crate's own tests before a server, for an application of one's own.

#[path = "fault_proxy/demonstration.rs"]
mod demonstration;
#[path = "../tests/it/support/proxy/mod.rs"]
mod proxy;
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

use crate::{
    proxy::{Fault, Proxy, Request},
    support::{Result, Stop},
};

/// Stands between an application and its Redis server and does what networks do.
///
/// Without --upstream it shows in a few seconds what that is like for locks, on a server of its own.
#[derive(Parser)]
struct Args {
    /// The server, as host:port
    #[arg(long)]
    upstream: Option<String>,
    /// Where the application is to connect to
    #[arg(long, default_value = "127.0.0.1:7000")]
    listen: SocketAddr,
    #[command(flatten)]
    faults: Faults,
}

#[derive(clap::Args, Clone)]
struct Faults {
    /// What becomes of the requests that it meets
    #[arg(long, value_enum, default_value_t = Kind::SwallowReply)]
    fault: Kind,
    /// Only those that run this script of leasehold: acquire, recount, release, renew, ...
    #[arg(long)]
    script: Option<String>,
    /// Only those of this command, such as SET
    #[arg(long)]
    command: Option<String>,
    /// One of so many of them, at random [default: 1, and 3 without --upstream]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    every: Option<u32>,
    /// What the chance follows from; a seed that is printed shows the same again
    #[arg(long)]
    seed: Option<u64>,
    /// Of faults in a reply: where it breaks off, or how long its pieces are
    #[arg(long, default_value_t = 1)]
    bytes: usize,
    /// Of faults that take their time: how long, in milliseconds
    #[arg(long, default_value_t = 500)]
    millis: u64,
    /// One of so many messages to subscribers, at random, is not delivered; 0: all are
    #[arg(long, default_value_t = 0)]
    drop_messages: u32,
}

#[derive(Clone, Copy, ValueEnum)]
enum Kind {
    /// Nothing; requests are counted
    Pass,
    /// It goes to the server so much later, though its client may be gone by then
    Delay,
    /// The server does it, and the reply never arrives
    SwallowReply,
    /// The server does it, then the connection is reset
    ResetBeforeReply,
    /// The connection is reset after so many bytes of the reply
    ResetInReply,
    /// The connection is closed after so many bytes of the reply
    CutInReply,
    /// The reply comes in pieces with pauses between
    SplitReply,
    /// Half of it goes to the server, then the connection is closed
    HalfRequest,
    /// It never reaches the server
    SwallowRequest,
}

impl Faults {
    fn concerns(&self, request: &Request) -> bool {
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

    /// Does this to what passes `proxy` from here on; how often is counted.
    fn rule(&self, proxy: &Proxy, tell: bool) -> Arc<AtomicU64> {
        let seed = self.seed.unwrap_or_else(|| fastrand::u64(..));
        println!("seed {seed}");
        let every = self.every.unwrap_or(1);
        let (faults, count) = (self.clone(), Arc::new(AtomicU64::new(0)));
        let done = Arc::clone(&count);
        let mut random = fastrand::Rng::with_seed(seed);
        let mut message_random = random.fork();
        proxy.on_request(move |request| {
            if !faults.concerns(request) || random.u32(..every) > 0 {
                return Fault::Pass;
            }
            done.fetch_add(1, Ordering::Relaxed);
            let fault = faults.fault();
            if tell {
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
        Some(upstream) => stand_before(upstream, args, &interrupts),
        None => demonstration::run(&args.faults, &interrupts),
    }
}

fn stand_before(upstream: &str, args: &Args, interrupts: &Receiver<()>) -> Result<ExitCode> {
    let proxy = Proxy::listening(args.listen, upstream)?;
    let faults = args.faults.rule(&proxy, true);
    println!("connect to {}; Ctrl-C ends it", proxy.url());
    interrupts.recv()?;
    println!(
        "{} connections, {} requests, {} faults",
        proxy.connections(),
        proxy.requests(),
        faults.load(Ordering::Relaxed)
    );
    Err(Stop::Interrupted.into())
}
