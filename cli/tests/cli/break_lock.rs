//! `leasehold break`.

use std::time::Duration;

use leasehold::Lease;

use crate::locks::{
    MINUTE, OTHER_OWNER, ask, await_waiters, client, exists, hold, hold_everywhere, plant, send,
    text, with_long_timeout,
};
use crate::support::deployment::Independent;
use crate::support::server::Server;
use crate::terminal::Terminal;

#[test]
fn it_frees_the_lock_says_whose_it_was_and_wakes_who_waits() {
    let server = Server::start();
    plant(&server, "order:pay");
    std::thread::scope(|scope| {
        let waiter = client(&server);
        let had = scope.spawn(move || waiter.reentrant_lock("order:pay").acquire().map(drop));
        await_waiters(&server, "order:pay", 1);
        let output = ask(&server, "break --yes order:pay").expect(0);
        let freed = format!("freed order:pay of {OTHER_OWNER} ");
        assert!(output.text().starts_with(&freed), "{output:?}");
        assert_eq!(output.err, "");
        had.join().unwrap().unwrap();
    });
}

#[test]
fn without_a_terminal_it_needs_the_option_yes() {
    let server = Server::start();
    plant(&server, "order:pay");
    let program = with_long_timeout(&server).args(["break", "order:pay"]);
    program.input("y\n").output().expect_failure(64, &["--yes"]);
    assert!(exists(&server, "order:pay"));
}

#[test]
fn a_redlock_is_freed_on_all_servers() {
    let servers = Independent::start(3);
    let _held = hold_everywhere(&servers, "order:pay");
    send(servers.server(2), "DEL order:pay");
    let freed = text(&servers.urls(), "--redlock break --yes order:pay");
    for server in servers.servers() {
        assert!(!exists(server, "order:pay"));
    }
    for server in &servers.servers()[..2] {
        assert!(freed.contains(&server.address()), "{freed}");
    }
}

/// What is said to be free is free.
#[test]
fn a_server_that_refuses_is_not_said_to_be_freed() {
    let servers = Independent::start(3);
    for server in servers.servers() {
        plant(server, "order:pay");
    }
    send(servers.server(2), "ACL SETUSER default -del");
    let refusing = servers.server(2).address();
    let free = || ask(&servers.urls(), "--redlock break --yes order:pay");
    let output = free().expect_failure(0, &[&refusing]);
    let lines = output.lines();
    assert_eq!(lines.len(), 2, "{output:?}");
    for (line, server) in lines.iter().zip(servers.servers()) {
        assert!(!exists(server, "order:pay"));
        let is_said = line.starts_with("freed order:pay") && line.ends_with(&server.address());
        assert!(is_said, "{output:?}");
    }
    // Nothing but what refuses: it is neither freed, nor is it so that no client holds it.
    free().expect_refusal(69, &[&refusing]);
    assert!(exists(servers.server(2), "order:pay"));
}

#[test]
fn on_a_terminal_it_says_who_holds_it_and_asks() {
    let server = Server::start();
    let (nothing, freed) = ("nothing was done", "freed order:pay");
    for (answer, status, expected) in [
        ("\r", 1, nothing),
        ("n\r", 1, nothing),
        ("yep\r", 1, nothing),
        ("y\r", 0, freed),
        ("YES\r", 0, freed),
    ] {
        plant(&server, "order:pay");
        let mut terminal = Terminal::start(&server.url(), "break order:pay");
        terminal.shows_all(&["order:pay of", OTHER_OWNER, "[y/N]"]);
        assert!(exists(&server, "order:pay"));
        terminal.types(answer);
        let said = terminal.ends_with(status);
        assert_eq!(
            exists(&server, "order:pay"),
            status == 1,
            "{answer:?}: {said}"
        );
        assert!(said.contains(expected), "{answer:?}: {said}");
    }
    let terminal = Terminal::start(&server.url(), "break order:pay");
    assert!(terminal.ends_with(1).contains("no client holds order:pay"));
}

/// If the question cannot be seen, it does not wait for an answer.
#[test]
fn a_question_that_goes_to_a_file_is_not_asked() {
    let server = Server::start();
    plant(&server, "order:pay");
    let log = server.directory().join("log");
    let args = format!("break order:pay 2>>{}", log.display());
    Terminal::start(&server.url(), &args).ends_with(64);
    let said = std::fs::read_to_string(log).unwrap();
    assert!(said.contains("--yes"), "{said}");
    assert!(exists(&server, "order:pay"));
}

/// A thread has one name for all its holds, so the next one is another only if it is fenced.
#[test]
fn a_client_that_acquired_it_meanwhile_keeps_it() {
    let server = Server::start();
    let answer = |mut terminal: Terminal| {
        terminal.types("y\r");
        let said = terminal.ends_with(1);
        let words = "another client has acquired it meanwhile";
        assert!(said.contains(words), "{said}");
    };
    let asks = || {
        let mut terminal = Terminal::start(&server.url(), "break order:pay");
        terminal.shows("[y/N]");
        terminal
    };
    plant(&server, "order:pay");
    let terminal = asks();
    send(&server, "DEL order:pay");
    let guard = hold(&client(&server), "order:pay");
    answer(terminal);
    guard.extend(MINUTE).unwrap();
    guard.unlock().unwrap();

    let lock = client(&server).fenced_lock("order:pay");
    let take = || {
        let held = lock.try_acquire(Duration::ZERO, Lease::fixed(MINUTE));
        held.unwrap().expect("a free lock")
    };
    let first = take();
    let terminal = asks();
    first.unlock().unwrap();
    let second = take();
    answer(terminal);
    second.extend(MINUTE).unwrap();
}
