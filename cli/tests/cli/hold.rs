//! `leasehold hold`.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::locks::{await_waiters, client, exists, hold};
use crate::program::{PATH, Program, Running, full_pipe, leasehold};
use crate::proxy::{self, Fault};
use crate::run::terminal::Shell;
use crate::support::server::Server;
use crate::support::timing::{A_WHILE, LEASE, eventually, throughout};
use crate::terminal::Terminal;

/// The command, up to the key. Its input stays open.
fn holding(server: &Server) -> Program {
    leasehold(&server.url()).arg("hold").keep_input()
}

/// The command with the lock `k`, when it holds the lock.
fn holder(program: Program) -> Running {
    let holder = program.arg("k").start();
    assert_eq!(holder.next_output(), "held k\n");
    holder
}

fn is_held(server: &Server) -> bool {
    exists(server, "k")
}

fn lease() -> String {
    format!("--lease={}ms", LEASE.get().as_millis())
}

#[test]
fn the_lock_is_held_until_the_input_ends() {
    let server = Server::start();
    let mut holder = holder(holding(&server).arg(lease()));
    holder.write("what is written\ndoes not matter");
    throughout(LEASE.get() * 2, "it is held", || is_held(&server));
    holder.end_input();
    holder.end().expect_all(0, "", "");
    assert!(!is_held(&server));
}

#[test]
fn a_signal_releases_the_lock() {
    let server = Server::start();
    for (name, status) in [("TERM", 143), ("INT", 130), ("HUP", 129)] {
        let mut holder = holder(holding(&server));
        // They end nothing.
        for name in ["USR1", "WINCH"] {
            holder.signal(name);
        }
        throughout(A_WHILE.get(), "it runs", || holder.is_running());
        holder.signal(name);
        holder.end().expect_all(status, "", "");
        assert!(!is_held(&server));
    }
}

#[test]
fn a_loss_ends_it_with_a_status_of_its_own() {
    let server = Server::start();
    let deleted = holder(holding(&server));
    let count: u32 = server.ask(redis::cmd("DEL").arg("k"));
    assert_eq!(count, 1);
    deleted.end().expect_failure(76, &["\"k\"", "deleted"]);

    // The request that the loss leaves without a reply lasts longer than the lock.
    let proxy = proxy::before(&server.address());
    let program = leasehold(&proxy.url()).arg("hold").keep_input();
    let expired = holder(program.args([&lease(), "--timeout=60s"]));
    proxy.on_request(|_| Fault::SwallowRequest);
    expired.end().expect_failure(76, &["\"k\"", "expired"]);
}

/// The input of jobs of cron and systemd, and of background jobs of scripts.
#[test]
fn an_input_that_cannot_hold_the_lock_is_refused() {
    let server = Server::start();
    for redirection in ["</dev/null", "<&-"] {
        let script = format!("exec {PATH} hold k {redirection}");
        let shell = leasehold(&server.url()).with(|command| {
            *command = Command::new("sh");
            command
                .args(["-c", &script])
                .env("LEASEHOLD_URL", server.url());
        });
        let words = [
            "leasehold run KEY -- sleep infinity",
            "leasehold hold KEY <in >out &",
        ];
        shell.output().expect_refusal(64, &words);
    }
}

/// No process would know that the lock is held.
#[test]
fn a_lock_whose_line_cannot_be_written_is_released() {
    let server = Server::start();
    let (reader, without_reader) = std::io::pipe().unwrap();
    drop(reader);
    let full = File::create("/dev/full").unwrap();
    for output in [Stdio::from(without_reader), full.into()] {
        let holder = holding(&server).arg("k").writing_to(output);
        holder.output().expect_failure(74, &["standard output"]);
        assert!(!is_held(&server));
    }
}

#[test]
fn an_output_that_blocks_does_not_keep_the_lock() {
    let server = Server::start();
    let (_reader, pipe) = full_pipe();
    let holder = holding(&server).arg("k").writing_to(pipe).start();
    eventually("the lock", || is_held(&server));
    holder.signal("TERM");
    holder.end().expect(143);
    assert!(!is_held(&server));
}

#[test]
fn the_line_has_the_token_of_a_fenced_lock() {
    let server = Server::start();
    let token = || {
        let output = leasehold(&server.url()).args(["hold", "--fenced", "k"]);
        let line = output.output().expect(0).text();
        let token = line.strip_prefix("held k (token ");
        let token = token.and_then(|rest| rest.strip_suffix(")\n"));
        token.expect("a token").parse::<u64>().expect("a number")
    };
    let first = token();
    assert!(token() > first);
}

#[test]
fn the_wait_ends_as_that_of_run() {
    let server = Server::start();
    let guard = hold(&client(&server), "k");
    for (args, status) in [
        (&["--no-wait", "k"][..], 75),
        (&["--wait", "10ms", "-E", "3", "k"], 3),
    ] {
        let output = holding(&server).args(args).output();
        output.expect_failure(status, &["\"k\" is not free"]);
    }
    let waiting = holding(&server).arg("k").start();
    await_waiters(&server, "k", 1);
    waiting.signal("TERM");
    assert_eq!(waiting.end().expect(143).text(), "");
    guard.unlock().unwrap();
}

#[test]
fn at_a_terminal_the_end_of_the_input_is_typed() {
    let server = Server::start();
    let mut terminal = Terminal::start(&server.url(), "hold k");
    terminal.shows("held k");
    terminal.types("some words\r");
    throughout(A_WHILE.get(), "it is held", || is_held(&server));
    terminal.ended_by("\x04", &[], 0);
    assert!(!is_held(&server));
}

/// Otherwise the lock would be lost.
#[test]
fn in_the_background_the_terminal_does_not_stop_it() {
    let mut shell = Shell::start();
    // Then a terminal stops background processes that write, too.
    shell.asks(&format!("stty tostop; {PATH} hold k &"), "held k");
    // What is typed then is read by no process in the foreground.
    let loops = format!("echo on; {}; echo over", shell.over.until());
    shell.asks(&loops, "on\r\n");
    shell.say("true");
    throughout(A_WHILE.get(), "it is held", || is_held(&shell.server));
    shell.over.create();
    shell.hear("over");
    shell.asks("jobs -r | wc -l; echo end", "1\r\nend");
    shell.asks("fg; echo status=$?", "hold k");
    // It reads again after a pause.
    shell.control('d');
    shell.hear("status=0");
    assert!(!is_held(&shell.server));
}

/// The example of docs/command.md: `hold` in the background of a script, which waits for its line.
#[test]
fn a_script_holds_a_lock_for_a_part_of_it() {
    let server = Server::start();
    let documentation = include_str!("../../../docs/command.md");
    let (_, script) = documentation
        .split_once("```sh\ndir=")
        .expect("the example");
    let (script, _) = script.split_once("```").expect("its end");
    let directory = Path::new(PATH).parent().unwrap().display();
    let path = format!("{directory}:{}", std::env::var("PATH").unwrap());
    let run = || {
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &format!("dir={script}")])
            .env("PATH", &path);
        shell.env("LEASEHOLD_URL", server.url()).output().unwrap()
    };
    let ended = run();
    assert!(ended.status.success(), "{ended:?}");
    assert!(!is_held(&server));
    let guard = hold(&client(&server), "report");
    assert_eq!(run().status.code(), Some(75));
    guard.unlock().unwrap();
}
