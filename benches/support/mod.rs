//! What the benches share: a private server, the same calls made by hand, and the table that sets
//! ours beside them. Every bench uses a part of it.
#![allow(dead_code, missing_docs)]

pub mod by_hand;
pub mod table;

use std::{
    env,
    net::{Ipv4Addr, TcpListener},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use criterion::{BenchmarkGroup, Criterion, SamplingMode, measurement::WallTime};
use leasehold::LockClient;
use tempfile::TempDir;

/// As valkey-server is a drop-in replacement, some systems have that one only.
const PROGRAMS: [&str; 2] = ["redis-server", "valkey-server"];
const START_TIMEOUT: Duration = Duration::from_secs(10);

const SERVER_CORE: &str = "0";
const CLIENT_CORE: &str = "1";

/// Turns before the other side has its go: long enough for warm caches, short enough that both
/// sides see the same weather.
const BLOCK: u64 = 20;

/// Run only to see that it runs: `cargo bench -- --test`, and every run that is not a bench.
pub fn is_test() -> bool {
    let mut arguments = env::args().skip(1);
    let bench = arguments.any(|argument| argument == "--bench");
    !bench || env::args().any(|argument| argument == "--test")
}

/// Whether only the names of the benches are asked for.
pub fn is_list() -> bool {
    env::args().any(|argument| argument == "--list")
}

/// The length of something in a real run, and when it is only seen to run.
pub fn length(real: Duration, test: Duration) -> Duration {
    if is_test() { test } else { real }
}

/// Keeps this process, and what it starts from here on, to one core; the server has the other.
pub fn pin_clients() {
    if pins() {
        let process = std::process::id().to_string();
        let _ =
            run_quietly(Command::new("taskset").args(["-a", "-c", "-p", CLIENT_CORE, &process]));
    }
}

/// Where there is `taskset` and both cores may be used, unless LEASEHOLD_BENCH_PIN=0.
pub fn pins() -> bool {
    let usable = |core| run_quietly(Command::new("taskset").args(["-c", core, "true"]));
    env::var("LEASEHOLD_BENCH_PIN").as_deref() != Ok("0")
        && usable(SERVER_CORE)
        && usable(CLIENT_CORE)
}

fn run_quietly(command: &mut Command) -> bool {
    let command = command.stdin(Stdio::null()).stdout(Stdio::null());
    let status = command.stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// A Redis server of this bench alone, on the loopback. It ends with this value.
pub struct Server {
    process: Child,
    port: u16,
    _directory: TempDir,
}

impl Server {
    pub fn start() -> Self {
        // Another program can take the free port first, though hardly three times.
        let server = (0..3).find_map(|_| Self::try_start());
        server.expect("redis-server is not to be found or does not start")
    }

    fn try_start() -> Option<Self> {
        let port = free_port()?;
        let directory = tempfile::tempdir().ok()?;
        let process = PROGRAMS.iter().find_map(|program| {
            let mut command = Command::new(program);
            if pins() {
                command = Command::new("taskset");
                command.args(["-c", SERVER_CORE, program]);
            }
            command
                .args(["--bind", "127.0.0.1", "--port", &port.to_string()])
                .args(["--save", "", "--appendonly", "no", "--dir"])
                .arg(directory.path())
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .spawn()
                .ok()
        })?;
        let mut server = Self {
            process,
            port,
            _directory: directory,
        };
        let start = Instant::now();
        while start.elapsed() < START_TIMEOUT && server.process.try_wait().ok()?.is_none() {
            let client = redis::Client::open(server.url()).ok()?;
            let connection = client.get_connection_with_timeout(START_TIMEOUT);
            if connection.is_ok_and(|mut up| redis::cmd("PING").exec(&mut up).is_ok()) {
                return Some(server);
            }
            thread::sleep(Duration::from_millis(10));
        }
        None
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub fn client(&self) -> LockClient {
        LockClient::connect(&self.url()).expect("the URL is good")
    }

    pub fn connection(&self) -> redis::Connection {
        let client = redis::Client::open(self.url()).expect("the URL is good");
        client.get_connection().expect("the server is up")
    }

    /// How often the server has run each of its commands, inside scripts as well.
    pub fn command_counts(&self) -> CommandCounts {
        let info: String = redis::cmd("INFO")
            .arg("commandstats")
            .query(&mut self.connection())
            .expect("INFO works");
        CommandCounts(info)
    }
}

fn free_port() -> Option<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).ok()?;
    listener.local_addr().ok().map(|address| address.port())
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub struct CommandCounts(String);

impl CommandCounts {
    pub fn of(&self, command: &str) -> u64 {
        let line = format!("cmdstat_{command}:calls=");
        let count = self.0.lines().find_map(|l| l.strip_prefix(&line));
        let count = count.and_then(|rest| rest.split(',').next());
        count.map_or(0, |count| count.parse().expect("a number"))
    }

    /// Commands that clients sent. Each release publishes once inside its script, beside its DEL.
    pub fn sent(&self) -> u64 {
        const SENT: [&str; 6] = [
            "evalsha",
            "eval",
            "subscribe",
            "unsubscribe",
            "publish",
            "ping",
        ];
        SENT.iter().map(|command| self.of(command)).sum::<u64>() - self.of("del")
    }
}

/// Durations, in nanoseconds.
#[derive(Clone, Default)]
pub struct Samples(Vec<u64>);

impl Samples {
    pub fn add(&mut self, sample: Duration) {
        self.0
            .push(u64::try_from(sample.as_nanos()).unwrap_or(u64::MAX));
    }

    pub fn extend(&mut self, other: &Self) {
        self.0.extend(&other.0);
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn median(&self) -> Duration {
        self.quantile(0.5)
    }

    /// The sample that a share of all is not longer than; 1.0: the longest.
    pub fn quantile(&self, share: f64) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let last = sorted.len().saturating_sub(1);
        let place = (last as f64 * share).round() as usize;
        Duration::from_nanos(sorted.get(place).copied().unwrap_or(0))
    }
}

/// Ours and its floor, measured in one run.
#[derive(Default)]
pub struct Duel {
    pub ours: Samples,
    pub floor: Samples,
}

impl Duel {
    /// Lets both sides have `turns` turns, in alternating blocks; the time of each side.
    fn fight(
        &mut self,
        turns: u64,
        ours: &mut impl FnMut() -> Duration,
        floor: &mut impl FnMut() -> Duration,
    ) -> (Duration, Duration) {
        let mut total = (Duration::ZERO, Duration::ZERO);
        let mut left = turns;
        while left > 0 {
            let block = left.min(BLOCK);
            left -= block;
            let ours_first = (left / BLOCK).is_multiple_of(2);
            for is_ours in [ours_first, !ours_first] {
                for _ in 0..block {
                    let (sample, samples, sum) = if is_ours {
                        (ours(), &mut self.ours, &mut total.0)
                    } else {
                        (floor(), &mut self.floor, &mut total.1)
                    };
                    samples.add(sample);
                    *sum += sample;
                }
            }
        }
        total
    }
}

/// Two benches of criterion, `name/ours` and `name/floor`. In each of them both sides take turns,
/// so that whatever else the machine does hits both. A side answers with the time that counts.
pub fn duel(
    criterion: &mut Criterion,
    name: &str,
    mut ours: impl FnMut() -> Duration,
    mut floor: impl FnMut() -> Duration,
) -> Duel {
    let mut duel = Duel::default();
    if !is_list() {
        // Connections are opened and scripts loaded before anything counts.
        duel.fight(if is_test() { 1 } else { 200 }, &mut ours, &mut floor);
        duel = Duel::default();
    }
    let mut group = group(criterion, name, 20, Duration::from_secs(4));
    group.bench_function("ours", |bencher| {
        bencher.iter_custom(|turns| duel.fight(turns, &mut ours, &mut floor).0);
    });
    group.bench_function("floor", |bencher| {
        bencher.iter_custom(|turns| duel.fight(turns, &mut ours, &mut floor).1);
    });
    group.finish();
    duel
}

/// A group of benches whose turns take long enough to be timed one by one.
pub fn group<'a>(
    criterion: &'a mut Criterion,
    name: &str,
    samples: usize,
    time: Duration,
) -> BenchmarkGroup<'a, WallTime> {
    let mut group = criterion.benchmark_group(name);
    group
        .sampling_mode(SamplingMode::Flat)
        .sample_size(samples)
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(time);
    group
}

/// How long `work` takes.
pub fn time(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}
