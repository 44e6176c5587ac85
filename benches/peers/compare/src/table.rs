//! The figures as tables in Markdown, and the documents that contain them.

use std::fs;
use std::path::Path;

use crate::Result;
use crate::results::{Contended, Figures, Held, Results, median, quantile};

/// The table between these lines of a document is replaced.
const BEGIN: &str = "<!-- figures of scripts/compare -->\n";
const END: &str = "<!-- end of the figures -->\n";

/// Replaces the table in a document.
pub fn insert(document: &Path, table: &str) -> Result<()> {
    let name = document.display();
    let text = fs::read_to_string(document).map_err(|error| format!("{name}: {error}"))?;
    let lines = format!("{name}: no lines around the figures");
    let (before, rest) = text.split_once(BEGIN).ok_or(lines.clone())?;
    let (_, after) = rest.split_once(END).ok_or(lines)?;
    let text = format!("{before}{BEGIN}\n{table}\n{END}{after}");
    fs::write(document, text).map_err(|error| format!("{name}: {error}").into())
}

/// A line for each peer, with the figures that most users ask for.
pub fn summary(results: &Results) -> String {
    let head = [
        "",
        "a free lock",
        "8 workers, busy (1)",
        "longest wait",
        "8 workers, no work",
        "2 processes, no work",
        "hand-over (2)",
    ];
    let mut table = format!("| {} |\n|{}\n", head.join(" | "), "---|".repeat(head.len()));
    for peer in &results.peers {
        let of = |name: &str| peer.contended.get(name).cloned().unwrap_or_default();
        let rate = |name: &str| grouped(of(name).rate()) + "/s";
        let cells = [
            peer.name.clone(),
            time(peer.pair.median_ns),
            rate("busy"),
            time(of("busy").longest_ns),
            rate("empty"),
            rate("processes"),
            hand_over(peer, |samples| time(quantile(samples, 0.5))),
        ];
        table += &format!("| {} |\n", cells.join(" | "));
    }
    table
}

pub fn markdown(results: &Results) -> String {
    let mut lines = vec![
        row(results, "", |peer| peer.name.clone()),
        row(results, "---", |_| "---".to_owned()),
        row(results, "language", |peer| peer.language.clone()),
        row(results, "lock and unlock of a free lock: median", |peer| {
            time(peer.pair.median_ns)
        }),
        row(results, "the same: 99.9 %; longest", |peer| {
            let pair = &peer.pair;
            format!("{}; {}", time(pair.p999_ns), time(pair.longest_ns))
        }),
        row(results, "the same: commands", |peer| {
            format!("{:.1}", peer.pair.commands)
        }),
    ];
    for (name, title) in [
        ("empty", "8 workers, no work"),
        ("busy", "8 workers, 2 ms of work, pause of 20 ms"),
        ("processes", "2 processes of 4 workers, no work"),
    ] {
        lines.extend(contended(results, name, title));
    }
    lines.extend([
        row(
            results,
            "unlock to lock in another process: median",
            |peer| hand_over(peer, |samples| time(quantile(samples, 0.5))),
        ),
        row(results, "the same: 95 %; longest", |peer| {
            let text = |samples: &[u64]| {
                let (most, longest) = (quantile(samples, 0.95), quantile(samples, 1.0));
                format!("{}; {}", time(most), time(longest))
            };
            hand_over(peer, text)
        }),
    ]);
    let title = |what: &str| format!("{} held locks: {what}", results.run.locks);
    let per_second = |amount: f64, held: &Held| amount / held.seconds.max(1e-9);
    lines.extend([
        row(results, &title("seconds to acquire them"), |peer| {
            format!("{:.1}", peer.held.acquire_seconds)
        }),
        row(results, &title("CPU of the client, % of a core"), |peer| {
            let held = &peer.held;
            format!("{:.2}", per_second(held.client_cpu_seconds, held) * 100.0)
        }),
        row(results, &title("script calls per second"), |peer| {
            format!(
                "{:.1}",
                per_second(peer.held.script_calls as f64, &peer.held)
            )
        }),
        row(results, &title("lost"), |peer| peer.held.lost.to_string()),
    ]);
    lines.concat()
}

fn row(results: &Results, title: &str, cell: impl Fn(&Figures) -> String) -> String {
    let cells: Vec<_> = results.peers.iter().map(cell).collect();
    format!("| {title} | {} |\n", cells.join(" | "))
}

fn contended(results: &Results, name: &str, title: &str) -> Vec<String> {
    let of = |peer: &Figures, text: &dyn Fn(&Contended) -> String| {
        peer.contended.get(name).map_or_else(String::new, text)
    };
    let line = |title: &str, text: &dyn Fn(&Contended) -> String| {
        row(results, title, |peer| of(peer, text))
    };
    let mut lines = vec![
        line(&format!("{title}: acquisitions per second"), &|all| {
            grouped(all.rate())
        }),
        line("the same: wait, median; 99.9 %; longest", &|all| {
            // A bucket can reach beyond the longest wait.
            let wait = |share| (all.waits.quantile(share) as u64).min(all.longest_ns);
            let (middle, most) = (wait(0.5), wait(0.999));
            format!("{}; {}; {}", time(middle), time(most), time(all.longest_ns))
        }),
        line("the same: commands per acquisition", &|all| {
            format!("{:.3}", all.commands_per_acquisition)
        }),
        line("the same: calls that gave up", &|all| {
            all.gave_up.to_string()
        }),
        line("the same: additions lost, of all", &|all| {
            format!("{} of {}", all.lost_additions, all.holds)
        }),
    ];
    if name == "processes" {
        lines.push(line("the same: smallest share of a process", &|all| {
            format!("{:.2}", median(&all.shares))
        }));
    }
    lines
}

fn hand_over(peer: &Figures, text: impl Fn(&[u64]) -> String) -> String {
    let samples = peer.hand_over.as_ref().map(|all| text(&all.samples_ns));
    samples.unwrap_or_default()
}

/// The run and its machine, in a sentence.
pub fn conditions(results: &Results) -> String {
    let run = &results.run;
    let cores = if run.pinned {
        "the server on one core and the clients on the other"
    } else {
        "server and clients on the same cores"
    };
    format!(
        "Measured on {}, {cores},\nRedis {}, with a load of {:.1} before and {:.1} after; medians \
         of {} windows of {} s.\n",
        run.processor, run.redis, run.load_before, run.load_after, run.rounds, run.window_seconds
    )
}

/// Nanoseconds with three digits and a unit.
pub fn time(nanos: u64) -> String {
    let micros = nanos as f64 / 1e3;
    let (number, unit) = match micros {
        _ if micros < 1e3 => (micros, "us"),
        _ if micros < 1e6 => (micros / 1e3, "ms"),
        _ => (micros / 1e6, "s"),
    };
    let digits = match number {
        _ if number >= 99.95 => 0,
        _ if number >= 9.995 => 1,
        _ => 2,
    };
    format!("{number:.digits$} {unit}")
}

/// A whole number with commas between thousands.
pub fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
