//! Acquisitions per second of workers that compete for one lock.

use std::path::Path;

use leasehold_peers_compare::Result;
use leasehold_peers_compare::figures::grouped;
use leasehold_peers_compare::results::Results;
use plotters::backend::SVGBackend;
use plotters::prelude::{IntoDrawingArea, Text};
use plotters::style::text_anchor::{HPos, VPos};

use crate::bars::{self, Bars};
use crate::style::{self, LABEL, text};

const NAMES: i32 = 172;
const WIDTH: u32 = 900;
const LOGARITHMIC: &str = "logarithmic scale";
/// With fewer commands for an acquisition, most of them need none: a rate of the process alone.
const LOCAL: f64 = 0.5;
const FOOTNOTE: &str = "* mostly handed over between the threads of a process, without a request to \
                        Redis";
/// The first panel has the names.
const PANELS: [(u32, &str, &str, &str); 3] = [
    (
        172 + 252,
        "busy",
        "8 workers",
        "2 ms of work, then 20 ms of pause",
    ),
    (238, "empty", "8 workers, no work", LOGARITHMIC),
    (238, "processes", "2 processes of 4, no work", LOGARITHMIC),
];

pub fn draw(results: &Results, path: &Path) -> Result<()> {
    let bars = bars::height(results.peers.len());
    let height = bars + 28;
    let root = SVGBackend::new(path, (WIDTH, height)).into_drawing_area();
    let mut left = 0;
    for (place, (width, workload, title, subtitle)) in PANELS.into_iter().enumerate() {
        let rows = results.peers.iter().map(|peer| {
            let all = peer.contended.get(workload).cloned().unwrap_or_default();
            let is_local = all.commands_per_acquisition < LOCAL;
            let mark = if is_local { "/s *" } else { "/s" };
            (peer.name.as_str(), all.rate(), grouped(all.rate()) + mark)
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
    let at = (WIDTH as i32 - 10, bars as i32 + 12);
    let style = text(LABEL, HPos::Right, VPos::Center);
    root.draw(&Text::new(FOOTNOTE, at, style))?;
    root.present()?;
    style::complete(
        path,
        "Acquisitions per second of workers that compete for one lock",
    )
}
