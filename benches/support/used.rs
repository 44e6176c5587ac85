//! What another process has used of the machine and of its server.

use std::fs;

use redis::Connection;

/// The system counts CPU time in hundredths of a second.
const TICKS_PER_SECOND: f64 = 100.0;

/// What a process and the server have used since they started.
#[derive(Clone, Copy, Default)]
pub struct Used {
    /// CPU time of the process, in seconds.
    pub user: f64,
    pub system: f64,
    /// Context switches because a thread slept, and because another one got the core.
    pub own_switches: f64,
    pub forced_switches: f64,
    /// CPU time of the server, in seconds.
    pub server: f64,
    /// How often the server has read from a socket of a client.
    pub server_reads: f64,
}

impl Used {
    pub fn ask(process: u32, server: &mut Connection) -> Option<Self> {
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
            server_reads: of("total_reads_processed:")?,
            ..Self::default()
        };
        for thread in fs::read_dir(format!("/proc/{process}/task"))
            .ok()?
            .flatten()
        {
            // A thread may end at any time.
            let status = fs::read_to_string(thread.path().join("status")).unwrap_or_default();
            let of = |name: &str| number(&status, name).unwrap_or(0.0);
            used.own_switches += of("voluntary_ctxt_switches:");
            used.forced_switches += of("nonvoluntary_ctxt_switches:");
        }
        Some(used)
    }

    /// What was used since then, scaled to the length of a window.
    pub fn since(self, before: Self, scale: f64) -> Self {
        Self {
            user: (self.user - before.user) * scale,
            system: (self.system - before.system) * scale,
            own_switches: (self.own_switches - before.own_switches) * scale,
            forced_switches: (self.forced_switches - before.forced_switches) * scale,
            server: (self.server - before.server) * scale,
            server_reads: (self.server_reads - before.server_reads) * scale,
        }
    }

    pub fn with(self, other: Self) -> Self {
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
