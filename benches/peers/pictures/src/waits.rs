//! How long workers wait for a lock: the wait at each percentile.

use std::path::Path;

use leasehold_peers_compare::Result;
use leasehold_peers_compare::results::{Contended, Results};
use plotters::backend::SVGBackend;
use plotters::prelude::{ChartBuilder, IntoDrawingArea, IntoLogRange, Text};
use plotters::series::LineSeries;
use plotters::style::Color;
use plotters::style::text_anchor::{HPos, VPos};

use crate::style::{self, GREY, LABEL, TITLE, colour, text, thin};

const SIZE: (u32, u32) = (900, 430);
/// The percentiles end where a run has few samples.
const NINES: f64 = 3.0;
const STEPS: usize = 150;

pub fn draw(results: &Results, path: &Path) -> Result<()> {
    let root = SVGBackend::new(path, SIZE).into_drawing_area();
    let title = "8 workers on one lock, 2 ms of work, 20 ms of pause: wait for the lock";
    root.draw(&Text::new(
        title,
        (88, 14),
        text(TITLE, HPos::Left, VPos::Center),
    ))?;
    let mut chart = ChartBuilder::on(&root)
        .margin_top(36)
        .margin_right(200)
        .margin_left(8)
        .margin_bottom(8)
        .x_label_area_size(48)
        .y_label_area_size(80)
        .build_cartesian_2d(0.0..NINES, (0.02..2000.0).log_scale())?;
    chart
        .configure_mesh()
        .disable_mesh()
        .axis_style(thin())
        .label_style(text(LABEL, HPos::Center, VPos::Top))
        .x_labels(4)
        .x_label_formatter(&|nines| percentile(*nines))
        .y_labels(6)
        .y_label_formatter(&|millis| duration(*millis))
        .y_desc("wait, logarithmic")
        .x_desc("share of the calls that waited no longer")
        .axis_desc_style(text(LABEL, HPos::Center, VPos::Top))
        .draw()?;
    for millis in [0.1, 1.0, 10.0, 100.0, 1000.0] {
        let line = [(0.0, millis), (NINES, millis)];
        chart.draw_series(LineSeries::new(line, GREY.mix(0.2).stroke_width(1)))?;
    }
    let mut ends = Vec::new();
    for (place, peer) in results.peers.iter().enumerate() {
        let Some(all) = peer.contended.get("busy") else {
            continue;
        };
        let colour = colour(place.saturating_sub(1), &peer.name);
        let points = (0..=STEPS).map(|step| {
            let nines = NINES * step as f64 / STEPS as f64;
            (nines, wait(all, nines))
        });
        let width = if peer.name == "leasehold" { 3 } else { 2 };
        chart.draw_series(LineSeries::new(points, colour.stroke_width(width)))?;
        let end = chart.backend_coord(&(NINES, wait(all, NINES)));
        ends.push((end, colour, peer.name.as_str()));
    }
    style::names(&root, ends)?;
    root.present()?;
    style::complete(
        path,
        "The wait for the lock at each percentile, for each of the locks",
    )
}

/// In milliseconds. The percentile is 1 - 10^-nines.
fn wait(all: &Contended, nines: f64) -> f64 {
    let nanos = all.waits.quantile(1.0 - 10f64.powf(-nines));
    (nanos.min(all.longest_ns as f64) / 1e6).max(0.02)
}

fn percentile(nines: f64) -> String {
    match nines.round() as i32 {
        0 => "0 %".to_owned(),
        1 => "90 %".to_owned(),
        2 => "99 %".to_owned(),
        _ => "99.9 %".to_owned(),
    }
}

fn duration(millis: f64) -> String {
    if millis >= 999.0 {
        format!("{:.0} s", millis / 1e3)
    } else if millis >= 0.99 {
        format!("{millis:.0} ms")
    } else {
        format!("{:.0} us", millis * 1e3)
    }
}
