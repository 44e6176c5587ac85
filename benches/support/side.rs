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
};

/// The time in which the workers of a window start, each with a pair.
const LEAD: Duration = Duration::from_millis(100);
const LEAD_OF_A_WORKER: Duration = Duration::from_millis(2);

/// The system counts CPU time in hundredths of a second.
const TICKS_PER_SECOND: f64 = 100.0;

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

/// What a process and the server have used since they started.
#[derive(Clone, Copy, Default)]
pub struct Used {
    /// CPU time of the process, in seconds.
    user: f64,
    system: f64,
    /// Context switches because a thread slept, and because another one got the core.
    own_switches: u64,
    forced_switches: u64,
    /// CPU time of the server, in seconds.
    server: f64,
    /// How often the server has read from a socket of a client.
    server_reads: u64,
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
        let before = self.used(server);
        sleep_until(end);
        let used = self.used(server).since(before);
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
        self.each(self.used.server_reads as f64)
    }

    /// Own and forced context switches for a pair.
    pub fn switches(&self) -> [f64; 2] {
        [self.used.own_switches, self.used.forced_switches].map(|count| self.each(count as f64))
    }

    fn each(&self, amount: f64) -> f64 {
        amount / self.pairs.max(1) as f64
    }
}

impl Used {
    fn ask(process: u32, server: &mut Connection) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        // The second field is the name of the program, in parentheses.
        let fields: Vec<_> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let seconds = |at: usize| Some(fields.get(at)?.parse::<f64>().ok()? / TICKS_PER_SECOND);
        let info: String = redis::cmd("INFO").arg("all").query(server).ok()?;
        let of = |name: &str| number(&info, name);
        let mut used = Self {
            user: seconds(11)?,
            system: seconds(12)?,
            server: of("used_cpu_user:")? + of("used_cpu_sys:")?,
            server_reads: of("total_reads_processed:")? as u64,
            ..Self::default()
        };
        for thread in fs::read_dir(format!("/proc/{process}/task"))
            .ok()?
            .flatten()
        {
            // A thread may end at any time.
            let status = fs::read_to_string(thread.path().join("status")).unwrap_or_default();
            let of = |name: &str| number(&status, name).unwrap_or(0.0) as u64;
            used.own_switches += of("voluntary_ctxt_switches:");
            used.forced_switches += of("nonvoluntary_ctxt_switches:");
        }
        Some(used)
    }

    fn since(self, before: Self) -> Self {
        Self {
            user: self.user - before.user,
            system: self.system - before.system,
            own_switches: self.own_switches.saturating_sub(before.own_switches),
            forced_switches: self.forced_switches.saturating_sub(before.forced_switches),
            server: self.server - before.server,
            server_reads: self.server_reads - before.server_reads,
        }
    }

    fn with(self, other: Self) -> Self {
        Self {
            user: self.user + other.user,
            system: self.system + other.system,
            own_switches: self.own_switches + other.own_switches,
            forced_switches: self.forced_switches + other.forced_switches,
            server: self.server + other.server,
            server_reads: self.server_reads + other.server_reads,
        }
    }
}

/// The number after the name at the start of a line.
fn number(text: &str, name: &str) -> Option<f64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.trim().parse().ok()
}
