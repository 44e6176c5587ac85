//! The life of a lease, from a trace of the example `watchdog`.

use std::fs;
use std::path::Path;

use leasehold_peers_compare::Result;
use plotters::backend::SVGBackend;
use plotters::prelude::{ChartBuilder, Circle, IntoDrawingArea, PathElement, Rectangle, Text};
use plotters::series::{AreaSeries, LineSeries};
use plotters::style::text_anchor::{HPos, VPos};
use plotters::style::{Color, RGBColor};

use crate::style::{self, Area, BAD, GREY, LABEL, OURS, SECOND, text, thin};

const SIZE: (u32, u32) = (900, 350);

/// Times in seconds.
pub struct Trace {
    in_redis: Vec<(f64, f64)>,
    for_holder: Vec<(f64, f64)>,
    renewed: Vec<(f64, f64)>,
    cut: f64,
    lost: f64,
}

/// Reads the first lock of a trace.
pub fn read(path: &Path) -> Result<Trace> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let (mut in_redis, mut for_holder, mut renewed) = (Vec::new(), Vec::new(), Vec::new());
    let (mut start, mut cut, mut lost) = (None, None, None);
    for line in text.lines().skip(1) {
        let fields: Vec<_> = line.split(',').collect();
        let &[millis, lock, redis, holder, event] = fields.as_slice() else {
            return Err(format!("not a line of a trace: {line}").into());
        };
        let seconds = millis.parse::<f64>()? / 1e3;
        let at = seconds - *start.get_or_insert(seconds);
        if event == "cut" {
            cut = Some(at);
        } else if lock == "1" && !redis.is_empty() {
            let left = redis.parse::<f64>()? / 1e3;
            in_redis.push((at, left));
            for_holder.push((at, holder.parse::<f64>()? / 1e3));
            match event {
                "renewed" => renewed.push((at, left)),
                "lost" => lost = Some(at),
                _ => {}
            }
        }
    }
    Ok(Trace {
        in_redis,
        for_holder,
        renewed,
        cut: cut.ok_or("the trace has no cut")?,
        lost: lost.ok_or("the trace has no loss")?,
    })
}

pub fn draw(trace: &Trace, path: &Path) -> Result<()> {
    let lease = trace
        .in_redis
        .iter()
        .map(|point| point.1)
        .fold(0.0, f64::max);
    let end = trace.in_redis.last().map_or(1.0, |point| point.0) + lease * 0.15;
    let root = SVGBackend::new(path, SIZE).into_drawing_area();
    let mut chart = ChartBuilder::on(&root)
        .margin_top(34)
        .margin_right(20)
        .margin_left(8)
        .margin_bottom(8)
        .x_label_area_size(48)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..end, 0.0..lease * 1.12)?;
    // The last third, in which the watchdog renews.
    let third = Rectangle::new([(0.0, 0.0), (end, lease / 3.0)], GREY.mix(0.13).filled());
    chart.draw_series([third])?;
    chart
        .configure_mesh()
        .disable_mesh()
        .axis_style(thin())
        .label_style(text(LABEL, HPos::Center, VPos::Top))
        .x_label_formatter(&|seconds| format!("{seconds:.0} s"))
        .y_label_formatter(&|seconds| format!("{seconds:.0} s"))
        .y_labels(4)
        .y_desc("time left")
        .x_desc("time since the lock was acquired")
        .axis_desc_style(text(LABEL, HPos::Center, VPos::Top))
        .draw()?;
    let in_redis = trace.in_redis.iter().copied();
    let under = AreaSeries::new(in_redis.clone(), 0.0, SECOND.mix(0.12));
    chart.draw_series(under)?;
    chart.draw_series(LineSeries::new(in_redis, SECOND.stroke_width(2)))?;
    let holder = trace.for_holder.iter().copied();
    chart.draw_series(LineSeries::new(holder, OURS.stroke_width(2)))?;
    for at in [trace.cut, trace.lost] {
        let line = [(at, 0.0), (at, lease * 1.05)];
        chart.draw_series(LineSeries::new(line, BAD.stroke_width(1)))?;
    }
    let renewals = trace
        .renewed
        .iter()
        .map(|&at| Circle::new(at, 4, SECOND.filled()));
    chart.draw_series(renewals)?;

    let at = |x: f64, y: f64| chart.backend_coord(&(x, y));
    let label = |words: &str, place: (i32, i32), across, colour: RGBColor| {
        let style = text(LABEL, across, VPos::Center).color(&colour);
        root.draw(&Text::new(words, place, style))
    };
    let (x, y) = at(0.0, lease * 1.09);
    label("acquired", (x + 4, y), HPos::Left, SECOND)?;
    for &(renewed, left) in &trace.renewed {
        let (x, y) = at(renewed, left);
        label("renewed", (x + 10, y - 14), HPos::Right, SECOND)?;
    }
    let (x, y) = at(trace.cut, lease * 1.09);
    label("cut off from Redis", (x + 4, y), HPos::Left, BAD)?;
    let (x, y) = at(trace.lost, lease * 1.09);
    label("loss notified", (x - 4, y), HPos::Right, BAD)?;
    let (x, y) = at(0.0, lease / 3.0);
    label(
        "the watchdog renews when about a third is left",
        (x + 6, y + 12),
        HPos::Left,
        GREY,
    )?;
    legend(&root)?;
    let title = "The life of a lease: renewed until the client is cut off from Redis, then lost";
    style::complete(path, title)
}

fn legend(root: &Area<'_>) -> Result<()> {
    let entries = [
        (72, SECOND, "time to live of the key in Redis"),
        (
            370,
            OURS,
            "what the holder may rely on: LockGuard::remaining",
        ),
    ];
    for (x, colour, words) in entries {
        let line = vec![(x, 12), (x + 22, 12)];
        root.draw(&PathElement::new(line, colour.stroke_width(3)))?;
        let style = text(LABEL, HPos::Left, VPos::Center);
        root.draw(&Text::new(words, (x + 30, 12), style))?;
    }
    root.present()?;
    Ok(())
}
