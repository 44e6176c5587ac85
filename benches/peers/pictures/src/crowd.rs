//! Clients with one worker each on one name: grants per second, by the number of clients.

use std::path::Path;

use leasehold_peers_compare::Result;
use leasehold_peers_compare::results::{CROWDS, Figures, Results};
use plotters::backend::SVGBackend;
use plotters::prelude::{ChartBuilder, Circle, IntoDrawingArea, IntoLogRange, Text};
use plotters::series::LineSeries;
use plotters::style::text_anchor::{HPos, VPos};
use plotters::style::{Color, RGBColor};

use crate::style::{self, GREY, LABEL, TITLE, colour, text, thin};

const SIZE: (u32, u32) = (900, 360);

/// Draws nothing from figures without this workload.
pub fn draw(results: &Results, path: &Path) -> Result<()> {
    let lines: Vec<_> = results.peers.iter().map(points).collect();
    let most = lines
        .iter()
        .flatten()
        .map(|point| point.1)
        .fold(0.0, f64::max);
    if most == 0.0 {
        return Ok(());
    }
    let [(_, fewest), .., (_, last)] = CROWDS;
    let (fewest, last) = (fewest as f64, last as f64);
    let root = SVGBackend::new(path, SIZE).into_drawing_area();
    let title = "Clients that want one name, 1 ms of work: grants per second of all";
    let style = text(TITLE, HPos::Left, VPos::Center);
    root.draw(&Text::new(title, (68, 14), style))?;
    let mut chart = ChartBuilder::on(&root)
        .margin_top(36)
        .margin_right(200)
        .margin_left(8)
        .margin_bottom(8)
        .x_label_area_size(48)
        .y_label_area_size(60)
        .build_cartesian_2d((fewest..last).log_scale(), 0.0..most * 1.1)?;
    chart
        .configure_mesh()
        .disable_mesh()
        .axis_style(thin())
        .label_style(text(LABEL, HPos::Center, VPos::Top))
        .x_labels(0)
        .y_labels(5)
        .y_label_formatter(&|rate| format!("{rate:.0}/s"))
        .x_desc("clients, logarithmic")
        .axis_desc_style(text(LABEL, HPos::Center, VPos::Top))
        .draw()?;
    for (_, clients) in CROWDS {
        let line = [(clients as f64, 0.0), (clients as f64, most * 1.1)];
        chart.draw_series(LineSeries::new(line, GREY.mix(0.2).stroke_width(1)))?;
        let (x, y) = chart.backend_coord(&(clients as f64, 0.0));
        let style = text(LABEL, HPos::Center, VPos::Top);
        root.draw(&Text::new(clients.to_string(), (x, y + 6), style))?;
    }
    let mut ends = Vec::new();
    for (place, (peer, points)) in results.peers.iter().zip(&lines).enumerate() {
        let Some(&end) = points.last() else {
            continue;
        };
        let colour: RGBColor = colour(place.saturating_sub(1), &peer.name);
        let width = if peer.name == "leasehold" { 3 } else { 2 };
        let line = points.iter().copied();
        chart.draw_series(LineSeries::new(line, colour.stroke_width(width)))?;
        let dots = points
            .iter()
            .map(|&at| Circle::new(at, width + 1, colour.filled()));
        chart.draw_series(dots)?;
        ends.push((chart.backend_coord(&end), colour, peer.name.as_str()));
    }
    style::names(&root, ends)?;
    root.present()?;
    style::complete(
        path,
        "Grants per second of all clients that want one name, by the number of clients",
    )
}

/// The number of clients and their grants per second.
fn points(peer: &Figures) -> Vec<(f64, f64)> {
    let point = |(name, clients): (&str, usize)| {
        let all = peer.contended.get(name)?;
        Some((clients as f64, all.rate()))
    };
    CROWDS.into_iter().filter_map(point).collect()
}
