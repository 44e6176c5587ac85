//! Clients with one worker each on one name: grants per second and the longest wait, by the number
//! of clients.

use std::ops::Range;
use std::path::Path;

use leasehold_peers_compare::Result;
use leasehold_peers_compare::figures::{grouped, time};
use leasehold_peers_compare::results::{CROWDS, Contended, Figures, Results};
use plotters::backend::SVGBackend;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::{ChartBuilder, Circle, IntoDrawingArea, IntoLogRange, Ranged, Text};
use plotters::series::LineSeries;
use plotters::style::Color;
use plotters::style::text_anchor::{HPos, VPos};

use crate::style::{self, Area, GREY, LABEL, TITLE, colour, text, thin};

const SIZE: (u32, u32) = (900, 360);
/// The second panel has the names.
const WIDTHS: [i32; 2] = [360, 540];
const NAMES: u32 = 200;

/// Draws nothing from figures without this workload.
pub fn draw(results: &Results, path: &Path) -> Result<()> {
    let has_it = |peer: &Figures| CROWDS.iter().any(|of| peer.contended.contains_key(of.0));
    if !results.peers.iter().any(has_it) {
        return Ok(());
    }
    let root = SVGBackend::new(path, SIZE).into_drawing_area();
    let [left, _] = WIDTHS;
    let (rates, waits) = root.split_horizontally(left);
    let rate = Panel {
        title: "Clients that want one name",
        subtitle: "grants per second of all, 1 ms of work",
        value: Contended::rate,
        text: |rate| grouped(rate) + "/s",
        names: 0,
    };
    let all = results.peers.iter().flat_map(|peer| rate.points(peer));
    let most = all.map(|point| point.1).fold(1.0, f64::max) * 1.1;
    rate.draw(results, &rates, 0.0..most)?;
    let wait = Panel {
        title: "Longest wait",
        subtitle: "logarithmic scale",
        value: |all| (all.longest_ns as f64).max(SHORTEST),
        text: time,
        names: NAMES,
    };
    wait.draw(results, &waits, (SHORTEST..LONGEST).log_scale())?;
    root.present()?;
    style::complete(
        path,
        "Clients that want one name: grants per second and the longest wait, by their number",
    )
}

/// The scale of the waits, in nanoseconds.
const SHORTEST: f64 = 1e6;
const LONGEST: f64 = 1e10;

struct Panel {
    title: &'static str,
    subtitle: &'static str,
    value: fn(&Contended) -> f64,
    text: fn(f64) -> String,
    /// Room for the names at the right, if they are written.
    names: u32,
}

impl Panel {
    /// The number of clients and the figure.
    fn points(&self, peer: &Figures) -> Vec<(f64, f64)> {
        let point = |(name, clients): (&str, usize)| {
            let all = peer.contended.get(name)?;
            Some((clients as f64, (self.value)(all)))
        };
        CROWDS.into_iter().filter_map(point).collect()
    }

    fn draw<R>(&self, results: &Results, area: &Area<'_>, range: R) -> Result<()>
    where
        R: AsRangedCoord<Value = f64>,
        R::CoordDescType: ValueFormatter<f64> + Ranged<ValueType = f64>,
    {
        let clients = || CROWDS.into_iter().map(|(_, clients)| clients as f64);
        let [first, .., last] = CROWDS.map(|(_, clients)| clients as f64);
        let left = 74;
        for (line, size, words) in [(14, TITLE, self.title), (36, LABEL, self.subtitle)] {
            let style = text(size, HPos::Left, VPos::Center);
            area.draw(&Text::new(words, (left, line), style))?;
        }
        let mut chart = ChartBuilder::on(area)
            .margin_top(56)
            .margin_right(self.names.max(16))
            .margin_left(8)
            .margin_bottom(8)
            .x_label_area_size(48)
            .y_label_area_size(left as u32 - 8)
            .build_cartesian_2d((first..last).log_scale(), range)?;
        chart
            .configure_mesh()
            .disable_mesh()
            .axis_style(thin())
            .label_style(text(LABEL, HPos::Center, VPos::Top))
            // The labels are written below, at the numbers that are measured.
            .x_label_formatter(&|_| String::new())
            .y_labels(5)
            .y_label_formatter(&|value| (self.text)(*value))
            .x_desc("clients, logarithmic")
            .axis_desc_style(text(LABEL, HPos::Center, VPos::Top))
            .draw()?;
        let Range {
            start: bottom,
            end: top,
        } = chart.plotting_area().get_y_range();
        for clients in clients() {
            let line = [(clients, bottom), (clients, top)];
            chart.draw_series(LineSeries::new(line, GREY.mix(0.2).stroke_width(1)))?;
            let (x, y) = chart.backend_coord(&(clients, bottom));
            let (origin, _) = area.get_pixel_range();
            let style = text(LABEL, HPos::Center, VPos::Top);
            let at = (x - origin.start, y + 6);
            area.draw(&Text::new(clients.to_string(), at, style))?;
        }
        let mut ends = Vec::new();
        for (place, peer) in results.peers.iter().enumerate() {
            let points = self.points(peer);
            let Some(&end) = points.last() else {
                continue;
            };
            let colour = colour(place.saturating_sub(1), &peer.name);
            let width = if peer.name == "leasehold" { 3 } else { 2 };
            let line = points.iter().copied();
            chart.draw_series(LineSeries::new(line, colour.stroke_width(width)))?;
            let dots = points
                .iter()
                .map(|&at| Circle::new(at, width + 1, colour.filled()));
            chart.draw_series(dots)?;
            let (x, y) = chart.backend_coord(&end);
            let (origin, _) = area.get_pixel_range();
            ends.push(((x - origin.start, y), colour, peer.name.as_str()));
        }
        if self.names > 0 {
            style::names(area, ends)?;
        }
        Ok(())
    }
}
