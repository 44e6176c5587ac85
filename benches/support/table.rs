//! The table that a bench ends with.

use std::fmt;
use std::time::Duration;

use comfy_table::{Table as Grid, presets::ASCII_MARKDOWN};

use super::{Duel, is_list, is_test};

/// What a measured number must be.
#[derive(Clone, Copy)]
pub enum Bound {
    AtMost(f64),
    AtLeast(f64),
    /// For information only.
    None,
}

impl Bound {
    fn verdict(self, value: f64) -> &'static str {
        let met = match self {
            Self::AtMost(bound) => value <= bound,
            Self::AtLeast(bound) => value >= bound,
            Self::None => return "",
        };
        if is_test() {
            return "";
        }
        if met { "yes" } else { "NO" }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(bound) => write!(f, "<= {bound}"),
            Self::AtLeast(bound) => write!(f, ">= {bound}"),
            Self::None => Ok(()),
        }
    }
}

/// One line each: what was measured, ours, the floor, and the number that is bounded.
pub struct Table(Grid);

impl Table {
    pub fn new() -> Self {
        let mut grid = Grid::new();
        grid.load_preset(ASCII_MARKDOWN).set_header([
            "what", "ours", "p99.9", "longest", "floor", "p99.9", "longest", "figure", "bound",
            "met",
        ]);
        Self(grid)
    }

    /// Ours and its floor by their times; the ratio of the medians is bounded.
    pub fn duel(&mut self, what: &str, duel: &Duel, bound: Bound) {
        if duel.ours.is_empty() {
            return;
        }
        let figures = |samples: &super::Samples| {
            [0.5, 0.999, 1.0].map(|share| micros(samples.quantile(share)))
        };
        let ratio = duel.ours.median().as_secs_f64() / duel.floor.median().as_secs_f64();
        let [ours, ours_999, ours_longest] = figures(&duel.ours);
        let [floor, floor_999, floor_longest] = figures(&duel.floor);
        self.0.add_row([
            what,
            &ours,
            &ours_999,
            &ours_longest,
            &floor,
            &floor_999,
            &floor_longest,
            &format!("{ratio:.2} x"),
            &bound.to_string(),
            bound.verdict(ratio),
        ]);
    }

    /// A number of another kind: what ours and the floor are, and the figure that is bounded.
    pub fn figure(
        &mut self,
        what: &str,
        ours: &str,
        floor: &str,
        figure: f64,
        unit: &str,
        bound: Bound,
    ) {
        self.0.add_row([
            what,
            ours,
            "",
            "",
            floor,
            "",
            "",
            &format!("{figure:.2}{unit}"),
            &bound.to_string(),
            bound.verdict(figure),
        ]);
    }

    pub fn print(&self) {
        if is_list() || self.0.is_empty() {
            return;
        }
        println!("\n{}", self.0);
        if is_test() {
            println!("(a trial run: too short for its numbers to mean anything)");
        }
        println!();
    }
}

pub fn micros(duration: Duration) -> String {
    format!("{:.1} us", duration.as_secs_f64() * 1e6)
}

pub fn millis(duration: Duration) -> String {
    format!("{:.1} ms", duration.as_secs_f64() * 1e3)
}
