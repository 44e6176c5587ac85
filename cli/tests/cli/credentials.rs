//! Which user the program is: of the command line, of the URL, of the environment.

use crate::locks::{ask, names, objects, plant, with_long_timeout, with_user};
use crate::support::server::Server;

/// A user who sees the locks of its own name.
fn add_user(server: &Server, user: &str, password: &str) {
    let rules = format!("resetpass >{password} +@all ~{user}:*");
    with_user(server, user, &rules);
    plant(server, format!("{user}:lock"));
}

#[test]
fn the_environment_completes_a_url_and_the_command_line_overrides_it() {
    let server = Server::start();
    add_user(&server, "ann", "hers");
    add_user(&server, "bob", "his");
    for (before, options, user, password, expected) in [
        ("ann@", &[][..], "", "hers", "ann"),
        ("ann:hers@", &[], "", "another", "ann"),
        ("ann:hers@", &[], "bob", "his", "ann"),
        ("ann:hers@", &[], "bob", "", "ann"),
        ("ann@", &[], "bob", "hers", "ann"),
        ("", &[], "bob", "his", "bob"),
        ("", &["--user", "bob"], "ann", "his", "bob"),
        ("ann@", &["--user", "bob"], "", "his", "bob"),
        ("ann:hers@", &["--user", "bob"], "", "his", "bob"),
        ("?user=ann&pass=hers", &[], "bob", "his", "ann"),
        ("?user=ann", &[], "bob", "hers", "ann"),
    ] {
        // Before the host, or after it.
        let url = match before.split_once('?') {
            Some((_, query)) => format!("redis://{}?{query}", server.address()),
            None => format!("redis://{before}{}", server.address()),
        };
        let listed = with_long_timeout(&url)
            .env("LEASEHOLD_USER", user)
            .env("LEASEHOLD_PASSWORD", password)
            .args(["list", "--json"])
            .args(options)
            .output();
        let what = format!("{before} {options:?} {user} {password}: {listed:?}");
        assert_eq!(listed.code(), Some(0), "{what}");
        let found = names(&objects(&listed));
        assert_eq!(found, [format!("{expected}:lock")], "{what}");
    }
}

#[test]
fn a_user_without_a_password_is_reported() {
    let server = Server::start();
    for login in ["", "ann@", "ann:hers@"] {
        let url = format!("redis://{login}{}", server.address());
        let words = ["--user", "LEASEHOLD_PASSWORD"];
        ask(&url, "list --user bob").expect_failure(64, &words);
    }
}

/// The library names its own settings for this; the command names its options.
#[test]
fn a_wrong_password_is_reported_with_the_options_of_the_command_and_not_shown() {
    let server = Server::options().password("right").start();
    for login in ["", ":sesame@", "unknown:sesame@"] {
        let url = format!("redis://{login}{}", server.address());
        for words in ["list", "show k", "run --no-wait k -- true"] {
            let words_of_error = ["refused", "--user", "LEASEHOLD_PASSWORD"];
            let output = ask(&url, words).expect_refusal(69, &words_of_error);
            for word in ["LockClient", "sesame"] {
                assert!(!output.err.contains(word), "{output:?}");
            }
        }
    }
}

#[test]
fn a_missing_permission_is_reported_with_its_rule() {
    let server = Server::start();
    let url = with_user(&server, "ann", "+@all ~ann:* -scan -evalsha");
    for (words, right) in [
        ("list", "+scan"),
        ("run --no-wait ann:l -- true", "+evalsha"),
    ] {
        let words_of_error = ["ACL SETUSER <user>", right, "leasehold doctor"];
        ask(&url, words).expect_failure(69, &words_of_error);
    }
}
