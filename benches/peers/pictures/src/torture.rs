//! Which process holds a lock during a second of the torture program, from its event logs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use leasehold_peers_compare::Result;
use plotters::backend::SVGBackend;
use plotters::prelude::{ChartBuilder, IntoDrawingArea, Rectangle, Text};
use plotters::series::LineSeries;
use plotters::style::Color;
use plotters::style::text_anchor::{HPos, VPos};

use crate::style::{self, Area, BAD, GREY, LABEL, SECOND, TITLE, colour, text, thin};

const WIDTH: u32 = 900;
const HEADING: &str = "One lock of the torture program: which process holds it";
/// The opacity of pauses.
const PAUSED: f64 = 0.25;
/// Before and after a process is killed, in nanoseconds.
const BEFORE: u64 = 400_000_000;
const AFTER: u64 = 600_000_000;

/// What the logs say about one lock. Times are nanoseconds.
pub struct Story {
    start: u64,
    /// The holds of one process that follow each other: process, begin, end.
    slices: Vec<(u32, u64, u64)>,
    paused: Vec<(u32, u64, u64)>,
    killed: Vec<(u32, u64)>,
    deleted: Vec<u64>,
}

#[derive(Default)]
struct Logs {
    /// By process, thread and call: lock, begin, end.
    holds: BTreeMap<(u32, u32, u64), (u32, u64, u64)>,
    asked: BTreeMap<(u32, u32, u64), u32>,
    pauses: BTreeMap<u32, u64>,
    paused: Vec<(u32, u64, u64)>,
    killed: Vec<(u32, u64)>,
    deleted: Vec<(u32, u64)>,
}

impl Logs {
    /// A line is TIME PROCESS THREAD EVENT and the words of the event.
    fn add(&mut self, line: &str) -> Option<()> {
        let words: Vec<_> = line.split(' ').collect();
        let number = |place: usize| words.get(place)?.parse::<u64>().ok();
        let (at, process) = (number(0)?, number(1)? as u32);
        let key = |call: u64| Some((process, number(2)? as u32, call));
        let (first, second) = (number(4), number(5));
        match *words.get(3)? {
            "asks" => drop(self.asked.insert(key(first?)?, second? as u32)),
            "has" => {
                let key = key(first?)?;
                let lock = *self.asked.get(&key)?;
                self.holds.insert(key, (lock, at, at));
            }
            "held" => {
                let hold = (second? as u32, at, number(8)?.max(at));
                self.holds.insert(key(first?)?, hold);
            }
            "vouches" => self.holds.get_mut(&key(first?)?)?.2 = at,
            "pauses" => drop(self.pauses.insert(first? as u32, at)),
            "continued" => {
                let process = first? as u32;
                self.paused
                    .push((process, self.pauses.remove(&process)?, at));
            }
            "killed" => self.killed.push((first? as u32, at)),
            "deleted" => self.deleted.push((first? as u32, at)),
            _ => {}
        }
        Some(())
    }
}

/// Reads all logs of a run, and chooses a second in which a process is killed.
pub fn read(folder: &Path) -> Result<Story> {
    let mut logs = Logs::default();
    for entry in fs::read_dir(folder)? {
        let text = fs::read_to_string(entry?.path())?;
        text.lines().for_each(|line| {
            logs.add(line);
        });
    }
    let mut uses = BTreeMap::<u32, usize>::new();
    for (lock, ..) in logs.holds.values() {
        *uses.entry(*lock).or_default() += 1;
    }
    let most = uses.into_iter().max_by_key(|(_, holds)| *holds);
    let (lock, _) = most.ok_or("the logs have no holds")?;
    let mut holds: Vec<_> = logs
        .holds
        .iter()
        .filter(|(_, hold)| hold.0 == lock)
        .map(|((process, ..), (_, begin, end))| (*process, *begin, *end))
        .collect();
    holds.sort_by_key(|hold| hold.1);
    let mut slices: Vec<(u32, u64, u64)> = Vec::new();
    for (process, begin, end) in holds {
        match slices.last_mut() {
            Some(last) if last.0 == process && begin < last.2 + 20_000_000 => {
                last.2 = last.2.max(end);
            }
            _ => slices.push((process, begin, end)),
        }
    }
    // The kill around which the lock was acquired by most processes.
    let around = |at: u64| {
        let near = slices
            .iter()
            .filter(|slice| slice.1 + BEFORE > at && slice.1 < at + AFTER);
        near.count()
    };
    let kills = logs.killed.iter().map(|(_, at)| *at);
    let killed = kills
        .max_by_key(|at| around(*at))
        .ok_or("no process was killed")?;
    let start = killed - BEFORE;
    let is_inside = |at: u64| at >= start && at < start + BEFORE + AFTER;
    Ok(Story {
        start,
        slices: slices
            .iter()
            .copied()
            .filter(|slice| is_inside(slice.1) || is_inside(slice.2))
            .collect(),
        paused: logs
            .paused
            .into_iter()
            .filter(|pause| is_inside(pause.1) || is_inside(pause.2))
            .map(|pause| (pause.0, stopped(&slices, pause), pause.2))
            .collect(),
        killed: logs
            .killed
            .into_iter()
            .filter(|kill| is_inside(kill.1))
            .collect(),
        deleted: logs
            .deleted
            .into_iter()
            .filter(|deleted| deleted.0 == lock && is_inside(deleted.1))
            .map(|deleted| deleted.1)
            .collect(),
    })
}

/// A process is stopped some time after the log says so: not before the end of its last slice.
fn stopped(slices: &[(u32, u64, u64)], pause: (u32, u64, u64)) -> u64 {
    let (process, begin, end) = pause;
    let own = slices
        .iter()
        .filter(|slice| slice.0 == process && slice.2 < end);
    own.map(|slice| slice.2).fold(begin, u64::max)
}

pub fn draw(story: &Story, path: &Path) -> Result<()> {
    let of_slices = story.slices.iter().map(|slice| slice.0);
    let of_faults = story.paused.iter().map(|pause| pause.0);
    let killed = story.killed.iter().map(|kill| kill.0);
    let processes: BTreeSet<u32> = of_slices.chain(of_faults).chain(killed).collect();
    let rows: BTreeMap<u32, usize> = processes.iter().copied().zip(0..).collect();
    let height = 132 + 26 * rows.len() as u32;
    let root = SVGBackend::new(path, (WIDTH, height)).into_drawing_area();
    let end = (BEFORE + AFTER) as f64 / 1e6;
    let mut chart = ChartBuilder::on(&root)
        .margin_top(62)
        .margin_right(32)
        .margin_bottom(8)
        .x_label_area_size(48)
        .y_label_area_size(110)
        .build_cartesian_2d(0.0..end, 0.0..rows.len() as f64)?;
    chart
        .configure_mesh()
        .disable_mesh()
        .disable_y_axis()
        .axis_style(thin())
        .label_style(text(LABEL, HPos::Center, VPos::Top))
        .x_label_formatter(&|millis| format!("{millis:.0} ms"))
        .x_desc("time")
        .axis_desc_style(text(LABEL, HPos::Center, VPos::Top))
        .draw()?;
    let x = |at: u64| (at.saturating_sub(story.start) as f64 / 1e6).min(end);
    let bar = |process: u32, begin: u64, until: u64, inset: f64, style| {
        let row = rows[&process] as f64;
        // A short hold is still visible.
        let right = x(until).max(x(begin) + 0.6);
        Rectangle::new([(x(begin), row + inset), (right, row + 1.0 - inset)], style)
    };
    let pauses = story.paused.iter().map(|&(process, begin, until)| {
        bar(process, begin, until, 0.05, GREY.mix(PAUSED).filled())
    });
    chart.draw_series(pauses)?;
    let slices = story.slices.iter().map(|&(process, begin, until)| {
        let colour = colour(rows[&process], "");
        bar(process, begin, until, 0.2, colour.filled())
    });
    chart.draw_series(slices)?;
    for &(process, at) in &story.killed {
        let row = rows[&process] as f64;
        let line = [(x(at), row), (x(at), row + 1.0)];
        chart.draw_series(LineSeries::new(line, BAD.stroke_width(3)))?;
    }
    for &at in &story.deleted {
        let line = [(x(at), 0.0), (x(at), rows.len() as f64)];
        chart.draw_series(LineSeries::new(line, SECOND.stroke_width(1)))?;
    }
    for (process, row) in &rows {
        let (_, y) = chart.backend_coord(&(0.0, *row as f64 + 0.5));
        let name = format!("process {process}");
        root.draw(&Text::new(
            name,
            (102, y),
            text(LABEL, HPos::Right, VPos::Center),
        ))?;
    }
    root.draw(&Text::new(
        HEADING,
        (110, 14),
        text(TITLE, HPos::Left, VPos::Center),
    ))?;
    legend(&root, !story.deleted.is_empty())?;
    style::complete(path, HEADING)
}

fn legend(root: &Area<'_>, with_deletion: bool) -> Result<()> {
    let entries = [
        (110, GREY.mix(PAUSED), "paused by SIGSTOP"),
        (310, BAD.mix(1.0), "killed"),
        (
            410,
            SECOND.mix(1.0),
            "the key is deleted by another program",
        ),
    ];
    let shown = if with_deletion { 3 } else { 2 };
    for (x, colour, words) in entries.into_iter().take(shown) {
        let square = [(x, 36), (x + 12, 48)];
        root.draw(&Rectangle::new(square, colour.filled()))?;
        root.draw(&Text::new(
            words,
            (x + 18, 42),
            text(LABEL, HPos::Left, VPos::Center),
        ))?;
    }
    root.present()?;
    Ok(())
}
