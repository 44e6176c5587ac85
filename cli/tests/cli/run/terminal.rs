//! `leasehold run` at a terminal, as a job of an interactive shell.

use std::path::Path;
use std::time::Duration;

use rexpect::session::PtyReplSession;

use super::{delete, is_dead, keys, over, text, time_to_live};
use crate::program::PATH;
use crate::support::process::{is_stopped, signal};
use crate::support::server::Server;
use crate::support::timing::{A_WHILE, LEASE, SOON, eventually, eventually_some, throughout};

/// A shell that knows the server; `run SCRIPT` is the command with the lock `k`.
fn shell(server: &Server) -> PtyReplSession {
    crate::program::restore_signals();
    let time = u64::try_from(SOON.get().as_millis()).unwrap();
    let shell = rexpect::spawn_bash(Some(time)).expect("bash is installed");
    let mut shell = shell.quit_command(Some("exit".into()));
    let set_up = format!(
        "export LEASEHOLD_URL='{}'; run() {{ '{PATH}' run k -- sh -c \"$1\"; }}",
        server.url()
    );
    say(&mut shell, &set_up);
    shell.wait_for_prompt().unwrap();
    shell
}

// Scripts that start programs until they are stopped are bash's: other shells start them by vfork,
// and a child that is stopped in the middle of that keeps its parent from stopping.

#[track_caller]
fn say(shell: &mut PtyReplSession, line: &str) {
    shell.send_line(line).unwrap();
}

#[track_caller]
fn hear(shell: &mut PtyReplSession, text: &str) -> String {
    shell.exp_string(text).unwrap()
}

/// The status of the last command, when the shell has the terminal again.
#[track_caller]
fn status(shell: &mut PtyReplSession) -> i32 {
    shell.wait_for_prompt().unwrap();
    say(shell, "echo \"status=$?.\"");
    hear(shell, "status=");
    let status = hear(shell, ".");
    shell.wait_for_prompt().unwrap();
    status.parse().unwrap()
}

/// Stops the command, and waits for the shell.
#[track_caller]
fn suspend(shell: &mut PtyReplSession) {
    shell.send_control('z').unwrap();
    hear(shell, "Stopped");
    shell.wait_for_prompt().unwrap();
}

const ECHO: &str = "echo on; while read line; do echo \"got $line\"; done; exit 3";

#[test]
fn the_command_reads_what_is_typed() {
    let server = Server::start();
    let mut shell = shell(&server);
    for script in [
        ECHO,
        "exec 0</dev/tty; echo on; while read line; do echo \"got $line\"; done; exit 3",
    ] {
        say(&mut shell, &format!("run '{script}'"));
        hear(&mut shell, "on");
        say(&mut shell, "hello");
        hear(&mut shell, "got hello");
        shell.send_control('d').unwrap();
        assert_eq!(status(&mut shell), 3);
        assert!(keys(&server).is_empty());
    }
}

#[test]
fn in_a_pipeline_the_command_gets_the_terminal_when_it_asks() {
    let server = Server::start();
    let mut shell = shell(&server);
    say(&mut shell, &format!("run '{ECHO}' | cat"));
    hear(&mut shell, "on");
    say(&mut shell, "hello");
    hear(&mut shell, "got hello");
    shell.send_control('d').unwrap();
    assert_eq!(status(&mut shell), 0);
}

#[test]
fn an_interactive_shell_is_a_command_as_every_other() {
    let server = Server::start();
    let mut shell = shell(&server);
    say(
        &mut shell,
        &format!("PS1='inner> ' '{PATH}' run k -- bash --norc -i"),
    );
    hear(&mut shell, "inner> ");
    // Before that it is the shell that the key meets.
    say(&mut shell, "sh -c 'echo asleep; exec sleep 100'");
    hear(&mut shell, "asleep");
    shell.send_control('c').unwrap();
    hear(&mut shell, "inner> ");
    say(&mut shell, "echo $LEASEHOLD_KEY is mine");
    hear(&mut shell, "k is mine");
    say(&mut shell, "exit 4");
    assert_eq!(status(&mut shell), 4);
}

#[test]
fn ctrl_c_reaches_the_command() {
    let server = Server::start();
    let mut shell = shell(&server);
    for (line, expected) in [
        ("run 'echo on; exec sleep 100'", 130),
        (
            "run 'trap \"exit 5\" INT; echo on; exec 2>/dev/null; while :; do sleep 0.02; done'",
            5,
        ),
        (
            "set -o pipefail; run 'trap \"exit 5\" INT; echo on; exec 2>/dev/null; while :; do \
             sleep 0.02; done' | (trap '' INT; cat)",
            5,
        ),
    ] {
        say(&mut shell, line);
        hear(&mut shell, "on");
        shell.send_control('c').unwrap();
        assert_eq!(status(&mut shell), expected, "{line}");
        assert!(keys(&server).is_empty());
    }
}

#[test]
fn a_command_that_is_stopped_goes_on_later() {
    let server = Server::start();
    let mut shell = shell(&server);
    for pipe in ["", " | cat"] {
        say(&mut shell, &format!("run '{ECHO}'{pipe}"));
        hear(&mut shell, "on");
        say(&mut shell, "one");
        hear(&mut shell, "got one");
        suspend(&mut shell);
        say(&mut shell, "fg");
        // What is typed belongs to the shell until it has continued the job.
        hear(&mut shell, "run");
        say(&mut shell, "two");
        hear(&mut shell, "got two");
        shell.send_control('d').unwrap();
        let expected = if pipe.is_empty() { 3 } else { 0 };
        assert_eq!(status(&mut shell), expected);
        assert!(keys(&server).is_empty());
    }
}

/// The command does not ask for it, before or after it was stopped.
#[test]
fn in_a_pipeline_the_terminal_stays_with_a_neighbour_that_reads_it() {
    let server = Server::start();
    let (_directory, over) = over();
    let file = over.display();
    let mut shell = shell(&server);
    let script = format!("echo begin; while [ ! -e {file} ]; do sleep 0.02; done");
    let neighbour = "read said; echo \"heard $said.\"; while read typed; do echo \"got $typed.\"; done </dev/tty";
    say(
        &mut shell,
        &format!("'{PATH}' run k -- bash -c '{script}' | sh -c '{neighbour}'"),
    );
    hear(&mut shell, "heard begin.");
    suspend(&mut shell);
    say(&mut shell, "fg");
    hear(&mut shell, "read typed");
    // The second is asked for when all that follows "fg" has happened.
    for line in ["hello", "again"] {
        say(&mut shell, line);
        hear(&mut shell, &format!("got {line}."));
    }
    std::fs::write(&over, "").unwrap();
    shell.send_control('d').unwrap();
    assert_eq!(status(&mut shell), 0);
}

/// Programs that draw look for that.
#[test]
fn the_command_is_in_the_foreground_before_it_asks() {
    let server = Server::start();
    let mut shell = shell(&server);
    let script = "until ps -o stat= -p $$ | grep -q +; do sleep 0.02; done; echo forward";
    say(&mut shell, &format!("run '{script}'"));
    hear(&mut shell, "forward");
    assert_eq!(status(&mut shell), 0);
}

/// If the first stopped the second before that has stopped its job, the job would run on with a
/// lock that is not renewed.
#[test]
fn in_a_pipeline_each_lock_is_renewed_until_its_own_command_has_stopped() {
    let server = Server::start();
    let directory = tempfile::tempdir().unwrap();
    let [first, second] = ["first", "second"].map(|name| directory.path().join(name));
    let mut shell = shell(&server);
    let line = format!(
        "run 'echo $PPID $$ >{}; exec sleep 100' | \
         '{PATH}' run other -- sh -c 'trap \"\" TSTP; echo $PPID $$ >{}; exec sleep 100'",
        first.display(),
        second.display()
    );
    say(&mut shell, &line);
    let [[first, job], [second, other_job]] = [first, second].map(|file| {
        eventually_some("the commands to run", || {
            let said = std::fs::read_to_string(&file).ok()?;
            let pids: Vec<u32> = said.split_whitespace().flat_map(str::parse).collect();
            <[u32; 2]>::try_from(pids).ok()
        })
    });
    shell.send_control('z').unwrap();
    eventually("the first to stop", || is_stopped(first) && is_stopped(job));
    throughout(A_WHILE.get(), "the second renews", || !is_stopped(second));
    signal(other_job, "STOP");
    hear(&mut shell, "Stopped");
    assert!(is_stopped(second));
    shell.wait_for_prompt().unwrap();
    say(&mut shell, "fg");
    eventually("both to go on", || {
        !is_stopped(job) && !is_stopped(other_job)
    });
    for job in [job, other_job] {
        signal(job, "KILL");
    }
    assert_eq!(status(&mut shell), 137);
    assert!(keys(&server).is_empty());
}

/// The terminal is not its own, so the signal comes to another.
#[test]
fn a_command_in_a_pipeline_is_stopped_although_it_reads_nothing() {
    let server = Server::start();
    let (_directory, over) = over();
    let file = over.display();
    let mut shell = shell(&server);
    let script = format!("echo pid $$.; while [ ! -e {file} ]; do sleep 0.02; done; echo off");
    // Not by the function: a shell that runs one in a pipeline is stopped before the program is.
    say(
        &mut shell,
        &format!("'{PATH}' run k -- bash -c '{script}' | cat"),
    );
    hear(&mut shell, "pid ");
    let pid = hear(&mut shell, ".").parse().unwrap();
    shell.send_control('z').unwrap();
    hear(&mut shell, "Stopped");
    assert!(is_stopped(pid));
    shell.wait_for_prompt().unwrap();
    say(&mut shell, "fg");
    std::fs::write(&over, "").unwrap();
    hear(&mut shell, "off");
    assert_eq!(status(&mut shell), 0);
}

#[test]
fn a_command_that_is_stopped_goes_on_in_the_background() {
    let server = Server::start();
    let (_directory, over) = over();
    let file = over.display();
    let mut shell = shell(&server);
    // Quotes of the shell's own are around it.
    let script = format!("echo on; while [ ! -e {file} ]; do sleep 0.02; done; echo off");
    say(&mut shell, &format!("run 'exec bash -c \"{script}\"'"));
    hear(&mut shell, "on");
    suspend(&mut shell);
    say(&mut shell, "bg");
    std::fs::write(&over, "").unwrap();
    hear(&mut shell, "off");
    eventually("the lock to be released", || keys(&server).is_empty());
}

#[test]
fn a_command_that_is_stopped_while_its_lock_is_lost_does_not_go_on() {
    let server = Server::start();
    let mut shell = shell(&server);
    say(
        &mut shell,
        // A job that reads before it has the terminal is stopped and continued. Then `read` of dash
        // fails, because CONT has a trap.
        "run 'trap \"echo went on\" TERM CONT; echo on; while :; do read line; done'",
    );
    hear(&mut shell, "on");
    suspend(&mut shell);
    delete(&server, "k");
    say(&mut shell, "fg");
    let heard = hear(&mut shell, "its key was deleted");
    assert!(!heard.contains("went on"), "{heard}");
    shell.wait_for_prompt().unwrap();
    say(&mut shell, "echo \"status=$?.\"");
    hear(&mut shell, "status=76.");
}

/// Nothing renews the lock while `leasehold` is stopped.
#[test]
fn all_of_a_command_is_stopped_with_it() {
    let server = Server::start();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("script");
    let worker = "(trap '' TSTP; echo pid $BASHPID.; while :; do sleep 0.02; done) & wait";
    std::fs::write(&file, worker).unwrap();
    let mut shell = shell(&server);
    say(&mut shell, &format!("run 'exec bash {}'", file.display()));
    hear(&mut shell, "pid ");
    let pid = hear(&mut shell, ".").parse().expect("a number");
    suspend(&mut shell);
    eventually("the worker to stop", || is_stopped(pid));
    say(&mut shell, "fg");
    eventually("the worker to go on", || !is_stopped(pid));
    shell.send_control('c').unwrap();
    assert_eq!(status(&mut shell), 130);
    signal(pid, "KILL");
}

/// It has the lock, but not the terminal, and stops when it wants that.
#[test]
fn a_command_in_the_background_gets_the_terminal_when_it_comes_forward() {
    let server = Server::start();
    let mut shell = shell(&server);
    say(&mut shell, &format!("run '{ECHO}' &"));
    hear(&mut shell, "on");
    say(&mut shell, "echo \"pid $!.\"");
    hear(&mut shell, "pid ");
    let pid = hear(&mut shell, ".").parse().unwrap();
    // Of jobs in the background a shell tells when it is ready for the next line.
    eventually("it to stop", || is_stopped(pid));
    say(&mut shell, "");
    hear(&mut shell, "Stopped");
    say(&mut shell, "fg");
    hear(&mut shell, "run");
    say(&mut shell, "hello");
    hear(&mut shell, "got hello");
    shell.send_control('d').unwrap();
    assert_eq!(status(&mut shell), 3);
}

/// Starts a command in the background, which ends with status 3 when the file is there, and stops
/// it. Returns the ids of its process and of the process of `leasehold`.
fn stopped_in_the_background(shell: &mut PtyReplSession, options: &str, over: &Path) -> (u32, u32) {
    let script = format!(
        "echo pids $$ $PPID.; while [ ! -e {} ]; do sleep 0.02; done; exit 3",
        over.display()
    );
    say(
        shell,
        &format!("'{PATH}' run {options} k -- sh -c '{script}' &"),
    );
    hear(shell, "pids ");
    let told = hear(shell, ".");
    let pids: Vec<u32> = told.split_whitespace().flat_map(str::parse).collect();
    let [job, leasehold] = pids[..] else {
        panic!("{told}");
    };
    signal(job, "STOP");
    eventually("it to stop", || is_stopped(job));
    (job, leasehold)
}

/// The process that stopped it must continue it.
#[test]
fn a_background_command_that_another_process_stops_keeps_its_lock() {
    let server = Server::start();
    let (_directory, over) = over();
    let mut shell = shell(&server);
    let options = format!("--lease {}", text(LEASE.get() * 3));
    let (job, leasehold) = stopped_in_the_background(&mut shell, &options, &over);
    let mut left = time_to_live(&server, "k");
    eventually("a renewal", || {
        let before = std::mem::replace(&mut left, time_to_live(&server, "k"));
        assert!(left > 0, "nothing renews it");
        left > before
    });
    assert!(is_stopped(job) && !is_stopped(leasehold));
    signal(job, "CONT");
    eventually("it to go on", || !is_stopped(job));
    std::fs::write(&over, "").unwrap();
    say(&mut shell, "wait $!; echo \"status=$?.\"");
    hear(&mut shell, "status=3.");
    assert!(keys(&server).is_empty());
}

/// The shell does not know about that, and continues nothing.
#[test]
fn a_command_that_was_stopped_before_fg_can_be_ended() {
    let server = Server::start();
    let (_directory, over) = over();
    let mut shell = shell(&server);
    let (job, leasehold) = stopped_in_the_background(&mut shell, "", &over);
    say(&mut shell, "fg");
    eventually("it to come forward", || is_in_front(leasehold));
    shell.send_control('z').unwrap();
    hear(&mut shell, "Stopped");
    assert!(is_stopped(leasehold));
    shell.wait_for_prompt().unwrap();
    say(&mut shell, "fg");
    eventually("both to go on", || {
        !is_stopped(job) && !is_stopped(leasehold)
    });
    std::fs::write(&over, "").unwrap();
    assert_eq!(status(&mut shell), 3);
    assert!(keys(&server).is_empty());
}

/// To end itself it has to go on.
#[test]
fn a_command_that_was_stopped_before_fg_is_ended_by_ctrl_c() {
    let server = Server::start();
    let directory = tempfile::tempdir().unwrap();
    let mut shell = shell(&server);
    let never = directory.path().join("over");
    let (_, leasehold) = stopped_in_the_background(&mut shell, "", &never);
    say(&mut shell, "fg");
    eventually("it to come forward", || is_in_front(leasehold));
    shell.send_control('c').unwrap();
    assert_eq!(status(&mut shell), 130);
    assert!(keys(&server).is_empty());
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
    let server = Server::start();
    let mut shell = shell(&server);
    say(&mut shell, "run 'kill -s TTIN $$; echo went on'");
    let heard = hear(&mut shell, "went on");
    assert!(!heard.contains("Stopped"), "{heard}");
    assert_eq!(status(&mut shell), 0);
}

#[test]
fn a_background_job_reports_a_loss_also_with_tostop() {
    let server = Server::start();
    let mut shell = shell(&server);
    say(&mut shell, "stty tostop");
    shell.wait_for_prompt().unwrap();
    // Not verbose: it is to have written nothing before.
    say(&mut shell, "run 'exec sleep 100 >/dev/null 2>&1' &");
    eventually("the lock", || time_to_live(&server, "k") > 0);
    shell.wait_for_prompt().unwrap();
    delete(&server, "k");
    hear(&mut shell, "its key was deleted");
    say(&mut shell, "wait %1; echo \"status=$?.\"");
    hear(&mut shell, "status=76.");
}

#[test]
fn the_terminal_is_set_as_it_was_after_a_command_that_was_killed() {
    let server = Server::start();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("script");
    // An interactive shell would set it itself.
    let script = format!(
        "'{PATH}' run k -- sh -c 'stty -echo -icanon; kill -s KILL $$'\n\
         echo \"status=$?, $(stty -a | grep -c -e -icanon).\"\n"
    );
    std::fs::write(&file, script).unwrap();
    let mut shell = shell(&server);
    say(&mut shell, &format!("sh {}", file.display()));
    hear(&mut shell, "status=137, 0.");
}

/// The shell has it already, because it saw us stop.
#[test]
fn the_terminal_of_a_shell_is_left_to_it() {
    let server = Server::start();
    let (_directory, over) = over();
    let file = over.display();
    let mut shell = shell(&server);
    let script = format!("echo pid $PPID.; while [ ! -e {file} ]; do sleep 0.02; done");
    say(&mut shell, &format!("run '{script}'"));
    hear(&mut shell, "pid ");
    let pid = hear(&mut shell, ".").parse().unwrap();
    signal(pid, "STOP");
    hear(&mut shell, "Stopped");
    shell.wait_for_prompt().unwrap();
    say(&mut shell, "bg");
    shell.wait_for_prompt().unwrap();
    std::fs::write(&over, "").unwrap();
    eventually("the end", || is_dead(pid));
    say(&mut shell, "echo still $((40 + 2))");
    hear(&mut shell, "still 42");
}

/// Its shell has gone, and it is in the background.
#[test]
fn a_command_that_no_shell_gives_the_terminal_is_asked_to_end() {
    let server = Server::start();
    let mut shell = shell(&server);
    say(
        &mut shell,
        "(run 'read line </dev/tty; echo unreachable' &)",
    );
    eventually("the lock", || time_to_live(&server, "k") > 0);
    eventually("its end", || keys(&server).is_empty());
}

#[test]
fn a_message_from_the_background_does_not_erase_the_line_of_the_shell() {
    let server = Server::start();
    crate::locks::plant(&server, b"k");
    let mut shell = shell(&server);
    say(
        &mut shell,
        &format!("export TERM=xterm; {PATH} -v run k -- true"),
    );
    hear(&mut shell, "for 1s");
    shell.send_control('z').unwrap();
    shell.wait_for_prompt().unwrap();
    say(&mut shell, "bg");
    shell.wait_for_prompt().unwrap();
    crate::locks::client(&server).force_unlock("k").unwrap();
    let before = hear(&mut shell, "acquired lock");
    assert!(!before.contains("\x1b[K"), "{before:?}");
}

/// The terminal shows the shell's line then.
#[test]
fn a_wait_in_the_background_shows_no_line() {
    let server = Server::start();
    crate::locks::plant(&server, b"k");
    let mut shell = shell(&server);
    say(&mut shell, "export TERM=xterm; run 'echo ran' &");
    super::await_waiters(&server, "k", 1);
    // Longer than it takes a wait in the foreground to show its line.
    throughout(Duration::from_millis(1_500), "it waits", || {
        time_to_live(&server, "k") > 0
    });
    say(&mut shell, "echo over; fg");
    let before = hear(&mut shell, "over");
    assert!(!before.contains("waiting"), "{before}");
    hear(&mut shell, "waiting for lock");
    shell.send_control('c').unwrap();
    assert_eq!(status(&mut shell), 130);
}
