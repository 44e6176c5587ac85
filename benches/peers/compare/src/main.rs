//! Measures leasehold and other locks on Redis on one server, in one run. `scripts/compare` builds
//! and runs this. `benches/peers/README.md` describes the workloads and the drivers.

// Also used by the benches of the library.
#[allow(clippy::expect_used)]
#[path = "../../../support/commands.rs"]
mod commands;
mod driver;
mod machine;
mod measure;
mod peers;
mod server;

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use leasehold_peers_compare::{Result, results, table, verdicts};

use measure::Scale;

/// Compares leasehold with other locks on Redis, and prints a table in Markdown.
#[derive(Parser)]
struct Args {
    /// The file for the figures [default: target/peers/comparison.json, or with --documents
    /// benches/peers/results/comparison.json, from which the plots are drawn]
    #[arg(long)]
    output: Option<PathBuf>,
    /// Peers, separated by commas [default: all that are built]
    #[arg(long, value_delimiter = ',')]
    peers: Vec<String>,
    /// The length of a window, in milliseconds
    #[arg(long, default_value_t = 2000)]
    window: u64,
    /// The windows of each peer and workload; an odd number has a clear median
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// The hand-overs of each peer
    #[arg(long, default_value_t = 60)]
    hand_overs: usize,
    /// The locks that are held at the same time
    #[arg(long, default_value_t = 10_000)]
    locks: usize,
    /// For how long they are held, in seconds; more than their lease of 30 s
    #[arg(long, default_value_t = 45)]
    hold: u64,
    /// Runs everything briefly, to see that it works. The figures mean nothing.
    #[arg(long)]
    quick: bool,
    /// Does not measure: uses the figures of an earlier run
    #[arg(long)]
    figures: Option<PathBuf>,
    /// Replaces the figures in README.md and benches/peers/README.md. Waits until the machine is
    /// idle; if it is not after three minutes, the figures are marked as preliminary.
    #[arg(long, conflicts_with_all = ["quick", "peers"])]
    documents: bool,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let results = match &args.figures {
        Some(path) => results::read(path)?,
        None => measure(&args)?,
    };
    let conditions = table::conditions(&results);
    let better = verdicts::better_than_first(&results);
    let details = format!("{}\n{conditions}\n{better}", table::markdown(&results));
    print!("{details}");
    if args.documents {
        let pictures = table::pictures(&results);
        let summary = verdicts::summary(&results);
        let readme = format!("{pictures}\n{conditions}\n{summary}");
        table::insert("README.md".as_ref(), &readme)?;
        table::insert("benches/peers/README.md".as_ref(), &details)?;
    }
    if results.run.load_before > table::IDLE {
        eprintln!("WARNING: other programs used the machine: the figures are preliminary");
    }
    match verdicts::without_exclusion(&results).as_slice() {
        [] => Ok(()),
        lines => Err(lines.join("\n").into()),
    }
}

fn measure(args: &Args) -> Result<results::Results> {
    let scale = if args.quick {
        Scale {
            window: Duration::from_millis(300),
            rounds: 1,
            hand_overs: 5,
            locks: 200,
            hold: Duration::from_secs(3),
        }
    } else {
        Scale {
            window: Duration::from_millis(args.window),
            rounds: args.rounds,
            hand_overs: args.hand_overs,
            locks: args.locks,
            hold: Duration::from_secs(args.hold),
        }
    };
    let peers = peers::built(&args.peers)?;
    if args.documents {
        machine::wait_until_idle();
    }
    let results = measure::run(&peers, &scale)?;
    let default = if args.documents {
        "benches/peers/results/comparison.json"
    } else {
        "target/peers/comparison.json"
    };
    let output = args.output.as_deref().unwrap_or(default.as_ref());
    results::write(output, &results)?;
    Ok(results)
}
