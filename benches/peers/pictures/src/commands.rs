//! Commands that are sent for one acquisition.

use std::path::Path;

use leasehold_peers_compare::Result;
use leasehold_peers_compare::results::{Figures, Results};
use plotters::backend::SVGBackend;
use plotters::prelude::IntoDrawingArea;

use crate::bars::{self, Bars};
use crate::style;

const NAMES: i32 = 172;
const WIDTH: u32 = 900;
const PANELS: [(u32, &str, &str, &str); 4] = [
    (172 + 180, "pair", "a free lock", "commands per acquisition"),
    (184, "busy", "8 workers, 2 ms of work", "the same"),
    (172, "empty", "8 workers, no work", "the same"),
    (192, "processes", "2 processes, no work", "the same"),
];

pub fn draw(results: &Results, path: &Path) -> Result<()> {
    let height = bars::height(results.peers.len());
    let root = SVGBackend::new(path, (WIDTH, height)).into_drawing_area();
    let mut left = 0;
    for (place, (width, workload, title, subtitle)) in PANELS.into_iter().enumerate() {
        let rows = results.peers.iter().map(|peer| {
            let commands = commands(peer, workload);
            let digits = if commands < 0.1 { 3 } else { 1 };
            (peer.name.as_str(), commands, format!("{commands:.digits$}"))
        });
        let bars = Bars {
            title,
            subtitle,
            rows: rows.collect(),
            logarithmic_from: None,
            names: if place == 0 { NAMES } else { 0 },
        };
        bars.draw(&root.clone().shrink((left, 0), (width, height)))?;
        left += width;
    }
    root.present()?;
    style::complete(path, "Commands that are sent to Redis for one acquisition")
}

fn commands(peer: &Figures, workload: &str) -> f64 {
    let contended = peer.contended.get(workload);
    contended.map_or(peer.pair.commands, |all| all.commands_per_acquisition)
}
