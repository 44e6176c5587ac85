//! `leasehold break`.

use std::time::Duration;

use leasehold::Lease;
use redis::Cmd;

use crate::locks::{
    MINUTE, OTHER_OWNER, ask, ask_at, client, hold, hold_everywhere, plant, send, with_long_timeout,
};
use crate::support::deployment::Independent;
use crate::support::server::Server;
use crate::support::timing::eventually;
use crate::terminal::Terminal;

fn exists(server: &Server, name: &str) -> bool {
    server.ask(Cmd::new().arg("EXISTS").arg(name))
}

#[test]
fn it_frees_the_lock_says_whose_it_was_and_wakes_who_waits() {
    let server = Server::start();
    plant(&server, b"order:pay");
    std::thread::scope(|scope| {
        let waiter = client(&server);
        let had = scope.spawn(move || waiter.reentrant_lock("order:pay").acquire().map(drop));
        let line = redis::cmd("ZCARD")
            .arg("leasehold_line:{order:pay}")
            .clone();
        eventually("a client in the line", || server.ask::<u64>(&line) == 1);
        let output = ask(&server, "break --yes order:pay");
        let output = output.expect(0);
        assert!(output.text().contains("freed order:pay"), "{output:?}");
        assert!(output.text().contains(OTHER_OWNER), "{output:?}");
        assert_eq!(output.err, "");
        had.join().unwrap().unwrap();
    });
}

#[test]
fn without_a_terminal_it_needs_the_option_yes() {
    let server = Server::start();
    plant(&server, b"order:pay");
    let output = with_long_timeout(&server.url())
        .args(["break", "order:pay"])
        .input("y\n")
        .output();
    output.expect_failure(64, &["--yes"]);
    assert!(exists(&server, "order:pay"));
}

#[test]
fn its_holder_learns_of_it() {
    let server = Server::start();
    let client = client(&server);
    let guard = hold(&client, "order:pay");
    ask(&server, "break -y order:pay").expect(0);
    assert!(guard.extend(MINUTE).is_err());
    assert!(guard.is_lost());
}

#[test]
fn a_redlock_is_freed_on_all_servers() {
    let servers = Independent::start(3);
    let _held = hold_everywhere(&servers, "order:pay");
    send(servers.server(2), &["DEL order:pay"]);
    let output = ask_at(&servers.urls().join(","), "--redlock break --yes order:pay").expect(0);
    for server in servers.servers() {
        assert!(!exists(server, "order:pay"));
    }
    for server in &servers.servers()[..2] {
        assert!(output.text().contains(&server.address()), "{output:?}");
    }
}

/// What is said to be free is free.
#[test]
fn a_server_that_refuses_is_not_said_to_be_freed() {
    let servers = Independent::start(3);
    for server in servers.servers() {
        plant(server, b"order:pay");
    }
    send(servers.server(2), &["ACL SETUSER default -del"]);
    let refusing = servers.server(2).address();
    let ask = || {
        let program = with_long_timeout(&servers.urls().join(","));
        program
            .args(["--redlock", "break", "--yes", "order:pay"])
            .output()
    };
    let output = ask().expect(0);
    let lines = output.lines();
    assert_eq!(lines.len(), 2, "{output:?}");
    for (line, server) in lines.iter().zip(servers.servers()) {
        assert!(!exists(server, "order:pay"));
        assert!(line.starts_with("freed order:pay"), "{output:?}");
        assert!(line.ends_with(&server.address()), "{output:?}");
    }
    assert!(output.err.contains(&refusing), "{output:?}");
    // Nothing but what refuses: it is neither freed, nor is it so that no client holds it.
    let output = ask().expect_failure(69, &[&refusing]);
    assert_eq!(output.text(), "");
    assert!(exists(servers.server(2), "order:pay"));
}

#[test]
fn on_a_terminal_it_says_who_holds_it_and_asks() {
    let server = Server::start();
    for (answer, status) in [
        ("\r", 1),
        ("n\r", 1),
        ("yep\r", 1),
        ("y\r", 0),
        ("YES\r", 0),
    ] {
        plant(&server, b"order:pay");
        let mut terminal = Terminal::start(&server.url(), "break order:pay");
        terminal.shows("order:pay of");
        terminal.shows(OTHER_OWNER);
        terminal.shows("[y/N]");
        assert!(exists(&server, "order:pay"));
        terminal.types(answer);
        let said = terminal.ends_with(status);
        assert_eq!(
            exists(&server, "order:pay"),
            status == 1,
            "{answer:?}: {said}"
        );
        let expected = if status == 1 {
            "nothing was done"
        } else {
            "freed order:pay"
        };
        assert!(said.contains(expected), "{answer:?}: {said}");
    }
    let terminal = Terminal::start(&server.url(), "break order:pay");
    assert!(terminal.ends_with(1).contains("no client holds order:pay"));
}

/// If the question cannot be seen, it does not wait for an answer.
#[test]
fn a_question_that_goes_to_a_file_is_not_asked() {
    let server = Server::start();
    plant(&server, b"order:pay");
    let log = server.directory().join("log");
    let args = format!("break order:pay 2>>{}", log.display());
    Terminal::start(&server.url(), &args).ends_with(64);
    let said = std::fs::read_to_string(log).unwrap();
    assert!(said.contains("--yes"), "{said}");
    assert!(exists(&server, "order:pay"));
}

#[test]
fn a_client_that_acquired_it_meanwhile_keeps_it() {
    let server = Server::start();
    plant(&server, b"order:pay");
    let mut terminal = Terminal::start(&server.url(), "break order:pay");
    terminal.shows("[y/N]");
    send(&server, &["DEL order:pay"]);
    let guard = hold(&client(&server), "order:pay");
    terminal.types("y\r");
    let said = terminal.ends_with(1);
    assert!(
        said.contains("another client has acquired it meanwhile"),
        "{said}"
    );
    guard.extend(MINUTE).unwrap();
}

/// A thread has one name for all its holds.
#[test]
fn the_next_hold_of_one_thread_is_another_if_it_is_fenced() {
    let server = Server::start();
    let lock = client(&server).fenced_lock("order:pay");
    let take = || {
        let held = lock.try_acquire(Duration::ZERO, Lease::fixed(MINUTE));
        held.unwrap().expect("a free lock")
    };
    let first = take();
    let mut terminal = Terminal::start(&server.url(), "break order:pay");
    terminal.shows("[y/N]");
    first.unlock().unwrap();
    let second = take();
    terminal.types("y\r");
    let said = terminal.ends_with(1);
    assert!(
        said.contains("another client has acquired it meanwhile"),
        "{said}"
    );
    second.extend(MINUTE).unwrap();
}
