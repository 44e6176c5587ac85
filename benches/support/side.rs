//! A process whose workers lock and unlock names of their own, as its parent sees it: what it did
//! in its windows, and what it used of the machine and of the server.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Duration,
};

use redis::Connection;

use super::{
    Server,
    apart::{APART, Kind},
    clock::{after, nanos, now, sleep_until},
    commands::commands,
    median, perf, start_again,
    used::Used,
};

/// The time in which the workers of a window start, each with a pair.
const LEAD: Duration = Duration::from_millis(100);
const LEAD_OF_A_WORKER: Duration = Duration::from_millis(2);

/// Dropping this value ends the process.
pub struct Side {
    pub name: &'static str,
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// What all workers did in all windows.
#[derive(Clone, Default)]
pub struct Figures {
    /// Pairs per second, in each window.
    rates: Vec<f64>,
    times: BTreeMap<u32, u64>,
    longest: u64,
    /// The pairs of the slowest worker to those of the fastest, in each window.
    evenness: Vec<f64>,
    pairs: u64,
    /// Pairs of which a call failed.
    pub failed: u64,
    used: Used,
    pub connections: usize,
    /// Of one pair, from windows that are not timed. Not known without `perf`, or if the processor
    /// does not count for it.
    pub system_calls: Option<f64>,
    pub instructions: Option<f64>,
    pub commands: f64,
}

impl Side {
    /// This program again, for one of the kinds.
    pub fn start(name: &'static str, kind: Kind, server: &Server) -> Self {
        Self::of(
            name,
            start_again(APART, &format!("{kind:?} {}", server.url())),
        )
    }

    /// A driver of `benches/peers`.
    pub fn driver(name: &'static str, program: &str, server: &Server) -> Self {
        let mut driver = Command::new(program);
        driver.args([name, &server.url()]).stdin(Stdio::piped());
        Self::of(
            name,
            driver.stdout(Stdio::piped()).spawn().expect("it is built"),
        )
    }

    fn of(name: &'static str, mut process: Child) -> Self {
        Self {
            name,
            input: process.stdin.take().expect("piped"),
            output: BufReader::new(process.stdout.take().expect("piped")),
            process,
        }
    }

    /// Runs one window, and adds its figures.
    pub fn window(
        &mut self,
        server: &mut Connection,
        workers: usize,
        length: Duration,
        figures: &mut Figures,
    ) {
        let (start, end) = self.begin(workers, length);
        sleep_until(start - nanos(LEAD) / 4);
        figures.connections = figures.connections.max(self.connections());
        sleep_until(start);
        let (began, before) = (now(), self.used(server));
        sleep_until(end);
        let (ended, after) = (now().min(end), self.used(server));
        // On a busy machine this process may have looked late.
        let seen = ended.saturating_sub(began).max(1);
        let used = after.since(before, nanos(length) as f64 / seen as f64);
        let reply = self.end();
        let [_, inside, failed, longest, slowest, fastest] = reply.numbers;
        figures.rates.push(inside as f64 / length.as_secs_f64());
        figures.longest = figures.longest.max(longest);
        figures
            .evenness
            .push(slowest as f64 / fastest.max(1) as f64);
        figures.pairs += inside;
        figures.failed += failed;
        figures.used = figures.used.with(used);
        for (bucket, count) in reply.times {
            *figures.times.entry(bucket).or_default() += count;
        }
    }

    /// Counts commands, system calls and instructions in windows that are not timed.
    pub fn count(
        &mut self,
        server: &Server,
        workers: usize,
        length: Duration,
        figures: &mut Figures,
    ) {
        let mut pairs = 0;
        let sent = commands(&[server.address()], || {
            self.begin(workers, length);
            pairs = self.end().numbers[0];
        });
        figures.commands = sent as f64 / pairs.max(1) as f64;
        let counted = perf::count(self.process.id(), || {
            self.begin(workers, length);
            pairs = self.end().numbers[0];
        });
        let each = |count: Option<u64>| count.map(|count| count as f64 / pairs.max(1) as f64);
        figures.system_calls = each(counted.system_calls);
        figures.instructions = each(counted.instructions);
    }

    fn begin(&mut self, workers: usize, length: Duration) -> (u64, u64) {
        let start = after(LEAD + LEAD_OF_A_WORKER * workers as u32);
        let end = start + nanos(length);
        let name = self.name.replace(' ', "-");
        let command = format!("apart {name}:{workers} {workers} {start} {end}");
        writeln!(self.input, "{command}").expect("it reads");
        (start, end)
    }

    fn end(&mut self) -> Reply {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("it replies");
        Reply::parse(&line).unwrap_or_else(|| panic!("{}: {line}", self.name))
    }

    fn used(&self, server: &mut Connection) -> Used {
        Used::ask(self.process.id(), server).expect("INFO and /proc")
    }

    /// The TCP connections of the process.
    fn connections(&self) -> usize {
        let process = format!("/proc/{}", self.process.id());
        let table = fs::read_to_string(format!("{process}/net/tcp")).unwrap_or_default();
        let lines = table.lines().skip(1);
        let inodes: BTreeSet<_> = lines
            .filter_map(|line| line.split_whitespace().nth(9))
            .map(|inode| format!("socket:[{inode}]"))
            .collect();
        let files = fs::read_dir(format!("{process}/fd")).into_iter().flatten();
        let links = files
            .flatten()
            .filter_map(|file| fs::read_link(file.path()).ok());
        let sockets = links.filter(|link| link.to_str().is_some_and(|link| inodes.contains(link)));
        sockets.count()
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

struct Reply {
    /// `PAIRS INSIDE GAVE_UP LONGEST SLOWEST FASTEST` in `benches/peers/README.md`.
    numbers: [u64; 6],
    times: Vec<(u32, u64)>,
}

impl Reply {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.strip_prefix("ok ")?.split_whitespace();
        let mut numbers = [0; 6];
        for number in &mut numbers {
            *number = words.next()?.parse().ok()?;
        }
        let times = words.map(|word| {
            let (bucket, count) = word.split_once(':')?;
            Some((bucket.parse().ok()?, count.parse().ok()?))
        });
        Some(Self {
            numbers,
            times: times.collect::<Option<_>>()?,
        })
    }
}

impl Figures {
    /// Pairs per second in the median window.
    pub fn rate(&self) -> f64 {
        median(&self.rates)
    }

    /// The time of a pair, in microseconds, that this share of all does not exceed; 1.0: the
    /// longest.
    pub fn time(&self, share: f64) -> f64 {
        let all: u64 = self.times.values().sum();
        let wanted = (all as f64 * share).ceil() as u64;
        let mut seen = 0;
        let bucket = self.times.iter().find(|(_, count)| {
            seen += **count;
            seen >= wanted
        });
        let middle = bucket.map_or(0.0, |(bucket, _)| {
            ((f64::from(*bucket) + 0.5) / 32.0).exp2()
        });
        let nanos = if share < 1.0 { middle } else { f64::INFINITY };
        nanos.min(self.longest as f64) / 1e3
    }

    /// The pairs of the slowest worker to those of the fastest, in the median window.
    pub fn slowest_to_fastest(&self) -> f64 {
        median(&self.evenness)
    }

    /// CPU time of the client for a pair, in microseconds: in user mode and in the kernel.
    pub fn client_cpu(&self) -> [f64; 2] {
        [self.used.user, self.used.system].map(|seconds| self.each(seconds * 1e6))
    }

    pub fn all_client_cpu(&self) -> f64 {
        self.client_cpu().iter().sum()
    }

    /// CPU time of the server for a pair, in microseconds.
    pub fn server_cpu(&self) -> f64 {
        self.each(self.used.server * 1e6)
    }

    pub fn server_reads(&self) -> f64 {
        self.each(self.used.server_reads)
    }

    /// Own and forced context switches for a pair.
    pub fn switches(&self) -> [f64; 2] {
        [self.used.own_switches, self.used.forced_switches].map(|count| self.each(count))
    }

    fn each(&self, amount: f64) -> f64 {
        amount / self.pairs.max(1) as f64
    }
}
