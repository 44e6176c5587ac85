//! No server outlives this process, however it ends.
//!
//! A killed process runs no destructor, and statics have none. So a child process reads a pipe that
//! closes with this process, and then ends the servers and removes their files.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::LazyLock;

use parking_lot::Mutex;

/// Knows the process ids of the running servers, and the directories of all servers: a killed
/// server keeps its directory for a restart.
const PROGRAM: &str = r#"
    /^runs/ { left[$2]; made[substr($0, length($1 $2) + 3)] }
    /^ended/ { delete left[$2] }
    END {
        for (pid in left) system("kill -9 " pid)
        for (directories in made) print directories | "xargs rm -rf"
    }
"#;

/// Locked while a line is written.
static REAPER: LazyLock<Mutex<ChildStdin>> = LazyLock::new(|| {
    let mut reaper = Command::new("awk");
    // Ctrl-C is for the tests; the reaper ends after them.
    let reaper = reaper.arg(PROGRAM).stdin(Stdio::piped()).process_group(0);
    let reaper = reaper.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    Mutex::new(reaper.expect("awk is installed").stdin.expect("piped"))
});

pub fn runs(pid: u32, directories: &[&Path]) {
    let directories: Vec<_> = directories
        .iter()
        .map(|directory| format!("'{}'", directory.display()))
        .collect();
    write(&format!("runs {pid} {}", directories.join(" ")));
}

pub fn ended(pid: u32) {
    write(&format!("ended {pid}"));
}

fn write(line: &str) {
    // One write for each line. Without a reaper the tests still work, so errors are ignored.
    let _ = REAPER.lock().write_all(format!("{line}\n").as_bytes());
}
