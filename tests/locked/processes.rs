//! Locked functions in several processes, and the default client of a process.

use std::process::Command;

use leasehold::{Error, current_lock, locked, set_default_client};

use crate::child_process::{Process, myself, read_line, role, send_line};
use crate::shop::{Shop, assert_held_by_another, client};

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
fn run() {
    let Some((role, arguments)) = role() else {
        return;
    };
    let url = &arguments[0];
    match &*role {
        "hold" => settle(url, 7, || {
            send_line("in");
            read_line();
        })
        .unwrap(),
        "default" => default_client(url),
        _ => panic!("no such role: {role}"),
    }
}

fn default_client(url: &str) {
    let Err(Error::Config { lock, rule, .. }) = report(1) else {
        panic!("there is no client");
    };
    assert_eq!(lock, "report:1");
    assert!(rule.contains("leasehold::set_default_client"), "{rule}");

    set_default_client(client(url)).unwrap();
    assert_eq!(report(1).unwrap(), "report:1");

    let again = set_default_client(client("redis://127.0.0.1:1"));
    assert!(matches!(again, Err(Error::Config { .. })), "{again:?}");
    assert_eq!(report(2).unwrap(), "report:2", "the first one stays");
    send_line("done");
}

fn start(role: &'static str, url: &str) -> Process {
    let program = Command::new(myself());
    Process::spawn(program, "processes::run", role, &[url], Vec::new())
}

#[test]
fn a_function_of_another_process_is_refused_and_then_gets_the_lock() {
    let shop = Shop::open();
    let url = shop.server.url();
    let mut holder = start("hold", &url);
    assert_eq!(holder.read_line(), "in");
    assert_held_by_another(settle_at_once(&url, 7), "order:7");
    settle_at_once(&url, 8).unwrap();
    holder.send_line("go on");
    settle(&url, 7, || ()).unwrap();
    holder.finish();
}

#[test]
fn the_default_client_is_set_once_in_a_process() {
    let shop = Shop::open();
    let child = start("default", &shop.server.url());
    assert_eq!(child.read_line(), "done");
    child.finish();
    assert!(!shop.has("report:1"));
}
