//! A process that uses one of the libraries.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::Duration;

use leasehold_peers_compare::Result;

use crate::peers::Peer;

/// Dropping this value ends the process.
pub struct Driver {
    name: &'static str,
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Driver {
    pub fn start(peer: &Peer, url: &str) -> Result<Self> {
        let mut process = peer
            .driver(url)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{}: {error}", peer.name))?;
        Ok(Self {
            name: peer.name,
            input: process.stdin.take().ok_or("piped")?,
            output: BufReader::new(process.stdout.take().ok_or("piped")?),
            process,
        })
    }

    /// Sends a command, and does not wait for its reply.
    pub fn begin(&mut self, command: &str) -> Result<()> {
        writeln!(self.input, "{command}")?;
        Ok(self.input.flush()?)
    }

    /// The words of the next reply.
    pub fn reply(&mut self) -> Result<Vec<String>> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        match line.trim_end().strip_prefix("ok") {
            Some(words) => Ok(words.split_whitespace().map(str::to_owned).collect()),
            None => Err(format!("{}: {}", self.name, line.trim_end()).into()),
        }
    }

    pub fn call(&mut self, command: &str) -> Result<Vec<String>> {
        self.begin(command)?;
        self.reply()
    }

    /// The next reply, as numbers.
    pub fn numbers(&mut self) -> Result<Vec<u64>> {
        let words = self.reply()?;
        Ok(words
            .iter()
            .map(|word| word.parse())
            .collect::<std::result::Result<_, _>>()?)
    }

    /// The CPU time of all threads of the process. The system counts it in hundredths of a second.
    pub fn cpu_time(&self) -> Result<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.process.id()))?;
        // The second field is the name of the program, in parentheses.
        let (_, fields) = stat.rsplit_once(')').ok_or("no name in stat")?;
        let fields: Vec<_> = fields.split_whitespace().collect();
        let ticks: u64 = fields[11].parse::<u64>()? + fields[12].parse::<u64>()?;
        Ok(Duration::from_millis(ticks * 10))
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
