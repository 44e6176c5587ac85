//! Real processes: the test binary runs itself again, in a role.
//!
//! A role is a function. It sends lines to its parent on its output, and gets its input as
//! arguments and as lines on its input.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Instant;

use crossbeam_channel::{Receiver, unbounded};

use super::process;
use super::timing::{LONGEST_TEST, SOON, eventually, millis};
use crate::{
    condition, deployments, fair, faults, fencing, hand_over, leased_semaphore, lifetime, limits,
    multi, mutual_exclusion, read_write, redlock, tls, watchdog, wire,
};

const ROLE: &str = "LEASEHOLD_TEST_ROLE";
const ARGUMENTS: &str = "LEASEHOLD_TEST_ARGUMENTS";

/// The prefix of every line to the parent, because the test harness writes to the same output.
const MARK: &str = "child> ";

type Role = fn(&[&str]);

const ROLES: &[(&str, Role)] = &[
    ("hold", wire::hold),
    ("hold_read_write", read_write::hold),
    ("increment", mutual_exclusion::increment),
    ("share", limits::fairness::share),
    ("hang", limits::hang::hang),
    #[cfg(target_os = "linux")]
    ("without_threads", limits::threads::without_threads),
    ("shut_down", lifetime::shutdown::shut_down),
    ("many_pairs", limits::growth::many_pairs),
    (
        "many_abandoned_leases",
        limits::growth::many_abandoned_leases,
    ),
    ("many_receivers", limits::growth::many_receivers),
    ("many_locks", watchdog::many_locks),
    ("wait_in_queue", fair::wait_in_queue),
    ("wait_together", fair::wait_together),
    ("take_tokens", fencing::take_tokens),
    ("take_in_order", multi::take_in_order),
    ("share_majority", redlock::share_majority),
    ("hold_majority", redlock::hold_majority),
    (
        "wait_on_a_condition",
        condition::processes::wait_on_a_condition,
    ),
    ("keep_busy", hand_over::keep_busy),
    ("linger", hand_over::linger::linger),
    ("hold_and_queue", faults::killed::hold_and_queue),
    ("pause_for_two_leases", faults::paused::pause_for_two_leases),
    ("log_scenario", faults::blocking_log::log_scenario),
    ("stepped_clock", faults::clock::stepped_clock),
    ("fork_a_holder", faults::fork::fork_a_holder),
    ("fork_a_busy_client", faults::fork::fork_a_busy_client),
    (
        "fork_with_an_interrupt",
        faults::fork::interrupt::fork_with_an_interrupt,
    ),
    #[cfg(target_os = "linux")]
    (
        "fork_into_a_namespace",
        faults::fork::namespace::fork_into_a_namespace,
    ),
    (
        "without_descriptors",
        faults::failed_connects::without_descriptors,
    ),
    ("trust_the_system", tls::system::trust_the_system),
    ("leave_servers", deployments::leave_servers),
    ("hold_permits", leased_semaphore::processes::hold_permits),
    ("many_failovers", deployments::many_failovers),
];

/// Not a test: the entry point of child processes.
#[test]
fn run() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let arguments = std::env::var(ARGUMENTS).expect("set with the role");
    let arguments: Vec<&str> = arguments.split('\n').collect();
    let (_, play) = ROLES
        .iter()
        .find(|(name, _)| *name == role)
        .expect("a known role");
    play(&arguments);
}

/// In a child: sends a line to the parent.
pub fn send_line(line: impl std::fmt::Display) {
    let mut out = std::io::stdout().lock();
    // The harness may have written an incomplete line.
    writeln!(out, "\n{MARK}{line}").expect("the parent listens");
    out.flush().expect("the parent listens");
}

/// In a child: waits for the parent's next line.
pub fn read_line() -> String {
    let mut line = String::new();
    std::io::stdin()
        .read_line(&mut line)
        .expect("the parent lives");
    line.trim().to_owned()
}

fn myself() -> PathBuf {
    std::env::current_exe().expect("a test binary")
}

/// A child process. Killed when dropped.
pub struct Process {
    role: &'static str,
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
}

impl Process {
    pub fn start(role: &'static str, arguments: &[&str]) -> Self {
        Self::start_in(role, arguments, Vec::new())
    }

    /// With these environment variables.
    pub fn start_in(
        role: &'static str,
        arguments: &[&str],
        environment: Vec<(&'static str, String)>,
    ) -> Self {
        Self::spawn(Command::new(myself()), role, arguments, environment)
    }

    /// Started by this program, whose last argument is followed by the command to run.
    pub fn start_under(launcher: &[&str], role: &'static str, arguments: &[&str]) -> Self {
        let mut command = Command::new(launcher[0]);
        command.args(&launcher[1..]).arg(myself());
        Self::spawn(command, role, arguments, Vec::new())
    }

    fn spawn(
        mut command: Command,
        role: &'static str,
        arguments: &[&str],
        environment: Vec<(&'static str, String)>,
    ) -> Self {
        let mut child = command
            .args(["support::child::run", "--exact", "--nocapture"])
            .env(ROLE, role)
            .env(ARGUMENTS, arguments.join("\n"))
            .envs(environment)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the test binary can be run again");
        let input = child.stdin.take().expect("piped");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let (sender, lines) = unbounded();
        // Ends with the child's output.
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if let Some(line) = line.strip_prefix(MARK) {
                    let _ = sender.send(line.to_owned());
                }
            }
        });
        Self {
            role,
            child,
            input,
            lines,
        }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The next line from the child.
    #[track_caller]
    pub fn read_line(&self) -> String {
        let line = self.lines.recv_timeout(SOON.get());
        line.unwrap_or_else(|_| panic!("{} sent no line; its errors are above", self.role))
    }

    pub fn send_line(&mut self, line: &str) {
        writeln!(self.input, "{line}").expect("the child lives");
    }

    /// Kills the child, which runs no destructor.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub fn signal(&self, name: &str) {
        process::signal(self.child.id(), name);
    }

    /// Stops the child until it is sent `CONT`.
    pub fn pause(&self) {
        self.signal("STOP");
        eventually("the child to stop", || process::is_stopped(self.child.id()));
    }

    pub fn resume(&self) {
        self.signal("CONT");
    }

    pub fn is_over(&mut self) -> bool {
        self.child.try_wait().expect("a child of ours").is_some()
    }

    /// Waits for its end, which must be a success, and returns the lines that it sent.
    #[track_caller]
    pub fn finish(mut self) -> Vec<String> {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("a child of ours") {
                break status;
            }
            assert!(
                start.elapsed() < LONGEST_TEST.get(),
                "{} does not end",
                self.role
            );
            std::thread::sleep(millis(5));
        };
        assert!(
            status.success(),
            "{} failed; its errors are above",
            self.role
        );
        self.lines.iter().collect()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Runs a role in its own process, where no threads of other tests are counted.
#[track_caller]
pub fn run_role(role: &'static str, arguments: &[&str]) -> Vec<String> {
    Process::start(role, arguments).finish()
}
