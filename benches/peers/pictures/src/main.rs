//! Draws the plots of the documentation. They have no background and mid-grey text, so that they
//! can be read on a light and on a dark page.

mod bars;
mod commands;
mod contention;
mod lease;
mod style;
mod torture;
mod waits;

use std::path::{Path, PathBuf};

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
    /// The event logs of a run of the torture program; without them it is not drawn
    #[arg(long)]
    torture: Option<PathBuf>,
    /// The folder of the pictures
    #[arg(long, default_value = "docs/pictures")]
    output: PathBuf,
}

fn main() -> Result<()> {
    let args = Args::parse();
    std::fs::create_dir_all(&args.output)?;
    let results = results::read(&args.figures)?;
    contention::draw(&results, &args.output.join("contention.svg"))?;
    waits::draw(&results, &args.output.join("waits.svg"))?;
    commands::draw(&results, &args.output.join("commands.svg"))?;
    lease::draw(&lease::read(&args.trace)?, &args.output.join("lease.svg"))?;
    if let Some(logs) = &args.torture {
        torture::draw(&torture::read(logs)?, &args.output.join("torture.svg"))?;
    }
    for name in ["contention", "waits", "commands", "lease", "torture"] {
        end_with_newline(&args.output.join(name).with_extension("svg"))?;
    }
    Ok(())
}

/// The backend writes no newline at the end.
fn end_with_newline(path: &Path) -> Result<()> {
    if path.exists() {
        let text = std::fs::read_to_string(path)?;
        std::fs::write(path, format!("{}\n", text.trim_end()))?;
    }
    Ok(())
}
