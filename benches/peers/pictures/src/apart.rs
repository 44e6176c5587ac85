//! Many workers with a name each: pairs per second, long pairs, and the work of the server.

use std::path::Path;

use leasehold_peers_compare::Result;
use leasehold_peers_compare::figures::{grouped, time};
use leasehold_peers_compare::results::{Apart, Results};
use plotters::backend::SVGBackend;
use plotters::prelude::IntoDrawingArea;

use crate::bars::{self, Bars};
use crate::style;

const NAMES: i32 = 172;
const WIDTH: u32 = 900;

struct Panel {
    width: u32,
    title: &'static str,
    subtitle: &'static str,
    value: fn(&Apart) -> f64,
    text: fn(f64) -> String,
    logarithmic_from: Option<f64>,
}

/// The first panel has the names.
const PANELS: [Panel; 3] = [
    Panel {
        width: 172 + 252,
        title: "64 workers, a name each",
        subtitle: "pairs of a lock and an unlock",
        value: Apart::rate,
        text: |rate| grouped(rate) + "/s",
        logarithmic_from: None,
    },
    Panel {
        width: 238,
        title: "99 % of pairs",
        subtitle: "logarithmic scale",
        value: |all| all.time(0.99),
        text: time,
        logarithmic_from: Some(1e5),
    },
    Panel {
        width: 238,
        title: "CPU of the server",
        subtitle: "for each pair",
        value: |all| all.each(all.server_cpu_seconds),
        text: time,
        logarithmic_from: None,
    },
];

/// Draws nothing from figures without this workload.
pub fn draw(results: &Results, path: &Path) -> Result<()> {
    let peers: Vec<_> = results
        .peers
        .iter()
        .filter_map(|peer| Some((peer.name.as_str(), peer.apart.as_ref()?)))
        .collect();
    if peers.is_empty() {
        return Ok(());
    }
    let height = bars::height(peers.len());
    let root = SVGBackend::new(path, (WIDTH, height)).into_drawing_area();
    let mut left = 0;
    for (place, panel) in PANELS.iter().enumerate() {
        let rows = peers.iter().map(|(name, all)| {
            let value = (panel.value)(all);
            (*name, value, (panel.text)(value))
        });
        let bars = Bars {
            title: panel.title,
            subtitle: panel.subtitle,
            rows: rows.collect(),
            logarithmic_from: panel.logarithmic_from,
            names: if place == 0 { NAMES } else { 0 },
        };
        bars.draw(&root.clone().shrink((left, 0), (panel.width, height)))?;
        left += panel.width;
    }
    root.present()?;
    style::complete(
        path,
        "64 workers with a name each: pairs per second, long pairs, the work of the server",
    )
}
