//! What is said while the command waits for the lock.

use super::{Over, job};
use crate::locks::{OTHER_OWNER, client, keys, plant};
use crate::proxy::{self, Fault, Gate};
use crate::support::server::Server;
use crate::support::timing::{A_WHILE, eventually};
use crate::terminal::Terminal;

#[test]
fn a_terminal_shows_who_has_the_lock() {
    let server = Server::start();
    for (command, said, typed) in [
        ("run k -- echo ran", "ran", ""),
        ("hold k", "held k", "\x04"),
    ] {
        plant(&server, "k");
        let mut terminal = Terminal::start(&server.url(), command);
        let message = "leasehold: still waiting for lock \"k\"";
        terminal.shows(&format!("{message}, held by {OTHER_OWNER}\r\n"));
        client(&server).force_unlock("k").expect("a reply");
        terminal.shows(said);
        terminal.ended_by(typed, &[], 0);
    }
}

#[test]
fn nothing_is_shown_without_a_terminal_or_with_quiet() {
    let server = Server::start();
    plant(&server, "k");
    let piped = job(&server, "--wait 1500ms", "true").start();
    let mut quiet = Terminal::start(&server.url(), "--quiet run --wait 1500ms k -- true");
    assert!(!quiet.shows("restored-75.").contains("waiting"));
    assert!(!piped.end().expect(75).err.contains("waiting for"));
}

/// The log of a CI job shows which process holds the lock.
#[test]
fn without_a_terminal_verbose_names_the_holder_once() {
    let server = Server::start();
    plant(&server, "k");
    let waiting = job(&server, "-v --wait 60s", "echo ran").start();
    assert_eq!(waiting.next_error(), "leasehold: waiting for lock \"k\"\n");
    let expected = format!("still waiting for lock \"k\", held by {OTHER_OWNER}\n");
    let said = waiting.next_error();
    assert!(said.ends_with(&expected), "{said}");
    client(&server).force_unlock("k").expect("a reply");
    assert!(!waiting.end().expect(0).err.contains("held by"));
}

/// The request of the message may last longer than the command.
#[test]
fn a_message_without_a_reply_does_not_keep_the_lock() {
    let server = Server::start();
    plant(&server, "k");
    let proxy = proxy::before(&server.address());
    let gate = Gate::new();
    let held_back = gate.clone();
    proxy.on_request(move |request| match request.runs("inspect") {
        true => Fault::HoldBack(held_back.clone()),
        // A further connection may take four times as long as the one before. Otherwise the lock is
        // requested on that of the message, behind its request.
        false if request.command() == "AUTH" => Fault::Latency(A_WHILE.get()),
        false => Fault::Pass,
    });
    // A user without a password accepts any.
    let url = proxy.url().replace("redis://", "redis://default:any@");
    let directory = Over::new();
    let script = directory.beside("script");
    std::fs::write(&script, "#!/no/interpreter\n").unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&script, executable).unwrap();
    let command = format!("run k -- {}", script.display());
    let patient = [("LEASEHOLD_TIMEOUT", "60s")];
    let mut terminal = Terminal::start_with(&url, &command, &patient);
    eventually("the request of the message", || gate.held() == 1);
    client(&server).force_unlock("k").expect("a reply");
    terminal.shows("interpreter");
    // The job says that it cannot start, and then the lock is released.
    eventually("the lock to be free", || keys(&server).is_empty());
    terminal.ends_with(126);
}
