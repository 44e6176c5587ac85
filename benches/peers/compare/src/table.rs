//! The figures as a table in Markdown, and the documents that contain them.

use std::fs;
use std::path::Path;

use crate::Result;
use crate::figures;
use crate::results::{CROWDS, Figures, Results};

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

const CROWD: &str = "![Clients that want one name: grants per second and the longest wait, by \
                     the number of clients](docs/pictures/crowd.svg)";
const UNDER_CROWD: &str = "Clients with one thread each want one name, with 1 ms of work under \
                           the lock: the grants of all, and the longest wait. With most other locks \
                           the client that has released the name acquires it again, so its waits \
                           are short and those of the others are long.";
const CONTENTION: &str = "![Acquisitions per second of competing threads, with leasehold and with \
                          other locks on Redis](docs/pictures/contention.svg)";
const UNDER_CONTENTION: &str = "Acquisitions per second on one Redis server. In the right panels, \
                                which are logarithmic, leasehold mostly hands the lock over \
                                between the threads of a process, without a request.";

/// The plots in the README of the library. Figures without crowds have no plot of them.
pub fn pictures(results: &Results) -> String {
    let has_crowds = |peer: &Figures| CROWDS.iter().any(|of| peer.contended.contains_key(of.0));
    let mut parts = vec![CONTENTION, UNDER_CONTENTION];
    if results.peers.iter().any(has_crowds) {
        parts.splice(..0, [CROWD, UNDER_CROWD]);
    }
    parts
        .into_iter()
        .map(wrapped)
        .collect::<Vec<_>>()
        .join("\n")
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
