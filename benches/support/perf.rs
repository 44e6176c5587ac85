//! Counts of the kernel and of the processor, by programs that count for another process. Without
//! these programs, or on a machine that does not count, there is no number.

use std::{
    env, fs,
    io::{BufRead, BufReader, Write},
    process::{Command, Stdio},
};

use super::apart::{APART, Kind};

#[derive(Default)]
pub struct Counted {
    pub system_calls: Option<u64>,
    /// Instructions in user mode.
    pub instructions: Option<u64>,
}

/// What all threads of a process do while `work` runs, also those that start in that time.
pub fn count(process: u32, work: impl FnOnce()) -> Counted {
    let Some(report) = tempfile::NamedTempFile::new().ok() else {
        work();
        return Counted::default();
    };
    // It counts until the second program ends: until its input is closed.
    let perf = Command::new("perf")
        .args(["stat", "-x", ";"])
        .args(["-e", "raw_syscalls:sys_enter", "-e", "instructions:u"])
        .args(["-p", &process.to_string(), "-o"])
        .arg(report.path())
        .args(["--", "sh", "-c", "echo counting; cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut perf) = perf else {
        work();
        return Counted::default();
    };
    if let Some(output) = perf.stdout.as_mut() {
        let _ = BufReader::new(output).read_line(&mut String::new());
    }
    work();
    drop(perf.stdin.take());
    let _ = perf.wait();
    let text = fs::read_to_string(report.path()).unwrap_or_default();
    // COUNT;UNIT;EVENT;...
    let of = |event: &str| {
        let line = text.lines().find(|line| line.contains(event))?;
        line.split(';').next()?.parse().ok()
    };
    Counted {
        system_calls: of("raw_syscalls"),
        instructions: of("instructions"),
    }
}

/// User instructions of one pair of one thread, as valgrind executes this program. They do not
/// depend on the load of the machine.
pub fn instructions_of_a_pair(kind: Kind, url: &str, pairs: u64) -> Option<f64> {
    let few = instructions(kind, url, pairs)?;
    let many = instructions(kind, url, pairs * 2)?;
    Some(many.saturating_sub(few) as f64 / pairs as f64)
}

fn instructions(kind: Kind, url: &str, pairs: u64) -> Option<u64> {
    let mut valgrind = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(env::current_exe().ok()?)
        .env(APART, format!("{kind:?} {url}"))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .ok()?;
    writeln!(valgrind.stdin.take()?, "pairs instructions {pairs}").ok()?;
    let output = valgrind.wait_with_output().ok()?;
    let report = String::from_utf8_lossy(&output.stderr);
    let (_, rest) = report.split_once("Collected : ")?;
    rest.split_whitespace().next()?.parse().ok()
}
