//! Draws the plots of the documentation. They have no background, and their colours follow the
//! page: light or dark.

mod apart;
mod bars;
mod commands;
mod contention;
mod crowd;
mod lease;
mod style;
mod waits;

use std::path::PathBuf;

use clap::Parser;
use leasehold_peers_compare::{Result, results};

/// Draws the plots of the documentation from figures and traces of real runs.
#[derive(Parser)]
struct Args {
    /// The figures that scripts/compare wrote
    #[arg(long, default_value = "benches/peers/results/comparison.json")]
    figures: PathBuf,
    /// The trace that the example watchdog wrote
    #[arg(long, default_value = "benches/peers/results/lease.csv")]
    trace: PathBuf,
    /// The folder of the pictures
    #[arg(long, default_value = "docs/pictures")]
    output: PathBuf,
}

fn main() -> Result<()> {
    let args = Args::parse();
    std::fs::create_dir_all(&args.output)?;
    let file = |name: &str| args.output.join(name);
    let results = results::read(&args.figures)?;
    contention::draw(&results, &file("contention.svg"))?;
    waits::draw(&results, &file("waits.svg"))?;
    apart::draw(&results, &file("apart.svg"))?;
    crowd::draw(&results, &file("crowd.svg"))?;
    commands::draw(&results, &file("commands.svg"))?;
    lease::draw(&lease::read(&args.trace)?, &file("lease.svg"))?;
    Ok(())
}
