//! The figures as a table in Markdown, and the documents that contain them.

use std::fs;
use std::path::Path;

use crate::Result;
use crate::figures;
use crate::results::{Figures, Results};

/// The text between these lines of a document is replaced.
const BEGIN: &str = "<!-- figures of scripts/compare -->\n";
const END: &str = "<!-- end of the figures -->\n";
/// With more load than this before the run, the figures are marked as preliminary.
pub const IDLE: f64 = 1.0;

/// Replaces the figures in a document.
pub fn insert(document: &Path, figures: &str) -> Result<()> {
    let name = document.display();
    let text = fs::read_to_string(document).map_err(|error| format!("{name}: {error}"))?;
    let lines = format!("{name}: no lines around the figures");
    let (before, rest) = text.split_once(BEGIN).ok_or(lines.clone())?;
    let (_, after) = rest.split_once(END).ok_or(lines)?;
    let text = format!("{before}{BEGIN}\n{figures}\n{END}{after}");
    fs::write(document, text).map_err(|error| format!("{name}: {error}").into())
}

pub fn markdown(results: &Results) -> String {
    let row = |workload: &str, what: &str, cell: &dyn Fn(&Figures) -> String| {
        let cells: Vec<_> = results.peers.iter().map(cell).collect();
        format!("| {workload} | {what} | {} |\n", cells.join(" | "))
    };
    let mut table = row("workload", "figure", &|peer| peer.name.clone());
    table += &row("---", "---", &|_| "---".to_owned());
    table += &row("", "version", &|peer| peer.version.clone());
    table += &row("", "language", &|peer| peer.language.clone());
    let mut before = String::new();
    for figure in figures::all(results) {
        let is_next = figure.workload == before;
        let workload = if is_next { "" } else { &figure.workload };
        table += &row(workload, figure.what, &|peer| figure.text(peer));
        before = figure.workload;
    }
    table
}

/// The run and its machine. The versions of the peers are in the table.
pub fn conditions(results: &Results) -> String {
    let run = &results.run;
    let cores = if run.pinned {
        "the server on one core and the clients on the other"
    } else {
        "server and clients on the same cores"
    };
    let preliminary = if run.load_before > IDLE {
        "**Preliminary: other programs used the machine.** "
    } else {
        ""
    };
    wrapped(&format!(
        "{preliminary}Measured on {} with {} cores, {cores}, Linux {}, Redis {}, at a load of \
         {:.1} before the run; {} windows of {} s, locks held for {} s; commit {}.",
        run.processor,
        run.cores,
        run.kernel,
        run.redis,
        run.load_before,
        run.rounds,
        run.window_seconds,
        run.hold_seconds,
        run.commit,
    ))
}

/// A paragraph with lines of at most 100 columns.
pub fn wrapped(text: &str) -> String {
    let mut lines = String::new();
    let mut column = 0;
    for word in text.split(' ') {
        let length = word.chars().count();
        if column > 0 && column + 1 + length <= 100 {
            lines.push(' ');
            column += 1 + length;
        } else {
            if column > 0 {
                lines.push('\n');
            }
            column = length;
        }
        lines.push_str(word);
    }
    lines + "\n"
}
