//! Colors of `list` and `doctor`.

use crate::locks::{ask, plant, text};
use crate::support::server::Server;
use crate::terminal::Terminal;

/// Begins every color code.
const CODE: &str = "\x1b[";

#[test]
fn a_terminal_gets_colors_unless_they_are_turned_off() {
    let server = Server::start();
    plant(&server, "k");
    for (args, no_color, expected) in [
        ("list", "", Some("\x1b[1m")),
        ("doctor", "", Some("\x1b[32mok")),
        ("--color never list", "", None),
        ("doctor --color never", "", None),
        ("list --json", "", None),
        ("doctor --json", "", None),
        ("list", "1", None),
        ("doctor", "1", None),
        ("list --color always", "1", Some(CODE)),
        ("doctor --color always", "1", Some(CODE)),
    ] {
        let variables = [("NO_COLOR", no_color)];
        let terminal = Terminal::start_with(&server.url(), args, &variables);
        let said = terminal.ends_with(0);
        match expected {
            Some(code) => assert!(said.contains(code), "{args}: {said:?}"),
            None => assert!(!said.contains(CODE), "{args}: {said:?}"),
        }
    }
}

#[test]
fn a_pipe_gets_them_only_if_they_are_asked_for() {
    let server = Server::start();
    plant(&server, "k");
    for words in ["list", "doctor", "doctor --json --color always"] {
        let plain = text(&server, words);
        assert!(!plain.contains(CODE), "{plain:?}");
    }
    let colored = text(&server, "doctor --color always");
    assert!(colored.contains("\x1b[32mok"), "{colored:?}");
    ask(&server, "list --color red").expect_failure(64, &["--color", "red"]);
}
