//! Real processes: the test binary runs itself again, in a role. A role is a function.

use std::process::Command;

pub use super::child_process::{Process, read_line, send_line};
use super::child_process::{myself, role};
use crate::{
    condition, deployments, faults, lifetime, limits, mutual_exclusion, replicas, tls, wire,
};

const ENTRY: &str = "support::child::run";

type Role = fn(&[&str]);

const ROLES: &[(&str, Role)] = &[
    ("hold", wire::hold),
    ("increment", mutual_exclusion::increment),
    #[cfg(target_os = "linux")]
    ("without_threads", limits::threads::without_threads),
    #[cfg(target_os = "linux")]
    (
        "without_descriptors",
        faults::failed_connects::watchdog::without_descriptors,
    ),
    ("shut_down", lifetime::shutdown::shut_down),
    #[cfg(target_os = "linux")]
    ("drop_a_pool", replicas::drop_a_pool),
    ("many_pairs", limits::growth::many_pairs),
    (
        "wait_on_a_condition",
        condition::processes::wait_on_a_condition,
    ),
    ("hold_and_queue", faults::killed::hold_and_queue),
    ("pause_for_two_leases", faults::paused::pause_for_two_leases),
    ("write_late", faults::paused::write_late),
    ("log_scenario", faults::blocking_log::log_scenario),
    ("fork_a_holder", faults::fork::fork_a_holder),
    (
        "fork_with_an_interrupt",
        faults::fork::fork_with_an_interrupt,
    ),
    ("fork_a_busy_client", faults::fork::fork_a_busy_client),
    #[cfg(target_os = "linux")]
    (
        "fork_into_a_namespace",
        faults::fork::namespace::fork_into_a_namespace,
    ),
    #[cfg(target_os = "linux")]
    (
        "fork_after_a_redlock",
        faults::fork::wakers::fork_after_a_redlock,
    ),
    ("trust_the_system", tls::system::trust_the_system),
    ("many_failovers", deployments::many_failovers),
];

/// Not a test: the entry point of child processes.
#[test]
fn run() {
    let Some((role, arguments)) = role() else {
        return;
    };
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut roles = ROLES.iter();
    let (_, play) = roles.find(|(name, _)| *name == role).expect("a known role");
    play(&arguments);
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
        Self::spawn(Command::new(myself()), ENTRY, role, arguments, environment)
    }

    /// Started by this program, whose last argument is followed by the command to run.
    pub fn start_under(launcher: &[&str], role: &'static str, arguments: &[&str]) -> Self {
        let mut command = Command::new(launcher[0]);
        command.args(&launcher[1..]).arg(myself());
        Self::spawn(command, ENTRY, role, arguments, Vec::new())
    }
}

/// The arguments of a role, of which it knows the number.
pub fn named<'a, const N: usize>(arguments: &[&'a str]) -> [&'a str; N] {
    arguments.try_into().expect("as many as the role has")
}

/// Runs a role in its own process, where no threads of other tests are counted.
#[track_caller]
pub fn run_role(role: &'static str, arguments: &[&str]) -> Vec<String> {
    Process::start(role, arguments).finish()
}
