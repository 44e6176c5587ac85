//! No server outlives this process, however that ends.
//!
//! A process that is killed runs no destructor, and one that exits none of its statics. So a child
//! of its own reads a pipe which ends with this process, and does then what is left to do.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::LazyLock;

use parking_lot::Mutex;

/// Knows the servers that run, by process id, and the directories of all that ever did: one that was killed
/// has kept its own for its next life.
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
    // Ctrl-C is for the tests; this comes after them.
    let reaper = reaper.arg(PROGRAM).stdin(Stdio::piped()).process_group(0);
    let reaper = reaper.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    Mutex::new(reaper.expect("awk is installed").stdin.expect("piped"))
});

pub fn runs(pid: u32, directories: &[&Path]) {
    let directories: Vec<_> = directories
        .iter()
        .map(|directory| format!("'{}'", directory.display()))
        .collect();
    tell(&format!("runs {pid} {}", directories.join(" ")));
}

pub fn ended(pid: u32) {
    tell(&format!("ended {pid}"));
}

fn tell(line: &str) {
    // One write for each line; without a reaper there is nothing to lose but its service.
    let _ = REAPER.lock().write_all(format!("{line}\n").as_bytes());
}
