//! `leasehold run` at a terminal, as a job of an interactive shell.

use rexpect::session::PtyReplSession;

use super::Over;
use crate::locks::keys;
use crate::program::PATH;
use crate::support::process::{is_stopped, signal};
use crate::support::server::Server;
use crate::support::timing::{A_WHILE, SOON, eventually, throughout};

const ECHO: &str = "echo on; while read line; do echo \"got $line\"; done; exit 3";

/// A shell that knows a server; its function `run SCRIPT` is the command with the lock `k`.
pub struct Shell {
    session: PtyReplSession,
    pub server: Server,
    /// For scripts.
    pub over: Over,
}

impl Shell {
    pub fn start() -> Self {
        crate::program::restore_signals();
        let time = u64::try_from(SOON.get().as_millis()).unwrap();
        let session = rexpect::spawn_bash(Some(time)).expect("bash is installed");
        let mut shell = Self {
            session: session.quit_command(Some("exit".into())),
            server: Server::start(),
            over: Over::new(),
        };
        let url = shell.server.url();
        shell.does(&format!(
            "export LEASEHOLD_URL='{url}'; run() {{ '{PATH}' run k -- sh -c \"$1\"; }}"
        ));
        shell
    }

    #[track_caller]
    pub fn say(&mut self, line: &str) {
        self.session.send_line(line).unwrap();
    }

    /// Says a line, and waits for the prompt after it.
    #[track_caller]
    pub fn does(&mut self, line: &str) {
        self.say(line);
        self.prompts();
    }

    /// Runs a script that says `on`.
    #[track_caller]
    pub fn run(&mut self, script: &str) {
        self.asks(&format!("run '{script}'"), "on");
    }

    /// Says a line, waits for an answer, and returns what was written before.
    #[track_caller]
    pub fn asks(&mut self, line: &str, answer: &str) -> String {
        self.say(line);
        self.hear(answer)
    }

    /// Waits for a text, and returns what was written before.
    #[track_caller]
    pub fn hear(&mut self, text: &str) -> String {
        self.session.exp_string(text).unwrap()
    }

    /// The numbers that are written between `pid ` and a full stop.
    #[track_caller]
    pub fn hear_pids<const N: usize>(&mut self) -> [u32; N] {
        self.hear("pid ");
        let told = self.hear(".");
        let pids: Vec<u32> = told.split_whitespace().flat_map(str::parse).collect();
        pids.try_into().unwrap_or_else(|_| panic!("{told}"))
    }

    /// Types a key together with Ctrl.
    #[track_caller]
    pub fn control(&mut self, key: char) {
        self.session.send_control(key).unwrap();
    }

    #[track_caller]
    pub fn prompts(&mut self) {
        self.session.wait_for_prompt().unwrap();
    }

    /// Stops the command, and waits for the shell.
    #[track_caller]
    pub fn suspend(&mut self) {
        self.control('z');
        self.hear("Stopped");
        self.prompts();
    }

    /// The shell has the terminal again, and the last command ended with this status.
    #[track_caller]
    pub fn status(&mut self, expected: i32) {
        self.prompts();
        self.says_status("", expected);
        self.prompts();
    }

    /// After this part of a line, the status is the expected one.
    #[track_caller]
    pub fn says_status(&mut self, commands: &str, expected: i32) {
        self.asks(&format!("{commands}echo \"status=$?.\""), "status=");
        assert_eq!(self.hear("."), expected.to_string());
    }

    /// The last command ended with this status, and the lock is free.
    #[track_caller]
    pub fn ends(&mut self, expected: i32) {
        self.status(expected);
        assert!(keys(&self.server).is_empty());
    }
}

#[test]
fn the_command_reads_what_is_typed() {
    let mut shell = Shell::start();
    for script in [ECHO, &format!("exec 0</dev/tty; {ECHO}")] {
        shell.run(script);
        shell.asks("hello", "got hello");
        shell.control('d');
        shell.ends(3);
    }
    shell.asks(&format!("run '{ECHO}' | cat"), "on");
    shell.asks("hello", "got hello");
    shell.control('d');
    shell.status(0);
}

/// The terminal sends the signal to `leasehold` and to the command, which gets it once.
#[test]
fn ctrl_c_reaches_the_command() {
    let mut shell = Shell::start();
    let counts = "run 'n=0; trap \"n=\\$((n+1))\" INT; echo on; exec 2>/dev/null; \
                  while [ $n = 0 ]; do sleep 0.02; done; sleep 0.2; exit $n'";
    for (line, expected) in [
        ("run 'echo on; exec sleep 100'", 130),
        (counts, 1),
        (
            &format!("set -o pipefail; {counts} | (trap '' INT; cat)"),
            1,
        ),
    ] {
        shell.asks(line, "on");
        shell.control('c');
        shell.ends(expected);
    }
}

#[test]
fn a_signal_for_leasehold_alone_reaches_the_command() {
    let mut shell = Shell::start();
    let script = "trap \"exit 5\" TERM; echo pid $PPID.; while :; do sleep 0.02; done";
    shell.say(&format!("run '{script}'"));
    let [leasehold] = shell.hear_pids();
    signal(leasehold, "TERM");
    shell.ends(5);
}

/// What is typed comes to its group.
fn is_in_front(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // After the name: state, parent, group, session, terminal, the group that has it.
    let (_, rest) = stat.rsplit_once(") ").unwrap();
    let fields: Vec<&str> = rest.split(' ').collect();
    fields[2] == fields[5]
}

/// Ctrl-Z would stop `leasehold` alone: the command has a process group of its own.
#[test]
fn a_command_of_the_background_is_ended_in_the_foreground_but_not_stopped() {
    let mut shell = Shell::start();
    // Not by the function, whose own process Ctrl-Z would stop.
    let script = "echo pid $PPID.; exec sleep 100";
    shell.say(&format!("'{PATH}' run k -- sh -c '{script}' &"));
    let [leasehold] = shell.hear_pids();
    // The prompt may have come before or after the number.
    shell.asks("echo ready-$((40 + 2))", "ready-42");
    shell.prompts();
    shell.say("fg");
    eventually("it to come forward", || is_in_front(leasehold));
    shell.control('z');
    throughout(A_WHILE.get(), "it runs", || !is_stopped(leasehold));
    shell.control('c');
    shell.ends(130);
}

#[test]
fn a_command_that_is_stopped_goes_on_later() {
    let mut shell = Shell::start();
    for (pipe, status) in [("", 3), (" | cat", 0)] {
        shell.asks(&format!("run '{ECHO}'{pipe}"), "on");
        shell.asks("one", "got one");
        shell.suspend();
        shell.say("fg");
        // What is typed belongs to the shell until it has continued the job.
        shell.hear("run");
        shell.asks("two", "got two");
        shell.control('d');
        shell.ends(status);
    }
}
