//! The machine: its clock, its cores, its load.

use std::fs;
use std::num::NonZero;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use leasehold_peers_compare::table::IDLE;
use rustix::time::{ClockId, clock_gettime};

const SERVER_CORE: &str = "0";
const CLIENT_CORE: &str = "1";

/// Nanoseconds of CLOCK_MONOTONIC, which all processes share.
pub fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

pub fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn can_pin() -> bool {
    [SERVER_CORE, CLIENT_CORE].iter().all(|core| {
        let mut command = Command::new("taskset");
        let command = command.args(["-c", core, "true"]);
        let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    })
}

/// Pins this process and its future children to one core. Returns whether it could.
pub fn pin_clients() -> bool {
    let process = std::process::id().to_string();
    let mut command = Command::new("taskset");
    command.args(["-a", "-c", "-p", CLIENT_CORE, &process]);
    can_pin()
        && command
            .stdout(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
}

/// A program on the other core, or on any if there is only one.
pub fn on_server_core(program: &str) -> Command {
    if can_pin() {
        let mut command = Command::new("taskset");
        command.args(["-c", SERVER_CORE, program]);
        command
    } else {
        Command::new(program)
    }
}

/// The processor, as the system names it.
pub fn processor() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = info.lines().find(|line| line.starts_with("model name"));
    let name = line.and_then(|line| line.split_once(": "));
    name.map_or_else(|| "unknown".to_owned(), |(_, name)| name.to_owned())
}

/// The cores that this process may use. Call it before `pin_clients`.
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

pub fn kernel() -> String {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    release.trim_end().to_owned()
}

/// The commit in this folder, with a mark if files were changed.
pub fn commit() -> String {
    let mut command = Command::new("git");
    command.args(["describe", "--always", "--exclude=*", "--dirty"]);
    let output = command
        .output()
        .ok()
        .filter(|output| output.status.success());
    let name = output.map(|output| {
        String::from_utf8_lossy(&output.stdout)
            .trim_end()
            .to_owned()
    });
    name.unwrap_or_else(|| "unknown".to_owned())
}

/// Waits a few minutes until the machine has nothing else to do; the build has made load itself.
pub fn wait_until_idle() {
    const WAIT: Duration = Duration::from_secs(180);
    let start = Instant::now();
    while load() > IDLE && start.elapsed() < WAIT {
        eprintln!("waiting: the load is {:.1}", load());
        thread::sleep(Duration::from_secs(10));
    }
}

/// The load of the last minute.
pub fn load() -> f64 {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let first = load.split(' ').next().and_then(|word| word.parse().ok());
    first.unwrap_or(0.0)
}
