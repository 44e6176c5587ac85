//! The picture on the terminal: a line for each lock.

use std::{
    io::{self, IsTerminal, Write},
    time::Duration,
};

use crate::trace::{Event, Sample};

const BAR: usize = 36;
/// Marks of the past that fit on a line of 80 columns.
const PAST: usize = 24;

/// What is shown of one lock.
struct Line {
    left: Duration,
    /// A mark for each time at which the line was drawn.
    past: String,
    /// Since the line was last drawn.
    event: Option<Event>,
}

/// Draws the lines repeatedly on a terminal, else prints one after another.
pub struct Drawing {
    is_terminal: bool,
    lease: Duration,
    pause: Duration,
    lines: Vec<Line>,
    /// When the lines were last drawn.
    drawn: Option<Duration>,
    /// How many lines of the terminal are drawn again.
    height: usize,
}

impl Drawing {
    pub fn begin(lease: Duration) -> Self {
        let is_terminal = io::stdout().is_terminal();
        let most = Duration::from_millis(if is_terminal { 200 } else { 500 });
        let drawing = Self {
            is_terminal,
            lease,
            pause: most.min(lease / 6),
            lines: Vec::new(),
            drawn: None,
            height: 0,
        };
        println!("# time left   + its last third   R renewed   X lost");
        drawing
    }

    pub fn add(&mut self, sample: &Sample) {
        while self.lines.len() < sample.lock {
            self.lines.push(Line {
                left: Duration::ZERO,
                past: String::new(),
                event: None,
            });
        }
        let line = &mut self.lines[sample.lock - 1];
        line.left = sample.in_redis.unwrap_or_default();
        line.event = sample.event.or(line.event);
        let is_due = self
            .drawn
            .is_none_or(|drawn| sample.at >= drawn + self.pause);
        if is_due && sample.lock == self.lines.len() {
            self.drawn = Some(sample.at);
            self.draw(sample.at);
        }
    }

    /// Prints what happened, above the lines.
    pub fn note(&mut self, at: Duration, event: Event, lock: usize) {
        let what = match event {
            Event::Acquired => format!("lock {lock} is acquired"),
            Event::Cut => "the client is cut off from Redis".to_owned(),
            Event::Renewed | Event::Lost => format!("lock {lock}: {event}"),
        };
        self.erase();
        println!("{:6.2} s  {what}", at.as_secs_f64());
    }

    fn draw(&mut self, at: Duration) {
        self.erase();
        let mut output = io::stdout().lock();
        for (place, line) in self.lines.iter_mut().enumerate() {
            let mark = match line.event {
                Some(Event::Renewed) => 'R',
                Some(Event::Lost) => 'X',
                _ => '.',
            };
            line.past.push(mark);
            let bar = bar(line.left, self.lease);
            let past = if self.is_terminal {
                let first = line.past.len().saturating_sub(PAST);
                &line.past[first..]
            } else {
                match line.event {
                    Some(Event::Renewed) => "renewed",
                    Some(Event::Lost) => "lost",
                    _ => "",
                }
            };
            let (at, left) = (at.as_secs_f64(), line.left.as_millis());
            let text = format!("{at:6.2} s {:2} [{bar}] {left:5} ms  {past}", place + 1);
            let _ = writeln!(output, "{}", text.trim_end());
            line.event = None;
        }
        if self.is_terminal {
            self.height = self.lines.len();
        }
        let _ = output.flush();
    }

    /// Moves to the first of the lines and clears them.
    fn erase(&mut self) {
        if self.height > 0 {
            print!("\x1b[{}A\x1b[J", self.height);
            self.height = 0;
        }
    }

    /// Draws the last state.
    pub fn end(mut self, at: Duration) {
        self.draw(at);
    }
}

/// The rest of the lease: `#`, and `+` in its last third.
fn bar(left: Duration, lease: Duration) -> String {
    let part = left.as_secs_f64() / lease.as_secs_f64();
    let filled = ((part * BAR as f64).round() as usize).min(BAR);
    let third = BAR / 3;
    let mut bar = "+".repeat(filled.min(third));
    bar.push_str(&"#".repeat(filled.saturating_sub(third)));
    bar.push_str(&"-".repeat(BAR - filled));
    bar
}
