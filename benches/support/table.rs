//! The table of results that a bench prints.

use std::fmt;
use std::time::Duration;

use comfy_table::{Table as Grid, presets::ASCII_MARKDOWN};

use super::{Comparison, Samples, is_list, is_test};

/// The bound of a figure.
#[derive(Clone, Copy)]
pub enum Bound {
    AtMost(f64),
    Below(f64),
    AtLeast(f64),
    /// For information only.
    None,
}

impl Bound {
    fn verdict(self, value: f64) -> &'static str {
        let met = match self {
            Self::AtMost(bound) => value <= bound,
            Self::Below(bound) => value < bound,
            Self::AtLeast(bound) => value >= bound,
            Self::None => return "",
        };
        match met {
            _ if is_test() => "",
            true => "yes",
            false => "NO",
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(bound) => write!(f, "<= {bound}"),
            Self::Below(bound) => write!(f, "< {bound}"),
            Self::AtLeast(bound) => write!(f, ">= {bound}"),
            Self::None => Ok(()),
        }
    }
}

/// A line for each measurement: its name, the library, the floor, and the bounded figure.
pub struct Table(Grid);

impl Table {
    pub fn new() -> Self {
        let mut grid = Grid::new();
        grid.load_preset(ASCII_MARKDOWN).set_header([
            "what",
            "leasehold",
            "p99.9",
            "longest",
            "floor",
            "p99.9",
            "longest",
            "figure",
            "bound",
            "reached",
        ]);
        Self(grid)
    }

    /// Adds the times of both sides; the ratio of the medians is bounded.
    pub fn comparison(&mut self, what: &str, comparison: &Comparison, bound: Bound) {
        if comparison.ours.is_empty() {
            return;
        }
        let ratio =
            comparison.ours.median().as_secs_f64() / comparison.floor.median().as_secs_f64();
        self.times(
            what,
            (&comparison.ours, &comparison.floor),
            (ratio, " x"),
            bound,
        );
    }

    /// Adds the median, p99.9 and longest time of each side with samples, and a bounded figure.
    pub fn times(
        &mut self,
        what: &str,
        (ours, floor): (&Samples, &Samples),
        figure: (f64, &str),
        bound: Bound,
    ) {
        let spans = |of: &Samples| match of.is_empty() {
            true => [const { String::new() }; 3],
            false => [0.5, 0.999, 1.0].map(|share| span(of.quantile(share))),
        };
        let [ours, floor] = [spans(ours), spans(floor)];
        self.row(what, ours, floor, figure, bound);
    }

    /// Adds a measurement that is not a time: a text for each side, and a bounded figure.
    pub fn figure(
        &mut self,
        what: &str,
        (ours, floor): (String, String),
        figure: (f64, &str),
        bound: Bound,
    ) {
        let only = |value| [value, String::new(), String::new()];
        self.row(what, only(ours), only(floor), figure, bound);
    }

    fn row(
        &mut self,
        what: &str,
        ours: [String; 3],
        floor: [String; 3],
        (figure, unit): (f64, &str),
        bound: Bound,
    ) {
        let verdict = bound.verdict(figure).to_owned();
        let mut row = vec![what.to_owned()];
        row.extend(ours);
        row.extend(floor);
        let figure = format!("{}{unit}", number(figure));
        row.extend([figure, bound.to_string(), verdict]);
        self.0.add_row(row);
    }

    pub fn print(&self) {
        if is_list() || self.0.is_empty() {
            return;
        }
        println!("\n{}", self.0);
        if is_test() {
            println!("(a test run: too short for meaningful numbers)");
        }
        println!();
    }
}

/// Two digits after the point, and four if the number is so small that they matter.
fn number(value: f64) -> String {
    match value.abs() {
        small if small > 0.0 && small < 0.1 => format!("{value:.4}"),
        _ => format!("{value:.2}"),
    }
}

pub fn span(duration: Duration) -> String {
    let micros = duration.as_secs_f64() * 1e6;
    if micros < 1.0 {
        format!("{:.0} ns", micros * 1e3)
    } else if micros < 1000.0 {
        format!("{micros:.1} us")
    } else {
        format!("{:.2} ms", micros / 1e3)
    }
}
