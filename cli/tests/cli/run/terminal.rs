//! `leasehold run` at a terminal, as a job of an interactive shell.

use std::time::Duration;

use rexpect::session::PtyReplSession;

use super::{Over, delete, is_dead, text, time_to_live};
use crate::locks::{await_waiters, client, keys, plant};
use crate::program::PATH;
use crate::support::process::{is_stopped, signal};
use crate::support::server::Server;
use crate::support::timing::{A_WHILE, LEASE, SOON, eventually, eventually_some, throughout};

const ECHO: &str = "echo on; while read line; do echo \"got $line\"; done; exit 3";

// Scripts that start programs until they are stopped are bash's: other shells start them by vfork,
// and a child that is stopped in the middle of that keeps its parent from stopping.

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

    pub fn is_locked(&self) -> bool {
        time_to_live(&self.server, "k") > 0
    }

    /// Starts a command in the background, which ends with status 3 when it is over, and stops it.
    /// Returns the ids of its process and of the process of `leasehold`.
    pub fn stopped_in_the_background(&mut self, options: &str) -> [u32; 2] {
        let script = format!("echo pid $$ $PPID.; {}; exit 3", self.over.until());
        self.say(&format!("'{PATH}' run {options} k -- sh -c '{script}' &"));
        let [job, leasehold] = self.hear_pids();
        signal(job, "STOP");
        eventually("it to stop", || is_stopped(job));
        [job, leasehold]
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
    // In a pipeline it gets the terminal when it asks.
    shell.asks(&format!("run '{ECHO}' | cat"), "on");
    shell.asks("hello", "got hello");
    shell.control('d');
    shell.status(0);
}

#[test]
fn an_interactive_shell_is_a_command_as_every_other() {
    let mut shell = Shell::start();
    shell.asks(
        &format!("PS1='inner> ' '{PATH}' run k -- bash --norc -i"),
        "inner> ",
    );
    // Before that it is the shell that the key meets.
    shell.asks("sh -c 'echo asleep; exec sleep 100'", "asleep");
    shell.control('c');
    shell.hear("inner> ");
    shell.asks("echo $LEASEHOLD_KEY is mine", "k is mine");
    shell.say("exit 4");
    shell.status(4);
}

#[test]
fn ctrl_c_reaches_the_command() {
    let mut shell = Shell::start();
    let trap = "run 'trap \"exit 5\" INT; echo on; exec 2>/dev/null; while :; do sleep 0.02; done'";
    for (line, expected) in [
        ("run 'echo on; exec sleep 100'", 130),
        (trap, 5),
        (&format!("set -o pipefail; {trap} | (trap '' INT; cat)"), 5),
    ] {
        shell.asks(line, "on");
        shell.control('c');
        shell.ends(expected);
    }
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

/// The command does not ask for it, before or after it was stopped.
#[test]
fn in_a_pipeline_the_terminal_stays_with_a_neighbour_that_reads_it() {
    let mut shell = Shell::start();
    let script = format!("echo begin; {}", shell.over.until());
    let neighbour = "read said; echo \"heard $said.\"; while read typed; do echo \"got $typed.\"; done </dev/tty";
    shell.say(&format!(
        "'{PATH}' run k -- bash -c '{script}' | sh -c '{neighbour}'"
    ));
    shell.hear("heard begin.");
    shell.suspend();
    shell.asks("fg", "read typed");
    // The second is asked for when all that follows "fg" has happened.
    for line in ["hello", "again"] {
        shell.asks(line, &format!("got {line}."));
    }
    shell.over.create();
    shell.control('d');
    shell.status(0);
}

/// Programs that draw look for that.
#[test]
fn the_command_is_in_the_foreground_before_it_asks() {
    let mut shell = Shell::start();
    shell.run("until ps -o stat= -p $$ | grep -q +; do sleep 0.02; done; echo on");
    shell.status(0);
}

/// If the first stopped the second before that has stopped its job, the job would run on with a
/// lock that is not renewed.
#[test]
fn in_a_pipeline_each_lock_is_renewed_until_its_own_command_has_stopped() {
    let mut shell = Shell::start();
    let [first, second] = ["first", "second"].map(|name| shell.over.beside(name));
    shell.say(&format!(
        "run 'echo $PPID $$ >{}; exec sleep 100' | \
         '{PATH}' run other -- sh -c 'trap \"\" TSTP; echo $PPID $$ >{}; exec sleep 100'",
        first.display(),
        second.display()
    ));
    let [[first, job], [second, other_job]] = [first, second].map(|file| {
        eventually_some("the commands to run", || {
            let said = std::fs::read_to_string(&file).ok()?;
            let pids: Vec<u32> = said.split_whitespace().flat_map(str::parse).collect();
            <[u32; 2]>::try_from(pids).ok()
        })
    });
    shell.control('z');
    eventually("the first to stop", || is_stopped(first) && is_stopped(job));
    throughout(A_WHILE.get(), "the second renews", || !is_stopped(second));
    signal(other_job, "STOP");
    shell.hear("Stopped");
    assert!(is_stopped(second));
    shell.prompts();
    shell.say("fg");
    let runs = || !is_stopped(job) && !is_stopped(other_job);
    eventually("both to go on", runs);
    for job in [job, other_job] {
        signal(job, "KILL");
    }
    shell.ends(137);
}

#[test]
fn a_command_that_is_stopped_while_its_lock_is_lost_does_not_go_on() {
    let mut shell = Shell::start();
    // A job that reads before it has the terminal is stopped and continued. Then `read` of dash
    // fails, because CONT has a trap.
    shell.run("trap \"echo went on\" TERM CONT; echo on; while :; do read line; done");
    shell.suspend();
    delete(&shell.server, "k");
    shell.say("fg");
    let heard = shell.hear("its key was deleted");
    assert!(!heard.contains("went on"), "{heard}");
    shell.status(76);
}

/// Nothing renews the lock while `leasehold` is stopped.
#[test]
fn all_of_a_command_is_stopped_with_it() {
    let mut shell = Shell::start();
    let file = shell.over.beside("script");
    let worker = "(trap '' TSTP; echo pid $BASHPID.; while :; do sleep 0.02; done) & wait";
    std::fs::write(&file, worker).unwrap();
    shell.say(&format!("run 'exec bash {}'", file.display()));
    let [pid] = shell.hear_pids();
    shell.suspend();
    eventually("the worker to stop", || is_stopped(pid));
    shell.say("fg");
    eventually("the worker to go on", || !is_stopped(pid));
    shell.control('c');
    shell.status(130);
    signal(pid, "KILL");
}

/// It has the lock, but not the terminal, and stops when it wants that.
#[test]
fn a_command_in_the_background_gets_the_terminal_when_it_comes_forward() {
    let mut shell = Shell::start();
    shell.asks(&format!("run '{ECHO}' &"), "on");
    shell.say("echo \"pid $!.\"");
    let [pid] = shell.hear_pids();
    // Of jobs in the background a shell tells when it is ready for the next line.
    eventually("it to stop", || is_stopped(pid));
    shell.asks("", "Stopped");
    shell.asks("fg", "run");
    shell.asks("hello", "got hello");
    shell.control('d');
    shell.status(3);
}

/// The process that stopped it must continue it.
#[test]
fn a_background_command_that_another_process_stops_keeps_its_lock() {
    let mut shell = Shell::start();
    let options = format!("--lease {}", text(LEASE.get() * 3));
    let [job, leasehold] = shell.stopped_in_the_background(&options);
    let mut left = time_to_live(&shell.server, "k");
    eventually("a renewal", || {
        let before = std::mem::replace(&mut left, time_to_live(&shell.server, "k"));
        assert!(left > 0, "nothing renews it");
        left > before
    });
    assert!(is_stopped(job) && !is_stopped(leasehold));
    signal(job, "CONT");
    eventually("it to go on", || !is_stopped(job));
    shell.over.create();
    shell.says_status("wait $!; ", 3);
    assert!(keys(&shell.server).is_empty());
}

/// The shell does not know about that, and continues nothing.
#[test]
fn a_command_that_was_stopped_before_fg_can_be_ended() {
    let mut shell = Shell::start();
    let [job, leasehold] = shell.stopped_in_the_background("");
    shell.say("fg");
    eventually("it to come forward", || is_in_front(leasehold));
    shell.control('z');
    shell.hear("Stopped");
    assert!(is_stopped(leasehold));
    shell.prompts();
    shell.say("fg");
    let runs = || !is_stopped(job) && !is_stopped(leasehold);
    eventually("both to go on", runs);
    shell.over.create();
    shell.ends(3);
}

/// What is typed comes to its group.
fn is_in_front(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // After the name: state, parent, group, session, terminal, the group that has it.
    let (_, rest) = stat.rsplit_once(") ").unwrap();
    let fields: Vec<&str> = rest.split(' ').collect();
    fields[2] == fields[5]
}

/// It asked before it was given.
#[test]
fn a_command_that_asks_for_what_it_has_goes_on() {
    let mut shell = Shell::start();
    shell.say("run 'kill -s TTIN $$; echo went on'");
    let heard = shell.hear("went on");
    assert!(!heard.contains("Stopped"), "{heard}");
    shell.status(0);
}

#[test]
fn a_background_job_reports_a_loss_also_with_tostop() {
    let mut shell = Shell::start();
    shell.does("stty tostop");
    // Not verbose: it is to have written nothing before.
    shell.say("run 'exec sleep 100 >/dev/null 2>&1' &");
    eventually("the lock", || shell.is_locked());
    shell.prompts();
    delete(&shell.server, "k");
    shell.hear("its key was deleted");
    shell.says_status("wait %1; ", 76);
}

#[test]
fn the_terminal_is_set_as_it_was_after_a_command_that_was_killed() {
    let mut shell = Shell::start();
    let file = shell.over.beside("script");
    // An interactive shell would set it itself.
    let script = format!(
        "'{PATH}' run k -- sh -c 'stty -echo -icanon; kill -s KILL $$'\n\
         echo \"status=$?, $(stty -a | grep -c -e -icanon).\"\n"
    );
    std::fs::write(&file, script).unwrap();
    shell.asks(&format!("sh {}", file.display()), "status=137, 0.");
}

/// The shell has it already, because it saw us stop.
#[test]
fn the_terminal_of_a_shell_is_left_to_it() {
    let mut shell = Shell::start();
    let script = format!("echo pid $PPID.; {}", shell.over.until());
    shell.say(&format!("run '{script}'"));
    let [pid] = shell.hear_pids();
    signal(pid, "STOP");
    shell.hear("Stopped");
    shell.prompts();
    shell.does("bg");
    shell.over.create();
    eventually("the end", || is_dead(pid));
    shell.asks("echo still $((40 + 2))", "still 42");
}

/// Its shell has gone, and it is in the background.
#[test]
fn a_command_that_no_shell_gives_the_terminal_is_asked_to_end() {
    let mut shell = Shell::start();
    shell.say("(run 'read line </dev/tty; echo unreachable' &)");
    eventually("the lock", || shell.is_locked());
    eventually("its end", || keys(&shell.server).is_empty());
}

#[test]
fn a_message_from_the_background_does_not_erase_the_line_of_the_shell() {
    let mut shell = Shell::start();
    plant(&shell.server, "k");
    shell.asks(
        &format!("export TERM=xterm; {PATH} -v run k -- true"),
        "for 1s",
    );
    shell.control('z');
    shell.prompts();
    shell.does("bg");
    client(&shell.server).force_unlock("k").unwrap();
    let before = shell.hear("acquired lock");
    assert!(!before.contains("\x1b[K"), "{before:?}");
}

/// The terminal shows the shell's line then.
#[test]
fn a_wait_in_the_background_shows_no_line() {
    let mut shell = Shell::start();
    plant(&shell.server, "k");
    shell.say("export TERM=xterm; run 'echo ran' &");
    await_waiters(&shell.server, "k", 1);
    // Longer than it takes a wait in the foreground to show its line.
    let period = Duration::from_millis(1_500);
    throughout(period, "it waits", || shell.is_locked());
    shell.say("echo over; fg");
    let before = shell.hear("over");
    assert!(!before.contains("waiting"), "{before}");
    shell.hear("waiting for lock");
    shell.control('c');
    shell.status(130);
}
