//! Colors of `list` and `doctor`.

use crate::locks::{plant, with_long_timeout};
use crate::support::server::Server;
use crate::terminal::Terminal;

/// Begins every color code.
const CODE: &str = "\x1b[";

fn on_a_terminal(server: &Server, args: &str) -> String {
    Terminal::start(&server.url(), args).ends_with(0)
}

#[test]
fn a_terminal_gets_colors() {
    let server = Server::start();
    plant(&server, b"k");
    let listed = on_a_terminal(&server, "list");
    assert!(listed.contains("\x1b[1m"), "{listed:?}");
    let checked = on_a_terminal(&server, "doctor");
    assert!(checked.contains("\x1b[32mok"), "{checked:?}");
    for args in [
        "--color never list",
        "doctor --color never",
        "list --json",
        "doctor --json",
    ] {
        let plain = on_a_terminal(&server, args);
        assert!(!plain.contains(CODE), "{args}: {plain:?}");
    }
}

#[test]
fn a_pipe_gets_them_only_if_they_are_asked_for() {
    let server = Server::start();
    plant(&server, b"k");
    let run = |args: &[&str]| {
        with_long_timeout(&server.url())
            .args(args)
            .output()
            .expect(0)
    };
    for args in [
        &["list"][..],
        &["doctor"],
        &["doctor", "--json", "--color", "always"],
    ] {
        let plain = run(args).text();
        assert!(!plain.contains(CODE), "{plain:?}");
    }
    let colored = run(&["doctor", "--color", "always"]).text();
    assert!(colored.contains("\x1b[32mok"), "{colored:?}");
    let wrong = with_long_timeout(&server.url()).args(["list", "--color", "red"]);
    wrong.output().expect_failure(64, &["--color", "red"]);
}

#[test]
fn no_color_in_the_environment_turns_them_off() {
    let server = Server::start();
    plant(&server, b"k");
    let shell = |args| Terminal::start_with(&server.url(), args, &[("NO_COLOR", "1")]).ends_with(0);
    for args in ["list", "doctor"] {
        let plain = shell(args);
        assert!(!plain.contains(CODE), "{args}: {plain:?}");
    }
    for args in ["list --color always", "doctor --color always"] {
        let colored = shell(args);
        assert!(colored.contains(CODE), "{args}: {colored:?}");
    }
}
