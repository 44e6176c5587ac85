//! `leasehold hold`.

use std::fs::File;
use std::io::{PipeWriter, Read, Write};
use std::process::{Child, Command, Stdio};

use crate::locks::{client, hold};
use crate::program::{PATH, Program, Running, leasehold};
use crate::proxy::{self, Fault};
use crate::support::process::signal;
use crate::support::server::Server;
use crate::support::timing::{A_WHILE, LEASE, eventually, eventually_some, throughout};
use crate::terminal::Terminal;

/// The command, up to the key. Its input stays open.
fn holding(server: &Server) -> Program {
    leasehold(&server.url()).arg("hold").keep_input()
}

/// The command with the lock `k`, when it holds the lock.
fn holder(server: &Server) -> Running {
    let holder = holding(server).arg("k").start();
    assert_eq!(holder.next_output(), "held k\n");
    holder
}

fn is_held(server: &Server) -> bool {
    server.ask(redis::cmd("EXISTS").arg("k"))
}

#[test]
fn the_lock_is_held_until_the_input_ends() {
    let server = Server::start();
    let lease = format!("{}ms", LEASE.get().as_millis());
    let mut holder = holding(&server).args(["--lease", &lease, "k"]).start();
    assert_eq!(holder.next_output(), "held k\n");
    holder.write("what is written\ndoes not matter");
    throughout(LEASE.get() * 2, "it is held", || is_held(&server));
    holder.end_input();
    let output = holder.end().expect(0);
    assert_eq!((output.text(), output.err), (String::new(), String::new()));
    assert!(!is_held(&server));
}

#[test]
fn a_signal_releases_the_lock() {
    let server = Server::start();
    for (name, status) in [("TERM", 143), ("INT", 130), ("HUP", 129)] {
        let mut holder = holder(&server);
        // They end nothing.
        for name in ["USR1", "WINCH"] {
            holder.signal(name);
        }
        throughout(A_WHILE.get(), "it runs", || holder.is_running());
        holder.signal(name);
        let output = holder.end().expect(status);
        assert_eq!(output.err, "");
        assert!(!is_held(&server));
    }
}

#[test]
fn a_loss_ends_it_with_a_status_of_its_own() {
    let server = Server::start();
    let holder = holder(&server);
    let deleted: u32 = server.ask(redis::cmd("DEL").arg("k"));
    assert_eq!(deleted, 1);
    holder.end().expect_failure(76, &["\"k\"", "deleted"]);
}

/// The request that the loss leaves without a reply lasts longer than the lock.
#[test]
fn a_loss_is_reported_although_redis_does_not_reply() {
    let server = Server::start();
    let proxy = proxy::before(&server.address());
    let lease = format!("{}ms", LEASE.get().as_millis());
    let holder = leasehold(&proxy.url()).arg("hold").keep_input();
    let options = ["--lease", &lease, "--timeout", "60s", "k"];
    let holder = holder.args(options).start();
    assert_eq!(holder.next_output(), "held k\n");
    proxy.on_request(|_| Fault::SwallowRequest);
    holder.end().expect_failure(76, &["\"k\"", "expired"]);
}

/// The input of jobs of cron and systemd, and of background jobs of scripts.
#[test]
fn an_input_that_cannot_hold_the_lock_is_refused() {
    let server = Server::start();
    for redirection in ["</dev/null", "<&-"] {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("exec {PATH} hold k {redirection}")]);
        let output = shell.env("LEASEHOLD_URL", server.url()).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(64), "{error}");
        assert!(
            error.contains("leasehold run KEY -- sleep infinity"),
            "{error}"
        );
        assert!(output.stdout.is_empty());
    }
}

/// The command with the lock `k` and this output. Its input stays open.
fn writing_to(output: impl Into<Stdio>, server: &Server) -> Child {
    crate::program::restore_signals();
    let mut command = Command::new(PATH);
    command
        .args(["hold", "k"])
        .env("LEASEHOLD_URL", server.url());
    command
        .stdin(Stdio::piped())
        .stdout(output)
        .stderr(Stdio::piped());
    command.spawn().unwrap()
}

#[track_caller]
fn ends_with(mut child: Child, status: i32) -> String {
    let ended = eventually_some("its end", || child.try_wait().unwrap());
    let mut error = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut error)
        .unwrap();
    assert_eq!(ended.code(), Some(status), "{error}");
    error
}

/// No process would know that the lock is held.
#[test]
fn a_lock_whose_line_cannot_be_written_is_released() {
    let server = Server::start();
    let (reader, without_reader) = std::io::pipe().unwrap();
    drop(reader);
    let full = File::create("/dev/full").unwrap();
    for output in [Stdio::from(without_reader), full.into()] {
        let error = ends_with(writing_to(output, &server), 74);
        assert!(error.contains("standard output"), "{error}");
        assert!(!is_held(&server));
    }
}

/// Fills the pipe, so that a further write blocks.
fn fill(pipe: &mut PipeWriter) {
    use nix::fcntl::{FcntlArg, OFlag, fcntl};
    fcntl(&*pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
    while pipe.write(&[0; 4096]).is_ok() {}
    fcntl(&*pipe, FcntlArg::F_SETFL(OFlag::empty())).unwrap();
}

#[test]
fn an_output_that_blocks_does_not_keep_the_lock() {
    let server = Server::start();
    let (_reader, mut pipe) = std::io::pipe().unwrap();
    fill(&mut pipe);
    let holder = writing_to(pipe, &server);
    eventually("the lock", || is_held(&server));
    signal(holder.id(), "TERM");
    ends_with(holder, 143);
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
        token.and_then(|token| token.parse::<u64>().ok())
    };
    let first = token().expect("a token");
    assert!(token().expect("a token") > first);
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
        output.expect_failure(status, &["another client"]);
    }
    let waiting = holding(&server).arg("k").start();
    eventually("it to wait", || {
        server.ask::<u64>(redis::cmd("ZCARD").arg("leasehold_line:{k}")) == 1
    });
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
    terminal.types("\x04");
    terminal.ends_with(0);
    assert!(!is_held(&server));
}

/// Otherwise the lock would be lost.
#[test]
fn in_the_background_the_terminal_does_not_stop_it() {
    let server = Server::start();
    crate::program::restore_signals();
    let time = u64::try_from(crate::support::timing::SOON.get().as_millis()).unwrap();
    let shell = rexpect::spawn_bash(Some(time)).expect("bash is installed");
    let mut shell = shell.quit_command(Some("exit".into()));
    // Then a terminal stops background processes that write, too.
    let start = format!(
        "stty tostop; LEASEHOLD_URL={} {PATH} hold k &",
        server.url()
    );
    shell.send_line(&start).unwrap();
    shell.exp_string("held k").unwrap();
    // What is typed then is read by no process in the foreground.
    let directory = tempfile::tempdir().unwrap();
    let typed = directory.path().join("typed");
    let typed = typed.display();
    let loops = format!("echo on; until [ -e {typed} ]; do sleep 0.02; done; echo over");
    shell.send_line(&loops).unwrap();
    shell.exp_string("on\r\n").unwrap();
    shell.send_line("true").unwrap();
    throughout(A_WHILE.get(), "it is held", || is_held(&server));
    std::fs::write(typed.to_string(), "").unwrap();
    shell.exp_string("over").unwrap();
    shell.send_line("jobs -r | wc -l; echo end").unwrap();
    shell.exp_string("1\r\nend").unwrap();
    shell.send_line("fg; echo status=$?").unwrap();
    shell.exp_string("hold k").unwrap();
    // It reads again after a pause.
    shell.send_control('d').unwrap();
    shell.exp_string("status=0").unwrap();
    assert!(!is_held(&server));
}

/// The example of docs/command.md.
#[test]
fn a_script_of_bash_holds_a_lock_for_a_part_of_it() {
    let server = Server::start();
    let documentation = include_str!("../../../docs/command.md");
    let (_, script) = documentation.split_once("```bash\n").expect("the example");
    let (script, _) = script.split_once("```").expect("its end");
    let directory = std::path::Path::new(PATH).parent().unwrap();
    let path = format!("{}:{}", directory.display(), std::env::var("PATH").unwrap());
    let run = |script: &str| {
        let mut bash = Command::new("bash");
        bash.args(["-c", script]).env("PATH", &path);
        bash.env("LEASEHOLD_URL", server.url()).output().unwrap()
    };
    let ended = run(script);
    assert!(ended.status.success(), "{ended:?}");
    assert!(!is_held(&server));
    let guard = hold(&client(&server), "report");
    assert_eq!(run(script).status.code(), Some(75));
    guard.unlock().unwrap();
}
