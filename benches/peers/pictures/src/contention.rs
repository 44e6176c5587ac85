//! Acquisitions per second of workers that compete for one lock.

use std::path::Path;

use leasehold_peers_compare::Result;
use leasehold_peers_compare::figures::grouped;
use leasehold_peers_compare::results::Results;
use plotters::backend::SVGBackend;
use plotters::prelude::IntoDrawingArea;

use crate::bars::{self, Bars};

const NAMES: i32 = 158;
const WIDTH: u32 = 900;
/// The first panel has the names.
const PANELS: [(u32, &str, &str, &str); 3] = [
    (
        158 + 262,
        "busy",
        "8 workers",
        "2 ms of work, then 20 ms of pause",
    ),
    (240, "empty", "8 workers, no work", "logarithmic"),
    (240, "processes", "2 processes of 4, no work", "logarithmic"),
];

pub fn draw(results: &Results, path: &Path) -> Result<()> {
    let height = bars::height(results.peers.len());
    let root = SVGBackend::new(path, (WIDTH, height)).into_drawing_area();
    let mut left = 0;
    for (place, (width, workload, title, subtitle)) in PANELS.into_iter().enumerate() {
        let rows = results.peers.iter().map(|peer| {
            let rate = peer.contended.get(workload).map_or(0.0, |all| all.rate());
            (peer.name.as_str(), rate, grouped(rate) + "/s")
        });
        let bars = Bars {
            title,
            subtitle,
            rows: rows.collect(),
            logarithmic_from: (workload != "busy").then_some(10.0),
            names: if place == 0 { NAMES } else { 0 },
        };
        let panel = root.clone().shrink((left, 0), (width, height));
        bars.draw(&panel)?;
        left += width;
    }
    Ok(root.present()?)
}
