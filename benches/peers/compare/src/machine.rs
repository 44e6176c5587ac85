//! The machine: its clock, its cores, its load.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

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

/// The load of the last minute.
pub fn load() -> f64 {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let first = load.split(' ').next().and_then(|word| word.parse().ok());
    first.unwrap_or(0.0)
}
