//! Runs a scenario in a process of its own, because statics of the library belong to one world.

use std::env;
use std::io::{self, Read};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use crate::real_std::thread;
use crate::run::Outcome;
use crate::scenario::Limits;

/// How long a run takes at most. One of a usual size takes a few seconds, and a minute beside many
/// other programs.
const LONGEST: Duration = Duration::from_secs(300);

/// What became of one scenario.
#[derive(Debug)]
pub struct Run {
    pub outcome: Outcome,
    /// What it printed about its violations.
    pub text: String,
}

impl Run {
    /// Runs the scenario with this seed. A process that prints no outcome has a violation.
    pub fn of(seed: u64, limits: &Limits) -> io::Result<Self> {
        let mut process = Command::new(env::current_exe()?)
            .args(["--scenario", &seed.to_string()])
            .args(limits.arguments())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut output = process.stdout.take().expect("it is a pipe");
        let (sender, receiver) = mpsc::channel();
        let reader = thread::spawn(move || {
            let mut text = Vec::new();
            let result = output.read_to_end(&mut text);
            let _ = sender.send(());
            result.map(|_| String::from_utf8_lossy(&text).into_owned())
        });
        if receiver.recv_timeout(LONGEST).is_err() {
            process.kill()?;
        }
        let status = process.wait()?;
        let mut text = reader.join().expect("it does not panic")?;
        // The outcome has two lines.
        let mut ends = text.trim_end().rmatch_indices('\n');
        let last = ends.nth(1).map_or(0, |(at, _)| at + 1);
        if let Ok(outcome) = text[last..].parse() {
            text.truncate(last);
            return Ok(Self { outcome, text });
        }
        let command = limits.command(seed);
        text += &format!("VIOLATION the process ended: {status}\nagain: {command}\n");
        let violations = 1;
        let outcome = Outcome {
            violations,
            ..Outcome::default()
        };
        Ok(Self { outcome, text })
    }

    pub fn fails(&self) -> bool {
        self.outcome.violations > 0
    }

    /// The kind of the first violation: its line until the first number or colon.
    pub fn symptom(&self) -> &str {
        let from = self.text.find("VIOLATION").unwrap_or(0);
        let is_end = |sign: char| sign.is_ascii_digit() || ":\n".contains(sign);
        self.text[from..].split(is_end).next().unwrap_or_default()
    }
}
