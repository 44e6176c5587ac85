//! Locked functions in several processes, and the default client of a process.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, unbounded};
use leasehold::{Error, current_lock, locked, set_default_client};

use crate::servers::timing::{SOON, eventually};
use crate::shop::{Shop, assert_held_by_another, client};

const ROLE: &str = "LEASEHOLD_LOCKED_ROLE";
const URL: &str = "LEASEHOLD_LOCKED_URL";

/// The prefix of every line to the parent, because the test harness writes to the same output.
const MARK: &str = "child> ";

#[locked(client = client(url), key = "order:{order}", wait = "100s", lease = "3s")]
fn settle(url: &str, order: u64, body: impl FnOnce()) -> leasehold::Result<()> {
    body();
    current_lock().check()
}

#[locked(client = client(url), key = "order:{order}")]
fn settle_at_once(url: &str, order: u64) -> leasehold::Result<()> {
    Ok(())
}

#[locked(key = "report:{day}")]
fn report(day: u32) -> leasehold::Result<String> {
    Ok(current_lock().name().to_owned())
}

/// Not a test: the entry point of child processes.
#[test]
fn role() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let url = std::env::var(URL).expect("set with the role");
    match &*role {
        "hold" => settle(&url, 7, || {
            send_line("in");
            read_line();
        })
        .unwrap(),
        "default" => default_client(&url),
        _ => panic!("no such role: {role}"),
    }
}

fn default_client(url: &str) {
    let Err(Error::Config { value, rule, .. }) = report(1) else {
        panic!("there is no client");
    };
    assert!(value.contains("report:1"), "{value}");
    assert!(rule.contains("leasehold::set_default_client"), "{rule}");

    set_default_client(client(url)).unwrap();
    assert_eq!(report(1).unwrap(), "report:1");

    let again = set_default_client(client("redis://127.0.0.1:1"));
    assert!(matches!(again, Err(Error::Config { .. })), "{again:?}");
    assert_eq!(report(2).unwrap(), "report:2", "the first one stays");
    send_line("done");
}

fn send_line(line: &str) {
    // The harness may have written an incomplete line.
    println!("\n{MARK}{line}");
}

fn read_line() {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
}

/// A child process. Killed when dropped.
struct Process {
    child: Child,
    input: ChildStdin,
    /// The lines that it sends.
    lines: Receiver<String>,
    /// Ends with the child's output.
    reader: Option<JoinHandle<()>>,
}

impl Process {
    fn start(role: &str, url: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["processes::role", "--exact", "--nocapture"])
            .env(ROLE, role)
            .env(URL, url)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = unbounded();
        let reader = std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if let Some(line) = line.strip_prefix(MARK) {
                    let _ = sender.send(line.to_owned());
                }
            }
        });
        Self {
            child,
            input,
            lines,
            reader: Some(reader),
        }
    }

    /// Asserts that this is its next line.
    #[track_caller]
    fn expect_line(&self, what: &str) {
        let line = self.lines.recv_timeout(SOON.get());
        assert_eq!(line.as_deref(), Ok(what), "its errors are above");
    }

    fn finish(mut self) {
        eventually("its end", || self.child.try_wait().unwrap().is_some());
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

#[test]
fn a_function_of_another_process_is_refused_and_then_gets_the_lock() {
    let shop = Shop::open();
    let url = shop.server.url();
    let mut holder = Process::start("hold", &url);
    holder.expect_line("in");
    assert_held_by_another(settle_at_once(&url, 7), "order:7");
    settle_at_once(&url, 8).unwrap();
    writeln!(holder.input, "go on").unwrap();
    settle(&url, 7, || ()).unwrap();
    holder.finish();
}

#[test]
fn the_lock_of_a_killed_process_stays_for_a_lease() {
    let shop = Shop::open();
    let url = shop.server.url();
    let holder = Process::start("hold", &url);
    holder.expect_line("in");
    drop(holder);
    settle(&url, 7, || ()).unwrap();
}

#[test]
fn the_default_client_is_set_once_in_a_process() {
    let shop = Shop::open();
    let child = Process::start("default", &shop.server.url());
    child.expect_line("done");
    child.finish();
    assert!(!shop.has("report:1"));
}
